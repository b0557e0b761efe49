"""How the next token is chosen: the reader's controls."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class SamplingSettings:
    """How the next token is chosen.

    temperature: logits are divided by it; 0 takes the most probable token (arg-max), without any division.
    top_k: keep the k most probable tokens; 0 is off.
    top_p: keep the smallest set of most probable tokens whose mass reaches p; 1 is off.
    min_p: keep tokens at least this fraction as probable as the most probable one; 0 is off.
    repetition_penalty: logits of tokens that occurred before are divided by it where positive and multiplied
        where negative, once per distinct token; 1 is off.
    seed: for the draw.

    Raises:
        ValueError: for a value out of range, with a sentence that says what is allowed.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        # Each comparison is false for NaN, so NaN is refused too.
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"The temperature is {self.temperature}; it must be 0 (most probable token) or more.")
        if not _whole(self.top_k) or self.top_k < 0:
            raise ValueError(f"Top-k is {self.top_k}; it must be a whole number, 0 (off) or more.")
        if not 0 <= self.top_p <= 1:
            raise ValueError(f"Top-p is {self.top_p}; it must lie between 0 and 1 (off).")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"Min-p is {self.min_p}; it must lie between 0 (off) and 1.")
        if not 0 < self.repetition_penalty < math.inf:
            raise ValueError(f"The repetition penalty is {self.repetition_penalty}; it must be above 0 (1 is off).")
        if not _whole(self.seed) or not 0 <= self.seed < 2**63:
            raise ValueError(f"The seed is {self.seed}; it must be a whole number from 0 to 2**63 - 1.")

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is taken, so that nothing is drawn."""
        return self.temperature == 0


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
