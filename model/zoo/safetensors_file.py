"""Weights in safetensors files: one, or several with an index. Nothing is ever unpickled."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.zoo.families.layouts import Shape
from model.zoo.files import DamagedError, FormatError, KindError, inside, read_json, shown

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}  # as headers spell


class SafetensorsWeights:
    """The tensors of a folder's safetensors files. `shapes` come from the headers; a tensor is read when asked for.

    With `mapped` a tensor is a view of its file, which takes no time. That is for files that are never written again:
    who cuts a mapped file ends every process that uses it, and who writes into it changes the weights in use.

    Raises:
        CheckpointError: if a file is missing, damaged or outside the folder, or the index does not fit the files.
    """

    def __init__(self, folder: Path, mapped: bool = False) -> None:
        self._mapped = mapped
        self._files = ExitStack()
        self._where: dict[str, Any] = {}
        self._read: dict[str, tuple[BufferedReader, int]] = {}  # and where in it the bytes begin
        self.shapes: dict[str, Shape] = {}
        try:
            for name, listed in _parts(folder).items():
                self._open(inside(folder, name), listed)
        except BaseException:
            self._files.close()
            raise

    def _open(self, path: Path, listed: set[str] | None) -> None:
        try:
            file = self._files.enter_context(safe_open(path, framework="pt"))
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            self._read |= {} if self._mapped else _places(self._files.enter_context(path.open("rb")), found)
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise DamagedError(f"{path.name} is damaged or not a safetensors file: {str(error)[:200]}") from None
        if listed is not None and (wrong := listed ^ found.keys()):
            raise DamagedError(f"{path.name} and the index do not agree about {shown(min(wrong))}.")
        if twice := found.keys() & self.shapes.keys():
            raise DamagedError(f"{shown(min(twice))} is in two files.")
        self.shapes |= found
        self._where |= dict.fromkeys(found, file)

    def kind(self, name: str) -> str:
        """How the numbers of a tensor are stored."""
        return str(self._where[name].get_slice(name).get_dtype())

    def check(self, name: str) -> None:
        """Raises: CheckpointError, if a tensor does not hold floating-point numbers."""
        if self.kind(name) not in _FLOATS:
            raise KindError(f"{name} holds {self.kind(name)}, not floating-point weights.")

    def read(self, name: str) -> Tensor:
        """The tensor as it is stored, on the CPU.

        Raises:
            CheckpointError: if the file breaks off.
        """
        try:
            if self._mapped:
                tensor: Tensor = self._where[name].get_tensor(name)
                return tensor
            (file, start), dtype = self._read[name], _FLOATS[self.kind(name)]
            data = torch.empty(math.prod(self.shapes[name]) * dtype.itemsize, dtype=torch.uint8)
            file.seek(start)
            if file.readinto(data.numpy().data) < len(data):
                raise OSError("the file breaks off")
            return data.view(dtype).view(self.shapes[name])
        except (SafetensorError, OSError) as error:
            raise DamagedError(f"{name} cannot be read: {str(error)[:200]}") from None

    def __enter__(self) -> SafetensorsWeights:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._files.close()


def _places(file: BufferedReader, names: Iterable[str]) -> dict[str, tuple[BufferedReader, int]]:
    """Where the bytes of each tensor begin, by the header, which `safe_open` has found in order."""
    length = int.from_bytes(file.read(8), "little")
    header = json.loads(file.read(length))
    return {name: (file, 8 + length + int(header[name]["data_offsets"][0])) for name in names}


def _parts(folder: Path) -> dict[str, set[str] | None]:
    """The files of a folder's weights and the tensors that the index promises in each (None: there is no index)."""
    if (folder / WEIGHTS).exists() or not (folder / INDEX).exists():
        if not (folder / WEIGHTS).exists() and any(folder.glob("pytorch_model*.bin")):
            raise FormatError(f"{folder.name} has only pytorch_model.bin; weights are read from safetensors or GGUF.")
        return {WEIGHTS: None}
    where = read_json(inside(folder, INDEX)).get("weight_map")
    if not isinstance(where, dict) or not where:
        raise DamagedError(f"{INDEX} has no weight_map.")
    parts: dict[str, set[str]] = {}
    for tensor, name in where.items():
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            raise DamagedError(f"{INDEX} names {name!r:.80}, which is no safetensors file of this folder.")
        parts.setdefault(name, set()).add(tensor)
    return dict(parts)
