"""Dropout during training (Srivastava et al. 2014), put around a model that has none of its own."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from model.attention import Attention
from model.feedforward import FeedForward


def add_dropout(model: nn.Module, p: float) -> list[RemovableHandle]:
    """Drop a fraction `p` of the features of the token embeddings and of what every layer adds to the stream.

    Only while the module is in training mode. Removing the returned handles takes it off again; the weights
    and their names are never touched.

    Raises:
        ValueError: if `p` is not in [0, 1).
    """
    if not 0 <= p < 1:
        raise ValueError(f"The dropout is {p}; it must be at least 0 and below 1.")

    def drop(module: nn.Module, _: Any, output: Tensor) -> Tensor:
        return nn.functional.dropout(output, p, module.training)

    places = [m for m in model.modules() if isinstance(m, Attention | FeedForward | nn.Embedding)]
    return [m.register_forward_hook(drop) for m in places] if p else []
