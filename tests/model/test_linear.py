"""Linear layers: whichever library multiplies, the sums are those of fp64 up to rounding, and gradients stay."""

import copy
import math
import subprocess
import sys

import pytest
import torch

from model import linear
from model.cache import KVCache
from model.decode import OneToken
from model.linear import Linear, exactly_half, half_product, onednn_product, packed_for_half, packed_for_onednn, product
from model.products import HalfProduct, copies_nbytes, products_of, side_by_side
from tests.model.tiny import some_ids, tiny, within_budget

needs_onednn = pytest.mark.skipif(
    not linear.has_onednn(torch.float32), reason="oneDNN's products are called on x86 alone"
)
needs_half = pytest.mark.skipif(not linear.has_half_kernel(), reason="FBGEMM is there on x86 alone")


def drawn(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def within_rounding(ours, x, weight, bias=None):
    """Near to the sums in fp64 as fp32 is: how near depends on the order in which a library adds them up."""
    exact = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    assert (ours - exact).abs().max() <= 2e-6 * exact.abs().max()


@needs_onednn
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 320), (1, 64, 320), (3, 5, 320), (320,), (0, 320)], ids=str)
def test_onednn_adds_up_as_fp32_does(shape, bias):
    x, weight = drawn(*shape), drawn(2048, 320, seed=1)
    b = drawn(2048, seed=2) if bias else None
    for ours in (product(x, weight, b), Linear.forward(_layer(weight, b), x), onednn_product(x, weight, b)):
        assert ours.shape == (*shape[:-1], 2048) and ours.dtype == torch.float32
        if x.numel():
            within_rounding(ours, x, weight, b)


@needs_onednn
def test_a_large_product_goes_to_onednn_and_a_small_one_or_one_with_a_gradient_does_not(monkeypatch):
    called = []
    monkeypatch.setattr(linear, "prefers_onednn", lambda: True)
    monkeypatch.setattr(linear, "onednn_product", lambda x, w, b=None: called.append(x.shape) or x @ w.T)
    large, small = drawn(2048, 320), drawn(16, 320)
    product(drawn(2, 320), small)
    product(drawn(1, 320), large)
    product(drawn(2, 320).double(), large.double())
    product(drawn(2, 320).bfloat16(), large.bfloat16())
    product(drawn(2, 320).requires_grad_(), large)
    product(drawn(2, 320), large.clone().requires_grad_())
    assert called == [(1, 320)]
    with torch.no_grad():
        product(drawn(2, 320), large.clone().requires_grad_())
    assert called == [(1, 320), (2, 320)]


def test_gradients_are_those_of_torch():
    x, weight, bias = (t.requires_grad_() for t in (drawn(4, 320), drawn(2048, 320, seed=1), drawn(2048, seed=2)))
    ours = torch.autograd.grad(product(x, weight, bias).square().sum(), (x, weight, bias))
    theirs = torch.autograd.grad(torch.nn.functional.linear(x, weight, bias).square().sum(), (x, weight, bias))
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other)


@needs_onednn
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_packed_matrix_stands_for_the_same(dtype):
    if not linear.has_onednn(dtype):
        pytest.skip("oneDNN multiplies bf16 with AVX-512 alone")
    x, weight = drawn(1, 320, dtype=dtype), drawn(700, 320, dtype=dtype, seed=1)
    torch.testing.assert_close(onednn_product(x, packed_for_onednn(weight)), torch.nn.functional.linear(x, weight))


@needs_half
@pytest.mark.parametrize("scale", [1e-20, 0.02, 300.0, 1e20])
def test_what_bf16_holds_fp16_holds_too_with_the_right_unit(scale):
    weight = (drawn(300, 256) * scale).bfloat16().float()
    numbers, unit = exactly_half(weight)
    assert math.frexp(unit)[0] == 0.5, "a power of two"
    assert torch.equal(numbers.half().double() * unit, weight.double())
    x = drawn(1, 256, seed=1)
    within_rounding(half_product(x, packed_for_half(numbers)) * unit, x, weight)


def test_what_fp16_cannot_hold_is_left_alone():
    weight = drawn(30, 20)
    assert exactly_half(weight) is None, "fp32 has more digits"
    weight = weight.bfloat16().float()
    assert exactly_half(weight) is not None
    for bad in (torch.inf, torch.nan, 2.0**-40 * 1.0078125, 2.0**40):
        changed = weight.clone()
        changed[3, 4] = bad
        assert exactly_half(changed) is None, bad
    assert exactly_half(torch.zeros(3, 4)) is None
    assert exactly_half(torch.full((3, 4), 1e-40)) is None


def wide(**changes):
    """A decoder whose matrices are large enough for every kernel, with weights as they come from a file in bf16."""
    transformer = tiny(d_model=512, d_ff=640, **changes).bfloat16().float()
    side_by_side(transformer)
    return transformer


def logits_of(transformer, ids):
    one = OneToken.of(transformer, KVCache(transformer.config, room=ids.shape[1]))
    return torch.stack([one(int(token)).clone() for token in ids[0]])


@pytest.mark.parametrize("intel", [False, True])
def test_on_intel_fp32_is_left_to_mkl(intel, monkeypatch):
    linear.prefers_onednn.cache_clear()
    monkeypatch.setattr(linear, "by_intel", lambda: intel)
    monkeypatch.setattr(linear, "has_onednn", lambda dtype: True)
    preferred = linear.prefers_onednn()
    linear.prefers_onednn.cache_clear()
    assert preferred is not intel


@needs_half
def test_halved_products_give_the_logits_of_fp32():
    transformer, ids = wide(), some_ids(1, 12)
    layers = products_of(transformer).layers
    assert isinstance(layers[0].gate_and_up, HalfProduct) and not isinstance(layers[0].out, HalfProduct)
    as_near_as_a_plain_pass(logits_of(transformer, ids), transformer, ids)


def as_near_as_a_plain_pass(logits, transformer, ids):
    """To the logits of fp64: not more than four times as far from them as the general pass in fp32.

    MKL adds up several rows more exactly than one.
    """
    exact = copy.deepcopy(transformer).double()(ids)[0]
    assert (logits - exact).abs().max() <= 4 * (transformer(ids)[0] - exact).abs().max()


@pytest.mark.parametrize("missing", ["has_onednn", "has_half_kernel"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_without_a_library_torch_does_it(missing, dtype, monkeypatch):
    nothing = {"has_onednn": lambda dtype: False, "has_half_kernel": lambda: False}
    monkeypatch.setattr(linear, missing, nothing[missing])
    transformer, ids = wide().to(dtype), some_ids(1, 12)
    side_by_side(transformer)
    one = OneToken.of(transformer, KVCache(transformer.config, room=12, dtype=dtype))
    logits = torch.stack([one(int(token)).clone() for token in ids[0]])
    if dtype == torch.float32:
        as_near_as_a_plain_pass(logits, transformer, ids)
        assert copies_nbytes(transformer) == (transformer.nbytes // 2 if linear.has_half_kernel() else 0)
    else:
        within_budget(logits, transformer(ids)[0], wide()(ids)[0])
        assert copies_nbytes(transformer) == (transformer.nbytes if linear.has_onednn(dtype) else 0)


@pytest.mark.parametrize("name", ["blocks.1.mlp.W_gate", "blocks.0.attn.W_V", "blocks.1.ln2", "embed"])
@pytest.mark.parametrize("change", [lambda w: w.mul_(2), lambda w: w.data[3:5].zero_(), lambda w: w.data[0].add_(0.5)])
def test_a_weight_that_changes_is_noticed_however_it_is_written(name, change):
    transformer, ids = wide(), some_ids(1, 6)
    first = products_of(transformer)
    assert products_of(transformer) is first
    before = logits_of(transformer, ids)
    change(transformer.get_parameter(f"{name}.weight"))
    after = logits_of(transformer, ids)
    as_near_as_a_plain_pass(after, transformer, ids)
    assert (after - before).abs().max() > 1e-4


def test_a_model_made_in_inference_mode_writes_like_any_other():
    ids = some_ids(1, 6)
    with torch.inference_mode():
        transformer = wide()
        logits = logits_of(transformer, ids)
    assert torch.equal(logits, logits_of(wide(), ids))


LENGTHS = """
import psutil
from model import load
from model.devices import set_threads

set_threads(1)
lm = load("storyteller", "cpu")
lm.trace([5] * 60)
before = psutil.Process().memory_info().rss
for length in range(1, 120):
    lm.trace([5] * length)
print((psutil.Process().memory_info().rss - before) // 10**6)
"""


def test_texts_of_many_lengths_leave_no_programs_behind():
    """oneDNN makes a program for every shape: a hundred lengths once took 300 MB for good."""
    done = subprocess.run([sys.executable, "-c", LENGTHS], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100


def _layer(weight, bias):
    layer = Linear(weight.shape[1], weight.shape[0], bias=bias is not None).requires_grad_(False)
    layer.weight.copy_(weight)
    if bias is not None:
        layer.bias.copy_(bias)
    return layer
