"""Linear layers: rows times a matrix, in fp32 by the faster of torch's two libraries.

torch multiplies fp32 matrices on x86 with MKL. oneDNN comes with torch, too, and uses the wide vector units of every
maker's processors: on AMD's it takes less than half of the time. It has no gradient, and takes longer to start. On
Intel's own processors MKL is mostly the faster one, three times for one row, and adds up more exactly.

FBGEMM, the third, multiplies fp32 rows with matrices kept in fp16, and adds up in fp32: where fp16 holds the weights
exactly nothing is lost, and reading them, which is all the work of a product with one row, takes half of the time.
"""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

# oneDNN, and torch above it, keep a program for each shape of a product, 1,024 of them: half a gigabyte when texts of
# 200 lengths were read. To make one anew takes a fraction of a millisecond. Each looks here when it is first used.
for _kept in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_kept, "32")

_WORTH_STARTING = 2**19  # multiplications; below that, starting oneDNN costs more than it saves


class Linear(nn.Linear):
    """`nn.Linear`, computed by `product`."""

    def forward(self, x: Tensor) -> Tensor:
        """`(..., in)` to `(..., out)`."""
        return product(x, self.weight, self.bias)


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ (+ bias): `(..., in)` and `(out, in)` to `(..., out)`, the same sums whichever library takes them."""
    if (
        prod(x.shape[:-1]) * weight.numel() >= _WORTH_STARTING
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and not (torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad))
        and prefers_onednn()
    ):
        return onednn_product(x, weight, bias)
    return nn.functional.linear(x, weight, bias)


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The product by oneDNN, for dtypes that it knows; `weight` may be `packed_for_onednn`."""
    out: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")
    return out


def packed_for_onednn(weight: Tensor) -> Tensor:
    """A copy of a matrix, in the order in which oneDNN reads it for one row; of no use for anything else."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, 1)
    return packed


@cache
def has_onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN's products can be called (torch promises neither them nor their names), on x86 alone.

    On Arm and Apple's processors torch's own choice is the fast one. bf16 needs AVX-512.
    """
    if platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available():
        return False
    try:
        ones = torch.ones(16, 16, dtype=dtype)
        onednn_product(ones, packed_for_onednn(ones))
        onednn_product(ones, ones, ones[0])
    except (AttributeError, RuntimeError):
        return False
    return True


@cache
def prefers_onednn() -> bool:
    """Whether fp32 products are oneDNN's here."""
    return has_onednn(torch.float32) and not by_intel()


@cache
def by_intel() -> bool:
    """Whether this x86 processor is one of Intel's."""
    if platform.system() == "Linux":
        with suppress(OSError):  # where processes may not see it
            return "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    return platform.system() == "Darwin" or "GenuineIntel" in platform.processor()


def exactly_half(matrix: Tensor) -> tuple[Tensor, float] | None:
    """A matrix in fp32 as one of fp16's numbers, in fp32, and the power of two that they are to be multiplied with.

    None where fp16 would change a number. Weights that were stored in bf16 fit, unless one is some 2³⁰ times another.
    """
    largest = matrix.abs().max()
    if not (bool(torch.isfinite(largest)) and float(largest) > 0):
        return None
    exponent = 15 - int(torch.frexp(largest).exponent)  # brings the largest below 2¹⁵: fp16 ends at 2¹⁶
    if abs(exponent) > 100:
        return None  # so far out that the power itself has no place in fp32
    scaled = matrix * 2.0**exponent
    return (scaled, 2.0**-exponent) if torch.equal(scaled.half().float(), scaled) else None


def packed_for_half(matrix: Tensor) -> Any:
    """FBGEMM's copy of a matrix `(out, in)`, in fp16."""
    return torch.ops.quantized.linear_prepack_fp16(matrix, None)


def half_product(x: Tensor, packed: Any) -> Tensor:
    """fp32 rows `(..., in)` times the matrix of a `packed_for_half`: `(..., out)`, added up in fp32."""
    out: Tensor = torch.ops.quantized.linear_dynamic_fp16.default(x, packed)
    return out


@cache
def has_half_kernel() -> bool:
    """Whether FBGEMM is there; it is on x86."""
    try:
        half_product(torch.ones(1, 16), packed_for_half(torch.ones(16, 16)))
    except (AttributeError, RuntimeError):
        return False
    return True
