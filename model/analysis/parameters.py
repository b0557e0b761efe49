"""Where a model's parameters are, counted on the real module."""

from __future__ import annotations

from collections import Counter

import torch
from torch import nn

from model.attention import Attention
from model.config import TransformerConfig
from model.feedforward import FeedForward
from model.norms import Normalization
from model.positions import PositionEmbedding
from model.transformer import Transformer

PARTS = ("embedding", "positions", "attention", "feed_forward", "norms", "unembedding")


def parameters_by_part(transformer: Transformer) -> dict[str, int]:
    """Number of parameters by part, in the order of `PARTS`, parts without any left out.

    A tied output matrix is the embedding itself and counts once, there. The values sum to all parameters.
    """
    counts: Counter[str] = Counter()
    for name, module in transformer.named_modules():
        if isinstance(module, Attention):
            part = "attention"
        elif isinstance(module, FeedForward):
            part = "feed_forward"
        elif isinstance(module, Normalization):
            part = "norms"
        elif isinstance(module, PositionEmbedding):
            part = "positions"
        elif name == "unembed":
            part = "unembedding"
        elif isinstance(module, nn.Embedding):
            part = "embedding"
        else:
            continue
        counts[part] += sum(p.numel() for p in module.parameters())
    return {part: counts[part] for part in PARTS if counts[part]}


def count_of_config(config: TransformerConfig) -> int:
    """All parameters of the module that a config describes, built without memory for its numbers."""
    with torch.device("meta"):
        return sum(p.numel() for p in Transformer(config).parameters())
