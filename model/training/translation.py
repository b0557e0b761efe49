"""Learning to translate: every token of a translation from the source and the tokens before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from model.training.lengths import LengthBatches, padded
from model.training.objectives import Batch


class Translation:
    """Pairs of ids: sources as the encoder reads them, and targets, which get the token `begin` in front.

    A micro-batch holds pairs of similar length, a step several micro-batches. Labels are smoothed: `smoothing` of
    each one's weight is spread over the whole vocabulary (Szegedy et al. 2015).
    """

    def __init__(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], begin: int, seed: int, smoothing: float
    ) -> None:
        self.sources = [source for source, _ in pairs]
        self.targets = [[begin, *target] for _, target in pairs]
        self.smoothing = smoothing
        self.batches = LengthBatches([len(s) + len(t) for s, t in zip(self.sources, self.targets)], seed)

    def draw(self, tokens: int, micro_tokens: int, length: int, rank: int, world: int) -> Batch:
        """About `tokens` tokens of both sides, padding included; `length` means nothing here."""
        chosen = [self.batches.next(micro_tokens) for _ in range(max(1, tokens // micro_tokens // world) * world)]
        rows = [i for part in chosen for i in part]
        count = sum(self.batches.lengths[i] for i in rows)
        predicted = sum(len(self.targets[i]) - 1 for i in rows)
        return Batch([self.part(part) for part in chosen[rank::world]], count, predicted)

    def part(self, numbers: Sequence[int]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Sources `(B, S)` and where they are real, targets without their last token `(B, T)` and where they are
        real, and the labels of those `(N,)`."""
        sources, source_real = padded([self.sources[i] for i in numbers])
        inputs, real = padded([self.targets[i][:-1] for i in numbers])
        labels, _ = padded([self.targets[i][1:] for i in numbers])
        return sources, source_real, inputs, real, labels[real]

    def loss(self, model: nn.Module, part: tuple[Tensor, ...]) -> Tensor:
        """Cross-entropy against smoothed labels, nats."""
        return _cross_entropy(model, part, self.smoothing)

    def state(self) -> dict[str, Any]:
        """How many micro-batches were drawn, and from how many pairs."""
        return {"drawn": self.batches.drawn, "pairs": len(self.sources)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a saved state.

        Raises:
            ValueError: for another number of pairs.
        """
        if state["pairs"] != len(self.sources):
            raise ValueError("the pairs")
        self.batches.drawn = state["drawn"]


@torch.inference_mode()
def nats_per_token(transformer: nn.Module, pairs: Translation, micro_tokens: int = 4096) -> float:
    """Mean cross-entropy of the translations' tokens, labels not smoothed."""
    was_training = transformer.training
    transformer.eval()
    device = next(transformer.parameters()).device
    nats, predicted = 0.0, 0
    for numbers in pairs.batches.once(micro_tokens):
        part = tuple(tensor.to(device) for tensor in pairs.part(numbers))
        nats += float(_cross_entropy(transformer, part, 0.0))
        predicted += len(part[-1])
    transformer.train(was_training)
    return nats / predicted


def _cross_entropy(model: nn.Module, part: tuple[Tensor, ...], smoothing: float) -> Tensor:
    sources, source_real, inputs, real, labels = part
    # The targets' own padding stands at the end, where no real token reads it: no mask is needed.
    logits = model(inputs, encoder_ids=sources, encoder_mask=source_real, only=real)
    return nn.functional.cross_entropy(logits.float(), labels, reduction="sum", label_smoothing=smoothing)
