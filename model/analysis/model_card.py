"""What was measured when a bundled model was made, read from the README beside its weights."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from model.zoo.catalog import WEIGHTS


@dataclass(frozen=True)
class TranslationScores:
    """`bleu` (Papineni et al. 2002) and `chrf` (Popović 2015), 0 to 100, of a beam of `beam` on `pairs` pairs."""

    bleu: float
    chrf: float
    beam: int
    pairs: int


def translation_scores(folder: Path = WEIGHTS / "translator") -> TranslationScores:
    """The scores of beam search in the README of a translator.

    Raises:
        ValueError: if it does not tell them.
    """
    text = (folder / "README.md").read_text(encoding="utf-8")
    pairs = re.search(r"on ([\d,]+) pairs that were held out", text)
    row = re.search(r"^\| beam of (\d+)[^|]*\| \**([\d.]+)\** \| \**([\d.]+)\** \|", text, re.MULTILINE)
    if pairs is None or row is None:
        raise ValueError("The translator's README tells no scores.")
    beam, bleu, chrf = row.groups()
    return TranslationScores(float(bleu), float(chrf), int(beam), int(pairs[1].replace(",", "")))
