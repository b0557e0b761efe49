"""The feed-forward network of a run, neuron by neuron."""

import math

import pytest
import torch
from torch.nn import functional

from model.analysis.feed_forward import (
    FORMULAS,
    activity,
    curve_of,
    draw_curves,
    feed_forward_run,
    gelu_gap,
    on_curve,
)
from model.language import LanguageModel
from tests.model.tiny import tiny

TEXT = "The little cat sat on the mat because it was"
TORCH = {
    "relu": functional.relu,
    "gelu_erf": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
}
ACTIVATIONS = ("relu", "gelu_tanh", "gelu_erf", "swiglu", "geglu")
KINDS = [
    {"norm_place": place, "norm": norm, "mlp_bias": bias}
    for place, norm, bias in [("pre", "rmsnorm", False), ("pre", "layernorm", True), ("post", "layernorm", True)]
]
KINDS.append(KINDS[1] | {"parallel": True})


def traced(storyteller, **options):
    return LanguageModel("tiny", tiny(**options), storyteller.tokenizer).trace([3, 14, 15, 9, 2, 6])


@pytest.mark.parametrize("name", list(FORMULAS))
def test_formulas_are_torchs_curves(name):
    x = torch.linspace(-12, 12, 4_801, dtype=torch.float64)
    torch.testing.assert_close(FORMULAS[name](x), TORCH[name](x), rtol=1e-9, atol=1e-12)
    places, curves = draw_curves(-3, 5, 33)
    assert (places[0], places[-1], len(places)) == (-3, 5, 33)
    torch.testing.assert_close(torch.tensor(curves[name]), TORCH[name](torch.tensor(places)), rtol=1e-9, atol=1e-12)
    assert on_curve(name, 1.5) == pytest.approx(float(TORCH[name](torch.tensor(1.5).double())))


def test_values_known_by_hand():
    assert on_curve("relu", -2) == 0
    assert on_curve("silu", 1) == pytest.approx(1 / (1 + math.exp(-1)))
    assert on_curve("gelu_erf", 1) == pytest.approx(0.8413447)  # one standard deviation
    assert [curve_of(name) for name in ACTIVATIONS] == ["relu", "gelu_tanh", "gelu_erf", "silu", "gelu_tanh"]
    x = torch.linspace(-6, 6, 100_001, dtype=torch.float64)
    gap = (functional.gelu(x) - functional.gelu(x, approximate="tanh")).abs().max()
    assert gelu_gap() == pytest.approx(float(gap), rel=1e-4)


@pytest.mark.parametrize("options", KINDS, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_kind_of_network(storyteller, activation, options):
    run = traced(storyteller, activation=activation, **options)
    for layer in range(2):
        of = feed_forward_run(run, layer)
        mlp = run.module(f"blocks.{layer}.mlp")
        first = functional.linear(of.inputs.float(), of.keys, of.key_bias)
        torch.testing.assert_close(of.pre.float(), first, rtol=1e-5, atol=1e-5)
        expected = TORCH[curve_of(activation)](first)
        if activation in ("swiglu", "geglu"):
            second = functional.linear(of.inputs.float(), of.linear_keys, mlp.W_in.bias)
            torch.testing.assert_close(of.linear.float(), second, rtol=1e-5, atol=1e-5)
            expected = expected * second
        else:
            assert of.linear is None
        torch.testing.assert_close(of.post.float(), expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(mlp(of.inputs.float()), of.out.float(), rtol=1e-5, atol=1e-5)
        assert of.curve_difference <= 1e-6
        assert of.relative_sum_difference <= 1e-6
        whole = sum(of.contributions(4)) + (0 if of.bias is None else of.bias)
        torch.testing.assert_close(whole.float(), of.out[4].float(), rtol=1e-5, atol=1e-5)
        share = 0.0 if of.bias is None else float(of.bias @ of.out[4] / of.out[4].square().sum())
        assert float(of.shares(4).sum()) + share == pytest.approx(1, abs=1e-5)
        torch.testing.assert_close(of.lengths(4), of.contributions(4).norm(dim=1))


@pytest.mark.parametrize("text", [TEXT, "a", "那只小猫坐在垫子上，因为它"])
def test_activations_lie_on_the_curve_and_contributions_sum_up(storyteller, text):
    run = storyteller.trace(text)
    for layer in range(6):
        of = feed_forward_run(run, layer)
        scale = float(of.post.abs().max())
        expected = functional.silu(run[f"blocks.{layer}.mlp.hook_pre"]) * run[f"blocks.{layer}.mlp.hook_pre_linear"]
        assert float((of.post.float() - expected).abs().max()) <= 1e-6 * scale
        assert of.curve_difference <= 1e-6 * scale
        assert of.relative_sum_difference <= 1e-5


def test_what_does_not_fit_is_seen(storyteller):
    with storyteller.edit({"blocks.2.mlp.hook_post": lambda x, _: x + 1}):
        assert feed_forward_run(storyteller.trace(TEXT), 2).curve_difference == pytest.approx(1, abs=1e-4)
    with storyteller.edit({"blocks.2.hook_mlp_out": lambda x, _: x + 3}):
        of = feed_forward_run(storyteller.trace(TEXT), 2)
    assert of.sum_difference == pytest.approx(3, abs=1e-4)
    assert of.curve_difference <= 1e-5


def test_activity_by_counting(storyteller):
    run, position = storyteller.trace(TEXT), 7
    for layer, one in enumerate(activity(run, position)):
        pre = run[f"blocks.{layer}.mlp.hook_pre"]
        assert one.here == pytest.approx(int((pre[position] > 0).sum()) / 704)
        assert one.mean == pytest.approx(int((pre > 0).sum()) / pre.numel())
        rows = run.module(f"blocks.{layer}.mlp").W_out.weight.norm(dim=0)
        lengths = sorted((run[f"blocks.{layer}.mlp.hook_post"][position].abs() * rows).double().tolist(), reverse=True)
        assert sum(lengths[: one.half]) >= sum(lengths) / 2 > sum(lengths[: one.half - 1])


def test_what_is_not_there_is_refused(storyteller):
    with pytest.raises(IndexError, match="has 6"):
        feed_forward_run(storyteller.trace(TEXT), 6)
