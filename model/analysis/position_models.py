"""The five bundled models that differ only in how they know the order, and what was measured on them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from model.config import Positions
from model.language import LanguageModel
from model.tokenizer import Tokenizer
from model.zoo.catalog import WEIGHTS
from model.zoo.readers import load_checkpoint

SCHEMES: tuple[Positions, ...] = ("sinusoidal", "learned", "rope", "alibi", "none")
FOLDER = WEIGHTS / "positions"
MEASURED = "loss.json"  # beside the models: what the recipe measured on stories that no model was trained on


@dataclass(frozen=True)
class LossCurves:
    """Bits per token by position on the held-out stories, a curve a scheme.

    Every point averages `bin` positions over `windows` sequences of `length` tokens, which begin `stride` tokens
    apart in a text of `tokens` tokens. The models were trained on sequences of `trained_length` tokens. `story`: the
    same measured on the bundled story, `read_story`.
    """

    trained_length: int
    length: int
    bin: int
    stride: int
    windows: int
    tokens: int
    bits_per_token: dict[str, list[float]]
    story: dict[str, list[float]]

    @property
    def middles(self) -> list[float]:
        """How many tokens were read at the middle of each bin."""
        return [at + (self.bin + 1) / 2 for at in range(0, self.length, self.bin)]

    def mean(self, scheme: str, first: int, stop: int) -> float:
        """Mean bits per token over the positions `first` … `stop` - 1, both multiples of `bin`."""
        part = self.bits_per_token[scheme][first // self.bin : stop // self.bin]
        return sum(part) / len(part)


def load_position_models(folder: Path = FOLDER) -> dict[Positions, LanguageModel]:
    """The five models by scheme, in the order of `SCHEMES`, with the tokenizer that they share.

    Raises:
        ValueError: if one is missing or damaged.
    """
    tokenizer = Tokenizer.from_file(folder / "tokenizer.json")
    return {scheme: LanguageModel(scheme, load_checkpoint(folder / scheme), tokenizer) for scheme in SCHEMES}


def read_loss_curves(folder: Path = FOLDER) -> LossCurves:
    """What the recipe measured.

    Raises:
        ValueError: if the file cannot be read.
    """
    try:
        return LossCurves(**json.loads((folder / MEASURED).read_text(encoding="utf-8")))
    except (OSError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{MEASURED} cannot be read: {error}") from None


def read_story(folder: Path = FOLDER) -> str:
    """A story of our own, much like those that the five have read, but longer than they read at once."""
    return (folder / "story.txt").read_text(encoding="utf-8").strip()
