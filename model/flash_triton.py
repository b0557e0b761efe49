"""Flash attention's forward pass as a kernel of our own, in Triton (Tillet et al. 2019): for CUDA, and to be read.

The algorithm is that of Dao et al. 2022, with the queries in the outer loop (Dao 2023): one program takes one block
of queries of one head, walks over the blocks of keys, and keeps in registers what the softmax needs to know about
those that it has left behind. `model.analysis.flash_tiles` is the same in plain torch.

Import this module only where Triton is at hand: `model.kernels.ours` does so on CUDA. With TRITON_INTERPRET=1 in the
environment before Triton is imported, the kernel runs on a CPU, slowly, for tests.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

HEAD_SIZES = (16, 32, 64, 128)
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


# fmt: off
@triton.jit
def attention_kernel(
    Q, K, V, OUT,
    # How far apart batches, heads and rows lie, in numbers.
    q_batch, q_head, q_row, k_batch, k_head, k_row,
    n_heads, group, n_queries, n_keys, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """One block of queries of one head; its scores never leave the chip."""
    block = tl.program_id(0)
    # All heads of a long text have more numbers than 32 bits count.
    batch = (tl.program_id(1) // n_heads).to(tl.int64)
    head = (tl.program_id(1) % n_heads).to(tl.int64)
    shared = head // group  # query heads g·group … read key/value head g
    rows = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    features = tl.arange(0, D)[None, :]
    q_at = batch * q_batch + head * q_head + rows[:, None] * q_row + features
    k_at = batch * k_batch + shared * k_head + features

    q = tl.load(Q + q_at, mask=rows[:, None] < n_queries, other=0.0)
    # Of each row: largest score so far, sum of weights relative to it,
    # and sum of values times weights.
    top = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    out = tl.zeros([BLOCK_Q, D], tl.float32)

    # Keys that lie wholly in the future of these queries are not even read.
    end = tl.minimum((block + 1) * BLOCK_Q, n_keys) if CAUSAL else n_keys
    for start in range(0, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        there = keys[:, None] < n_keys
        k = tl.load(K + k_at + keys[:, None] * k_row, mask=there, other=0.0)
        v = tl.load(V + k_at + keys[:, None] * k_row, mask=there, other=0.0)

        # fp32. `scale` has log2(e) in it: powers of 2 are what the
        # hardware has.
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        visible = keys[None, :] < n_keys
        if CAUSAL:
            visible = visible & (keys[None, :] <= rows[:, None])
        scores = tl.where(visible, scores, float("-inf"))

        # A larger score may turn up: all sums so far shrink by one factor.
        # Key 0 is in the first block, so no row's `top` stays -inf.
        new_top = tl.maximum(top, tl.max(scores, 1))
        shrink = tl.exp2(top - new_top)
        weights = tl.exp2(scores - new_top[:, None])
        total = total * shrink + tl.sum(weights, 1)
        added = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        out = out * shrink[:, None] + added
        top = new_top

    out = out / total[:, None]
    real = rows[:, None] < n_queries
    tl.store(OUT + q_at, out.to(OUT.dtype.element_ty), mask=real)
# fmt: on


def flash_forward(q: Tensor, k: Tensor, v: Tensor, causal: bool, *, block_q: int = 64, block_k: int = 64) -> Tensor:
    """Attention of queries `(B, H, T, D)` over keys and values `(B, H_kv, S, D)`: `(B, H, T, D)` in their dtype.

    With `causal`, query i reads keys 0 … i (then T must be S). Scores, weights' sums and output are fp32 inside.
    Only the forward pass: there is no gradient.

    Raises:
        ValueError: for shapes, dtypes or block sizes that the kernel does not take.
    """
    (batch, n_heads, n_queries, d), (n_kv_heads, n_keys) = q.shape, k.shape[1:3]
    if d not in HEAD_SIZES or q.dtype not in DTYPES or k.dtype != q.dtype or v.dtype != q.dtype:
        raise ValueError(f"Heads of {d} numbers in {q.dtype} are not what this kernel takes.")
    fits = k.shape == v.shape and (k.shape[0], k.shape[3]) == (batch, d) and n_heads % n_kv_heads == 0
    if not fits or (causal and n_queries != n_keys):
        raise ValueError(f"Queries {tuple(q.shape)} do not fit keys {tuple(k.shape)} and values {tuple(v.shape)}.")
    if not n_keys or any(size < 16 or size & (size - 1) for size in (block_q, block_k)):
        raise ValueError(f"Blocks of {block_q} × {block_k} over {n_keys} keys: a block is a power of two from 16 on.")
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    out = torch.empty_like(q)
    if not out.numel():
        return out  # CUDA starts no empty grid
    programs = (triton.cdiv(n_queries, block_q), batch * n_heads)
    sizes = (n_heads, n_heads // n_kv_heads, n_queries, n_keys, d**-0.5 / math.log(2))
    blocks = {"CAUSAL": causal, "D": d, "BLOCK_Q": block_q, "BLOCK_K": block_k}
    with torch.cuda.device_of(q):  # Triton launches on the current device, which need not be the vectors' own
        attention_kernel[programs](q, k, v, out, *q.stride()[:3], *k.stride()[:3], *sizes, **blocks)
    return out
