"""Untrained stacks: what is measured, and that it is right."""

import math
from itertools import pairwise

import pytest
import torch
from torch.nn import functional as F

from model.analysis.depth import DEPTHS, PLACEMENTS, measure_depth, random_stack, random_tokens, watch
from model.analysis.norm_steps import NORMS
from model.hooks import observe


def loss_of(stack, ids):
    logits = watch(stack, ids[:, :-1])[-1]
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_gradients_are_the_slope_of_the_loss(norm, placement):
    """A step along a block's gradient changes the loss by the step times the gradient's length."""
    depth = 2 if placement == "none" else 6  # without norm, what is deep is too curved for a slope
    found, stack, ids = measure_depth(norm, placement, depth), random_stack(norm, placement, depth), random_tokens()
    loss = loss_of(stack, ids)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(found.loss, rel=1e-6)
    for layer in (0, depth - 1):
        gradients = [p.grad.clone() for p in stack.blocks[layer].parameters()]
        losses = []
        for sign in (1, -1):
            moved = random_stack(norm, placement, depth).double()
            with torch.no_grad():
                for p, g in zip(moved.blocks[layer].parameters(), gradients, strict=True):
                    p += sign * 1e-4 * g.double() / found.gradients[layer]
                losses.append(float(loss_of(moved, ids)))
        assert (losses[0] - losses[1]) / 2e-4 == pytest.approx(found.gradients[layer], rel=0.02)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_sizes_are_those_of_the_plain_formula(norm, placement):
    found, stack, ids = measure_depth(norm, placement, 3), random_stack(norm, placement, 3), random_tokens()
    x = stack.embed(ids[:, :-1]).detach()
    sizes = [float(x.square().mean().sqrt())]
    d = x.shape[-1]
    normed = (lambda h: F.layer_norm(h, (d,))) if norm == "layernorm" else (lambda h: F.rms_norm(h, (d,), eps=1e-5))
    before = normed if placement == "pre" else lambda h: h
    after = normed if placement == "post" else lambda h: h
    seen, passes = {}, []
    with torch.no_grad():
        streams = watch(stack, ids[:, :-1])
        with observe(seen.__setitem__):
            stack(ids[:, :-1], passes=passes)
        for i, block in enumerate(stack.blocks):
            torch.testing.assert_close(streams[i], x, rtol=1e-4, atol=1e-4)
            attention = seen[f"blocks.{i}.hook_attn_out"]
            torch.testing.assert_close(attention, block.attn(before(x), passes[0]), rtol=1e-4, atol=1e-4)
            middle = after(x + attention)
            x = after(middle + block.mlp(before(middle)))
            sizes.append(float(x.square().mean().sqrt()))
    assert found.sizes == pytest.approx(sizes, rel=1e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_without_norm_the_stream_multiplies_and_with_it_does_not(norm):
    none, pre, post = (measure_depth(norm, placement, 24) for placement in ("none", "pre", "post"))
    steps = [b / a for a, b in pairwise(none.sizes)]
    assert min(steps) > 1.3, "every block multiplies"
    assert none.growth > 1e5
    assert 2 < pre.growth < 10, "grows about with the root of the depth"
    assert pre.growth / measure_depth(norm, "pre", 6).growth == pytest.approx(2, rel=0.35)
    assert post.sizes[1:] == pytest.approx([1] * 24, rel=1e-3)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_every_depth_is_measured_to_the_end(norm, placement):
    for depth in DEPTHS:
        found = measure_depth(norm, placement, depth)
        assert len(found.sizes) == depth + 1
        assert len(found.gradients) == depth
        assert all(math.isfinite(value) and value > 0 for value in (*found.sizes, *found.gradients, found.loss))


def test_gradients_without_norm_survive_single_precision():
    found, stack, ids = (
        measure_depth("layernorm", "none", 48),
        random_stack("layernorm", "none", 48).double(),
        random_tokens(),
    )
    loss_of(stack, ids).backward()
    exact = [math.sqrt(sum(float(p.grad.square().sum()) for p in block.parameters())) for block in stack.blocks]
    assert found.gradients == pytest.approx(exact, rel=0.1)


def test_the_same_seed_measures_the_same_and_another_does_not():
    first, again, other = (measure_depth("rmsnorm", "pre", 4, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.gradients != other.gradients


def test_what_is_not_there_is_refused():
    for depth in (0, 49):
        with pytest.raises(ValueError, match=f"of {depth} layers"):
            measure_depth("layernorm", "pre", depth)
    with pytest.raises(ValueError, match="placement"):
        measure_depth("layernorm", "beside", 2)
