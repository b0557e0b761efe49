"""The same text in several kinds of tokenizer: how many tokens, and what comes back."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from model.tokenizer import Tokenizer
from model.zoo.catalog import WEIGHTS

KINDS = ("wordpiece", "unigram")
_UNKNOWN = ("[UNK]", "<unk>")


@lru_cache(maxsize=len(KINDS))
def bundled(kind: str) -> Tokenizer:
    """The bundled tokenizer of one of `KINDS`.

    Raises:
        ValueError: if there is none of that kind.
    """
    if kind not in KINDS:
        raise ValueError(f"There is no tokenizer {kind!r}; there are {', '.join(KINDS)}.")
    return Tokenizer.from_file(WEIGHTS / "tokenizers" / kind / "tokenizer.json")


@dataclass(frozen=True)
class Reading:
    """A text as one tokenizer reads it.

    `ids` with the special tokens that frame a text, where they were asked for. `n_tokens` counts the text's own,
    `n_characters` its code points. `back` is the text that the text's own tokens give. `lost` names what is not in
    it any more: "case", "accents", "spacing", "unknown" (parts without a token), "others".
    """

    ids: tuple[int, ...]
    n_tokens: int
    n_characters: int
    n_unknown: int
    back: str
    lost: tuple[str, ...]

    @property
    def tokens_per_character(self) -> float | None:
        """None for a text without characters."""
        return self.n_tokens / self.n_characters if self.n_characters else None


def read(tokenizer: Tokenizer, text: str, *, special: bool = False, start: int | None = None) -> Reading:
    """Read `text`. special: with the frame of special tokens, and `start` before it where the tokenizer has none."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    own = tokenizer.encode(text, add_special=False)
    framed = tokenizer.encode(text, add_special=True) if special else own
    if special and start is not None and framed == own:
        framed = [start, *own]
    unknown = sum(tokenizer.token(i) in _UNKNOWN for i in own)
    back = tokenizer.decode(own)
    return Reading(tuple(framed), len(own), len(text), unknown, back, _lost(text, back, unknown))


def _lost(text: str, back: str, unknown: int) -> tuple[str, ...]:
    """What of `text` is not in `back`; empty where both are the same."""
    if text == back:
        return ()
    if unknown:  # the sign for it has letters of its own
        back = back.replace("[UNK]", "")
    lost = []
    if _upper(text) > _upper(back):
        lost.append("case")
    if _marks(text) > _marks(back):
        lost.append("accents")
    if [c for c in text if c.isspace()] != [c for c in back if c.isspace()]:
        lost.append("spacing")
    if unknown:
        lost.append("unknown")
    elif _bare(text) != _bare(back):
        lost.append("others")
    return tuple(lost)


def _upper(text: str) -> int:
    return sum(char != char.lower() for char in text)


def _marks(text: str) -> int:
    return sum(unicodedata.category(char) == "Mn" for char in unicodedata.normalize("NFD", text))


def _bare(text: str) -> str:
    """Without what the other names stand for: case, accents and white space."""
    parts = unicodedata.normalize("NFD", text.lower())
    return "".join(c for c in parts if not c.isspace() and unicodedata.category(c) != "Mn")
