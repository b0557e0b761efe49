"""What a text's own tokens cost the model, and how open a distribution is: cross-entropy, perplexity, entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def token_losses(logits: Tensor, ids: Tensor | Sequence[int]) -> Tensor:
    """The cross-entropy of every token but the first: -log p(token t + 1 | tokens up to t).

    Args:
        logits: `(T, V)`, row t from the tokens up to and including t.
        ids: the T token ids.

    Returns:
        `(T - 1,)` losses in nats, float32, on the device of the logits.

    Raises:
        ValueError: if logits and ids do not belong together.
    """
    targets = torch.as_tensor(ids, device=logits.device)
    if logits.dim() != 2 or targets.shape != logits.shape[:1]:
        raise ValueError(f"{list(logits.shape)} logits do not belong to {list(targets.shape)} token ids.")
    if targets.numel() and not bool(((targets >= 0) & (targets < logits.shape[1])).all()):
        raise ValueError(f"Token ids must be between 0 and {logits.shape[1] - 1}.")
    return F.cross_entropy(logits[:-1].float(), targets[1:], reduction="none")


def perplexity(losses: Tensor) -> float:
    """e to the mean of losses in nats: among how many equally likely tokens the model was choosing, so to say.

    Infinite where the mean is too large for a float.

    Raises:
        ValueError: without losses: the first token of a text has none.
    """
    if losses.numel() == 0:
        raise ValueError("Perplexity needs at least two tokens: the first one has no loss.")
    mean = float(losses.double().mean())
    return math.exp(mean) if mean < 709 else math.inf


def entropy(probabilities: Tensor) -> Tensor:
    """Entropy of distributions over the last axis, bits: `(..., V)` to `(...)`, in their own dtype. 0 · log 0 is 0."""
    bits: Tensor = torch.special.entr(probabilities).sum(-1) / math.log(2)
    return bits
