"""The token strip: the text as the model sees it, one chip a piece of text that people read as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pages.kit.components.mounting import Picked, mount, register
from pages.kit.components.packing import position, wording

if TYPE_CHECKING:
    from model.tokenizer import Piece

WORDS = ("label", "help", "query", "key", "position", "id", "bytes", "special", "next", "hint")
_NOTHING: Mapping[int, str] = {}
_component = register("chips", "token_chips.js", "chips.js")


@dataclass(frozen=True)
class Shade:
    """A number per chip, shown as its ground on the sequential scale from 0 to `high`, and in its tooltip.

    values: one per piece, None where there is none. name: the quantity with its unit. digits: decimals shown.
    """

    name: str
    values: Sequence[float | None]
    high: float
    digits: int = 3


def chips(
    pieces: Sequence[Piece],
    query: int | None,
    key_index: int | None,
    *,
    key: str,
    words: Mapping[str, str],
    shade: Shade | None = None,
    ask_next: bool = False,
    max_height: int = 212,
    meanings: Mapping[int, str] = _NOTHING,
    on_change: Callable[[Picked], None] | None = None,
) -> Picked | None:
    """Draw the strip of `pieces` and return the token positions picked since the last run.

    A chip shows its text (a dot for a leading space) and below it the ids of its tokens. The chosen query is
    underlined in the query's colour, the key in the key's. A click or Enter picks the query, with Shift or a long
    press the key. A chip of several tokens stands for its last one; a click on one of its ids picks that token.

    query, key_index: token positions, or None. ask_next: end with a dashed chip that asks for the next token.
    max_height: pixels beyond which the strip scrolls in its frame. meanings: what a special token is for, by its id,
    said in its tooltip (else the word "special"). words: the translated words of `WORDS`; "hint" tells in the tooltip
    how to pick.

    Raises:
        ValueError: if the pieces do not follow one another, `shade` has not one finite value (or None) per piece or
        no extent, a position does not exist, or a word is missing.
    """
    header = encode(
        pieces,
        query,
        key_index,
        words=words,
        shade=shade,
        ask_next=ask_next,
        max_height=max_height,
        meanings=meanings,
    )
    n_tokens = header["n_tokens"]
    return mount(_component, key, header, (), (n_tokens, n_tokens), on_change)


def encode(
    pieces: Sequence[Piece],
    query: int | None,
    key_index: int | None,
    *,
    words: Mapping[str, str],
    shade: Shade | None = None,
    ask_next: bool = False,
    max_height: int = 212,
    meanings: Mapping[int, str] = _NOTHING,
) -> dict[str, Any]:
    """What `chips` sends.

    Raises: as `chips`.
    """
    n_tokens = 0
    for piece in pieces:
        if piece.start != n_tokens or piece.end - piece.start != len(piece.ids) or not piece.ids:
            raise ValueError(f"a piece from {piece.start} to {piece.end} with {len(piece.ids)} ids after {n_tokens}")
        n_tokens = piece.end
    if shade is not None:
        if len(shade.values) != len(pieces):
            raise ValueError(f"{len(shade.values)} shades for {len(pieces)} pieces")
        if not (math.isfinite(shade.high) and shade.high > 0):
            raise ValueError(f"a scale needs an end above 0, not {shade.high}")
        if not all(value is None or math.isfinite(value) for value in shade.values):
            raise ValueError("a shade is not finite")
    return {
        "pieces": [_described(piece, meanings) for piece in pieces],
        "n_tokens": n_tokens,
        "query": position(query, n_tokens, "query"),
        "key": position(key_index, n_tokens, "key"),
        "shade": None
        if shade is None
        else {
            "name": shade.name,
            "values": [None if value is None else float(value) for value in shade.values],
            "high": float(shade.high),
            "digits": int(shade.digits),
        },
        "ask_next": bool(ask_next),
        "max_height": int(max_height),
        "words": wording(words, WORDS),
    }


def _described(piece: Piece, meanings: Mapping[int, str]) -> dict[str, Any]:
    return {
        "label": piece.label,
        # how many of the label's first characters stand for spaces
        "spaces": len(piece.text) - len(piece.text.lstrip(" ")) if piece.text.strip(" ") else 0,
        "start": int(piece.start),
        "ids": [int(i) for i in piece.ids],
        "bytes": piece.data.hex(" ").upper(),
        "special": bool(piece.special),
        "meaning": meanings.get(int(piece.ids[0]), "") if piece.special else "",
    }
