"""The bundled reader, a small BERT of English and Chinese: its shape, its text and how it is measured."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from model.config import TransformerConfig
from model.language import LanguageModel
from model.tokenizer import Tokenizer
from model.training.data import Codec, Corpus
from model.training.launch import carry_out, is_chief, once, write_result
from model.training.loop import Settings
from model.training.masking import MaskedTokens, Masks, masked_score
from model.training.options import run_settings
from model.training.pairs import same_sentence
from model.training.schedule import Schedule
from model.training.small_tokenizer import save_tokenizer
from model.transformer import Transformer
from model.zoo.readers import load_checkpoint, save_checkpoint

PAD, BEGIN, END, MASK = SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")

# As in Devlin et al. 2018, made small: learned positions, LayerNorm after every sum, GELU.
READER = TransformerConfig(
    vocab_size=6144,
    d_model=192,
    n_layers=4,
    n_heads=6,
    n_kv_heads=6,
    d_head=32,
    d_ff=768,
    max_positions=128,
    kind="encoder",
    positions="learned",
    norm="layernorm",
    norm_place="post",
    activation="gelu_erf",
    qkv_bias=True,
    out_bias=True,
    mlp_bias=True,
    embedding_norm=True,
    bos_id=SPECIAL.index(BEGIN),
    eos_id=SPECIAL.index(END),
    pad_id=SPECIAL.index(PAD),
)
MASKS = Masks(READER.vocab_size, SPECIAL.index(MASK), len(SPECIAL))
SETTINGS = Settings(
    minutes=60,
    batch_tokens=6144,
    micro_tokens=2048,
    muon_lr=0.015,
    adamw_lr=0.003,
    dropout=0.0,  # the run is too short to learn the text by heart
    precision="fp32",
    schedule=Schedule("wsd", warmup=60, hold=0.3),
)


@dataclass(frozen=True)
class Source:
    """A corpus, how often an epoch reads it, and every how manieth passage of it is taken at all."""

    corpus: Corpus
    times: int = 1
    every: int = 1


# Chinese sentences are few, the prose of a hundred years ago is much.
SOURCES = (
    Source(Corpus("sentences", "en_sentences.txt.xz", weight=1, held_out=1_000, lines_per_document=1)),
    Source(Corpus("stories", "tinystories.txt.xz", weight=1)),
    Source(Corpus("chinese_sentences", "zh_prose.txt.xz", weight=1, stop=450, held_out=10), times=3),
    Source(Corpus("chinese_prose", "zh_prose.txt.xz", weight=1, first=450, held_out=10), every=3),
)
YARDSTICK = Corpus("stories", "heldout_stories.txt.xz", weight=0, held_out=60)


@dataclass(frozen=True)
class Text:
    """Passages to train on, and held-out ones by corpus, none of which is among the former."""

    training: list[str]
    held_out: dict[str, list[str]]


def text(corpora: Path) -> Text:
    """The lines of the corpora; a sentence that was held out anywhere is trained on nowhere.

    Raises:
        ValueError: if a corpus cannot be read.
    """
    documents = {source.corpus.name: source.corpus.documents(corpora) for source in SOURCES}
    held_out = {name: _lines(unseen) for name, (_, unseen) in documents.items()}
    held_out[YARDSTICK.name] = _lines(YARDSTICK.documents(corpora)[1])
    hidden = {same_sentence(line) for lines in held_out.values() for line in lines}
    training: list[str] = []
    for source in SOURCES:
        lines = dict.fromkeys(_lines(documents[source.corpus.name][0]))  # each once
        kept = [line for line in lines if same_sentence(line) not in hidden]
        training += kept[:: source.every] * source.times
    return Text(training, held_out)


def _lines(documents: Iterable[str]) -> list[str]:
    return [line.strip() for document in documents for line in document.splitlines() if line.strip()]


def passages(lines: Sequence[str], codec: Codec) -> list[list[int]]:
    """Each line's ids between its special tokens; a line too long for the model becomes several passages."""
    begin, end = SPECIAL.index(BEGIN), SPECIAL.index(END)
    room = READER.max_positions - 2
    rows = []
    for line in lines:
        ids = codec.encode(line)[1:-1]
        rows += [[begin, *ids[at : at + room], end] for at in range(0, len(ids), room)]
    return rows


def scores(transformer: Transformer, codec: Codec, held_out: dict[str, list[str]]) -> dict[str, dict[str, float]]:
    """For each kind of held-out text: tokens hidden, fraction guessed, and their mean loss."""
    rows = {name: passages(lines, codec) for name, lines in held_out.items()}
    return {name: masked_score(transformer, MaskedTokens(row, MASKS, seed=0)) for name, row in rows.items()}


def evaluate(lm: LanguageModel, corpora: Path) -> dict[str, dict[str, float]]:
    """The scores of a reader on the held-out text.

    Raises:
        ValueError: if a corpus cannot be read, or the model is not of this shape.
    """
    if lm.config.vocab_size != READER.vocab_size or lm.config.max_positions < READER.max_positions:
        raise ValueError(f"{lm.name} is no reader of this project: another vocabulary or another length.")
    return scores(lm.transformer, lm.tokenizer, text(corpora).held_out)


def train(args: argparse.Namespace, device: torch.device) -> int:
    """The recipe: text, tokenizer, training, and the finished folder `reader` in `--out`."""
    settings = run_settings(args)
    found = text(args.corpora)
    path = args.out / "reader" / "tokenizer.json"

    if not args.resume:
        once(lambda: save_tokenizer(path, found.training, READER.vocab_size, SPECIAL, BEGIN, END, MASK))
    tokenizer = Tokenizer.from_file(path)
    torch.manual_seed(settings.seed)
    transformer = Transformer(READER).to(device)

    def figures() -> dict[str, float]:
        return {name: s["accuracy"] for name, s in scores(transformer, tokenizer, found.held_out).items()}

    hidden = MaskedTokens(passages(found.training, tokenizer), MASKS, settings.seed)
    run = carry_out(transformer, hidden, settings, args, figures)
    if run is None:
        return 130
    if is_chief():
        save_checkpoint(path.parent, transformer)
        written = load_checkpoint(path.parent)  # bf16 rounding included
        held_out = scores(written, tokenizer, found.held_out)
        write_result(args.out, written, run, held_out, passages=len(found.training))
        print(json.dumps(held_out, indent=1))
    return 0
