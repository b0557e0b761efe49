"""Which neurons are off, as one word of the address: layer.neuron, "3.120-0.7"; the empty word for none."""

import re

from model.analysis.neuron_effects import Neuron

MAX_OFF = 64
_NEURON = re.compile(r"(\d{1,4})\.(\d{1,7})")


def read(off: str) -> list[Neuron]:
    """The neurons that a word names, each once, in its order; what is no neuron is left out."""
    found = (_NEURON.fullmatch(part) for part in off.split("-"))
    return list(dict.fromkeys((int(one[1]), int(one[2])) for one in found if one))


def written(neurons: list[Neuron]) -> str:
    """The word for these neurons, of which the first `MAX_OFF` count."""
    return "-".join(f"{layer}.{number}" for layer, number in list(dict.fromkeys(neurons))[:MAX_OFF])


def repaired(off: str, n_layers: int, d_ff: int) -> str:
    """The word with only those neurons that a model has."""
    return written([(layer, number) for layer, number in read(off) if layer < n_layers and number < d_ff])
