"""One-hot vectors against embeddings: sizes, and that looking a row up is a product with a one-hot vector."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from model.trace import Trace
from model.transformer import Transformer


@dataclass(frozen=True)
class LookUp:
    """A token's embedding `row` (d_model,), and the largest `difference` from its one-hot vector times the matrix.

    Sizes count numbers: `one_hot` (the vocabulary) and `embedding` (d_model) of a token, `matrix` of all rows.
    `number_bytes`: bytes of one number as the model keeps it.
    """

    token: int
    row: Tensor
    difference: float
    one_hot: int
    embedding: int
    matrix: int
    number_bytes: int


def look_up(transformer: Transformer, token: int) -> LookUp:
    """The look-up of a token.

    Raises:
        ValueError: if the model has no such token.
    """
    weight = transformer.embed.weight.detach()
    size, width = weight.shape
    if not 0 <= token < size:
        raise ValueError(f"There is no token {token}: the model has {size}.")
    one_hot = torch.zeros(size, dtype=weight.dtype, device=weight.device)
    one_hot[token] = 1
    row = weight[token]
    difference = float((one_hot @ weight - row).abs().max())
    return LookUp(token, row.float().cpu(), difference, size, width, size * width, transformer.weights_dtype.itemsize)


def difference_from_run(run: Trace, position: int) -> float:
    """The largest difference of a token's row (as the model scales it) from what the run began with at its position."""
    with torch.no_grad():
        row = run.module("embed")(torch.tensor(run.tokens[position], device=run["hook_embed"].device))
    if run.config.scale_embeddings:
        row = row * math.sqrt(run.config.d_model)
    return float((row - run["hook_embed"][position]).abs().max())
