"""The texts that light a neuron up, looked up in an index that was made once for a model's weights.

The idea of neurons as keys (a text pattern that they answer to) and values (what they then write) is that of Geva et
al. 2020, arXiv:2012.14913. `python -m model index` makes an index; see model/training/neuron_index.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from model.language import LanguageModel

FILE = "neurons.index"  # in the format of safetensors, but no weights
WEIGHTS = "model.safetensors"
End = Literal["highest", "lowest"]
ENDS: tuple[End, ...] = ("highest", "lowest")


@dataclass(frozen=True)
class Context:
    """A sentence of the sample, as token `ids`, in which a neuron reaches `activation` at `position`.

    `written` is true where the model wrote it, false where we did.
    """

    sentence: int
    ids: tuple[int, ...]
    position: int
    activation: float
    written: bool


@dataclass(frozen=True)
class NeuronIndex:
    """For every neuron the sentences of a sample where its activation is highest and lowest, the most extreme first.

    `tokens` are all sentences one after the other, `ends` where each ends, `written` whether the model wrote it. For
    each end, `sentences`, `positions` and `activations` are `(n_layers, d_ff, k)`. `about` tells how it was made, and
    for which weights (their SHA-256).
    """

    tokens: NDArray[Any]
    ends: NDArray[Any]
    written: NDArray[Any]
    sentences: dict[End, NDArray[Any]]
    positions: dict[End, NDArray[Any]]
    activations: dict[End, NDArray[np.float32]]
    about: dict[str, Any]

    @property
    def n_sentences(self) -> int:
        """How many sentences the sample has."""
        return len(self.ends)

    @property
    def n_written(self) -> int:
        """How many of them the model wrote."""
        return int(self.written.sum())

    def ids(self, sentence: int) -> tuple[int, ...]:
        """The token ids of a sentence."""
        start = int(self.ends[sentence - 1]) if sentence else 0
        return tuple(self.tokens[start : int(self.ends[sentence])].tolist())

    def contexts(self, layer: int, neuron: int, end: End = "highest") -> list[Context]:
        """Where one neuron is most active in the sample; each sentence counts once.

        Raises:
            IndexError: if there is no such layer or neuron.
        """
        places = (self.sentences[end], self.positions[end], self.activations[end])
        if not 0 <= layer < places[0].shape[0] or not 0 <= neuron < places[0].shape[1]:
            raise IndexError(f"Layer {layer} or neuron {neuron} does not exist.")
        return [
            Context(s, self.ids(s), p, a, bool(self.written[s]))
            for s, p, a in zip(*(array[layer, neuron].tolist() for array in places), strict=True)
        ]

    def save(self, folder: Path) -> None:
        """Write the index into the model's folder; the same index gives the same bytes."""
        n_tokens = int(self.tokens.max()) + 1
        arrays = {
            "tokens": self.tokens.astype(np.uint16 if n_tokens <= 2**16 else np.uint32),
            "lengths": np.diff(self.ends, prepend=0).astype(np.uint16),
            "written": self.written.astype(np.uint8),
        }
        for end in ENDS:
            arrays[f"{end}.sentences"] = self.sentences[end].astype(np.uint16 if self.n_sentences <= 2**16 else "<u4")
            arrays[f"{end}.positions"] = self.positions[end].astype(np.uint16)
            arrays[f"{end}.activations"] = self.activations[end].astype(np.float32)
        part = folder / f"{FILE}.part"
        # One entry only: several would be written in any order.
        save_file(
            {name: np.ascontiguousarray(a) for name, a in arrays.items()},
            part,
            metadata={"index": json.dumps(self.about, sort_keys=True)},
        )
        part.replace(folder / FILE)


def fingerprint(folder: Path) -> str:
    """The SHA-256 of a model's weights file, in hexadecimal."""
    with (folder / WEIGHTS).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_index(folder: Path) -> NeuronIndex | None:
    """The index in a model's folder; None if there is none, or it was made for other weights.

    Raises:
        ValueError: if the file cannot be read.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="np") as file:
            about = json.loads(file.metadata()["index"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if about["weights"] != fingerprint(folder):
            return None
        return NeuronIndex(
            arrays["tokens"],
            arrays["lengths"].astype(np.int64).cumsum(),
            arrays["written"].astype(bool),
            {end: arrays[f"{end}.sentences"] for end in ENDS},
            {end: arrays[f"{end}.positions"] for end in ENDS},
            {end: arrays[f"{end}.activations"] for end in ENDS},
            about,
        )
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path.name} is damaged or no index of neurons: {error}") from None


def along_text(lm: LanguageModel, ids: Sequence[int], layer: int, neuron: int) -> tuple[float, ...]:
    """A neuron's activation at every token of a text, by a run of its own.

    Raises:
        KeyError, IndexError: if there is no such layer or neuron.
    """
    activations: list[float] = lm.trace(ids)[f"blocks.{layer}.mlp.hook_post"][:, neuron].tolist()
    return tuple(activations)
