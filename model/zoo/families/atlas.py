"""This project's own checkpoints: any TransformerConfig as it is, and our own tensor names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from model.config import TransformerConfig
from model.zoo.families.family import Family

MODEL_TYPE = "transformer-atlas"


def config(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of TransformerConfig.

    Raises:
        ValueError: for a size that is missing or a key that the config does not have.
    """
    values = {key: value for key, value in data.items() if key not in ("model_type", "torch_dtype")}
    known = {f.name for f in fields(TransformerConfig)}
    needed = ("vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_ff", "max_positions")
    for key in values:
        if key not in known:
            raise ValueError(f"The config has {key!r:.60}, which this model has no use for.")
    for key in needed:
        if key not in values:
            raise ValueError(f"The config lacks {key!r}, without which the model has no shape.")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def to_hf(config: TransformerConfig) -> dict[str, Any]:
    """Every field of the config by its own name."""
    return {"model_type": MODEL_TYPE} | asdict(config)


ATLAS = Family((MODEL_TYPE,), config, tensors=None, to_hf=to_hf)
