"""Normalisation: torch's kernel and the steps of the hooks are one, also where low precision would overflow."""

import pytest
import torch

from model.hooks import edit, observe
from model.norms import Normalization
from tests.model.tiny import close, randomise, tiny_config, within_budget

KINDS = ["layernorm", "rmsnorm"]


def norm(kind, dtype=torch.float32, **changes):
    return randomise(Normalization(tiny_config(norm=kind, **changes), "ln")).to(dtype).requires_grad_(False)


def formula(layer, x):
    """In float64, from the papers."""
    x = x.double()
    if layer.bias is not None:
        x = x - x.mean(-1, keepdim=True)
    x = x / (x.square().mean(-1, keepdim=True) + layer.eps).sqrt() * layer.weight.double()
    return x if layer.bias is None else x + layer.bias.double()


def inputs(dtype=torch.float32, scale=1.0):
    return (torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0)) * scale + 0.3).to(dtype)


@pytest.mark.parametrize("eps", [1e-5, 0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_formula_watched_edited_or_neither(kind, eps):
    layer, x, seen = norm(kind, norm_eps=eps), inputs(), {}
    plain = layer(x)
    close(plain.double(), formula(layer, x))
    with observe(seen.__setitem__):
        assert torch.equal(layer(x), plain)
    for name in ("ln.hook_scale", "ln.hook_normalized"):
        with edit({name: lambda value, _: None}):
            close(layer(x), plain)
        with edit({name: lambda value, _: value * 2}):
            bias = 0 if layer.bias is None else layer.bias
            close(layer(x) - bias, (plain - bias) * (0.5 if "scale" in name else 2))
    rows = seen["ln.hook_normalized"]
    if kind == "layernorm":
        close(rows.mean(-1), torch.zeros(2, 5))
    x = x - x.mean(-1, keepdim=True) if kind == "layernorm" else x
    close(seen["ln.hook_scale"].squeeze(-1), (x.square().mean(-1) + eps).sqrt())
    close(rows * seen["ln.hook_scale"], x)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0, 2e4])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_low_precision_neither_overflows_nor_forgets_eps(kind, dtype, scale):
    layer, x = norm(kind, dtype), inputs(dtype, scale).clamp(-6e4, 6e4)
    exact = formula(layer, x)
    # The best that the dtype can do by itself: the exact result, rounded, after a rounding before the gain.
    bias = 0 if layer.bias is None else layer.bias.double()
    plain = ((exact - bias) / layer.weight.double()).to(dtype) * layer.weight + (
        0 if layer.bias is None else layer.bias
    )
    out = layer(x)
    assert out.dtype == dtype
    assert out.isfinite().all()
    within_budget(out, plain, exact)
    with edit({"ln.hook_normalized": lambda value, _: value}):
        within_budget(layer(x), plain, exact)


@pytest.mark.parametrize("kind", KINDS)
def test_a_vector_of_zeros_stays_finite(kind):
    layer = norm(kind)
    x = torch.zeros(1, 1, 32, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
