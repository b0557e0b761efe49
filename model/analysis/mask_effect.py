"""What a mask does to the guesses: the same text under two masks, and which answers were in sight."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from model.losses import token_losses
from model.trace import Trace


@dataclass(frozen=True)
class MaskEffect:
    """What each token but the first cost, in bits (−log₂ of the probability that it got), under two masks.

    `before`, `after` `(T - 1,)`, NaN where the guess was made from a token that is hidden as padding in either run:
    those do not count. `in_sight` `(T - 1,)` is true where the second mask let the model read the very token that it
    had to guess. The means are over what counts, and over what of it is in sight; None where there is none.
    """

    before: Tensor
    after: Tensor
    in_sight: Tensor
    mean_before: float | None
    mean_after: float | None
    mean_before_in_sight: float | None
    mean_after_in_sight: float | None


def mask_effect(before: Trace, after: Trace) -> MaskEffect:
    """Compare two runs of the same tokens; `before` is the one to measure against.

    An answer is in sight when the token before it may read it. With several layers it could also pass from token to
    token, but under any mask of a causal, open, windowed or prefix kind it then is in sight as well.

    Raises:
        ValueError: if the runs are not of the same tokens.
    """
    if before.tokens != after.tokens:
        raise ValueError("The runs are of different tokens.")
    costs = [token_losses(run.logits, run.tokens).cpu().double() / math.log(2) for run in (before, after)]
    scores = after["blocks.0.attn.hook_attn_scores"][0].cpu()
    counted = torch.arange(len(before.tokens) - 1) >= max(before.padding, after.padding)
    in_sight = counted & ~torch.isneginf(scores.diagonal(1))
    means = [_mean(cost[chosen]) for chosen in (counted, in_sight) for cost in costs]
    before_, after_ = (cost.float().masked_fill(~counted, torch.nan) for cost in costs)
    return MaskEffect(before_, after_, in_sight, *means)


def _mean(costs: Tensor) -> float | None:
    return float(costs.mean()) if len(costs) else None
