"""Time to read a text, and to go back through it, by its length: all four networks in turn, one point at a time."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from model.analysis.recurrence import KINDS, Build, Kind, Network, build_network, random_texts

LENGTHS = (16, 32, 64, 128, 256, 512, 1_024, 2_048)
_ONE_AT_A_TIME = threading.Lock()  # who else measures would spoil the time


@dataclass(frozen=True)
class Timing:
    """Reading one text of `length` tokens. Seconds of the fastest of `runs` runs: what else the machine does counts
    least. `forward`: to the logits of the last token; `backward`: from there to all weights.
    """

    kind: Kind
    length: int
    forward: float
    backward: float
    runs: int


class TimeRace:
    """All four networks at every length up to `longest`, shortest first. `points`: what is measured so far.

    `device` is "cpu" or "cuda"; on a GPU the clock waits until it has finished.

    Raises:
        ValueError: if there is no such length.
    """

    def __init__(self, build: Build, longest: int = LENGTHS[-1], device: str = "cpu") -> None:
        self.build, self.device = build, device
        self.lengths = tuple(n for n in LENGTHS if n <= longest)
        if not self.lengths:
            raise ValueError(f"The shortest length that is measured is {LENGTHS[0]}.")
        self.points: list[Timing] = []
        self._networks: dict[Kind, Network] = {kind: build_network(kind, build).to(device) for kind in KINDS}

    @property
    def count(self) -> int:
        """Points in all: for each length the four kinds, one after the other, several times in turn."""
        return len(self.lengths) * len(KINDS)

    @property
    def done(self) -> bool:
        """Whether all is measured."""
        return len(self.points) == self.count

    @property
    def next_length(self) -> int:
        """The length that `advance` measures."""
        return self.lengths[len(self.points) // len(KINDS)]

    def advance(self, *, seconds: float = 0.4, most: int = 12) -> None:
        """Measure all four at the next length, in turns, for about `seconds` or `most` turns; nothing when done."""
        with _ONE_AT_A_TIME, torch.enable_grad():
            if not self.done:
                self._measure(self.next_length, seconds, most)

    def _measure(self, length: int, seconds: float, most: int) -> None:
        ids = random_texts(self.build.vocabulary, 1, length).to(self.device)
        spent: dict[Kind, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
        for network in self._networks.values():
            _timed(network, ids)  # the first time is slower
        begun = time.perf_counter()
        turns = 0
        while turns < 2 or (turns < most and time.perf_counter() - begun < seconds):
            for kind, network in self._networks.items():
                spent[kind].append(_timed(network, ids))
            turns += 1
        for kind, times in spent.items():
            forward, backward = (min(column) for column in zip(*times, strict=True))
            self.points.append(Timing(kind, length, forward, backward, turns))

    def of(self, kind: Kind, what: str) -> list[float]:
        """ "forward" or "backward" of one network at each of `lengths`; NaN where it is not measured yet."""
        found = {point.length: float(getattr(point, what)) for point in self.points if point.kind == kind}
        return [found.get(length, float("nan")) for length in self.lengths]


def _timed(network: Network, ids: torch.Tensor) -> tuple[float, float]:
    network.zero_grad()
    begun = _now(ids)
    loss = F.cross_entropy(network(ids), ids[:, 0])
    middle = _now(ids)
    loss.backward()
    return middle - begun, _now(ids) - middle


def _now(ids: torch.Tensor) -> float:
    """Seconds on a clock, when all that was asked of the device is done."""
    if ids.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter()
