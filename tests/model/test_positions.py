"""Positions against the papers' formulas, and what goes wrong when two conventions are mixed up."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.bloom.modeling_bloom import build_alibi_tensor

from model.masks import MaskRule
from model.positions import (
    PositionEmbedding,
    alibi_bias,
    alibi_slopes,
    positions_from_mask,
    rope_frequencies,
    rope_rotation,
    rotate,
    sinusoidal_table,
)
from tests.model.tiny import close, some_ids, tiny, tiny_config


def vectors(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def interleaved(x, positions, theta):
    """RoPE as the paper writes it: features 2i and 2i + 1 are a complex number, turned by position times frequency."""
    turned = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    frequency = theta ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    angle = positions[..., None, None].double() * frequency
    return torch.view_as_real(turned * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


@given(st.sampled_from([2, 8, 64]), st.sampled_from([10_000.0, 500.0, 1e6]), st.integers(0, 400))
def test_half_split_equals_interleaved_after_the_right_permutation(size, theta, start):
    x, positions = vectors(2, 5, 3, size), torch.arange(start, start + 5).expand(2, 5)
    ours = rotate(x, rope_rotation(positions, size, theta))
    order = torch.arange(size).view(2, -1).T.flatten()  # half-split feature that is the interleaved one's partner
    torch.testing.assert_close(
        ours[..., order].double(), interleaved(x[..., order], positions, theta), rtol=0, atol=1e-4
    )
    if size > 2 and start:
        assert (ours.double() - interleaved(x, positions, theta)).abs().max() > 0.1


def test_a_model_with_the_other_convention_gives_other_numbers():
    """Permuting the rows of W_Q and W_K translates the conventions; without it the logits are visibly wrong."""
    model, ids = tiny(), some_ids(1, 9)
    logits = model(ids)
    order = torch.arange(8).view(2, -1).T.flatten()
    for block in model.blocks:
        for layer, heads in ((block.attn.W_Q, 4), (block.attn.W_K, 2)):
            rows = layer.weight.unflatten(0, (heads, 8))
            layer.weight.copy_(rows[:, order].flatten(0, 1))
    assert (model(ids) - logits).abs().max() > 1e-2


def test_rope_turns_and_keeps_lengths():
    x, positions = vectors(1, 200, 2, 16), torch.arange(200)[None]
    rotated = rotate(x, rope_rotation(positions, 16))
    close(rotated.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(rotated[:, 0], x[:, 0])
    # Scores depend on the distance alone.
    q, k = vectors(16, seed=1).expand(1, 200, 1, 16), vectors(16, seed=2).expand(1, 200, 1, 16)
    q, k = (rotate(v, rope_rotation(positions, 16))[0, :, 0] for v in (q, k))
    scores = q @ k.T
    for distance in (0, 1, 50):
        diagonal = scores.diagonal(-distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-4)


def test_rope_frequencies():
    close(rope_frequencies(8, 100.0), torch.tensor([1.0, 100**-0.25, 100**-0.5, 100**-0.75]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_angles_stay_exact_in_low_precision(dtype):
    """bf16 has no 257: positions and tables must not be rounded, only the features."""
    x, positions = vectors(1, 1, 1, 64).to(dtype), torch.tensor([[257]])
    exact = rotate(x.double().float(), rope_rotation(positions, 64))
    assert torch.equal(rotate(x, rope_rotation(positions, 64)), exact.to(dtype))
    assert not torch.equal(rotate(x, rope_rotation(torch.tensor([[256]]), 64)), exact.to(dtype))
    model = tiny(positions="sinusoidal", max_positions=600).to(dtype)
    table = model.pos_embed(torch.arange(600)[None])
    assert table.dtype == torch.float32
    assert torch.equal(table[0], sinusoidal_table(600, 32))


def test_sinusoids_are_the_papers():
    table = sinusoidal_table(300, 12)
    for position in (0, 1, 17, 299):
        for i in range(6):
            angle = position / 10_000 ** (2 * i / 12)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-4)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-4)


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 7, 8, 12, 16, 20])
def test_alibi_is_blooms_up_to_what_softmax_does_not_see(heads):
    theirs = build_alibi_tensor(torch.ones(1, 9), heads, torch.float32).view(1, heads, 1, 9)
    at = torch.arange(9)[None]
    ours = alibi_bias(at, at, alibi_slopes(heads))
    causal = torch.ones(9, 9).triu(1).bool()
    patterns = [(bias.expand(1, heads, 9, 9)).masked_fill(causal, -torch.inf).softmax(-1) for bias in (ours, theirs)]
    close(*patterns)
    assert (ours <= 0).all()
    assert (ours.diagonal(dim1=-2, dim2=-1) == 0).all()


def test_alibi_slopes_of_the_paper():
    close(alibi_slopes(8), torch.tensor([2.0**-i for i in range(1, 9)]))


def test_alibi_with_a_cache_has_the_last_rows():
    slopes, at = alibi_slopes(4), torch.arange(6)[None]
    assert torch.equal(alibi_bias(at[:, 4:], at, slopes), alibi_bias(at, at, slopes)[:, :, 4:])


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4))
def test_positions_count_real_tokens(rows):
    mask = torch.tensor(rows)
    positions = positions_from_mask(mask)
    for row in range(len(rows)):
        assert positions[row][mask[row]].tolist() == list(range(int(mask[row].sum())))
    assert ((positions >= 0) & (positions < 6)).all()


def test_a_learned_table_ends():
    table = PositionEmbedding(tiny_config(positions="learned", max_positions=4))
    assert table(torch.tensor([[0, 3]])).shape == (1, 2, 32)
    with pytest.raises(ValueError, match="longer than the 4 positions"):
        table(torch.tensor([[0, 4]]))


@given(st.integers(1, 7), st.none() | st.integers(1, 8), st.integers(0, 8), st.booleans(), st.integers(0, 6))
def test_masks_are_their_definition(size, window, prefix, causal, padding):
    at, valid = torch.arange(size)[None], (torch.arange(size) >= padding)[None]
    mask = MaskRule(causal, window, prefix).mask(at, at, valid)
    assert mask.shape == (1, 1, size, size)
    for q in range(size):
        for k in range(size):
            near = window is None or abs(q - k) < window
            expected = k >= padding and (k < prefix or (near and (k <= q or not causal)))
            assert bool(mask[0, 0, q, k]) == expected


def test_rules_that_make_no_sense():
    for arguments, says in (({"window": 0}, "window is 0"), ({"prefix": -1}, "prefix is -1")):
        with pytest.raises(ValueError, match=says):
            MaskRule(**arguments)
