"""Timing two things fairly: alternating, repeated, with median and spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """Seconds of repeated runs of one thing."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return (high - low) / 2 / self.median


@dataclass(frozen=True)
class Result:
    """One line of the table: `ours` against `other` (None where a figure is judged by itself), in `unit`.

    `target` is the bound on `ratio` (ours / other where smaller is better, other / ours where larger is; the
    caller computes it), `at_most` says which way.
    """

    name: str
    what: str
    ours: float
    other: float | None
    unit: str
    ratio: float
    target: float
    at_most: bool
    spread: float

    @property
    def reached(self) -> bool:
        return self.ratio <= self.target if self.at_most else self.ratio >= self.target


def alternate(*things: Callable[[], object], repeats: int = 15, warm_up: int = 2) -> list[Sample]:
    """Run things in turns, so that whatever else the machine does hits all of them alike."""
    for _ in range(warm_up):
        for thing in things:
            thing()
    seconds: list[list[float]] = [[] for _ in things]
    for _ in range(repeats):
        for thing, times in zip(things, seconds, strict=True):
            begun = time.perf_counter()
            thing()
            times.append(time.perf_counter() - begun)
    return [Sample(tuple(times)) for times in seconds]


def busy_share(seconds: float = 1.0) -> float:
    """How busy the machine is with other things, 0 to 1: a benchmark on a busy one is worth little."""
    import psutil

    return psutil.cpu_percent(interval=seconds) / 100
