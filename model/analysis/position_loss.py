"""What each token costs a model, by how far from the beginning of what it reads the token stands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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


@dataclass(frozen=True)
class Binned:
    """The loss on one text, averaged over bins of positions.

    `read`: how many tokens had been read at the middle of each bin. `bits`: mean bits per token. `windows`: how many
    stretches of the text were averaged (1: the text itself).
    """

    read: tuple[float, ...]
    bits: tuple[float, ...]
    windows: int


def binned_loss(transformer: Transformer, ids: Sequence[int], *, bin_size: int = 8, most_windows: int = 24) -> Binned:
    """The loss by position on a text of any length, up to the model's last position.

    A text that is longer than the model reads is cut into up to `most_windows` stretches that overlap, a shorter one
    is read once. A text of one token leaves nothing to predict: no bins.
    """
    length = min(len(ids) - 1, transformer.config.max_positions)
    if length < 1:
        return Binned((), (), 0)
    rows = windows(ids, length, max(1, math.ceil((len(ids) - length) / most_windows)))
    bits = bits_by_position(transformer, rows).double().mean(0)
    parts = bits.split(bin_size)
    if len(parts) > 1 and len(parts[-1]) < bin_size:  # a bin of few tokens would say more about them than about where
        parts = (*parts[:-2], torch.cat(parts[-2:]))
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    middles = tuple((first + 1 + stop) / 2 for first, stop in pairwise(ends))
    return Binned(middles, tuple(float(part.mean()) for part in parts), len(rows))
