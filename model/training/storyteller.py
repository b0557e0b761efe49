"""The bundled model: its shape, its training text, and how it is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from model.config import TransformerConfig
from model.training.data import Codec, Corpus
from model.training.evaluate import Score, score
from model.transformer import Transformer

STORYTELLER = TransformerConfig(
    vocab_size=8192,
    d_model=256,
    n_layers=6,
    n_heads=8,
    n_kv_heads=4,
    d_head=32,
    d_ff=704,
    max_positions=512,
    bos_id=0,
    eos_id=0,
    pad_id=0,
)

# Shares of the training tokens. The short stories are what the model is for, but they are few: read too often,
# they are learned by heart. The children's books are mostly prose of the 19th century.
CORPORA = (
    Corpus("stories", "tinystories.txt.xz", weight=0.27),
    Corpus("children", "children.txt.xz", weight=0.27),
    Corpus("sentences", "en_sentences.txt.xz", weight=0.12, lines_per_document=16),
    Corpus("chinese_sentences", "zh_prose.txt.xz", weight=0.05, stop=450, held_out=10),
    Corpus("chinese_prose", "zh_prose.txt.xz", weight=0.17, first=450, held_out=10),
    Corpus("chinese_poems", "zh_poems.txt.xz", weight=0.12, held_out=40),
)
YARDSTICK = Corpus("held_out_stories", "heldout_stories.txt.xz", weight=0, held_out=60)

PROMPTS = (
    "Once upon a time, there was a little girl named Lily.",
    "One day, a cat found a big red ball.",
    "我今天很",
    "春天来了，",
)


def held_out(folder: Path) -> dict[str, list[str]]:
    """The texts that no training reads: 60 stories, and the held-out documents of the Chinese corpora."""
    return {c.name: c.documents(folder)[1] for c in (YARDSTICK, *CORPORA) if c.held_out}


def evaluate(transformer: Transformer, codec: Codec, texts: dict[str, list[str]], separator: int) -> dict[str, Score]:
    """A score for each kind of held-out text: every text behind one separator, its first tokens up to the context."""
    limit = transformer.config.max_positions
    return {name: score(transformer, codec, documents, separator, limit) for name, documents in texts.items()}


def mix(text: str) -> list[Corpus]:
    """The corpora with other weights, where `text` ("stories=0.5,children=0") gives some; those at 0 left out.

    Raises:
        ValueError: for an unknown name or a share that is no number from 0 up.
    """
    weights = {c.name: c.weight for c in CORPORA}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        try:
            if name not in weights or not float(value) >= 0:
                raise ValueError
        except ValueError:
            raise ValueError(f"--mix has {part!r}; write name=share with one of {', '.join(weights)}.") from None
        weights[name] = float(value)
    chosen = [replace(c, weight=weights[c.name]) for c in CORPORA if weights[c.name]]
    if not chosen:
        raise ValueError("--mix leaves no text to train on.")
    return chosen


def separator_of(config: TransformerConfig) -> int:
    """The id of the token between documents.

    Raises:
        ValueError: if the config names none.
    """
    if config.eos_id is None:
        raise ValueError("The model has no token that ends a document.")
    return config.eos_id
