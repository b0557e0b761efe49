"""Machines: what they read and compute in a second at best, published or measured here."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from model.linear import product

_READ_BYTES = 128 * 2**20  # far more than any cache holds
_SIDE = 768  # of the matrices that are multiplied


@dataclass(frozen=True)
class Machine:
    """`bandwidth` bytes read from memory, `flops` operations, per second; `source`: where the figures are from."""

    name: str
    bandwidth: float
    flops: float
    source: str


# Dense 16-bit matrix products with fp32 sums, as the makers' data sheets have them.
MACHINES: dict[str, Machine] = {
    "notebook": Machine("DDR5-5600, 2 × 64 bit; 8 × 3 GHz × 32", 89.6e9, 768e9, "2·8·5.6·10⁹, 8·3·10⁹·32"),
    "rtx4090": Machine("NVIDIA RTX 4090", 1_008e9, 165.2e12, "NVIDIA Ada whitepaper"),
    "a100": Machine("NVIDIA A100 80 GB SXM", 2_039e9, 312e12, "NVIDIA A100 datasheet"),
    "h100": Machine("NVIDIA H100 SXM", 3_350e9, 989.4e12, "NVIDIA H100 datasheet"),
}


def measure(device: torch.device, dtype: torch.dtype, repeats: int = 5) -> Machine:
    """This machine, with as many threads as torch uses now: the best of some readings and products.

    Reading is a sum over 128 MiB; computing is the product of two square matrices in `dtype`, as a model's layers make
    it. Takes about half a second on a slow core.
    """
    values = torch.ones(_READ_BYTES // 4, device=device)
    a = torch.ones(_SIDE, _SIDE, device=device, dtype=dtype)

    def best(work: object) -> float:
        seconds = []
        for _ in range(repeats + 1):
            _synchronise(device)
            begun = time.perf_counter()
            work()  # type: ignore[operator]
            _synchronise(device)
            seconds.append(time.perf_counter() - begun)
        return min(seconds[1:])

    reading, computing = best(values.sum), best(lambda: product(a, a))
    return Machine(str(device).upper(), values.nbytes / reading, 2 * _SIDE**3 / computing, "")


def _synchronise(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
