"""What a family consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from model.config import TransformerConfig
from model.zoo.families.layouts import AS_IS, Layout


@dataclass(frozen=True)
class Held:
    """The parameters of ours that one tensor of a file holds, and how."""

    layout: Layout
    ours: tuple[str, ...]


Tensors = Mapping[str, str | Held]


def _not_written(_: TransformerConfig) -> dict[str, Any]:
    raise ValueError("Checkpoints of this family are read, not written.")


@dataclass(frozen=True)
class Family:
    """A model family: its config dialect and its tensor names.

    `tensors` maps a name in the file to one of ours (or to several, with their layout); `{i}` stands for the layer;
    None: the file uses our names. `config` reads a config.json into the keyword arguments of TransformerConfig.
    A name in the file may begin with `prefix`, and end as the keys of `spellings`, which are read as their values.
    `ignored` are patterns of names that hold no weights of ours; `tied` are names under which a tied matrix or
    its bias may be stored once more. `to_hf` writes a config.json.
    """

    model_types: tuple[str, ...]
    config: Callable[[Mapping[str, Any]], dict[str, Any]]
    tensors: Tensors | None
    prefix: str = ""
    spellings: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    tied: tuple[str, ...] = ()
    to_hf: Callable[[TransformerConfig], dict[str, Any]] = _not_written

    def canonical(self, name: str) -> str:
        """A name of the file as `tensors` spells it."""
        name = name.removeprefix(self.prefix)
        for old, new in self.spellings.items():
            if name.endswith(old):
                return name.removesuffix(old) + new
        return name

    def held(self, parameters: Iterable[str], n_layers: int) -> dict[str, Held]:
        """Every tensor that a file with our `parameters` must have, by its name in `tensors`."""
        ours = set(parameters)
        if self.tensors is None:
            return {name: Held(AS_IS, (name,)) for name in sorted(ours)}
        table: dict[str, Held] = {}
        for theirs, value in self.tensors.items():
            held = Held(AS_IS, (value,)) if isinstance(value, str) else value
            for i in range(n_layers) if "{i}" in theirs else (0,):
                names = tuple(name.format(i=i) for name in held.ours)
                if ours.issuperset(names):
                    table[theirs.format(i=i)] = Held(held.layout, names)
        return table

    def may_ignore(self, name: str, config: TransformerConfig) -> bool:
        """Whether a tensor that no parameter takes may be left in the file."""
        patterns = (*self.ignored, *self.tied) if config.tied_embeddings else self.ignored
        return any(fnmatchcase(name, pattern) for pattern in patterns)


def both(names: Mapping[str, str], layout: Layout = AS_IS) -> dict[str, Held]:
    """Weight and bias of every pair (name in the file, ours)."""
    parts = ("weight", "bias")
    return {f"{theirs}.{part}": Held(layout, (f"{ours}.{part}",)) for theirs, ours in names.items() for part in parts}


class Values(Mapping[str, Any]):
    """A config.json whose missing values are told of in a sentence."""

    def __init__(self, data: Mapping[str, Any], family: str) -> None:
        self._data, self._family = data, family

    def __getitem__(self, key: str) -> Any:
        if key not in self._data:
            raise ValueError(f"The config lacks {key!r}, without which a {self._family} model has no shape.")
        return self._data[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default` where there is none or null."""
        value = self._data.get(key)
        return default if value is None else value

    def __contains__(self, key: object) -> bool:
        return key in self._data

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def only(self, key: str, *allowed: Any) -> None:
        """Let a value that changes the computation be what we compute; the first is what its absence means.

        Raises:
            ValueError: for any other.
        """
        if self.get(key, allowed[0]) not in allowed:
            raise ValueError(f"{key} is {self[key]!r:.60}; this project computes {' or '.join(map(repr, allowed))}.")


_CURVES = {"gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
_CURVES |= {"gelu": "gelu_erf", "relu": "relu"}


def activation(name: str) -> str:
    """Our name for an activation without a gate.

    Raises:
        ValueError: for one that we do not compute.
    """
    if name not in _CURVES:
        raise ValueError(f"The activation {name!r:.60} is not one that we compute: {', '.join(_CURVES)}.")
    return _CURVES[name]


def special_ids(data: Mapping[str, Any]) -> dict[str, Any]:
    """Start, padding and all end tokens of a config."""
    ends = data.get("eos_token_id")
    some: Sequence[Any] = ends if isinstance(ends, list) else [] if ends is None else [ends]
    return {
        "bos_id": data.get("bos_token_id"),
        "pad_id": data.get("pad_token_id"),
        "eos_id": some[0] if some else None,
        "more_eos_ids": tuple(dict.fromkeys(some[1:])),
    }


def encoder_head(data: Mapping[str, Any]) -> dict[str, Any]:
    """Whether an encoder's checkpoint has a masked-LM head, told by the class that it was saved from."""
    classes = data.get("architectures") or [""]
    masked = any(str(name).endswith(("ForMaskedLM", "ForPreTraining")) for name in classes)
    return {"head": "mlm" if masked else "none", "unembed_bias": masked}
