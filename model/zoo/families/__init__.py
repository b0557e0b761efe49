"""Model families: how each spells its config and names its tensors. One file a family, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.zoo.families.atlas import ATLAS
from model.zoo.families.family import Family
from model.zoo.families.llama import LLAMA

FAMILIES: tuple[Family, ...] = (LLAMA, ATLAS)


def family_of(data: Mapping[str, Any]) -> Family:
    """The family that reads a Hugging Face config.

    Raises:
        ValueError: if none does.
    """
    model_type = data.get("model_type")
    for family in FAMILIES:
        if model_type in family.model_types:
            return family
    known = ", ".join(t for family in FAMILIES for t in family.model_types)
    raise ValueError(f"A model of type {model_type!r} cannot be read; the types we know are {known}.")
