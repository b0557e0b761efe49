"""What an attention head's numbers are checked against: plain Python, the fused kernel, and the sum of a row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from model.analysis.attention_steps import HeadSteps
from model.analysis.plain_attention import attention

CELLS = 4096  # how many cells plain Python computes at most: more would keep a reader waiting


@dataclass(frozen=True)
class PlainCheck:
    """Plain Python against torch on the same queries, keys and values.

    `first` to `last` are the queries that were compared. For each of the rows that `plain_attention.attention` returns
    the largest absolute difference, and the largest absolute value, of which it is one. Masked cells have to be minus
    infinity in both, or the difference is infinite.
    """

    first: int
    last: int
    differences: tuple[float, ...]
    largest: tuple[float, ...]


def compare_with_plain(steps: HeadSteps, query: int, cells: int = CELLS) -> PlainCheck:
    """Run plain Python on a head, on all queries where that makes at most `cells` cells, else on those up to `query`.

    At least the query itself is computed, however long the text. A query that may look at nothing is left out: it has
    no shares to compute.

    Raises:
        IndexError: for a query outside of the text.
    """
    n = len(steps.pattern)
    if not 0 <= query < n:
        raise IndexError(f"Query {query}: the text has {n} tokens.")
    count = min(n, max(1, cells // n))
    first = max(0, min(query + 1 - count, n - count))
    rows = [row for row in range(first, first + count) if bool(steps.visible[row].any())]
    k, v = steps.k.tolist(), steps.v.tolist()
    d = 1 if steps.scale == 1 else len(k[0])  # undivided is divided by √1
    mask = (steps.bias + torch.where(steps.visible, 0.0, -torch.inf)).tolist()
    plain = [attention(steps.q[row].tolist(), k, v, mask[row], d) for row in rows]
    # What ALiBi takes off counts as part of the scaled score; plain Python adds it with the mask.
    ours = (steps.scores, steps.scaled - steps.bias, steps.masked, steps.pattern, steps.z)
    pairs = [
        (mine[rows].double(), torch.tensor([of[step] for of in plain], dtype=torch.float64).reshape(len(rows), -1))
        for step, mine in enumerate(ours)
    ]
    return PlainCheck(
        first,
        first + count - 1,
        tuple(_difference(*pair) for pair in pairs),
        tuple(_largest(theirs) for _, theirs in pairs),
    )


def row_sum_error(steps: HeadSteps) -> float:
    """How far a row of the pattern is from the sum 1, at most; rows that may read no key are left out."""
    alive = steps.visible.any(-1)
    sums = steps.pattern[alive].double().sum(-1)
    return float((sums - 1).abs().max()) if len(sums) else 0.0


def _difference(mine: Tensor, theirs: Tensor) -> float:
    if not torch.equal(torch.isneginf(mine), torch.isneginf(theirs)):
        return float("inf")
    finite = torch.isfinite(mine)
    return float((mine[finite] - theirs[finite]).abs().max()) if bool(finite.any()) else 0.0


def _largest(values: Tensor) -> float:
    finite = values[torch.isfinite(values)]
    return float(finite.abs().max()) if len(finite) else 0.0
