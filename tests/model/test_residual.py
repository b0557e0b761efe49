"""The residual stream: sums, shares, lengths."""

import pytest
import torch

from model.analysis.residual import along, block_sum, stream
from model.language import LanguageModel
from tests.model.tiny import tiny

TEXT = "The little cat sat on the mat because it was"
KINDS = [("pre", "rmsnorm"), ("pre", "layernorm"), ("post", "layernorm"), ("post", "rmsnorm")]


def traced(storyteller, place, norm):
    return LanguageModel("tiny", tiny(norm_place=place, norm=norm), storyteller.tokenizer).trace([3, 14, 15, 9, 2, 6])


@pytest.mark.parametrize("text", [TEXT, "a", "那只小猫坐在垫子上，因为它"])
def test_in_plus_attention_plus_feed_forward_is_out(storyteller, text):
    run = storyteller.trace(text)
    for layer in range(6):
        one = block_sum(run, layer)
        name = f"blocks.{layer}."
        parts = [run[name + hook].double() for hook in ("hook_resid_pre", "hook_attn_out", "hook_mlp_out")]
        out = run[name + "hook_resid_post"].double()
        assert float((sum(parts) - out).norm() / out.norm()) <= 1e-5
        assert one.difference == pytest.approx(float((sum(parts) - out).abs().max()), abs=1e-4)
        assert one.relative_difference <= 1e-5
        if layer < 5:
            assert torch.equal(run[f"blocks.{layer + 1}.hook_resid_pre"].double(), one.leaving)


@pytest.mark.parametrize(("place", "norm"), KINDS)
def test_every_kind_of_block_adds_up(storyteller, place, norm):
    run = traced(storyteller, place, norm)
    measured = stream(run)
    assert max(measured.relative_differences) <= 1e-5
    torch.testing.assert_close(measured.shares.sum(1), torch.ones(2, 6, dtype=torch.float64))
    final = run["blocks.1.hook_resid_post"][None]
    final = run.module("blocks.1.ln2")(final) if place == "post" else final
    torch.testing.assert_close(measured.lengths[-1], final[0].double().norm(dim=-1))
    torch.testing.assert_close(measured.lengths[2], run["blocks.1.hook_resid_pre"].double().norm(dim=-1))
    for layer in range(2):
        one = block_sum(run, layer)
        torch.testing.assert_close(one.parts().sum(0), one.leaving, rtol=1e-6, atol=1e-6)


def test_a_wrong_sum_is_seen(storyteller):
    """The check compares what was recorded: parts that do not make up the stream are told."""
    with storyteller.edit({"blocks.2.hook_resid_post": lambda x, _: x + 3}):
        run = storyteller.trace(TEXT)
    assert stream(run).differences[2] == pytest.approx(3, abs=1e-3)
    with storyteller.edit({"blocks.2.hook_resid_mid": lambda x, _: x + 3}):
        run = storyteller.trace(TEXT)
    assert block_sum(run, 2).difference == pytest.approx(3, abs=1e-3)


def test_shares_are_components_along_the_sum():
    whole = torch.tensor([[3.0, 4.0], [0.0, 0.0]]).double()
    part = torch.tensor([[3.0, 0.0], [1.0, 1.0]]).double()
    assert along(part, whole).tolist() == [9 / 25, 0]
    assert along(-whole, whole).tolist() == [-1, 0]
    # A part at a right angle to the sum adds nothing to it, however long.
    assert along(torch.tensor([[-40.0, 30.0]]).double(), whole[:1]).item() == 0


def test_lengths_and_what_was_added(storyteller):
    run, measured = storyteller.trace(TEXT), stream(storyteller.trace(TEXT))
    assert measured.lengths.shape == (13, 10)
    torch.testing.assert_close(measured.lengths[0], run["hook_embed"].double().norm(dim=-1))
    torch.testing.assert_close(measured.lengths[7], run["blocks.3.hook_resid_mid"].double().norm(dim=-1))
    torch.testing.assert_close(measured.added[6], run["blocks.3.hook_attn_out"].double().norm(dim=-1))
    torch.testing.assert_close(measured.added[11], run["blocks.5.hook_mlp_out"].double().norm(dim=-1))
    torch.testing.assert_close(measured.mean_shares, measured.shares.mean(-1))
    layer, half = measured.rewritten_most(4)
    assert measured.shares[layer, 1 + half, 4] == measured.shares[:, 1:, 4].max()


def test_what_is_not_there_is_refused(storyteller):
    with pytest.raises(IndexError, match="has 6"):
        block_sum(storyteller.trace(TEXT), 6)
