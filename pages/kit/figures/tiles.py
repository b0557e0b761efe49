"""Attention patterns of all heads as small images of one shared scale, ready to cache and to send."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Levels of a tile's cells. A masked cell is a level of its own, not a value of the scale.
EMPTY, FIRST_LEVEL, TOP_LEVEL = 0, 1, 255


@dataclass(frozen=True)
class Tiles:
    """Every head's pattern as small images of one shared scale; safe to cache and cheap to send.

    levels: (layers, heads, rows, columns) uint8; 1–255 is the scale from 0 to 1, 0 a masked cell.
    block: side of the square of tokens that one cell stands for; 1 means that nothing was pooled.
    queries, keys: the number of tokens along each side before pooling.
    scale: "linear" or "log"; floor: the probability at the foot of the log scale.
    """

    levels: np.ndarray
    block: int
    queries: int
    keys: int
    scale: str
    floor: float


@dataclass(frozen=True)
class Pooled:
    """The largest weight in each block of tokens, (layers, heads, rows, columns); `hidden` (rows, columns) or None.

    What `shaded` needs of the patterns, whatever the scale and the threshold: neither changes which cell is largest.
    """

    values: np.ndarray
    hidden: np.ndarray | None
    block: int
    queries: int
    keys: int


def pool_patterns(patterns: Iterable[np.ndarray], *, masked: np.ndarray | None = None, limit: int = 48) -> Pooled:
    """Shrink attention patterns, one layer at a time: the part that reads them all and takes long.

    patterns: one (heads, queries, keys) array of probabilities per layer; an iterator keeps one layer in memory.
    masked: (queries, keys), True where the mask hides a cell; cells hidden in every token of a block stay masked.
    limit: the largest side of a tile. Longer texts are pooled by the maximum of each block, so that a single
        strong cell stays visible.

    Raises ValueError for no layer, or shapes that differ between layers or from the mask.
    """
    layers: list[np.ndarray] = []
    shape: tuple[int, ...] | None = None
    block, hidden = 1, None
    for pattern in patterns:
        if pattern.ndim != 3 or (shape is not None and pattern.shape != shape):
            raise ValueError(f"layer {len(layers)} has shape {pattern.shape}, the first one {shape}")
        if shape is None:
            shape = pattern.shape
            block = max(1, math.ceil(max(shape[1:]) / limit))
            if masked is not None:
                if masked.shape != shape[1:]:
                    raise ValueError(f"the mask has shape {masked.shape}, the patterns {shape}")
                hidden = _pool(masked[None].astype(np.float32), block, np.min, 1.0)[0] > 0.5
        layers.append(_pool(np.nan_to_num(pattern.astype(np.float32)), block, np.max, 0.0))
    if shape is None:
        raise ValueError("there is no layer to draw")
    return Pooled(np.stack(layers), hidden, block, shape[1], shape[2])


def shaded(pooled: Pooled, *, scale: str = "linear", floor: float = 1e-4, threshold: float = 0.0) -> Tiles:
    """The tiles of pooled patterns on a scale.

    scale: "linear" maps 0…1; "log" maps `floor`…1 and draws anything below `floor` as 0. threshold: weights below it
    are drawn as 0.

    Raises ValueError for an unknown scale.
    """
    if scale not in ("linear", "log"):
        raise ValueError(f"scale is {scale!r}, not 'linear' or 'log'")
    values = np.where(pooled.values >= np.float32(threshold), pooled.values, np.float32(0))
    share = 1 - np.log10(np.maximum(values, floor)) / math.log10(floor) if scale == "log" else values
    levels = np.rint(FIRST_LEVEL + np.clip(share, 0, 1) * (TOP_LEVEL - FIRST_LEVEL)).astype(np.uint8)
    if pooled.hidden is not None:
        levels[:, :, pooled.hidden] = EMPTY
    return Tiles(levels, pooled.block, pooled.queries, pooled.keys, scale, floor)


def pooled_csv(pooled: Pooled, titles: Sequence[str]) -> str:
    """The visible cells as a file: layer, head, query, key, and the largest weight with all its digits.

    titles: of these five columns. Queries and keys are positions; of a block of tokens, that of its first.
    """
    shown = np.ones(pooled.values.shape[2:], dtype=bool) if pooled.hidden is None else ~pooled.hidden
    places = [(query * pooled.block, key * pooled.block) for query, key in np.argwhere(shown).tolist()]
    text = io.StringIO()
    text.write("\ufeff")  # without this mark spreadsheets take it for another encoding
    rows = csv.writer(text)
    rows.writerow(titles)
    for layer, heads in enumerate(pooled.values):
        for head, weights in enumerate(heads):
            rows.writerows((layer, head, *place, weight) for place, weight in zip(places, weights[shown], strict=True))
    return text.getvalue()


def _pool(values: np.ndarray, block: int, reduce: Any, filler: float) -> np.ndarray:
    """Reduce (n, rows, columns) over blocks of `block` × `block`; the ragged edge is filled with `filler`."""
    if block == 1:
        return values
    pad = [(0, 0)] + [(0, -side % block) for side in values.shape[1:]]
    padded = np.pad(values, pad, constant_values=filler)
    n, rows, columns = padded.shape
    # Rows first: whole rows at once, which is five times as fast as both sides together.
    by_rows = reduce(padded.reshape(n, rows // block, block, columns), axis=2)
    return np.asarray(reduce(by_rows.reshape(n, rows // block, columns // block, block), axis=3))
