"""Attention as lines between two columns of tokens, queries left and keys right."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pages.kit.components.mounting import Picked, mount, register
from pages.kit.components.packing import matrix, position, wording

WORDS = ("label", "help", "query", "key", "masked", "weight")
_component = register("lines", "lines.js")


def lines(
    weights: ArrayLike,
    labels_q: Sequence[str],
    labels_k: Sequence[str],
    query: int | None,
    key_index: int | None,
    *,
    key: str,
    words: Mapping[str, str],
    masked: ArrayLike | None = None,
    high: float = 1.0,
    threshold: float = 0.0,
    digits: int = 3,
    max_height: int = 560,
    left_out: str = "",
    on_change: Callable[[Picked], None] | None = None,
) -> Picked | None:
    """Draw a line from every query to every key it looks at, and return what was picked since the last run.

    Width and opacity grow with the weight. Hovering a token shows only its lines, with their weights at the other
    end; without hovering, those of the chosen query stand out. A click, a tap or the arrow keys pick a token.

    weights: (queries, keys), finite and ≥ 0 where not `masked`. high: the weight that takes the full width, the end
    of the colour scale of the same quantity elsewhere. threshold: weights below it are not drawn. max_height: pixels
    beyond which the figure scrolls in its frame. words: the translated words of `WORDS`. left_out: as of a `Panel`.

    Raises:
        ValueError: if shapes do not fit the labels, a visible weight is negative or not finite, `high` is not above
        0, a position does not exist, or a word is missing.
    """
    header, arrays = encode(
        weights,
        labels_q,
        labels_k,
        query,
        key_index,
        words=words,
        masked=masked,
        high=high,
        threshold=threshold,
        digits=digits,
        max_height=max_height,
        left_out=left_out,
    )
    return mount(_component, key, header, arrays, (len(labels_q), len(labels_k)), on_change)


def encode(
    weights: ArrayLike,
    labels_q: Sequence[str],
    labels_k: Sequence[str],
    query: int | None,
    key_index: int | None,
    *,
    words: Mapping[str, str],
    masked: ArrayLike | None = None,
    high: float = 1.0,
    threshold: float = 0.0,
    digits: int = 3,
    max_height: int = 560,
    left_out: str = "",
) -> tuple[dict[str, Any], list[NDArray[np.float32]]]:
    """What `lines` sends: settings and words, and the weights as float32 (queries, keys), NaN = masked.

    Raises: as `lines`.
    """
    if not labels_q or not labels_k:
        raise ValueError("no tokens")
    shape = (len(labels_q), len(labels_k))
    cells = matrix(weights, masked, shape, "weights")
    if np.nanmin(cells, initial=0.0) < 0:
        raise ValueError("a weight is negative")
    if not (np.isfinite(high) and high > 0):
        raise ValueError(f"a scale needs an end above 0, not {high}")
    header = {
        "labels_q": list(labels_q),
        "labels_k": list(labels_k),
        "query": position(query, shape[0], "query"),
        "key": position(key_index, shape[1], "key"),
        "high": float(high),
        "threshold": float(threshold),
        "digits": int(digits),
        "max_height": int(max_height),
        "left_out": left_out,
        "words": wording(words, WORDS),
    }
    return header, [cells]
