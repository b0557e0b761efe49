"""Weights as 8-bit integers: a matrix is kept as codes and one scale for each of its outputs.

Symmetric quantisation per output channel (Jacob et al. 2018, arXiv:1712.05877; Dettmers et al. 2022, arXiv:2208.07339):
row i of a matrix `(out, in)` becomes round(row / scale_i), between −127 and 127, where scale_i is a 127th of its
largest number. Only matrices are kept so; norms, biases, positions and everything that flows through the model stay
as they are.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from model.linear import product

_LEVELS = 127  # on each side of 0: symmetric, so −128 is not used
_MULTIPLE = 32  # of the inputs of a matrix: torch's kernel reads past the end of a row of another width


def quantise_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """`(out, in)` to codes `(out, in)` int8 and scales `(out,)` bf16; the error is at most half a scale.

    Scales are rounded to bf16 first and codes taken with what they became, so that their rounding costs nothing.

    Raises:
        ValueError: for weights that are not finite.
    """
    if weight.is_meta:  # only a plan of a model; to reckon with shapes torch would load its compiler, 200 MB of it
        codes = torch.empty(weight.shape, dtype=torch.int8, device="meta")
        return codes, torch.empty(len(weight), dtype=torch.bfloat16, device="meta")
    rows = weight.float()
    largest = rows.abs().amax(1)
    if not bool(torch.isfinite(largest).all()):
        raise ValueError("These weights are not finite, so they cannot become integers.")
    scale = (largest / _LEVELS).bfloat16()
    step = scale.float().masked_fill(scale == 0, 1.0)[:, None]
    return (rows / step).round_().clamp_(-_LEVELS, _LEVELS).to(torch.int8), scale


def int8_product(x: Tensor, codes: Tensor, scale: Tensor) -> Tensor:
    """`x` `(..., in)` times the transposed matrix that codes and scales stand for: `(..., out)` in the dtype of `x`.

    Where one token is read at a time (`(..., 1, in)`), a CPU kernel reads the integers as they are: a quarter of the
    bytes, which is what such a product's time is made of. It takes `x` as bf16 and rounds its result so. Anything
    longer is a plain product with the matrix written out, in the precision of `x`.
    """
    if x.shape[-2] == 1 and has_kernel(x.device.type, x.shape[-1]) and not _differentiated(x):
        rows = x.reshape(-1, x.shape[-1]).bfloat16()
        return kernel(rows, codes, scale).view(*x.shape[:-1], len(codes)).to(x.dtype)
    return product(x, dequantise_rows(codes, scale).to(x.dtype))


def _differentiated(x: Tensor) -> bool:
    return x.requires_grad and torch.is_grad_enabled()


def dequantise_rows(codes: Tensor, scale: Tensor) -> Tensor:
    """The inverse of `quantise_rows`, up to half a scale: fp32 `(out, in)`."""
    return codes.float() * scale.float()[:, None]


def kernel(rows: Tensor, codes: Tensor, scale: Tensor) -> Tensor:
    """torch's product of bf16 rows `(M, in)` with integers: bf16 `(M, out)`."""
    out: Tensor = torch.ops.aten._weight_int8pack_mm(rows, codes, scale)
    return out


@cache
def has_kernel(device: str, width: int) -> bool:
    """Whether torch's kernel is there for a device and so many inputs (it is one of torch's own, not promised)."""
    if device != "cpu" or width % _MULTIPLE or not hasattr(torch.ops.aten, "_weight_int8pack_mm"):
        return False
    try:
        kernel(torch.ones(1, width).bfloat16(), torch.ones(16, width, dtype=torch.int8), torch.ones(16).bfloat16())
    except RuntimeError:
        return False
    return True


class Int8Matrix(nn.Module):
    """What stands in for a layer with one matrix: `codes` `(out, in)`, counted as its parameters, and `scale`."""

    codes: nn.Parameter
    scale: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        codes, scale = quantise_rows(weight.detach())
        self.codes = nn.Parameter(codes, requires_grad=False)
        self.register_buffer("scale", scale)

    @property
    def weight(self) -> Tensor:
        """The matrix that codes and scales stand for, fp32 `(out, in)`, written out anew each time."""
        return dequantise_rows(self.codes, self.scale)

    def product(self, x: Tensor) -> Tensor:
        """`(..., in)` to `(..., out)`."""
        return int8_product(x, self.codes, self.scale)


class Int8Linear(Int8Matrix):
    """`nn.Linear` with integers for weights."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.weight)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """`(..., in)` to `(..., out)`."""
        out = self.product(x)
        return out if self.bias is None else out + self.bias


class Int8Embedding(Int8Matrix):
    """`nn.Embedding` with integers for weights: a scale for each token's row. What it hands out is fp32."""

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of any shape to their rows `(..., d_model)`."""
        return self.rows(ids)

    def rows(self, ids: Tensor) -> Tensor:
        """Rows of `weight`, without writing out the rest of it."""
        return self.codes[ids].float() * self.scale[ids].float()[..., None]


def to_int8(transformer: nn.Module) -> None:
    """Turn every matrix of a model in fp32 (linear layers and the token embedding) into integers, one after the other.

    Raises:
        ValueError: as `quantise_rows` does.
    """
    for module in list(transformer.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child))
            elif isinstance(child, nn.Embedding):
                setattr(module, name, Int8Embedding(child.weight))
