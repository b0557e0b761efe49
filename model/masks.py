"""Which query may read which key. A mask is boolean, `(B, 1, T, S)`, true where attention is allowed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class MaskRule:
    """What a query may read.

    `causal`: no later key. `window`: at most this many keys, itself included (Child et al. 2019; Beltagy et
    al. 2020), both ways when not causal. `prefix`: the first `prefix` positions are open to everyone,
    whatever `causal` says (prefix LM, Raffel et al. 2020).

    Raises:
        ValueError: for a window that does not even hold the token itself, or a negative prefix.
    """

    causal: bool = True
    window: int | None = None
    prefix: int = 0

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"The window is {self.window}; it must hold at least the token itself.")
        if self.prefix < 0:
            raise ValueError(f"The prefix is {self.prefix}; it must not be negative.")

    def mask(self, query_positions: Tensor, key_positions: Tensor, key_valid: Tensor) -> Tensor:
        """The mask `(B, 1, T, S)` of queries at `(B, T)` and keys at `(B, S)`.

        It compares positions, not slots, so a cache (the queries are the last rows) and padding on either
        side need no case of their own. `key_valid` `(B, S)` is false for padding and unused slots.
        """
        distance = query_positions[:, :, None] - key_positions[:, None, :]  # (B, T, S), > 0: the key is earlier
        allowed = distance >= 0 if self.causal else torch.ones_like(distance, dtype=torch.bool)
        if self.window is not None:
            allowed = allowed & (distance.abs() < self.window)
        if self.prefix:
            allowed = allowed | (key_positions < self.prefix)[:, None, :]
        return (allowed & key_valid[:, None, :])[:, None]
