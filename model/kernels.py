"""Scaled dot-product attention (Vaswani et al. 2017): an explicit, a fused and a kernel of our own, with one contract.

All take queries `(B, H, T, D)`, keys and values `(B, H_kv, S, D)` and what is visible, and return `Attended`:
the output, the pattern if the kernel has one, and the kernel's name. With fewer key/value heads than query
heads, query heads g·r … g·r + r - 1 read key/value head g. A query that may read no key gets output 0,
pattern 0 and finite gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

# torch's own numbering of what is behind scaled_dot_product_attention (torch.nn.attention.SDPBackend).
_FUSED_NAMES = {0: "math", 1: "flash", 2: "memory-efficient", 3: "cudnn"}


class Attended(NamedTuple):
    """`out` `(B, H, T, D)`; `pattern` `(B, H, T, S)` or None; `kernel`, the name of what computed it."""

    out: Tensor
    pattern: Tensor | None
    kernel: str


@dataclass(frozen=True)
class Visible:
    """What the queries may read, the same for every layer of one pass.

    Either `causal` (the square lower triangle, nothing has to be built) or a boolean `mask` `(B, 1, T, S)`,
    true where allowed, or neither (everything). `bias` `(B or 1, H, T, S)`, fp32, is added to the scaled scores.
    """

    causal: bool = False
    mask: Tensor | None = None
    bias: Tensor | None = None

    @cached_property
    def dead(self) -> Tensor | None:
        """`(B, 1, T, 1)`, true for queries that may read no key; None where there is none."""
        if self.mask is None:
            return None
        dead = ~self.mask.any(-1, keepdim=True)
        return dead if bool(dead.any()) else None

    @cached_property
    def fused_mask(self) -> Tensor | None:
        """The mask as the fused kernel takes it: dead rows opened (they are zeroed afterwards), bias merged in."""
        mask = self.mask if self.mask is None or self.dead is None else self.mask | self.dead
        if self.bias is None:
            return mask
        bias = self.bias
        if self.causal:
            mask = torch.ones(bias.shape[-2:], dtype=torch.bool, device=bias.device).tril()
        return bias if mask is None else bias.masked_fill(~mask, -torch.inf)


def repeat_kv(x: Tensor, n_heads: int) -> Tensor:
    """Give every query head its key/value head: `(B, H_kv, S, D)` to `(B, H, S, D)`, interleaved."""
    return x if x.shape[1] == n_heads else x.repeat_interleave(n_heads // x.shape[1], dim=1)


def attention_scores(q: Tensor, k: Tensor, visible: Visible, scale: float | None = None) -> Tensor:
    """q·k times `scale` (default 1/√D), plus the bias, minus infinity where masked: `(B, H, T, S)` in fp32."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q.float() @ repeat_kv(k, q.shape[1]).float().transpose(-1, -2) * scale
    if visible.bias is not None:
        scores = scores + visible.bias
    if visible.causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        return scores.masked_fill(future, -torch.inf)
    return scores if visible.mask is None else scores.masked_fill(~visible.mask, -torch.inf)


def attention_pattern(scores: Tensor) -> Tensor:
    """Softmax over the keys; a row that is all minus infinity becomes 0 (and its gradient stays finite)."""
    if scores.shape[-1] == 0:
        return scores  # no key: nothing to share out
    dead = scores.amax(-1, keepdim=True) == -torch.inf
    if scores.device.type == "cpu" and not bool(dead.any()):  # as nearly always; elsewhere the question would wait
        return scores.softmax(-1)
    return scores.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0)


def explicit(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visible: Visible,
    on_scores: Callable[[Tensor], Tensor] = lambda x: x,
    on_pattern: Callable[[Tensor], Tensor] = lambda x: x,
) -> Attended:
    """Every step written out, with the whole matrix in memory; `on_scores` and `on_pattern` may change them."""
    scores = on_scores(attention_scores(q, k, visible))
    pattern = on_pattern(attention_pattern(scores))
    out = pattern @ repeat_kv(v, q.shape[1]).float()
    return Attended(out.to(q.dtype), pattern, "explicit")


def fused(q: Tensor, k: Tensor, v: Tensor, visible: Visible, name_kernel: bool = False) -> Attended:
    """torch's fused kernel: the matrix is never stored, so there is no pattern to return (Dao et al. 2022).

    The kernel is looked up only when `name_kernel` asks; "fused" otherwise, and where torch does not tell. A bias in
    low precision goes to the explicit kernel.
    """
    mask = visible.fused_mask
    if mask is not None and mask.dtype != torch.bool and q.dtype != torch.float32:
        # The fused kernels want the bias in the queries' dtype, where distances lose their last digits.
        return explicit(q, k, v, visible)
    causal = visible.causal and mask is None
    grouped = k.shape[1] != q.shape[1]
    out = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=grouped)
    if visible.dead is not None:
        out = out.masked_fill(visible.dead, 0.0)
    kernel = "fused"
    if name_kernel:
        try:
            choice = torch._fused_sdp_choice(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=grouped)
        except NotImplementedError:  # Apple's MPS keeps its choice to itself
            return Attended(out, None, kernel)
        kernel = _FUSED_NAMES.get(int(choice), "fused")
    return Attended(out, None, kernel)


def ours(q: Tensor, k: Tensor, v: Tensor, visible: Visible) -> Attended:
    """Our own flash-attention kernel (`model.flash_triton`), where it can run; elsewhere as `fused`.

    It needs a GPU as `own_kernel_runs` asks for, half precision, a mask that is causal or none, and no gradient. No
    layer chooses it by itself: torch's kernels are there to be beaten first.
    """
    takes = visible.mask is None and visible.bias is None and q.dtype in (torch.float16, torch.bfloat16)
    if not (takes and own_kernel_runs(q.device) and not (q.requires_grad and torch.is_grad_enabled())):
        return fused(q, k, v, visible, name_kernel=True)
    from model.flash_triton import HEAD_SIZES, flash_forward  # not at the top: Triton is there only with CUDA

    if q.shape[-1] not in HEAD_SIZES:
        return fused(q, k, v, visible, name_kernel=True)
    return Attended(flash_forward(q, k, v, visible.causal), None, "triton")


def own_kernel_runs(device: torch.device) -> bool:
    """Whether our own kernel can run on a device: a GPU as Triton wants it, from compute capability 8.0 on."""
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)
