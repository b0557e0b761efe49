"""Which heads are averaged: the layer that is shown, all of them, or heads picked one by one.

In the selection and in the address that is one word: "layer", "all", or heads as layer.head, "3.2-0.7".
"""

import re

LAYER, ALL = "layer", "all"
_PICKED = re.compile(r"\d{1,3}\.\d{1,3}(?:-\d{1,3}\.\d{1,3})*")

Head = tuple[int, int]


def picked(mix: str) -> list[Head]:
    """The heads of a mix that names them one by one, as (layer, head); none for the others."""
    if not _PICKED.fullmatch(mix):
        return []
    return [(int(layer), int(head)) for layer, head in (name.split(".") for name in mix.split("-"))]


def written(heads: list[Head]) -> str:
    """The mix of these heads; of none, the layer that is shown."""
    return "-".join(f"{layer}.{head}" for layer, head in heads) or LAYER


def heads(mix: str, layer: int, n_layers: int, n_heads: int) -> list[Head]:
    """The heads that a mix stands for while `layer` is shown."""
    if mix == LAYER:
        return [(layer, head) for head in range(n_heads)]
    if mix == ALL:
        return [(one, head) for one in range(n_layers) for head in range(n_heads)]
    return picked(mix)


def repaired(mix: str, n_layers: int, n_heads: int) -> str:
    """`mix` with the heads that a model has, each once; what cannot be read is the layer that is shown."""
    if mix in (LAYER, ALL):
        return mix
    there = [(layer, head) for layer, head in picked(mix) if layer < n_layers and head < n_heads]
    return written(list(dict.fromkeys(there)))
