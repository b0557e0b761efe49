"""Packs what a component draws into one run of bytes: words and settings as JSON, numbers as float32.

Bytes are the cheapest way that components v2 has: numbers as JSON text take about three times the room, base64 a
third more. The layout is a little-endian uint32 (the length of the JSON), the JSON in UTF-8, padded with spaces so
that what follows starts at a multiple of four, the arrays one after the other, and bytes that a component
reads itself. The JSON lists the shapes of the arrays under "arrays".
"""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def pack(header: Mapping[str, Any], arrays: Sequence[NDArray[np.float32]] = (), rest: bytes = b"") -> bytes:
    """`header` (anything that JSON takes), float32 `arrays` and what else there is as bytes; `unpack` in common.js is
    the inverse."""
    described = {**header, "arrays": [array.shape for array in arrays]}
    text = json.dumps(described, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(4 + len(text)) % 4)
    numbers = (np.ascontiguousarray(array, dtype="<f4").tobytes() for array in arrays)
    return b"".join((struct.pack("<I", len(text)), text, *numbers, rest))


def matrix(
    values: ArrayLike, masked: ArrayLike | None, shape: tuple[int, int], what: str = "values"
) -> NDArray[np.float32]:
    """`values` (queries, keys) as float32 with NaN where `masked` is true.

    Raises:
        ValueError: if a shape is not `shape`, or a value that is not masked is not finite.
    """
    cells = np.array(values, dtype=np.float32)
    if cells.shape != shape:
        raise ValueError(f"{what}: shape {cells.shape}, but the labels make {shape}")
    if masked is not None:
        hidden = np.asarray(masked, dtype=bool)
        if hidden.shape != shape:
            raise ValueError(f"{what}: the mask has shape {hidden.shape}, the values {shape}")
        cells[hidden] = np.nan
        visible = cells[~hidden]
    else:
        visible = cells
    if not np.isfinite(visible).all():
        raise ValueError(f"{what}: a cell that is not masked is not finite")
    return cells


def position(value: int | None, count: int, what: str) -> int | None:
    """`value` if it is None or one of `count` positions.

    Raises:
        ValueError: otherwise.
    """
    if value is not None and not 0 <= value < count:
        raise ValueError(f"{what} {value} of {count}")
    return None if value is None else int(value)


def wording(words: Mapping[str, str], needed: Sequence[str]) -> dict[str, str]:
    """The `needed` words out of `words`.

    Raises:
        ValueError: if one is missing.
    """
    missing = [name for name in needed if name not in words]
    if missing:
        raise ValueError(f"words for {', '.join(missing)} are missing")
    return {name: str(words[name]) for name in needed}
