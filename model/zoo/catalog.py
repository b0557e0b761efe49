"""What can be loaded by name, and where it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open

WEIGHTS = Path(__file__).resolve().parent.parent / "weights"


@dataclass(frozen=True)
class Entry:
    """One model of the catalogue: `languages` are ISO 639-1 codes, `licence` an SPDX identifier."""

    id: str
    family: str
    languages: tuple[str, ...]
    licence: str
    folder: Path

    @property
    def parameters(self) -> int:
        """Parameters stored in the file (a tied output matrix counts once), read from its header."""
        with safe_open(self.folder / "model.safetensors", framework="pt") as file:
            return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118

    @property
    def nbytes(self) -> int:
        """Size of the weights file, bytes."""
        return (self.folder / "model.safetensors").stat().st_size


CATALOG: dict[str, Entry] = {
    entry.id: entry for entry in (Entry("storyteller", "llama", ("en", "zh"), "MIT", WEIGHTS / "storyteller"),)
}
