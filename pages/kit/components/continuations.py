"""Continuations side by side: each token a chip on the ground of its probability, new ones appearing at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pages.kit.components.mounting import Picked, mount, register
from pages.kit.components.packing import wording

WORDS = ("label", "help", "token", "id", "probability", "rank", "final", "instead", "by_reader", "hint")
_component = register("continuations", "token_chips.css", "token_chips.js", "continuations.js")


@dataclass(frozen=True)
class Chip:
    """One written token.

    label: as people read it, of whose characters the first `spaces` stand for spaces. probability: the model's own,
    0 to 1, shown as the ground of the chip. rank: the token's place there, final: the probability that it was drawn
    with, both as printed. instead: what could have come, (label, probability as printed). joined: it continues the
    character that the token before it began.
    """

    label: str
    spaces: int
    id: int
    probability: float
    rank: str
    final: str
    instead: tuple[tuple[str, str], ...] = ()
    special: bool = False
    by_reader: bool = False
    joined: bool = False


@dataclass(frozen=True)
class Row:
    """One continuation. note: what was measured, below its title. writing: more is to come."""

    title: str
    note: str
    chips: Sequence[Chip]
    writing: bool = False


def continuations(
    rows: Sequence[Row],
    picked: tuple[int, int] | None,
    *,
    key: str,
    ask: int = 0,
    words: Mapping[str, str],
    on_change: Callable[[int, int], None] | None = None,
) -> None:
    """Draw `rows` as cards side by side (below each other where there is no room).

    picked: row and place of the chosen token. on_change: called with row and place when the reader picks one.
    words: the translated words of `WORDS`; "hint" tells in the tooltip what picking does.

    Raises:
        ValueError: if a probability is not between 0 and 1, `picked` does not exist, or a word is missing.
    """
    header = encode(rows, picked, words=words, ask=ask)

    def changed(pick: Picked) -> None:
        if on_change and pick.key is not None and pick.query is not None and pick.query < len(rows[pick.key].chips):
            on_change(pick.key, pick.query)

    most = max((len(row.chips) for row in rows), default=0)
    mount(_component, key, header, (), (most, len(rows)), changed)


def encode(
    rows: Sequence[Row], picked: tuple[int, int] | None, *, words: Mapping[str, str], ask: int = 0
) -> dict[str, Any]:
    """What `continuations` sends.

    Raises: as `continuations`.
    """
    if picked is not None and not (0 <= picked[0] < len(rows) and 0 <= picked[1] < len(rows[picked[0]].chips)):
        raise ValueError(f"there is no token {picked[1]} in continuation {picked[0]}")
    for row in rows:
        for chip in row.chips:
            if not 0 <= chip.probability <= 1 + 1e-6:
                raise ValueError(f"a probability of {chip.probability}")
    return {
        "rows": [
            {"title": row.title, "note": row.note, "writing": row.writing, "chips": [_sent(chip) for chip in row.chips]}
            for row in rows
        ],
        "row": None if picked is None else picked[0],
        "ask": int(ask),
        "place": None if picked is None else picked[1],
        "words": wording(words, WORDS),
    }


def _sent(chip: Chip) -> dict[str, Any]:
    return {
        "label": chip.label,
        "spaces": chip.spaces,
        "id": chip.id,
        "p": round(float(chip.probability), 6),
        "rank": chip.rank,
        "final": chip.final,
        "instead": chip.instead,
        "special": chip.special,
        "by_reader": chip.by_reader,
        "joined": chip.joined,
    }
