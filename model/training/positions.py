"""Five small models, alike but for how they know the order, and what they lose past the length they learned."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as BytePairs
from tokenizers import decoders, models, pre_tokenizers, trainers
from torch import Tensor

from model.analysis.position_loss import bits_by_position, windows
from model.analysis.position_models import FOLDER, MEASURED, SCHEMES, read_story
from model.config import Positions, TransformerConfig
from model.tokenizer import Tokenizer
from model.training.checkpoints import FILE
from model.training.data import SEPARATOR, Codec, Mixture, Stream, tokenise
from model.training.loop import Run, Settings
from model.training.objectives import NextToken
from model.training.schedule import Schedule
from model.training.storyteller import CORPORA, YARDSTICK
from model.transformer import Transformer
from model.zoo.readers import load_checkpoint, save_checkpoint

TRAINED_LENGTH = 64  # tokens of every training sequence
LENGTH = 2 * TRAINED_LENGTH  # of the sequences that the loss is measured on; rows of the learned table
BIN = 4  # positions that one point of a curve averages
STRIDE = BIN  # between the beginnings of two sequences: so each point averages every token of the text, once

# Embeddings multiplied by √d: the sinusoidal table, of fixed size, is added to vectors of its own size.
BASE = TransformerConfig(
    vocab_size=1024,
    d_model=96,
    n_layers=4,
    n_heads=4,
    n_kv_heads=4,
    d_head=24,
    d_ff=256,
    max_positions=LENGTH,
    positions="none",
    scale_embeddings=True,
    bos_id=0,
    eos_id=0,
    pad_id=0,
)
SHARES = {"stories": 0.8, "sentences": 0.2}  # of the training tokens
TEXT = tuple(replace(c, weight=SHARES[c.name]) for c in CORPORA if c.name in SHARES)
STEPS = 1200  # of 64 sequences: 4.9 million tokens


def settings(steps: int) -> Settings:
    """Everything but the scheme that decides a run's result: the same for all five."""
    return Settings(
        steps=steps,
        batch_tokens=64 * TRAINED_LENGTH,
        micro_tokens=64 * TRAINED_LENGTH,
        length=TRAINED_LENGTH,
        long_length=TRAINED_LENGTH,
        dropout=0.0,
        precision="fp32",
        schedule=Schedule("wsd", warmup=50),
    )


def untrained(scheme: Positions, seed: int = 0) -> Transformer:
    """A model of this scheme with random weights: those that all schemes have are the same in all of them.

    The learned table, which only one of them has, is drawn last. Embeddings get the variance 1/d (Vaswani et al.
    2017 multiply them by √d), so that a token's vector has the size of a row of the sinusoidal table.
    """
    torch.manual_seed(seed)
    plain = Transformer(BASE)
    torch.nn.init.normal_(plain.embed.weight, std=1 / math.sqrt(BASE.d_model))
    model = Transformer(BASE.replace(positions=scheme))
    for name, parameter in model.named_parameters():
        if not name.startswith("pos_embed."):
            parameter.data.copy_(plain.get_parameter(name))
    return model


def train_tokenizer(corpora: Path, vocab_size: int = BASE.vocab_size) -> str:
    """A byte-level BPE learned from the training text, as the JSON text of a tokenizer.json.

    Raises:
        ValueError: if a corpus cannot be read.
    """
    tokenizer = BytePairs(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[SEPARATOR],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    documents = [text for corpus in TEXT for text in corpus.documents(corpora)[0]]
    tokenizer.train_from_iterator(documents, trainer)
    return str(tokenizer.to_str())


def train(corpora: Path, out: Path, steps: int, schemes: Sequence[Positions] = SCHEMES) -> bool:
    """Train one model after the other, each to `out/<scheme>`; true once all are done, false if stopped.

    What is done already is kept, and what was begun goes on where it stopped.

    Raises:
        ValueError: if a corpus cannot be read, or `out` holds runs with other settings.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / "tokenizer.json"
    if not path.is_file():
        path.write_text(train_tokenizer(corpora) + "\n", encoding="utf-8")
    tokenizer = Tokenizer.from_file(path)
    mark = hashlib.sha256(path.read_bytes()).hexdigest()
    files = [tokenise(c, corpora, out / "tokens", tokenizer, 0, mark) for c in TEXT]
    for scheme in schemes:
        model, run_folder = untrained(scheme), out / "runs" / scheme
        streams = [Stream(file, (0, i)) for i, file in enumerate(files)]
        text = NextToken(Mixture(streams, [c.weight for c in TEXT]))
        run = Run(model, text, settings(steps), run_folder, checkpoint_minutes=2.0)
        if (run_folder / FILE).is_file():
            run.resume()
        print(f"{scheme}: from step {run.progress.step} of {steps}", flush=True)
        if not run.train():
            return False
        save_checkpoint(out / scheme, model)
    return True


def held_out_ids(corpora: Path, codec: Codec) -> list[int]:
    """The held-out stories as one sequence of ids, each behind the separator, as in training."""
    return [i for text in YARDSTICK.documents(corpora)[1] for i in (0, *codec.encode(text))]


def measure(folder: Path, corpora: Path) -> dict[str, Any]:
    """The loss by position of the five models in `folder`, for `MEASURED`: see `LossCurves`.

    Raises:
        ValueError: if the stories or a model cannot be read.
    """
    tokenizer = Tokenizer.from_file(folder / "tokenizer.json")
    ids = held_out_ids(corpora, tokenizer)
    rows = windows(ids, LENGTH, STRIDE)
    models = {scheme: load_checkpoint(folder / scheme) for scheme in SCHEMES}
    return {
        "trained_length": TRAINED_LENGTH,
        "length": LENGTH,
        "bin": BIN,
        "stride": STRIDE,
        "windows": len(rows),
        "tokens": len(ids),
        "bits_per_token": {scheme: _curve(model, rows) for scheme, model in models.items()},
        "story": {scheme: story_curve(model, tokenizer) for scheme, model in models.items()},
    }


def story_curve(transformer: Transformer, codec: Codec) -> list[float]:
    """The loss by position on the bundled story of our own, with which anybody can repeat the measurement."""
    return _curve(transformer, windows(codec.encode(read_story()), LENGTH, STRIDE))


def _curve(transformer: Transformer, rows: Tensor) -> list[float]:
    """Mean bits per token of each bin of positions, over all rows `(N, LENGTH + 1)`."""
    mean = bits_by_position(transformer, rows).double().mean(0)
    return [round(float(bits), 4) for bits in mean.view(-1, BIN).mean(1)]


def add_commands(commands: Any) -> None:
    """The two commands of this recipe, to the sub-commands of `python -m model train`."""
    five = commands.add_parser(
        "positions",
        help="five small models that differ only in how they know the order",
        description="Trains what is not trained yet, goes on where it was stopped, and measures the five at the end.",
    )
    five.add_argument("--corpora", type=Path, required=True, help="folder of the training text")
    five.add_argument("--out", type=Path, required=True, help="folder for tokens, checkpoints and the five models")
    five.add_argument("--steps", type=int, default=STEPS, help=f"of each model; default: {STEPS}")
    five.add_argument(
        "--schemes", nargs="+", choices=SCHEMES, default=SCHEMES, help="which to train now: none depends on another"
    )
    five.add_argument("--threads", type=int, default=1, help="CPU threads; default: 1")
    five.set_defaults(run=_train)

    loss = commands.add_parser("positions-loss", help="what the five lose at each position: loss.json, measured anew")
    loss.add_argument("--corpora", type=Path, required=True, help="folder with the held-out stories")
    loss.add_argument("--models", type=Path, default=FOLDER, help="folder of the five; default: bundled")
    loss.add_argument("--out", type=Path, required=True, help="file to write")
    loss.set_defaults(run=_measure)


def _train(args: argparse.Namespace) -> int:
    torch.set_num_threads(args.threads)
    if not train(args.corpora, args.out, args.steps, args.schemes):
        print("stopped; the same command continues")
        return 130
    if not all((args.out / scheme).is_dir() for scheme in SCHEMES):
        print("measured once all five are there")
        return 0
    return _write(measure(args.out, args.corpora), args.out / MEASURED)


def _measure(args: argparse.Namespace) -> int:
    return _write(measure(args.models, args.corpora), args.out)


def _write(figures: dict[str, Any], path: Path) -> int:
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    for scheme, curve in figures["bits_per_token"].items():
        inside, past = curve[: TRAINED_LENGTH // BIN], curve[TRAINED_LENGTH // BIN :]
        means = [sum(part) / len(part) for part in (inside, past)]
        print(f"{scheme:12} {means[0]:.3f} bits per token within {TRAINED_LENGTH} tokens, {means[1]:.3f} past them")
    return 0
