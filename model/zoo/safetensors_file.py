"""Weights in safetensors files: one, or several with an index. Nothing is ever unpickled."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.zoo.families.layouts import Shape
from model.zoo.files import DamagedError, KindError, inside, read_json

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_FLOATS = {"F64", "F32", "F16", "BF16"}  # as the header of a safetensors file spells them


class SafetensorsWeights:
    """The tensors of a folder's safetensors files. `shapes` come from the headers; a tensor is read when asked for.

    Raises:
        CheckpointError: if a file is missing, damaged or outside the folder, or the index does not fit the files.
    """

    def __init__(self, folder: Path, device: torch.device | str = "cpu") -> None:
        self._files = ExitStack()
        self._where: dict[str, Any] = {}
        self.shapes: dict[str, Shape] = {}
        try:
            for name, listed in _parts(folder).items():
                self._open(inside(folder, name), str(device), listed)
        except BaseException:
            self._files.close()
            raise

    def _open(self, path: Path, device: str, listed: set[str] | None) -> None:
        try:
            file = self._files.enter_context(safe_open(path, framework="pt", device=device))
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise DamagedError(f"{path.name} is damaged or not a safetensors file: {str(error)[:200]}") from None
        if listed is not None and (wrong := listed ^ found.keys()):
            raise DamagedError(f"{path.name} and the index do not agree about {min(wrong)}.")
        if twice := found.keys() & self.shapes.keys():
            raise DamagedError(f"{min(twice)} is in two files.")
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
        """The tensor as it is stored, mapped from the file where the device allows it.

        Raises:
            CheckpointError: if the file breaks off.
        """
        try:
            tensor: Tensor = self._where[name].get_tensor(name)
            return tensor
        except (SafetensorError, OSError) as error:
            raise DamagedError(f"{name} cannot be read: {str(error)[:200]}") from None

    def __enter__(self) -> SafetensorsWeights:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._files.close()


def _parts(folder: Path) -> dict[str, set[str] | None]:
    """The files of a folder's weights and the tensors that the index promises in each (None: there is no index)."""
    if (folder / WEIGHTS).exists() or not (folder / INDEX).exists():
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
