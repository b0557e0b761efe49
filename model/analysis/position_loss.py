"""What each token costs a model, by how far from the beginning of what it reads the token stands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from model.transformer import Transformer

ROWS_AT_ONCE = 32  # of 129 tokens, in a model with a vocabulary of a thousand: 16 MB of logits


def windows(ids: Sequence[int], length: int, stride: int) -> Tensor:
    """Every window of `length` tokens and the one after it that begins at a multiple of `stride`.

    Returns `(N, length + 1)`: inputs and, shifted by one, what is to be predicted. With a small stride nearly
    every token of the text is predicted once at every position, so that positions compare on the same tokens.

    Raises:
        ValueError: if the text is too short for one window.
    """
    if len(ids) <= length:
        raise ValueError(f"The text has {len(ids)} tokens; one window needs {length + 1}.")
    return torch.tensor(ids).unfold(0, length + 1, stride)


@torch.inference_mode()
def bits_by_position(transformer: Transformer, rows: Tensor) -> Tensor:
    """The cross-entropy of each next token, bits.

    Rows `(N, T + 1)`, as `windows` makes them, to `(N, T)`: column t is the token after t + 1 tokens were read,
    the last of which stands at position t.
    """
    parts = []
    for part in rows.split(ROWS_AT_ONCE):
        logits = transformer(part[:, :-1]).float()
        nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="none")
        parts.append(nats.view(len(part), -1) / math.log(2))
    return torch.cat(parts)
