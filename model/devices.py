"""What models run on here: devices, and how many cores."""

from __future__ import annotations

from functools import cache

import torch


def devices() -> tuple[str, ...]:
    """What models can run on here, the fastest first."""
    return tuple(dict.fromkeys((best_device().type, "cpu")))


@cache
def best_device() -> torch.device:
    """The fastest device at hand: CUDA, then Apple's MPS, then the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def set_threads(threads: int = 1) -> None:
    """How many cores one pass may use, for the whole process.

    A server should give each pass one: small matrices gain little from more, and two passes that both want all
    cores wait for each other at every product.
    """
    torch.set_num_threads(threads)
