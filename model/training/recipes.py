"""The command line of training: python -m model train storyteller | translator | reader | positions | …"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from model.language import LanguageModel
from model.loading import load
from model.sampling import SamplingSettings
from model.tokenizer import Tokenizer
from model.training import positions, reader, translator
from model.training.data import Codec, Corpus, Mixture, Stream, TokenFile, tokenise
from model.training.evaluate import Score
from model.training.launch import carry_out, is_chief, launch, once, write_result
from model.training.loop import Run, Settings
from model.training.objectives import NextToken
from model.training.options import add_run_options, run_settings
from model.training.storyteller import CORPORA, PROMPTS, STORYTELLER, evaluate, held_out, mix, separator_of
from model.training.tokenizer_kinds import train_tokenizers
from model.transformer import Transformer
from model.zoo.catalog import CATALOG
from model.zoo.readers import load_checkpoint, save_checkpoint


def main(argv: Sequence[str] | None = None) -> int:
    """Run one training command; returns the exit status (2 when the input does not fit)."""
    args = _parser().parse_args(argv)
    try:
        return int(args.run(args))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m model train", description="Train the bundled models anew.")
    commands = parser.add_subparsers(required=True, metavar="storyteller | translator | reader | positions | …")

    train = commands.add_parser(
        "storyteller",
        help="English stories and Chinese, 6.5 M parameters",
        description="The defaults are the recipe from random weights. With --init a trained model goes on, with fresh "
        "optimizers and the learning rates warmed up again; for that choose lower peaks and --schedule linear. "
        "In several processes: torchrun --nproc-per-node N -m model train storyteller …",
    )
    add_run_options(train, Settings(minutes=90))
    train.add_argument("--init", type=Path, help="model folder to start from instead of random weights")
    train.add_argument("--tokenizer", type=Path, help="folder with tokenizer.json; default: of --init, or the bundled")
    shares = ", ".join(f"{c.name}={c.weight}" for c in CORPORA)
    train.add_argument("--mix", default="", help=f"shares of the tokens; default: {shares}")
    train.set_defaults(run=launch, recipe=_storyteller)

    train = commands.add_parser("translator", help="English to Chinese, encoder-decoder, 4.0 M parameters")
    add_run_options(train, translator.SETTINGS)
    train.set_defaults(run=launch, recipe=translator.train)

    train = commands.add_parser("reader", help="English and Chinese, encoder (masked language model), 3.0 M parameters")
    add_run_options(train, reader.SETTINGS)
    train.set_defaults(run=launch, recipe=reader.train)

    kinds = commands.add_parser("tokenizers", help="the WordPiece and Unigram tokenizers that are compared")
    kinds.add_argument("--corpora", type=Path, required=True, help="folder of the training text")
    kinds.add_argument("--out", type=Path, required=True, help="folder for wordpiece/ and unigram/")
    kinds.add_argument(
        "--vocab-size", type=int, default=STORYTELLER.vocab_size, help=f"default: {STORYTELLER.vocab_size}"
    )
    kinds.set_defaults(run=_train_tokenizers)

    positions.add_commands(commands)

    measure = commands.add_parser(
        "evaluate",
        help="measure a model on held-out text",
        description="A decoder by bits per character, an encoder by the hidden tokens that it guesses, a translator by "
        "BLEU and chrF.",
    )
    measure.add_argument("--model", default="storyteller", help="an id that `list` shows, or a checkpoint folder")
    measure.add_argument("--corpora", type=Path, required=True, help="folder of the training text")
    measure.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    measure.add_argument("--json", action="store_true", help="machine-readable")
    measure.set_defaults(run=_evaluate)
    return parser


def _train_tokenizers(args: argparse.Namespace) -> int:
    for kind, size in train_tokenizers(args.corpora, args.out, args.vocab_size).items():
        print(f"{kind}: {size:,} tokens")
    return 0


def _evaluate(args: argparse.Namespace) -> int:
    lm = load(args.model, device=args.device)
    if lm.config.kind != "decoder":
        encoder = lm.config.kind == "encoder"
        found = reader.evaluate(lm, args.corpora) if encoder else translator.evaluate(lm, args.corpora)
        print(json.dumps(found, indent=None if args.json else 1))
        return 0
    scores = evaluate(lm.transformer, lm.tokenizer, held_out(args.corpora), separator_of(lm.config))
    if args.json:
        print(json.dumps({name: _figures(s) for name, s in scores.items()}))
    else:
        print(_table(scores))
    return 0


def _storyteller(args: argparse.Namespace, device: torch.device) -> int:
    source = args.tokenizer or args.init or CATALOG["storyteller"].folder
    if not (source / "tokenizer.json").is_file():
        raise ValueError(f"{source} has no tokenizer.json.")
    tokenizer = Tokenizer.from_file(source / "tokenizer.json")
    settings = run_settings(args)
    torch.manual_seed(settings.seed)
    transformer = Transformer(STORYTELLER) if args.init is None else load_checkpoint(args.init)
    separator = separator_of(transformer.config)
    if tokenizer.vocab_size > transformer.config.vocab_size:
        raise ValueError(
            f"The tokenizer has {tokenizer.vocab_size} tokens, the model room for {transformer.config.vocab_size}."
        )
    corpora = mix(args.mix)
    files = _token_files(corpora, args, source, tokenizer, separator)
    streams = [Stream(file, (settings.seed, i)) for i, file in enumerate(files)]
    texts = held_out(args.corpora)

    def figures() -> dict[str, float]:
        return {n: s.bits_per_character for n, s in evaluate(transformer, tokenizer, texts, separator).items()}

    text = NextToken(Mixture(streams, [c.weight for c in corpora]))
    run = carry_out(transformer.to(device), text, settings, args, figures)
    if run is None:
        return 130
    if is_chief():
        _finish(args.out / "storyteller", transformer, tokenizer, source, texts, run, corpora, args.init is not None)
    return 0


def _finish(
    folder: Path,
    transformer: Transformer,
    tokenizer: Tokenizer,
    source: Path,
    texts: dict[str, list[str]],
    run: Run,
    corpora: Sequence[Corpus],
    continued: bool,
) -> None:
    """Write the weights, measure them as written, and let them speak."""
    save_checkpoint(folder, transformer)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    written = load_checkpoint(folder)  # bf16 rounding included
    scores = evaluate(written, tokenizer, texts, separator_of(written.config))
    read = run.objective.state()["positions"]
    write_result(
        folder.parent,
        written,
        run,
        {name: _figures(s) for name, s in scores.items()},
        from_trained_weights=continued,
        tokens={c.name: n for c, n in zip(corpora, read, strict=True)},
    )
    print(_table(scores))
    lm = LanguageModel(folder.name, written, tokenizer)
    for prompt in PROMPTS:
        ids = [separator_of(written.config), *tokenizer.encode(prompt)]
        steps = lm.generate(ids, 60, SamplingSettings(temperature=0.8, top_p=0.95))
        print(f"\n{prompt}{''.join(step.text for step in steps)}")


def _token_files(
    corpora: Sequence[Corpus], args: argparse.Namespace, source: Path, codec: Codec, separator: int
) -> list[TokenFile]:
    fingerprint = hashlib.sha256((source / "tokenizer.json").read_bytes()).hexdigest()

    def read() -> list[TokenFile]:
        return [tokenise(c, args.corpora, args.out / "tokens", codec, separator, fingerprint) for c in corpora]

    once(read)  # the others find the files made
    return read()


def _figures(s: Score) -> dict[str, float]:
    return {
        "tokens": s.tokens,
        "characters": s.characters,
        "nats_per_token": round(s.nats_per_token, 4),
        "perplexity": round(s.perplexity, 2),
        "bits_per_character": round(s.bits_per_character, 4),
    }


def _table(scores: dict[str, Score]) -> str:
    rows = [f"{'held out':20} {'tokens':>8} {'nats/token':>11} {'perplexity':>11} {'bits/character':>15}"]
    rows += [
        f"{name:20} {s.tokens:8,} {s.nats_per_token:11.3f} {s.perplexity:11.1f} {s.bits_per_character:15.4f}"
        for name, s in scores.items()
    ]
    return "\n".join(rows)
