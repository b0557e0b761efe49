"""Bits per character on text that was held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from model.training.data import Codec


@dataclass(frozen=True)
class Score:
    """Totals over a set of texts: tokens predicted, characters they make, and the loss in nats."""

    tokens: int
    characters: int
    nats: float

    @property
    def nats_per_token(self) -> float:
        """Mean cross-entropy, nats."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """e to the mean cross-entropy."""
        return math.exp(self.nats_per_token)

    @property
    def bits_per_character(self) -> float:
        """Independent of how the tokenizer cuts the text, so models with different ones compare."""
        return self.nats / math.log(2) / self.characters


@torch.inference_mode()
def score(transformer: nn.Module, codec: Codec, texts: Sequence[str], separator: int, max_tokens: int = 512) -> Score:
    """How well a decoder predicts each text, read alone behind one separator token, in the weights' dtype.

    Of each text, the first `max_tokens` tokens count, the separator included (it is read, not predicted).

    Raises:
        ValueError: if there is nothing to predict.
    """
    device = next(transformer.parameters()).device
    was_training = transformer.training
    transformer.eval()
    tokens = characters = 0
    nats = 0.0
    for text in texts:
        ids = codec.encode(text)[: max_tokens - 1]
        if not ids:
            continue
        logits = transformer(torch.tensor([[separator, *ids[:-1]]], device=device))[0]  # (T, vocab_size)
        labels = torch.tensor(ids, device=device)
        nats += float(nn.functional.cross_entropy(logits.float(), labels, reduction="sum"))
        tokens += len(ids)
        characters += len(codec.decode(ids))
    transformer.train(was_training)
    if not tokens:
        raise ValueError("There is no held-out text to measure on.")
    return Score(tokens, characters, nats)
