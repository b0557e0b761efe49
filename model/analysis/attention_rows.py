"""One query's row of a head: where it looks, what it takes along, what the head adds to the stream for it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from model.analysis.attention_steps import HeadSteps
from model.trace import Trace


@dataclass(frozen=True)
class RowWeights:
    """The largest weights of one query: `keys` and their `weights`, descending; on a tie the earlier key first.

    `n_visible` keys were in reach; `rest` is what those that are not listed hold together.
    """

    keys: tuple[int, ...]
    weights: tuple[float, ...]
    n_visible: int
    rest: float


def largest_weights(steps: HeadSteps, query: int, count: int) -> RowWeights:
    """At most `count` keys that the query may read.

    Raises:
        IndexError: for a query outside of the text.
    """
    row = steps.pattern[query]
    visible = steps.visible[query].nonzero()[:, 0]
    order = visible[row[visible].argsort(descending=True, stable=True)]
    kept, rest = order[:count], order[count:]
    return RowWeights(tuple(kept.tolist()), tuple(row[kept].tolist()), len(visible), float(row[rest].double().sum()))


@dataclass(frozen=True)
class Written:
    """What one head adds for one token.

    `vector` `(d_model,)`; its length, and the length of the stream's vector that it is added to (Euclidean).
    """

    vector: Tensor
    length: float
    stream_length: float


def written_by_head(run: Trace, steps: HeadSteps, query: int) -> Written:
    """The head's own share of what attention adds to the stream at a token (bias aside)."""
    stream = run[f"blocks.{steps.layer}.hook_resid_pre"][query].float().cpu()
    vector = steps.out[query]
    return Written(vector, float(torch.linalg.vector_norm(vector)), float(torch.linalg.vector_norm(stream)))
