"""The command line: python -m model list | fetch | trace | generate | translate | train | index."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from model.devices import set_threads
from model.language import LanguageModel
from model.loading import load
from model.sampling import SamplingSettings
from model.zoo.catalog import CATALOG, available
from model.zoo.fetch import fetch


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status (2 when the input does not fit, with one sentence on stderr)."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["train"]:
        from model.training.recipes import main as train

        return train(argv[1:])
    if argv[:1] == ["index"]:
        from model.training.neuron_index import main as index

        return index(argv[1:])
    args = _parser().parse_args(argv)
    try:
        return int(args.run(args))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130  # as shells count an end by Ctrl-C


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m model", description="Transformer Atlas, the model room.")
    commands = parser.add_subparsers(
        required=True, metavar="list | fetch | trace | generate | translate | train | index"
    )

    listing = commands.add_parser("list", help="what can be loaded")
    listing.add_argument("--json", action="store_true", help="machine-readable")
    listing.set_defaults(run=_list)

    fetching = commands.add_parser("fetch", help="download a model that `list` shows")
    fetching.add_argument("name", help="its id")
    fetching.set_defaults(run=_fetch)

    trace = commands.add_parser("trace", help="run once over a text and write activations to an .npz file")
    _common(trace)
    trace.add_argument(
        "--source", type=_printable, help="what an encoder-decoder translates; --text is what it has so far"
    )
    trace.add_argument("--hooks", required=True, help="hook names, separated by commas")
    trace.add_argument("--out", required=True, type=Path, help="file to write, .npz")
    trace.set_defaults(run=_trace)

    writing = commands.add_parser("generate", help="continue a text")
    _common(writing)
    writing.add_argument("--max-new-tokens", type=int, default=40)
    defaults = SamplingSettings()
    writing.add_argument("--temperature", type=float, default=defaults.temperature)
    writing.add_argument("--top-k", type=int, default=defaults.top_k, help="0: off")
    writing.add_argument("--top-p", type=float, default=defaults.top_p, help="1: off")
    writing.add_argument("--min-p", type=float, default=defaults.min_p, help="0: off")
    writing.add_argument("--repetition-penalty", type=float, default=defaults.repetition_penalty, help="1: off")
    writing.add_argument("--seed", type=int, default=defaults.seed)
    writing.add_argument("--no-cache", action="store_true", help="read the whole text again for every token")
    writing.add_argument("--json", action="store_true", help="machine-readable, with every step")
    writing.set_defaults(run=_generate)

    translating = commands.add_parser("translate", help="translate a sentence by beam search")
    _common(translating, "translator")
    translating.add_argument("--beam", type=int, default=4, help="hypotheses at a time; 1: greedy")
    translating.add_argument("--alpha", type=float, default=0.6, help="length penalty, ((5 + length) / 6) ** alpha")
    translating.set_defaults(run=_translate)

    commands.add_parser("train", help="train a model (see: python -m model train --help)")
    commands.add_parser("index", help="find the texts that light each neuron up (see: python -m model index --help)")
    return parser


def _common(parser: argparse.ArgumentParser, model: str = "storyteller") -> None:
    parser.add_argument("--model", default=model, help="an id that `list` shows, or a checkpoint folder")
    parser.add_argument("--text", required=True, type=_printable)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    parser.add_argument("--dtype", default="float32", help="float32, bfloat16, float16 or int8")


def _printable(text: str) -> str:
    """Bytes of a command line that are not UTF-8 arrive as lone surrogates: U+FFFD instead, as the tokenizer does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _load(args: argparse.Namespace) -> LanguageModel:
    return load(args.model, device=args.device, dtype=args.dtype)


def _list(args: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = [
        {
            "id": entry.id,
            "family": entry.family,
            "parameters": entry.parameters,
            "bytes": entry.nbytes,
            "languages": list(entry.languages),
            "licence": entry.licence,
            "kind": entry.kind,
            "ready": entry.ready,
        }
        for entry in (CATALOG | available()).values()
    ]
    if args.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            here = "ready" if row["ready"] else f"not here: fetch {row['bytes'] / 1e6:,.0f} MB"
            about = f"{row['parameters']:,} parameters  {', '.join(row['languages'])}  {row['licence']}"
            print(f"{row['id']}  {'in your folder' if row['kind'] == 'own' else about}  {here}")
    return 0


def _fetch(args: argparse.Namespace) -> int:
    told, entry = 0, CATALOG.get(args.name)
    if entry is not None and entry.sources and entry.ready:
        print(f"{args.name} is here already; to fetch it anew, remove its folder first.", file=sys.stderr)

    def progress(done: int, total: int) -> None:
        nonlocal told
        told = total
        print(f"\r{args.name}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB", end="", file=sys.stderr, flush=True)

    try:
        folder = fetch(args.name, progress)
    finally:
        if told:
            print(file=sys.stderr)  # what comes next stands on a line of its own
    print(folder)
    return 0


def _trace(args: argparse.Namespace) -> int:
    run = _load(args).trace(args.text, source=args.source)
    arrays: dict[str, np.ndarray] = {
        "tokens": np.array(run.tokens),
        "token_strings": np.array(run.token_strings, dtype=np.str_),
    }
    for name in filter(None, (part.strip() for part in args.hooks.split(","))):
        try:
            arrays[name] = run[name].float().cpu().numpy()
        except KeyError as error:
            raise ValueError(error.args[0]) from None
    try:
        with args.out.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    except OSError as error:
        raise ValueError(f"{args.out} cannot be written: {error.strerror}.") from None
    return 0


def _generate(args: argparse.Namespace) -> int:
    # Products of one row wait for memory: a second core brings nothing, and is waited for where the machine is busy.
    set_threads(1)
    model = _load(args)
    settings = SamplingSettings(
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        seed=args.seed,
    )
    stream = model.generate(args.text, args.max_new_tokens, settings, use_cache=not args.no_cache)
    steps, text = [], args.text
    if not args.json:
        print(text, end="", flush=True)
    for step in stream:
        text += step.text
        steps.append({"id": step.id, "probability": step.probability, "milliseconds": step.milliseconds})
        if not args.json:
            print(step.text, end="", flush=True)
    if args.json:
        print(json.dumps({"text": text, "ids": [s["id"] for s in steps], "steps": steps}, ensure_ascii=False))
    else:
        print()
    return 0


def _translate(args: argparse.Namespace) -> int:
    print(_load(args).translate(args.text, beam=args.beam, alpha=args.alpha))
    return 0


if __name__ == "__main__":
    sys.exit(main())
