"""Attention patterns of one head or of several together, as they are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from model.trace import Trace


class View(NamedTuple):
    """`weights` `(…, T, T)`, queries down and keys across, fp32 on the CPU, 0 where hidden; `hidden` `(T, T)`."""

    weights: Tensor
    hidden: Tensor


def masked_cells(run: Trace) -> Tensor:
    """`(T, T)` bool: true where the run's mask lets no query read a key. It is the same in every layer."""
    return torch.isneginf(run["blocks.0.attn.hook_attn_scores"][0]).cpu()


def layer_patterns(run: Trace) -> Iterator[Tensor]:
    """The traced patterns `(H, T, T)`, one layer after another, so that only one is held at a time."""
    for layer in range(run.config.n_layers):
        yield run[f"blocks.{layer}.attn.hook_pattern"].float().cpu()


def mean_pattern(run: Trace, heads: Sequence[tuple[int, int]]) -> Tensor:
    """`(T, T)`: the mean of the patterns of `heads`, pairs of layer and head. Its rows sum to 1 as theirs do.

    Raises:
        ValueError: without any head, or with the same one twice.
        IndexError: for a head that the model does not have.
    """
    chosen = sorted(heads)
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"The heads to average are {list(heads)}; there must be at least one, each only once.")
    n_layers, n_heads = run.config.n_layers, run.config.n_heads
    total = torch.zeros(len(run.tokens), len(run.tokens), dtype=torch.float64)
    for layer in dict.fromkeys(layer for layer, _ in chosen):
        of_layer = [head for one, head in chosen if one == layer]
        if not (0 <= layer < n_layers and all(0 <= head < n_heads for head in of_layer)):
            raise IndexError(f"Layer {layer}, heads {of_layer}: this model has {n_layers} layers of {n_heads}.")
        total += run[f"blocks.{layer}.attn.hook_pattern"][of_layer].cpu().double().sum(0)
    return (total / len(chosen)).float()


def without_first(weights: Tensor, hidden: Tensor) -> View:
    """The same attention with the first token left out and each row divided by what it gave to the others.

    Rows then sum to 1 again. A row that may read no other key (the first token's own, in a causal model) is
    hidden; one that could and gave the first token everything stays 0.
    Heads with nothing to do park their attention on the first token (the "sink", Xiao et al. 2023), and that
    hides what the rest of it does.
    """
    rest = weights.double().clone()
    rest[..., 0] = 0
    sums = rest.sum(-1, keepdim=True)
    shares = torch.where(sums > 0, rest / sums.clamp_min(torch.finfo(torch.float64).tiny), 0).float()
    gone = hidden.clone()
    gone[:, 0] = True
    gone |= gone.all(-1, keepdim=True)
    return View(shares, gone)


def at_least(weights: Tensor, threshold: float) -> Tensor:
    """`weights` with 0 for those below `threshold`."""
    return weights.where(weights >= threshold, 0)
