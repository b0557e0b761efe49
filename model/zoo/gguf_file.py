"""GGUF files: their header, read by us within strict bounds, and their tensors, dequantised by the `gguf` package.

The package's own reader follows whatever counts and lengths a file claims. Here every length is compared with what is
left of the file before anything is read or allocated. Format: the GGUF specification of the ggml project.
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from model.zoo.families.layouts import Shape
from model.zoo.files import CheckpointError, DamagedError, KindError, shown

KINDS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LONGEST_NAME = 65_535  # bytes, by the specification; tensors' names are far shorter


@dataclass(frozen=True)
class _Place:
    kind: str
    shape: Shape
    start: int
    size: int


class _Cursor:
    """Reads a header from its front; nothing past the end, nothing longer than what is left."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.at, self.end = file, 0, file.seek(0, os.SEEK_END)
        file.seek(0)

    @property
    def left(self) -> int:
        return self.end - self.at

    def take(self, size: int) -> bytes:
        data = self.file.read(size) if size <= self.left else b""
        if len(data) < size:
            raise CheckpointError("its header breaks off")
        self.at += size
        return data

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self, longest: int | None = None) -> str:
        size = self.number("Q")
        if longest is not None and size > longest:
            raise CheckpointError("it has a name longer than the format allows")
        return self.take(size).decode("utf-8", errors="replace")

    def value(self) -> Any:
        kind = self.number("I")
        if kind == _ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner == _STRING:
                if count > self.left // 8:  # each has at least its length
                    raise CheckpointError("its header breaks off")
                return [self.text() for _ in range(count)]
            code = self._code(inner)
            size = struct.calcsize("<" + code)
            if count > self.left // size:
                raise CheckpointError("its header breaks off")
            return np.frombuffer(self.take(count * size), np.dtype(code).newbyteorder("<")).tolist()
        return self.text() if kind == _STRING else self.number(self._code(kind))

    def _code(self, kind: int) -> str:
        if kind not in _NUMBERS:
            raise CheckpointError(f"its header has a value of the unknown type {kind}")
        return _NUMBERS[kind]


class GGUFWeights:
    """The `metadata` of a GGUF file and its tensors; shapes are ours, (out, in).

    Raises:
        CheckpointError: if this is no GGUF file, it is cut, or its header contradicts itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.metadata, self._places = _header(file)
        except OSError as error:
            raise DamagedError(f"{path.name} cannot be read: {error}.") from None
        except KindError as error:
            raise KindError(f"{path.name} cannot be read: {error}.") from None
        except CheckpointError as error:
            raise DamagedError(f"{path.name} is damaged or not a GGUF file: {error}.") from None
        self.shapes: dict[str, Shape] = {name: place.shape for name, place in self._places.items()}

    def kind(self, name: str) -> str:
        """How the numbers of a tensor are stored."""
        return self._places[name].kind

    def check(self, name: str) -> None:
        """Raises: CheckpointError, if a tensor's type is none that we read. (All are, once the header was.)"""
        if self.kind(name) not in KINDS:
            raise KindError(f"{name} is stored as {self.kind(name)}, which is not read here.")

    def read(self, name: str) -> Tensor:
        """The tensor in fp32, dequantised.

        Raises:
            CheckpointError: if the file has changed, and ends before it.
        """
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        place = self._places[name]
        try:  # not mapped: who cuts a mapped file ends every process that reads it
            raw = np.fromfile(self.path, np.uint8, count=place.size, offset=place.start)
        except OSError as error:
            raise DamagedError(f"{self.path.name} cannot be read: {error}.") from None
        if raw.size < place.size:
            raise DamagedError(f"{self.path.name} breaks off before {shown(name)} ends.")
        rows = raw.reshape(math.prod(place.shape[:-1]), -1)
        numbers = dequantize(rows, GGMLQuantizationType[place.kind])
        return torch.from_numpy(np.array(numbers, dtype=np.float32).reshape(place.shape))


def _header(file: BinaryIO) -> tuple[dict[str, Any], dict[str, _Place]]:
    cursor = _Cursor(file)
    if cursor.take(4) != b"GGUF":
        raise CheckpointError("it does not begin with GGUF")
    version = cursor.number("I")
    if version not in (2, 3):
        raise KindError(f"it has version {version}; versions 2 and 3 with little-endian numbers are read")
    n_tensors, n_values = cursor.number("Q"), cursor.number("Q")
    if n_tensors > cursor.left // 24 or n_values > cursor.left // 13:  # the fewest bytes that one of them takes
        raise CheckpointError("its header breaks off")
    metadata: dict[str, Any] = {}
    for _ in range(n_values):
        name = cursor.text(_LONGEST_NAME)
        metadata[name] = cursor.value()
    infos = [_info(cursor) for _ in range(n_tensors)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 2**20:
        raise CheckpointError(f"its alignment is {alignment!r:.40}")
    base = -(-cursor.at // alignment) * alignment
    return metadata, _places(infos, base, cursor.end)


def _info(cursor: _Cursor) -> tuple[str, Shape, int, int]:
    name = cursor.text(_LONGEST_NAME)
    n_axes = cursor.number("I")
    if not 1 <= n_axes <= 4:
        raise CheckpointError(f"{shown(name)} has {n_axes} axes")
    shape = tuple(cursor.number("Q") for _ in range(n_axes))[::-1]  # the file names the innermost axis first
    return name, shape, cursor.number("I"), cursor.number("Q")


def _places(infos: list[tuple[str, Shape, int, int]], base: int, end: int) -> dict[str, _Place]:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    places: dict[str, _Place] = {}
    for name, shape, number, offset in infos:
        try:
            kind = GGMLQuantizationType(number)
        except ValueError:
            raise CheckpointError(f"{shown(name)} has the unknown type {number}") from None
        if kind.name not in KINDS:
            raise KindError(f"{shown(name)} is stored as {kind.name}; read are {', '.join(KINDS)}")
        block, size = GGML_QUANT_SIZES[kind]
        if name in places:
            raise CheckpointError(f"it has {shown(name)} twice")
        if shape[-1] % block or 0 in shape:
            raise CheckpointError(f"{shown(name)} has shape {shape}, which {kind.name} cannot store")
        places[name] = _Place(kind.name, shape, base + offset, math.prod(shape) // block * size)
    reached = base
    for name, place in sorted(places.items(), key=lambda item: item[1].start):
        if place.start < reached:
            raise CheckpointError(f"{shown(name)} lies on another tensor")
        reached = place.start + place.size
        if reached > end:
            raise CheckpointError(f"it ends before {shown(name)} does")
    return places
