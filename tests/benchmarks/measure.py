"""Timing things fairly: in turns, repeated, with median and spread; and what comes of it as a line of the table."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """Repeated measurements of one thing, in the order in which they were taken: seconds, unless said otherwise."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        if len(self.values) < 2 or self.median == 0:
            return 0.0
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return (high - low) / 2 / self.median

    def share(self, quantile: float) -> float:
        """The smallest value that at least this share of the measurements does not exceed."""
        return sorted(self.values)[max(0, math.ceil(quantile * len(self.values)) - 1)]


@dataclass(frozen=True)
class Result:
    """One line of the table.

    value: the figure, in `unit` ("×" for a ratio); it is to be at most (or at least) `target`, None where it is only
    told. spread: half the distance between the quartiles, as a share. sides: what a ratio is of, ours first, and their
    unit.
    """

    name: str
    what: str
    value: float
    unit: str
    target: float | None
    at_most: bool
    spread: float
    sides: tuple[float, float, str] | None = None

    @property
    def reached(self) -> bool | None:
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target

    @property
    def measured(self) -> str:
        """The figure as a table prints it."""
        own = f"{printed(self.value)} {self.unit}"
        if self.sides is None:
            return own
        ours, other, unit = self.sides
        return f"{printed(ours)} : {printed(other)} {unit} = {own}"

    @property
    def wanted(self) -> str:
        """The target as a table prints it."""
        if self.target is None:
            return ""
        bound = f"{'≤' if self.at_most else '≥'} {printed(self.target)} {self.unit}"
        return bound if self.reached else f"{bound} (not reached)"


def printed(value: float) -> str:
    """Three digits, as many of them behind the point as it takes."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def slowdown(name: str, what: str, ours: Sample, other: Sample, *, target: float | None) -> Result:
    """How many times as long as the other one ours takes; to be at most `target`. Both were taken in turns."""
    return _ratio(name, what, ours, other, target, True, (ours.median * 1e3, other.median * 1e3, "ms"))


def speedup(
    name: str,
    what: str,
    ours: Sample,
    other: Sample,
    *,
    target: float | None,
    amount: float | None = None,
    unit: str = "tokens/s",
) -> Result:
    """How many times as fast as the other one ours is; to be at least `target`. Both were taken in turns.

    amount: of what each of them does in one measurement; the sides are then told as `unit` instead of milliseconds.
    """
    if amount is None:
        sides = (ours.median * 1e3, other.median * 1e3, "ms")
    else:
        sides = (amount / ours.median, amount / other.median, unit)
    return _ratio(name, what, ours, other, target, False, sides)


def figure(
    name: str, what: str, of: Sample, unit: str, *, target: float | None, scale: float = 1, value: float | None = None
) -> Result:
    """A figure that is judged by itself: the median, or another `value` of the sample, times `scale`, in `unit`."""
    return Result(name, what, (of.median if value is None else value) * scale, unit, target, True, of.spread)


def _ratio(
    name: str,
    what: str,
    ours: Sample,
    other: Sample,
    target: float | None,
    at_most: bool,
    sides: tuple[float, float, str],
) -> Result:
    # Of neighbours in time: what slows the machine down for a while slows both of them down.
    pairs = zip(ours.values, other.values, strict=True)
    ratios = Sample(tuple(a / b if at_most else b / a for a, b in pairs))
    return Result(name, what, ratios.median, "×", target, at_most, ratios.spread, sides)


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
