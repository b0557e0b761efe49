"""Attention rollout: attention followed back through the layers (Abnar & Zuidema 2020)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from model.analysis.mixing import layer_patterns
from model.trace import Trace

HALF = 0.5  # of each layer's output is taken to come from attention, the other half to have passed it by


class Rollout(NamedTuple):
    """`weights` `(T, T)`: what each token holds of every input token after a layer, by the rule of thumb.

    They are `read + kept`, both `(T, T)`: half of what the layer's attention reads from the tokens it looks at, and
    half of what the token held before. All fp64 on the CPU; the rows of `weights` sum to 1.
    """

    weights: Tensor
    read: Tensor
    kept: Tensor


def rollout(run: Trace, layer: int) -> Rollout:
    """Follow attention from the input up to and including `layer`.

    Each layer is (½·A + ½·I), with A the mean of its heads' patterns; the product of these matrices over the layers is
    the rollout. It takes every head as equally important and leaves out values, feed-forward and norms: a rule of
    thumb, nothing that the model computes. A row without any key passes on what it holds.

    Raises:
        IndexError: if the run has no such layer.
    """
    if not 0 <= layer < run.config.n_layers:
        raise IndexError(f"There is no layer {layer}; this model has {run.config.n_layers}.")
    held = torch.eye(len(run.tokens), dtype=torch.float64)
    read = kept = held
    for number, pattern in enumerate(layer_patterns(run)):
        mean = pattern.mean(0).double()
        empty = ~mean.any(-1)
        mean[empty, empty] = 1.0
        mean /= mean.sum(-1, keepdim=True)  # fp32 patterns sum to 1 up to rounding
        read, kept = HALF * mean @ held, HALF * held
        held = read + kept
        if number == layer:
            break
    return Rollout(held, read, kept)
