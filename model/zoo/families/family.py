"""What a family consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from model.config import TransformerConfig


@dataclass(frozen=True)
class Family:
    """A model family: its config dialect and its tensor names.

    `tensors` maps a name in the file to one of ours; `{i}` stands for the layer; None: the file uses our names.
    `ignored` are names in the file that hold no weights of ours. `config` reads a config.json into the keyword
    arguments of TransformerConfig; `to_hf` writes one.
    """

    model_types: tuple[str, ...]
    config: Callable[[Mapping[str, Any]], dict[str, Any]]
    to_hf: Callable[[TransformerConfig], dict[str, Any]]
    tensors: Mapping[str, str] | None
    ignored: tuple[str, ...] = ()

    def names(self, parameters: Iterable[str], n_layers: int) -> dict[str, str]:
        """File name to our name, for those of our `parameters` that the family can have."""
        ours = set(parameters)
        if self.tensors is None:
            return {name: name for name in sorted(ours)}
        table: dict[str, str] = {}
        for theirs, name in self.tensors.items():
            if "{i}" in theirs:
                table |= {theirs.format(i=i): name.format(i=i) for i in range(n_layers)}
            else:
                table[theirs] = name
        return {theirs: name for theirs, name in table.items() if name in ours}
