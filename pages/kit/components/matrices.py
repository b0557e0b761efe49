"""Token-by-token matrices of equal geometry in one canvas: hover, pick a query and a key."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pages.kit.components.mounting import Picked, mount, register
from pages.kit.components.packing import matrix, position, wording

WORDS = ("label", "help", "query", "key", "masked")
component = register("matrices", "matrices_layout.js", "matrices_paint.js", "matrices_tiles.js", "matrices.js")


@dataclass(frozen=True)
class Panel:
    """One matrix.

    values: (queries, keys), finite where not masked. masked: same shape, true where nothing may look: hatched.
    scale: "sequential" runs from 0 to `high`, "diverging" from −`high` over 0 to `high`; values beyond take the
    colour of the end. log_from: a sequential scale whose colours are evenly spaced in the logarithm of the value,
    from here to `high`. threshold: values of a sequential scale below it take the colour of 0. Either way the numbers
    that are shown stay as they are. digits: decimals of the shown numbers. left_out: the
    word for what is not there of the first key, which then is dotted and not hatched; "" where it is not left out.
    """

    title: str
    values: ArrayLike
    high: float
    subtitle: str = ""
    masked: ArrayLike | None = None
    scale: Literal["sequential", "diverging"] = "sequential"
    log_from: float | None = None
    threshold: float = 0.0
    digits: int = 3
    note: str = ""
    left_out: str = ""


def matrices(
    panels: Sequence[Panel],
    labels_q: Sequence[str],
    labels_k: Sequence[str],
    query: int | None,
    key_index: int | None,
    *,
    key: str,
    words: Mapping[str, str],
    side: int = 320,
    tokens: bool = True,
    on_change: Callable[[Picked], None] | None = None,
) -> Picked | None:
    """Draw 1–4 `panels` side by side, rows = queries, columns = keys, and return what was picked since the last run.

    The chosen row has a thin frame in the query's colour, the column in the key's, their cell a strong one. Hovering
    a cell marks it in every panel and shows its values; a click, a tap or the arrow keys pick it.

    query, key_index: the chosen positions, or None. side: pixels that a panel of few tokens may take; panels of long
    texts take the room there is. words: the translated words of `WORDS`; "label" names the figure for screen
    readers, "help" tells them the keys. on_change: called with the pick before the next run.

    Raises:
        ValueError: if the panels are not 1–4 or not of the labels' shape, a visible value is not finite, a scale has
        no extent, a position does not exist, or a word is missing.
    """
    header, arrays = encode(panels, labels_q, labels_k, query, key_index, words=words, side=side, tokens=tokens)
    return mount(component, key, header, arrays, (len(labels_q), len(labels_k)), on_change)


def encode(
    panels: Sequence[Panel],
    labels_q: Sequence[str],
    labels_k: Sequence[str],
    query: int | None,
    key_index: int | None,
    *,
    words: Mapping[str, str],
    side: int = 320,
    tokens: bool = True,
) -> tuple[dict[str, Any], list[NDArray[np.float32]]]:
    """What `matrices` sends: settings and words, and one float32 array (queries, keys) a panel, NaN = masked.

    Raises: as `matrices`.
    """
    if not 1 <= len(panels) <= 4:
        raise ValueError(f"{len(panels)} panels; there is room for 1 to 4")
    if not labels_q or not labels_k:
        raise ValueError("no tokens")
    shape = (len(labels_q), len(labels_k))
    header = {
        "labels_q": list(labels_q),
        "labels_k": list(labels_k),
        "query": position(query, shape[0], "query"),
        "key": position(key_index, shape[1], "key"),
        "panels": [_described(panel) for panel in panels],
        "words": wording(words, WORDS),
        "side": int(side),
        "tokens": tokens,
    }
    return header, [matrix(panel.values, panel.masked, shape, panel.title) for panel in panels]


def _described(panel: Panel) -> dict[str, Any]:
    if panel.scale not in ("sequential", "diverging"):
        raise ValueError(f"{panel.title}: no scale {panel.scale!r}")
    if not (np.isfinite(panel.high) and panel.high > 0):
        raise ValueError(f"{panel.title}: a scale needs an end above 0, not {panel.high}")
    if panel.log_from is not None and not (panel.scale == "sequential" and 0 < panel.log_from < panel.high):
        raise ValueError(f"{panel.title}: a logarithmic scale is sequential and starts between 0 and its end")
    return {
        "title": panel.title,
        "subtitle": panel.subtitle,
        "note": panel.note,
        "scale": panel.scale,
        "high": float(panel.high),
        "log_from": None if panel.log_from is None else float(panel.log_from),
        "threshold": float(panel.threshold),
        "digits": int(panel.digits),
        "left_out": panel.left_out,
    }
