"""Qwen 2, 2.5 and 3: Llama with biases on queries, keys and values (2), or with norms on queries and keys (3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.zoo.families import llama
from model.zoo.families.family import Family, Values

TENSORS = llama.TENSORS | {
    "model.layers.{i}.self_attn.q_norm.weight": "blocks.{i}.attn.q_norm.weight",
    "model.layers.{i}.self_attn.k_norm.weight": "blocks.{i}.attn.k_norm.weight",
}


def config2(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of TransformerConfig for Qwen 2 and 2.5.

    Raises:
        ValueError: for an option that we do not compute, or a missing size.
    """
    values = Values(data, "Qwen 2")
    values.only("use_sliding_window", False)
    return llama.llama_like(values) | {"qkv_bias": True, "out_bias": False, "mlp_bias": False}


def config3(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of TransformerConfig for Qwen 3.

    Raises:
        ValueError: for an option that we do not compute, or a missing size.
    """
    values = Values({"head_dim": 128} | dict(data), "Qwen 3")
    values.only("use_sliding_window", False)
    return llama.llama_like(values) | {"qk_norm": True, "mlp_bias": False}


QWEN2 = Family(("qwen2",), config2, TENSORS, ignored=llama.IGNORED, tied=llama.TIED)
QWEN3 = Family(("qwen3",), config3, TENSORS, ignored=llama.IGNORED, tied=llama.TIED)
