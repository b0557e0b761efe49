"""Micro-batches of rows of similar length, so that little of them is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor


class LengthBatches:
    """Row numbers in micro-batches, epoch after epoch, each epoch's rows shuffled anew.

    `lengths` are the rows' tokens; the order of epochs depends on `seed` alone, so `drawn`, the number of
    micro-batches given so far, is the whole state.
    """

    def __init__(self, lengths: Sequence[int], seed: int) -> None:
        if not lengths:
            raise ValueError("There is no text to make batches of.")
        self.lengths, self.seed = list(lengths), seed
        self.drawn = 0
        self._size = 0
        self._epoch = self._begun = 0  # the epoch that is planned, and the micro-batches before it
        self._plan: list[list[int]] = []

    def next(self, size: int) -> list[int]:
        """The next micro-batch: rows that fill, with padding, at most `size` tokens (but one row at least)."""
        if size != self._size or self.drawn < self._begun:
            self._size, self._epoch, self._begun = size, 0, 0
            self._plan = self._planned()
        while self.drawn - self._begun >= len(self._plan):
            self._begun += len(self._plan)
            self._epoch += 1
            self._plan = self._planned()
        self.drawn += 1
        return self._plan[self.drawn - 1 - self._begun]

    def once(self, size: int) -> list[list[int]]:
        """Every row once, for measuring: from the shortest to the longest."""
        order = sorted(range(len(self.lengths)), key=self.lengths.__getitem__)
        return list(_filled(order, self.lengths, size))

    def _planned(self) -> list[list[int]]:
        generator = np.random.default_rng((self.seed, self._epoch))
        shuffled = generator.permutation(len(self.lengths)).tolist()
        plan = list(_filled(sorted(shuffled, key=self.lengths.__getitem__), self.lengths, self._size))
        return [plan[i] for i in generator.permutation(len(plan))]


def _filled(order: Sequence[int], lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    part: list[int] = []
    for i in order:  # lengths rise, so the newest row is the widest
        if part and lengths[i] * (len(part) + 1) > size:
            yield part
            part = []
        part.append(i)
    if part:
        yield part


def padded(rows: Sequence[Sequence[int]], fill: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor `(B, T)`, filled up at the end, and the mask that is true where they are real."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    return ids, torch.arange(width) < lengths[:, None]
