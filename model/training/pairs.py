"""Sentence pairs for translation, and what is held out of them."""

from __future__ import annotations

import lzma
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Pair:
    """A sentence and one translation of it."""

    source: str
    target: str


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of a file compressed with xz: a sentence, a tab and its translation on every line.

    Raises:
        ValueError: if the file is missing, is no xz file, or a line is no pair.
    """
    try:
        with lzma.open(path, "rt", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} cannot be read from the corpora's folder: {error}") from None
    if not all(len(row) == 2 for row in rows):
        raise ValueError(f"{path.name} must have a sentence, a tab and its translation on every line.")
    return [Pair(*(part.strip() for part in row)) for row in rows]


def same_sentence(text: str) -> str:
    """What two spellings of one sentence have in common: letters and digits, without case, spaces and signs."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in folded if char.isalnum())


def groups(pairs: Sequence[Pair]) -> list[list[int]]:
    """Indices of pairs that hang together: two that share a sentence, on either side, are in one group."""
    leader = list(range(len(pairs)))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    first: dict[tuple[str, str], int] = {}
    for i, pair in enumerate(pairs):
        for side, text in (("source", pair.source), ("target", pair.target)):
            other = first.setdefault((side, same_sentence(text)), i)
            leader[find(i)] = find(other)
    members: dict[int, list[int]] = {}
    for i in range(len(pairs)):
        members.setdefault(find(i), []).append(i)
    return list(members.values())


def split(pairs: Sequence[Pair], held_out: int) -> tuple[list[Pair], list[Pair]]:
    """The pairs to train on and at least `held_out` others, which share no sentence with them on either side.

    Whole groups are held out, drawn by a fixed seed, so the split depends on the file alone.

    Raises:
        ValueError: if nothing would be left to train on.
    """
    parts = groups(pairs)
    out: list[int] = []
    for at in np.random.default_rng(0).permutation(len(parts)):
        if len(out) >= held_out:
            break
        out += parts[at]
    kept = sorted(set(range(len(pairs))) - set(out))
    if not kept:
        raise ValueError(f"There are only {len(pairs)} pairs; {held_out} are to be held out.")
    return [pairs[i] for i in kept], [pairs[i] for i in sorted(out)]
