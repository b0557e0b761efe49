"""The options that every recipe's command has, and the settings that they make."""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta
from pathlib import Path

from model.training.checkpoints import read_scalars
from model.training.loop import Settings
from model.training.schedule import Schedule


def add_run_options(train: argparse.ArgumentParser, s: Settings) -> None:
    """Where from and where to, how long, and the numbers of `Settings`; the defaults are those of `s`, in minutes."""
    train.set_defaults(planned=s.minutes)
    train.add_argument("--corpora", type=Path, required=True, help="folder of the training text")
    train.add_argument("--out", type=Path, required=True, help="folder for tokens, checkpoint, metrics and weights")
    train.add_argument("--resume", action="store_true", help="continue the run in --out")
    length = train.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, help="plan the run in steps: repeatable bit for bit")
    length.add_argument("--minutes", type=float, help=f"plan the run in running time; default: {s.minutes:g}")
    length.add_argument("--until", help="plan the run to end at this local time, HH:MM")
    train.add_argument(
        "--optimizer",
        choices=("muon", "adamw"),
        default="muon" if s.muon else "adamw",
        help="for the blocks' matrices",
    )
    train.add_argument("--schedule", choices=("wsd", "linear", "cosine"), default=s.schedule.shape)
    for name, value, text in (
        ("--seed", s.seed, "of the weights, the order of the text and the dropout"),
        ("--muon-lr", s.muon_lr, "Muon's peak learning rate"),
        ("--adamw-lr", s.adamw_lr, "AdamW's peak learning rate"),
        ("--weight-decay", s.weight_decay, "of the blocks' matrices"),
        ("--dropout", s.dropout, "fraction dropped from the embeddings and from what each layer adds"),
        ("--warmup", s.schedule.warmup, "steps until the learning rates are at their peak"),
        ("--hold", s.schedule.hold, "wsd: fraction of the run at the peak"),
        ("--batch-tokens", s.batch_tokens, "tokens a step, over all processes"),
        ("--micro-tokens", s.micro_tokens, "tokens at once in a process"),
        ("--checkpoint-minutes", 5.0, "between checkpoints"),
        ("--evaluate-minutes", 15.0, "between measurements on held-out text"),
        ("--log-seconds", 15.0, "between lines of progress"),
    ):
        train.add_argument(name, type=type(value), default=value, help=f"{text}; default: {value}")
    train.add_argument("--precision", choices=("bf16", "fp32"), default=s.precision, help="bf16 is autocast")
    train.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    train.add_argument("--threads", type=int, help="CPU threads of a process")
    train.add_argument("--compile", action="store_true", help="torch.compile")


def run_settings(args: argparse.Namespace) -> Settings:
    """The settings that the options ask for.

    Raises:
        ValueError: for a time of day that is none, or as `Settings` does.
    """
    minutes = args.minutes
    if args.until:
        minutes = _minutes_until(args.until)
        if args.resume:
            minutes += read_scalars(args.out)["progress"]["seconds"] / 60
    elif args.steps is None and minutes is None:
        minutes = args.planned
    return Settings(
        steps=args.steps,
        minutes=minutes,
        seed=args.seed,
        batch_tokens=args.batch_tokens,
        micro_tokens=args.micro_tokens,
        muon=args.optimizer == "muon",
        muon_lr=args.muon_lr,
        adamw_lr=args.adamw_lr,
        weight_decay=args.weight_decay,
        dropout=args.dropout,
        precision=args.precision,
        schedule=Schedule(args.schedule, args.warmup, args.hold),
    )


def _minutes_until(clock: str) -> float:
    now = datetime.now()
    try:
        end = datetime.combine(now.date(), datetime.strptime(clock, "%H:%M").time())
    except ValueError:
        raise ValueError(f"{clock!r} is no time of day; write it as HH:MM.") from None
    if end <= now:
        end += timedelta(days=1)
    return (end - now).total_seconds() / 60
