"""What the model expects after each token of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from model.losses import entropy
from model.trace import Trace


@dataclass(frozen=True)
class Follower:
    """The token that follows in the text itself: its probability, and how many tokens the model liked better."""

    id: int
    probability: float
    rank: int


@dataclass(frozen=True)
class Guesses:
    """The distribution after one position: the likeliest `ids` with their `probabilities`, descending.

    `entropy` of the whole distribution, in bits; `choices`, 2 to the entropy, is the number of equally likely
    tokens that would leave the model as unsure. `follower` is None after the last token.
    """

    position: int
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]
    entropy: float
    follower: Follower | None

    @property
    def choices(self) -> float:
        """The perplexity of the distribution."""
        return math.exp2(self.entropy)


def guesses(run: Trace, position: int, count: int = 10) -> Guesses:
    """The softmax of one position's logits (fp32, over the whole vocabulary), its `count` likeliest tokens.

    Raises:
        IndexError: if the run has no such position.
    """
    n = len(run.tokens)
    if not 0 <= position < n:
        raise IndexError(f"Position {position}: this run has {n} tokens.")
    probabilities = run.logits[position].float().softmax(-1).cpu()
    values, ids = probabilities.topk(min(count, probabilities.numel()))
    bits = float(entropy(probabilities))
    follower = None
    if position + 1 < n:
        actual = run.tokens[position + 1]
        rank = int((probabilities > probabilities[actual]).sum())
        follower = Follower(actual, float(probabilities[actual]), rank)
    return Guesses(position, tuple(ids.tolist()), tuple(values.tolist()), bits, follower)


def follower_probabilities(run: Trace) -> Tensor:
    """`(T - 1,)`: for every token but the last, the probability that the model gave to the one after it."""
    following = torch.tensor(run.tokens[1:], dtype=torch.long)
    probabilities = run.logits[:-1].float().softmax(-1).cpu()
    return probabilities.gather(1, following[:, None])[:, 0]


def surest_and_most_surprised(run: Trace) -> tuple[int, int] | None:
    """The positions whose following token the model gave most, and least; None for a single token."""
    probabilities = follower_probabilities(run)
    if not len(probabilities):
        return None
    return int(probabilities.argmax()), int(probabilities.argmin())
