"""One head taken apart: equal to the run, to plain Python and to formulas written out here."""

import math

import pytest
import torch

from model.analysis.attention_steps import MASK_KINDS, cell_arithmetic, head_steps, kernel_difference, mask_choice
from model.analysis.scaling import scaling_by_size, softmax_gradient
from model.config import TransformerConfig
from model.trace import Trace
from model.transformer import Transformer

TOKENS = [3, 1, 4, 1, 5, 9, 2]


def tiny_run(rule=None, padding=0, **options):
    config = TransformerConfig(
        **{"vocab_size": 11, "d_model": 16, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "d_head": 6}
        | {"d_ff": 24, "max_positions": 16}
        | options
    )
    torch.manual_seed(0)
    model = Transformer(config).requires_grad_(False).eval()
    for p in model.parameters():
        if p.dim() > 1:  # larger than at the start of training, so that patterns are not flat
            p.mul_(8)
    return Trace(model, None, TOKENS, rule=rule, padding=padding)


@pytest.mark.parametrize("positions", ["rope", "alibi", "learned", "none"])
@pytest.mark.parametrize("norm_place", ["pre", "post"])
def test_the_steps_are_the_runs_own(positions, norm_place):
    run = tiny_run(positions=positions, norm_place=norm_place)
    total = torch.zeros(len(TOKENS), 16)
    for head in range(4):
        steps = head_steps(run, 1, head)
        assert steps.kv_head == head // 2
        torch.testing.assert_close(steps.pattern, run["blocks.1.attn.hook_pattern"][head])
        torch.testing.assert_close(steps.masked, run["blocks.1.attn.hook_attn_scores"][head])
        torch.testing.assert_close(steps.z, run["blocks.1.attn.hook_z"][:, head])
        allowed = steps.visible
        torch.testing.assert_close(steps.scaled[allowed], steps.masked[allowed])
        torch.testing.assert_close(steps.pattern.sum(-1), torch.ones(len(TOKENS)))
        w_v = run.module("blocks.1.attn").W_V.weight.unflatten(0, (2, 6))[head // 2]
        torch.testing.assert_close(steps.v, steps.x @ w_v.T)
        total += steps.out
    torch.testing.assert_close(total, run["blocks.1.hook_attn_out"])
    assert kernel_difference(run, 1) < 1e-5


def test_masks_open_and_close_what_they_say():
    n = len(TOKENS)
    visible = {}
    for kind in MASK_KINDS:
        choice = mask_choice(kind, n)
        visible[kind] = head_steps(tiny_run(choice.rule, choice.padding), 0, 0).visible
    lower = torch.ones(n, n, dtype=torch.bool).tril()
    assert torch.equal(visible["causal"], lower)
    assert visible["none"].all()
    assert torch.equal(visible["window"], lower & ~torch.ones(n, n, dtype=torch.bool).tril(-2))
    prefix = lower.clone()
    prefix[:, : n // 2] = True
    assert torch.equal(visible["prefix"], prefix)
    hidden = n // 3
    assert not visible["padding"][:, :hidden].any() and torch.equal(
        visible["padding"][hidden:, hidden:], lower[hidden:, hidden:]
    )
    with pytest.raises(ValueError, match="choose one of"):
        mask_choice("sideways", n)


def test_an_encoder_can_be_masked_and_left_open():
    assert mask_choice("none", 9, causal=False).rule is None
    assert mask_choice("causal", 9, causal=False).rule.causal


def test_the_arithmetic_of_a_cell_by_hand():
    steps = head_steps(tiny_run(), 0, 1)
    cell = cell_arithmetic(steps, 4, 2)
    dot = sum(float(a) * float(b) for a, b in zip(steps.q[4], steps.k[2], strict=True))
    scaled = [
        sum(float(a) * float(b) for a, b in zip(steps.q[4], steps.k[j], strict=True)) / math.sqrt(6) for j in range(5)
    ]
    assert cell.dot == pytest.approx(dot, rel=1e-5) and cell.scaled == pytest.approx(dot / math.sqrt(6), rel=1e-5)
    terms = [math.exp(s - max(scaled)) for s in scaled]
    assert cell.denominator == pytest.approx(sum(terms), rel=1e-5)
    assert cell.weight == pytest.approx(terms[2] / sum(terms), rel=1e-5) == cell.numerator / cell.denominator
    future = cell_arithmetic(steps, 2, 4)
    assert future.masked and future.weight == 0 == future.numerator


def test_a_head_that_is_not_there():
    with pytest.raises(IndexError, match="2 layers of 4"):
        head_steps(tiny_run(), 0, 4)


def test_variance_grows_with_d_and_scaling_undoes_it():
    for row in scaling_by_size((4, 64, 256), queries=512):
        # The variance of a sum of d products of independent standard normals is d.
        assert row.variance == pytest.approx(row.d, rel=0.15)
        assert row.variance_scaled == pytest.approx(1, rel=0.15)
    small, _, large = scaling_by_size((4, 64, 256))
    assert large.entropy < small.entropy and large.gradient < large.gradient_scaled
    assert large.entropy_scaled == pytest.approx(small.entropy_scaled, rel=0.1)


def test_softmax_gradient_is_the_norm_of_autograds_jacobian():
    scores = torch.tensor([0.3, -1.2, 2.0, -torch.inf, 0.7])
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    assert float(softmax_gradient(scores)) == pytest.approx(float(jacobian.norm()), rel=1e-5)
    assert float(softmax_gradient(torch.tensor([0.0, 200.0]))) == 0
