"""Learning-rate schedules over a run whose length is planned in steps or in time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

Shape = Literal["cosine", "linear", "wsd"]


@dataclass(frozen=True)
class Schedule:
    """The factor on every peak learning rate.

    `warmup` steps rise linearly from 0. Then, by `shape`: "cosine" falls along half a cosine (Loshchilov &
    Hutter 2016), "linear" along a straight line, "wsd" (warm-up, stable, decay; Hu et al. 2024) stays at the
    peak for the fraction `hold` of the run and falls along a straight line after. All end at `floor`.

    Raises:
        ValueError: for a shape that is not one of these, or a fraction outside 0 … 1.
    """

    shape: Shape = "wsd"
    warmup: int = 100
    hold: float = 0.3
    floor: float = 0.0

    def __post_init__(self) -> None:
        if self.shape not in get_args(Shape):
            raise ValueError(f"The schedule is {self.shape!r}; choose one of {', '.join(get_args(Shape))}.")
        if not 0 <= self.hold < 1 or not 0 <= self.floor <= 1 or self.warmup < 0:
            raise ValueError("hold must be in [0, 1), floor in [0, 1], and warmup not negative.")

    def factor(self, step: int, progress: float) -> float:
        """The factor for step number `step` (from 0), when the fraction `progress` of the run is done."""
        progress = min(max(progress, 0.0), 1.0)
        if self.shape == "cosine":
            fall = 0.5 * (1 + math.cos(math.pi * progress))
        else:
            hold = self.hold if self.shape == "wsd" else 0.0
            fall = min(1.0, (1 - progress) / (1 - hold))
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        return rise * (self.floor + (1 - self.floor) * fall)
