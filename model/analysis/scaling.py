"""Why scores are divided by √d: what grows without it (Vaswani et al. 2017, section 3.2.1, footnote 4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.analysis.attention_steps import HeadSteps
from model.losses import entropy


@dataclass(frozen=True)
class Scaling:
    """One head size `d`: measured on random vectors, with and without the division by √d.

    `variance` of the dot products; `entropy` of the softmax rows, bits; `gradient`, the mean size of what
    reaches a row's scores through the softmax (see `softmax_gradient`).
    """

    d: int
    variance: float
    variance_scaled: float
    entropy: float
    entropy_scaled: float
    gradient: float
    gradient_scaled: float


def softmax_gradient(scores: Tensor) -> Tensor:
    """How strongly a softmax row answers to its scores: `(..., S)` to `(...)`.

    The Frobenius norm of the Jacobian diag(p) - p pᵀ: √(Σp² - 2Σp³ + (Σp²)²). 0 for a spike: nothing can be
    learned through it any more.
    """
    p = scores.softmax(-1)
    squares = p.pow(2).sum(-1)
    return (squares - 2 * p.pow(3).sum(-1) + squares.pow(2)).clamp_min(0).sqrt()


def scaling_by_size(
    sizes: Sequence[int] = (4, 8, 16, 32, 64, 128, 256), *, keys: int = 32, queries: int = 256, seed: int = 0
) -> list[Scaling]:
    """Measure on independent standard normal queries and keys: `queries` rows over `keys` keys for each size.

    Raises:
        ValueError: for a size below 1.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for d in sizes:
        if d < 1:
            raise ValueError(f"A head of {d} features does not exist.")
        q = torch.randn(queries, d, generator=generator)
        k = torch.randn(queries, keys, d, generator=generator)
        scores = torch.einsum("qd,qkd->qk", q, k)
        scaled = scores / math.sqrt(d)
        rows.append(
            Scaling(
                d,
                *(float(s.var()) for s in (scores, scaled)),
                *(float(entropy(s.softmax(-1)).mean()) for s in (scores, scaled)),
                *(float(softmax_gradient(s).mean()) for s in (scores, scaled)),
            )
        )
    return rows


@dataclass(frozen=True)
class HeadScaling:
    """One head of a run, with or without the division by √d.

    `variance` of the scores that a query may read; `entropy` (bits) and `gradient` (see `softmax_gradient`), means
    over the queries that may read something. `row_entropy`, `row_gradient` and `row_top`, the largest weight, are
    of one query: all 0 where it may read nothing.
    """

    variance: float
    entropy: float
    gradient: float
    row_entropy: float
    row_gradient: float
    row_top: float


def head_scaling(steps: HeadSteps, query: int) -> HeadScaling:
    """Measure a head as it was taken apart, that is with `head_steps(..., scaling=True)` or `False`.

    Raises:
        IndexError: for a query outside of the text.
    """
    alive = steps.visible.any(-1)
    rows, row = steps.masked[alive].double(), steps.masked[query].double()
    seen = steps.scaled[steps.visible].double()
    return HeadScaling(
        variance=float(seen.var(correction=0)) if len(seen) else 0.0,
        entropy=float(entropy(rows.softmax(-1)).mean()) if len(rows) else 0.0,
        gradient=float(softmax_gradient(rows).mean()) if len(rows) else 0.0,
        row_entropy=float(entropy(row.softmax(-1))) if bool(alive[query]) else 0.0,
        row_gradient=float(softmax_gradient(row)) if bool(alive[query]) else 0.0,
        row_top=float(steps.pattern[query].max()),
    )
