"""Model families: how each spells its config and names its tensors. One file a family, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.zoo.families.atlas import ATLAS
from model.zoo.families.bert import BERT, ROBERTA
from model.zoo.families.distilbert import DISTILBERT
from model.zoo.families.family import Family
from model.zoo.families.gpt2 import GPT2
from model.zoo.families.gpt_neox import GPT_NEOX
from model.zoo.families.llama import LLAMA
from model.zoo.families.qwen import QWEN2, QWEN3

FAMILIES: tuple[Family, ...] = (LLAMA, QWEN2, QWEN3, GPT2, GPT_NEOX, BERT, ROBERTA, DISTILBERT, ATLAS)


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
