"""Masked language modelling (Devlin et al. 2018): guess hidden tokens from those on both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from model.training.lengths import LengthBatches, padded
from model.training.objectives import Batch

RATE = 0.15  # of a text's tokens are to be guessed
HIDDEN, SWAPPED = 0.8, 0.1  # of those: shown as [MASK], as a random token; the rest is shown as it is


class Masks(NamedTuple):
    """What masking needs to know of a vocabulary: its size, the mask's id, and the special ids (the first ones)."""

    vocab_size: int
    mask: int
    n_special: int


def hide(row: Sequence[int], masks: Masks, generator: np.random.Generator) -> tuple[list[int], list[bool]]:
    """The text as the model gets it, and which of its tokens are to be guessed.

    15 % of the tokens that are not special, one at least. A model that only ever saw [MASK] would learn nothing of
    the tokens that it can see; so one in ten is another token and one in ten is left as it is, and the model cannot
    know which.
    """
    places = [i for i, token in enumerate(row) if token >= masks.n_special]
    if not places:
        return list(row), [False] * len(row)
    chosen = generator.choice(places, size=max(1, round(RATE * len(places))), replace=False)
    shown, asked = list(row), [False] * len(row)
    for place, luck in zip(chosen.tolist(), generator.random(len(chosen)).tolist(), strict=True):
        asked[place] = True
        if luck < HIDDEN:
            shown[place] = masks.mask
        elif luck < HIDDEN + SWAPPED:
            shown[place] = int(generator.integers(masks.n_special, masks.vocab_size))
    return shown, asked


class MaskedTokens:
    """The hidden tokens of texts, which stand alone, each between its special tokens.

    What is hidden depends on the seed and the number of micro-batches drawn before, so no two epochs hide the same.
    """

    def __init__(self, rows: Sequence[Sequence[int]], masks: Masks, seed: int) -> None:
        self.rows, self.masks, self.seed = rows, masks, seed
        self.batches = LengthBatches([len(row) for row in rows], seed)

    def draw(self, tokens: int, micro_tokens: int, length: int, rank: int, world: int) -> Batch:
        """About `tokens` tokens, padding included; `length` means nothing here."""
        parts = []
        count = predicted = 0
        for _ in range(max(1, tokens // micro_tokens // world) * world):
            generator = np.random.default_rng((self.seed, 1, self.batches.drawn))
            part = self.part(self.batches.next(micro_tokens), generator)
            count, predicted = count + int(part[1].sum()), predicted + int(part[2].sum())
            parts.append(part)
        return Batch(parts[rank::world], count, predicted)

    def part(self, numbers: Sequence[int], generator: np.random.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rows as shown `(B, T)`, where they are real, where they are asked for, and the answers `(asked,)`."""
        hidden = [hide(self.rows[i], self.masks, generator) for i in numbers]
        shown, real = padded([row for row, _ in hidden])
        asked, _ = padded([row for _, row in hidden])
        truth, _ = padded([self.rows[i] for i in numbers])
        return shown, real, asked.bool(), truth[asked.bool()]

    def loss(self, model: nn.Module, part: tuple[Tensor, ...]) -> Tensor:
        """Cross-entropy of the hidden tokens, nats."""
        shown, real, asked, answers = part
        logits = model(shown, real, only=asked)  # (asked, vocab_size)
        return nn.functional.cross_entropy(logits.float(), answers, reduction="sum")

    def state(self) -> dict[str, Any]:
        """How many micro-batches were drawn, and from how many texts."""
        return {"drawn": self.batches.drawn, "texts": len(self.rows)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a saved state.

        Raises:
            ValueError: for another number of texts.
        """
        if state["texts"] != len(self.rows):
            raise ValueError("the texts")
        self.batches.drawn = state["drawn"]


@torch.inference_mode()
def masked_score(transformer: nn.Module, texts: MaskedTokens, micro_tokens: int = 4096) -> dict[str, float]:
    """How many hidden tokens of the texts, each hidden once by a fixed seed, the model guesses, and its mean loss."""
    was_training = transformer.training
    transformer.eval()
    generator = np.random.default_rng((texts.seed, 2))
    right = asked_for = 0
    nats = 0.0
    device = next(transformer.parameters()).device
    for numbers in texts.batches.once(micro_tokens):
        shown, real, asked, answers = (tensor.to(device) for tensor in texts.part(numbers, generator))
        logits = transformer(shown, real, only=asked).float()
        nats += float(nn.functional.cross_entropy(logits, answers, reduction="sum"))
        right += int((logits.argmax(-1) == answers).sum())
        asked_for += len(answers)
    transformer.train(was_training)
    if not asked_for:
        raise ValueError("There is no held-out text to hide tokens of.")
    return {"hidden": asked_for, "accuracy": round(right / asked_for, 4), "nats_per_token": round(nats / asked_for, 4)}
