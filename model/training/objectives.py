"""What a run learns: where its batches come from, and how far the model is off on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from model.training.data import Mixture


@dataclass(frozen=True)
class Batch:
    """One step's work in this process: micro-batches, each a few tensors, and what is counted over all processes.

    `tokens` are read in the step; the loss is a mean over `predicted` of them.
    """

    parts: Sequence[tuple[Tensor, ...]]
    tokens: int
    predicted: int


class Objective(Protocol):
    """A task for the training loop. Its state is all that decides the batches to come."""

    def draw(self, tokens: int, micro_tokens: int, length: int, rank: int, world: int) -> Batch:
        """The next batch of about `tokens` tokens, in micro-batches of at most `micro_tokens`; moves the state."""

    def loss(self, model: nn.Module, part: tuple[Tensor, ...]) -> Tensor:
        """The sum of the losses of a micro-batch's predicted tokens, nats."""

    def state(self) -> dict[str, Any]:
        """JSON values from which `restore` continues."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a saved state.

        Raises:
            ValueError: if the state is of other text; the message names what differs.
        """


class NextToken:
    """Every token of a text from those before it, the text cut into rows of equal length."""

    def __init__(self, mixture: Mixture) -> None:
        self.mixture = mixture

    def draw(self, tokens: int, micro_tokens: int, length: int, rank: int, world: int) -> Batch:
        """Rows of `length` tokens; each process takes every `world`-th."""
        rows = tokens // length // world * world
        own = torch.from_numpy(self.mixture.batch(rows, length)[rank::world])
        parts = [(part,) for part in own.split(max(1, micro_tokens // length))]
        return Batch(parts, rows * length, rows * length)

    def loss(self, model: nn.Module, part: tuple[Tensor, ...]) -> Tensor:
        """Cross-entropy, nats."""
        (rows,) = part
        logits = model(rows[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten(), reduction="sum")

    def state(self) -> dict[str, Any]:
        """How much each stream has given, and the shares that decide which comes next."""
        return {"positions": list(self.mixture.positions), "shares": self.mixture.shares.tolist()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a saved state.

        Raises:
            ValueError: for other shares.
        """
        if state["shares"] != self.mixture.shares.tolist():
            raise ValueError("the corpora")
        self.mixture.positions = list(state["positions"])
