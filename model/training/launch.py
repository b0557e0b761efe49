"""How a recipe is started: threads, device, one process or several."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as dist

from model.devices import best_device
from model.training.checkpoints import FILE
from model.training.loop import Run, Settings
from model.training.objectives import Objective
from model.transformer import Transformer

Recipe = Callable[[argparse.Namespace, torch.device], int]


def launch(args: argparse.Namespace) -> int:
    """Run `args.recipe` on the device and in the processes that the options and torchrun ask for.

    Raises:
        ValueError: if `--out` has a run and `--resume` was not given.
    """
    if args.threads:
        torch.set_num_threads(args.threads)
    if (args.out / FILE).is_file() and not args.resume:
        raise ValueError(f"{args.out} has a run already: add --resume to continue it, or choose another folder.")
    device = best_device() if args.device == "auto" else torch.device(args.device)
    parallel = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if parallel:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
    recipe: Recipe = args.recipe
    try:
        return recipe(args, device)
    finally:
        if parallel:
            dist.destroy_process_group()


def is_chief() -> bool:
    """Whether this is the only process, or the first of several: the one that writes and prints."""
    return not dist.is_initialized() or dist.get_rank() == 0


def once(make: Callable[[], object]) -> None:
    """Let the first process make something that the others wait for."""
    if is_chief():
        make()
    if dist.is_initialized():
        dist.barrier()


def carry_out(
    transformer: Transformer,
    objective: Objective,
    settings: Settings,
    args: argparse.Namespace,
    figures: Callable[[], dict[str, float]],
) -> Run | None:
    """Train, or go on where `--resume` says so; the run at its end, or nothing where it was stopped before.

    Raises:
        ValueError: as `Run` and `Run.resume` do.
    """
    run = Run(
        transformer,
        objective,
        settings,
        args.out,
        figures,
        checkpoint_minutes=args.checkpoint_minutes,
        evaluate_minutes=args.evaluate_minutes,
        log_seconds=args.log_seconds,
        compile=args.compile,
    )
    if args.resume:
        run.resume()
    if run.train():
        return run
    if is_chief():
        print("stopped; continue with --resume")
    return None


def write_result(out: Path, written: Transformer, run: Run, held_out: object, **facts: object) -> None:
    """Write `result.json`: what was made, how, of what (`facts`), and how it does on text that it has not seen."""
    card = {
        "parameters": sum(p.numel() for p in written.parameters()),
        **facts,
        "settings": asdict(run.settings),
        "progress": asdict(run.progress),
        "held_out": held_out,
    }
    (out / "result.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
