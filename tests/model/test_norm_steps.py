"""LayerNorm and RMSNorm step by step, on vectors of real and of tiny models."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from model.analysis.norm_steps import HALVES, NORMS, norm_steps
from model.language import LanguageModel
from tests.model.tiny import close, tiny

TEXT = "The little cat sat on the mat because it was"
PLACES = ["pre", "post"]


@pytest.mark.parametrize("layer", [0, 3, 5])
@pytest.mark.parametrize("half", HALVES)
def test_mean_zero_variance_one_and_torchs_own(storyteller, layer, half):
    run = storyteller.trace(TEXT)
    for position in (0, 9):
        ln = norm_steps(run, layer, half, position, "layernorm")
        x = run[f"blocks.{layer}.{'hook_resid_pre' if half == 'attention' else 'hook_resid_mid'}"][position]
        assert torch.equal(ln.x, x)
        mean, variance = ln.after[:2]
        assert mean == pytest.approx(0, abs=1e-6)
        # ε takes its part from small vectors: σ² / (σ² + ε) is left.
        assert variance == pytest.approx(ln.variance / (ln.variance + ln.eps), abs=1e-5)
        assert variance == pytest.approx(1, abs=2e-3)
        close(ln.out, F.layer_norm(x, x.shape, eps=ln.eps))
        assert ln.difference <= 1e-5
        assert not ln.own
        assert ln.run_difference is None
        rms = norm_steps(run, layer, half, position, "rmsnorm")
        module = run.module(f"blocks.{layer}.{'ln1' if half == 'attention' else 'ln2'}")
        close(rms.out, F.rms_norm(x, x.shape, module.weight, rms.eps))
        assert rms.own
        assert rms.after[2] == pytest.approx(rms.mean_square / (rms.mean_square + rms.eps), abs=1e-5)
        assert rms.run_difference == pytest.approx(0, abs=1e-6)
        assert rms.difference <= 1e-5


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("half", HALVES)
def test_the_models_own_norm_is_marked_and_is_the_models(storyteller, place, half, kind):
    run = LanguageModel("tiny", tiny(norm_place=place, norm=kind), storyteller.tokenizer).trace([3, 14, 15, 9])
    own = norm_steps(run, 1, half, 2, kind)
    module = run.module(f"blocks.1.{'ln1' if half == 'attention' else 'ln2'}")
    close(own.out, module(own.x[None])[0])
    assert own.own
    assert own.run_difference <= 1e-5
    assert torch.equal(own.gain, module.weight)
    assert (own.shift is None) == (kind == "rmsnorm")
    other = norm_steps(run, 1, half, 2, next(one for one in NORMS if one != kind))
    assert not other.own
    assert torch.equal(other.x, own.x)
    assert torch.equal(other.gain, torch.ones(32))
    assert other.shift is None or not other.shift.any()


def test_the_steps_follow_from_each_other(storyteller):
    of = norm_steps(storyteller.trace(TEXT), 2, "attention", 4, "layernorm")
    x = of.x.double().numpy()
    assert of.mean == pytest.approx(x.mean())
    assert of.variance == pytest.approx(x.var())
    assert of.scale == pytest.approx(np.sqrt(x.var() + 1e-5), rel=1e-5)
    np.testing.assert_allclose(of.normalized, (x - x.mean()) / of.scale, atol=1e-5)
    assert of.largest == int(np.abs(x).argmax())


def test_what_is_not_there_is_refused(storyteller):
    run = storyteller.trace("a b")
    with pytest.raises(ValueError, match="no half"):
        norm_steps(run, 0, "middle", 0, "rmsnorm")
    with pytest.raises(IndexError, match="6 layers"):
        norm_steps(run, 6, "attention", 0, "rmsnorm")
    with pytest.raises(IndexError, match="Layer 0"):
        norm_steps(run, 0, "attention", 99, "rmsnorm")
