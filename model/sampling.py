"""Choosing the next token: settings → ledger of probabilities → draw. (And what a chosen one costs.)"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from model.ledger import Ledger
from model.losses import perplexity, token_losses
from model.settings import SamplingSettings

__all__ = ["Draw", "Ledger", "SamplingSettings", "draw", "ledger", "perplexity", "random_numbers", "token_losses"]


def ledger(logits: Tensor, settings: SamplingSettings, previous_ids: Iterable[int] = ()) -> Ledger:
    """Put a model's logits for one position, shape `(V,)`, through the settings.

    `previous_ids` are the tokens so far, for the repetition penalty; they may repeat.

    Raises:
        ValueError: if the logits have another shape, are empty or not finite, or if a previous id is not in the
            vocabulary.
    """
    return Ledger(logits, settings, previous_ids)


def random_numbers(seed: int, place: int) -> torch.Generator:
    """The random numbers that a seed has for a text, from its token `place` on (0: the first token of the text).

    Every place has its own, so a token is drawn alike whether what stands before it was typed or written, and
    whether it is written in one go or token by token.
    """
    generator = torch.Generator().manual_seed(seed)
    torch.rand(place, generator=generator, dtype=torch.float64)
    return generator


@dataclass(frozen=True)
class Draw:
    """A drawn token. Final probabilities lie end to end from 0 to 1, the most probable token first; the random number
    `u` in [0, 1) falls into the interval from `low` (included) to `high` (excluded) of token `id`, whose final
    probability is `probability`. At temperature 0 nothing is drawn: `u` is 0 and the interval the whole bar.
    """

    id: int
    u: float
    low: float
    high: float
    probability: float


def draw(entries: Ledger, generator: torch.Generator) -> Draw:
    """Take a token by inverting the cumulative sum of the final probabilities, with one random number.

    The generator is a CPU one wherever the model runs, so that a seed means the same text everywhere. At temperature 0
    it is left alone.

    Raises:
        ValueError: for a generator on another device.
    """
    if generator.device.type != "cpu":
        raise ValueError(f"The generator is on {generator.device}; a draw needs one on the CPU.")
    greedy = entries.settings.greedy
    u = 0.0 if greedy else float(torch.rand((), generator=generator, dtype=torch.float64))
    ids, probabilities = entries.front(u)
    edges = probabilities.cumsum(0)
    place = int((edges <= u).sum())
    if place == len(edges):  # rounding left the bar a little short of u: it falls to the last token of any width
        place = int((edges < edges[-1]).sum())
    low = float(edges[place - 1]) if place else 0.0
    return Draw(int(ids[place]), u, low, float(edges[place]), float(probabilities[place]))
