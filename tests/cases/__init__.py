"""Awkward inputs that broke comparable tools, and what has to come out.

`texts.jsonl`: one text a line; `times` repeats it (long inputs stay readable here).
`sampling.jsonl`: probabilities, sampler settings, and the ids that must survive the filters.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class SamplingCase:
    """`settings` are keyword arguments of `SamplingSettings`; `kept` are ids in ascending order."""

    why: str
    probs: tuple[float, ...]
    settings: dict[str, Any]
    kept: tuple[int, ...]


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_FOLDER / name).read_text(encoding="utf-8").splitlines()]


TEXTS: list[tuple[str, str]] = [(row["name"], row["text"] * row.get("times", 1)) for row in _lines("texts.jsonl")]

SAMPLING: list[SamplingCase] = [
    SamplingCase(row["why"], tuple(row["probs"]), row["settings"], tuple(row["kept"]))
    for row in _lines("sampling.jsonl")
]
