"""How far the tiled algorithm is from plain attention: forward and backward, in full and in half precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from model.analysis.flash_tiles import FlashAttention, rounded
from model.kernels import Visible, attention_pattern, attention_scores, explicit, repeat_kv


@dataclass(frozen=True)
class Difference:
    """Largest distances of any number of a layer's output.

    `tiled`: of the tiled result from plain attention in fp32. `plain`: of plain attention with every step rounded to
    the same dtype (0 in fp32). `largest`: the largest number of the output itself.
    """

    tiled: float
    plain: float
    largest: float


def forward_difference(flash: FlashAttention, q: Tensor, k: Tensor, v: Tensor) -> Difference:
    """Go through all tiles of `flash`, made from these `q`, `k` and `v`, and compare."""
    for _ in flash:
        pass
    exact = explicit(q.float(), k.float(), v.float(), flash.visible).out
    plain = exact if flash.dtype == torch.float32 else plain_rounded(q, k, v, flash.visible, flash.dtype)
    tiled, rounded_ = (float((x.float() - exact).abs().max()) for x in (flash.out, plain))
    return Difference(tiled, rounded_, float(exact.abs().max()))


def plain_rounded(q: Tensor, k: Tensor, v: Tensor, visible: Visible, dtype: torch.dtype) -> Tensor:
    """Plain attention `(B, H, T, D)` as low-precision code without fusion does it: each step is stored in `dtype`."""
    q, k, v = (rounded(x.float(), dtype) for x in (q, k, v))
    pattern = rounded(attention_pattern(rounded(attention_scores(q, k, visible), dtype)), dtype)
    return (pattern @ repeat_kv(v, q.shape[1])).to(dtype)


def backward_difference(q: Tensor, k: Tensor, v: Tensor, visible: Visible, block_q: int, block_k: int) -> list[float]:
    """Largest distance of the tiled gradients of q, k and v from autograd's through plain attention.

    All relative to the largest number of the three gradients. The loss is half the output's squared length, so its
    gradient is the output.
    """
    q_, k_, v_ = (x.detach().float().requires_grad_() for x in (q, k, v))
    with torch.enable_grad():
        out = explicit(q_, k_, v_, visible).out
        wanted = torch.autograd.grad(out.square().sum() / 2, (q_, k_, v_))
    flash = FlashAttention(q.float(), k.float(), v.float(), visible, block_q=block_q, block_k=block_k)
    with torch.no_grad():
        for _ in flash:
            pass
        found = flash.backward(out.detach())
    largest = max(float(x.abs().max()) for x in wanted) or 1.0
    return [float((a - b).abs().max()) / largest for a, b in zip(found, wanted, strict=True)]
