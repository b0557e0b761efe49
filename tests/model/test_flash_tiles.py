"""Attention tile by tile: whatever the order, the blocks and the mask, it is attention; backward too."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.analysis.flash_checks import backward_difference, forward_difference, plain_rounded
from model.analysis.flash_tiles import ORDERS, FlashAttention
from model.kernels import Visible, attention_scores, explicit
from model.language import LanguageModel
from tests.model.test_kernels import VISIBLE, qkv, visible
from tests.model.tiny import close, within_budget

HEADS = [(4, 4), (4, 2), (6, 1)]
LENGTHS = [(5, 5), (1, 5), (3, 7), (1, 1), (9, 9)]


def gone_through(flash):
    return flash, list(flash)


@st.composite
def tilings(draw):
    """Lengths, block sizes and an order: one by name, or any permutation of the tiles."""
    lengths = draw(st.sampled_from(LENGTHS))
    blocks = draw(st.integers(1, 10)), draw(st.integers(1, 10))
    counts = [math.ceil(n / b) for n, b in zip(lengths, blocks, strict=True)]
    tiles = list(product(*map(range, counts)))
    return lengths, blocks, draw(st.sampled_from(ORDERS) | st.permutations(tiles))


@given(st.sampled_from(VISIBLE), st.sampled_from(HEADS), tilings(), st.booleans(), st.integers(0, 99))
def test_every_order_and_every_block_size_gives_attention(kind, heads, tiling, alibi, seed):
    lengths, (block_q, block_k), order = tiling
    q, k, v = (x.requires_grad_() for x in qkv(seed, *heads, *lengths))
    see = visible(kind, *lengths, heads[0], alibi)
    plain = explicit(q, k, v, see)
    flash = FlashAttention(q.detach(), k.detach(), v.detach(), see, block_q=block_q, block_k=block_k, order=order)
    tiles = list(flash)
    close(flash.out, plain.out.detach())
    close(flash.log_sum_exp.exp(), attention_scores(q, k, see).detach().exp().sum(-1))
    gradient = torch.randn(plain.out.shape, generator=torch.Generator().manual_seed(seed))
    wanted = torch.autograd.grad(plain.out, (q, k, v), gradient)
    for ours, theirs in zip(flash.backward(gradient), wanted, strict=True):
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    # No tile was left out, none came twice, and what was skipped had nothing in it.
    cells = torch.zeros(lengths, dtype=torch.int)
    for place in (*flash.taken, *flash.skipped):
        cells[place.queries, place.keys] += 1
    assert (cells == 1).all()
    scores = attention_scores(q, k, see)
    for place in flash.skipped:
        assert (scores[..., place.queries, place.keys] == -torch.inf).all()
    for tile in tiles:
        assert (tile.scores > -torch.inf).any()
        torch.testing.assert_close(tile.scores, scores[..., tile.place.queries, tile.place.keys].detach())


@given(tilings(), st.integers(0, 99))
def test_after_every_tile_the_state_is_that_of_the_keys_seen(tiling, seed):
    """Each row's largest score, sum of weights and sum of values, worked out anew in float64 from what it has met."""
    lengths, (block_q, block_k), order = tiling
    q, k, v = qkv(seed, 2, 1, *lengths, batch=1)
    see = visible("causal", *lengths, 2, False, batch=1)
    flash = FlashAttention(q, k, v, see, block_q=block_q, block_k=block_k, order=order)
    scores, seen = attention_scores(q, k, see).double(), torch.zeros(lengths, dtype=torch.bool)
    before = torch.full(scores.shape[:-1], -torch.inf, dtype=torch.float64)
    for tile in flash:
        rows, keys = tile.place.queries, tile.place.keys
        seen[rows, keys] = True
        met = scores.masked_fill(~seen, -torch.inf)[..., rows, :]
        largest = met.amax(-1)
        base = largest.nan_to_num(neginf=0.0)
        weights = (met - base[..., None]).exp()
        close(tile.largest.double(), largest)
        close(tile.factor.double(), (before[..., rows] - base).exp())
        close(tile.total.double(), weights.sum(-1))
        close(tile.added.double(), weights[..., keys].sum(-1))
        close(tile.weights.double(), weights[..., keys])
        close(tile.out.double(), weights @ v.double())
        before[..., rows] = largest


def test_tiles_wholly_above_the_diagonal_are_skipped():
    q, k, v = qkv(0, 2, 2, 12, 12)
    flash = FlashAttention(q, k, v, Visible(causal=True), block_q=4, block_k=4)
    assert [tuple(place) for place in flash.taken] == [
        (0, 4, 0, 4), (4, 8, 0, 4), (4, 8, 4, 8), (8, 12, 0, 4), (8, 12, 4, 8), (8, 12, 8, 12)
    ]  # fmt: skip
    assert len(flash.skipped) == 3
    assert FlashAttention(q, k, v, Visible(), block_q=4, block_k=4).skipped == []
    # Blocks that do not divide the length, and are not square.
    flash = FlashAttention(q, k, v, Visible(causal=True), block_q=5, block_k=7, order="columns")
    assert [tuple(p) for p in flash.taken] == [
        (0, 5, 0, 7),
        (5, 10, 0, 7),
        (10, 12, 0, 7),
        (5, 10, 7, 12),
        (10, 12, 7, 12),
    ]
    assert [tuple(p) for p in flash.skipped] == [(0, 5, 7, 12)]


def test_going_through_it_again_starts_anew():
    q, k, v = qkv(0, 2, 2, 7, 7)
    flash = FlashAttention(q, k, v, Visible(causal=True), block_q=2, block_k=3)
    first, out = [tile.total.clone() for tile in flash], flash.out
    for tile, total in zip(flash, first, strict=True):
        assert torch.equal(tile.total, total)
    assert torch.equal(flash.out, out)


def test_large_scores_neither_overflow_nor_vanish():
    q, k, v = qkv(0, 2, 2, 9, 9)
    see = Visible(causal=True)
    flash = FlashAttention(q * 1e6, k, v, see, block_q=2, block_k=2, order="shuffled")
    list(flash)
    close(flash.out, explicit(q * 1e6, k, v, see).out)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["all", "causal", "window", "dead rows"])
def test_half_precision_stays_in_the_budget_of_plain_half_precision(dtype, kind):
    q, k, v = qkv(0, 4, 2, 9, 9, size=32)
    see = visible(kind, 9, 9, 4, False)
    low = [x.to(dtype) for x in (q, k, v)]
    flash = FlashAttention(*low, see, block_q=2, block_k=3, dtype=dtype)
    list(flash)
    assert flash.out.dtype == dtype
    exact = explicit(*(x.float() for x in low), see).out
    within_budget(flash.out, plain_rounded(*low, see, dtype), exact)
    found = forward_difference(flash, *low)
    assert found.tiled == pytest.approx(float((flash.out.float() - exact).abs().max()))
    assert 0 < found.tiled <= 2 * found.plain


@settings(max_examples=20)
@given(st.integers(1, 17), st.integers(1, 17), st.sampled_from(ORDERS))
def test_on_a_runs_own_vectors(storyteller: LanguageModel, block_q: int, block_k: int, order: str) -> None:
    run = storyteller.trace("The little cat sat on the mat because it was")
    for layer in (0, 5):
        q, k, v, see = run.attention_inputs(f"blocks.{layer}.attn")
        flash = FlashAttention(q, k, v, see, block_q=block_q, block_k=block_k, order=order)
        found = forward_difference(flash, q, k, v)
        assert found.plain == 0
        assert found.tiled <= 2e-6 * max(1.0, found.largest)
        close(flash.out[0].transpose(0, 1), run[f"blocks.{layer}.attn.hook_z"])
        assert max(backward_difference(q, k, v, see, block_q, block_k)) <= 1e-5


@pytest.mark.parametrize(("blocks", "order"), [((0, 1), "rows"), ((1, -1), "rows")])
def test_a_tile_that_holds_nothing_is_refused(blocks, order):
    q, k, v = qkv(0, 1, 1, 3, 3)
    with pytest.raises(ValueError, match="holds nothing"):
        FlashAttention(q, k, v, Visible(), block_q=blocks[0], block_k=blocks[1], order=order)


@pytest.mark.parametrize("order", ["diagonal", [(0, 0)], [(0, 0), (0, 0), (1, 0), (1, 1)]])
def test_an_order_that_is_none_is_refused(order):
    q, k, v = qkv(0, 1, 1, 4, 4)
    with pytest.raises(ValueError, match="order"):
        FlashAttention(q, k, v, Visible(), block_q=2, block_k=2, order=order)
