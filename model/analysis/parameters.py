"""Where a model's parameters are, counted on the real module."""

from __future__ import annotations

from collections import Counter

import torch

from model.config import TransformerConfig
from model.transformer import Transformer

PARTS = ("embedding", "positions", "attention", "feed_forward", "norms", "unembedding")


def parameters_by_part(transformer: Transformer) -> dict[str, int]:
    """Number of parameters by part, in the order of `PARTS`, parts without any left out.

    A tied output matrix is the embedding itself and counts once, there; so do token types. What else lies between
    the stream and the logits is "unembedding". The values sum to all parameters.
    """
    counts: Counter[str] = Counter()
    for name, parameter in transformer.named_parameters():
        counts[_part(name)] += parameter.numel()
    return {part: counts[part] for part in PARTS if counts[part]}


def _part(name: str) -> str:
    first, *inner = name.split(".")
    if first in ("embed", "type_embed"):
        return "embedding"
    if first in ("pos_embed", "encoder_pos_embed"):
        return "positions"
    if first in ("unembed", "unembed_bias", "mlm_head"):
        return "unembedding"
    if {"attn", "cross_attn"} & set(inner):
        return "attention"
    return "feed_forward" if "mlp" in inner else "norms"


def count_of_config(config: TransformerConfig) -> int:
    """All parameters of the module that a config describes, built without memory for its numbers."""
    with torch.device("meta"):
        return sum(p.numel() for p in Transformer(config).parameters())
