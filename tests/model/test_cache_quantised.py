"""INT8 and INT4 caches: the error is bounded, paid once per token, and local to its group of features."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.cache import KVCache, dequantise, quantise
from tests.model.tiny import some_ids, tiny, tiny_config

GROUP = 32


def vectors(seed, *shape, scale=1.0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale


@given(
    st.sampled_from([8, 4]),
    st.sampled_from([2, 8, 32, 48, 64, 80, 96]),
    st.integers(0, 999),
    st.sampled_from([1e-6, 1.0, 1e4]),
    st.sampled_from([0.0, -3.0, 1e3]),
)
def test_error_is_at_most_half_a_step_of_the_own_group(bits, size, seed, scale, offset):
    x = vectors(seed, 3, 5, size, scale=scale) + offset
    codes, step, low = quantise(x, bits)
    assert codes.dtype == torch.uint8
    assert codes.shape == (3, 5, size * bits // 8)
    group = {48: 24, 80: 20}.get(size, min(GROUP, size))
    groups = x.unflatten(-1, (-1, group))
    spread = groups.amax(-1) - groups.amin(-1)
    torch.testing.assert_close(step, spread / (2**bits - 1))
    error = (dequantise(codes, step, low, bits) - x).abs().unflatten(-1, (-1, group)).amax(-1)
    rounding = x.abs().amax() * 4 * torch.finfo(torch.float32).eps  # of the arithmetic around it
    assert (error <= step / 2 + rounding).all()


@pytest.mark.parametrize("bits", [8, 4])
def test_ends_and_constants_are_exact(bits):
    x = torch.linspace(-1, 1, GROUP)
    back = dequantise(*quantise(x, bits), bits)
    torch.testing.assert_close(back[[0, -1]], x[[0, -1]])
    for constant in (0.0, 7.25, -1e30):
        flat = torch.full((2, GROUP), constant)
        assert torch.equal(dequantise(*quantise(flat, bits), bits), flat)


@pytest.mark.parametrize("bits", [8, 4])
def test_codes_use_their_whole_range(bits):
    codes, _, _ = quantise(vectors(0, 50, 64), bits)
    unpacked = codes if bits == 8 else torch.cat([codes & 15, codes >> 4], -1)
    assert unpacked.min() == 0
    assert unpacked.max() == 2**bits - 1


@pytest.mark.parametrize("bits", [8, 4])
def test_outliers_spoil_only_their_own_group(bits):
    x = vectors(1, 20, 64)
    spoiled = x.clone()
    spoiled[:, 5] = 1000.0
    error, error_spoiled = ((dequantise(*quantise(v, bits), bits) - v).abs() for v in (x, spoiled))
    assert torch.equal(error[:, GROUP:], error_spoiled[:, GROUP:])
    assert error_spoiled[:, :GROUP].max() <= 1000.0 / (2**bits - 1)


@pytest.mark.parametrize(("bits", "size"), [(8, 37), (4, 74), (4, 33), (4, 3), (2, 32), (16, 32)])
def test_what_cannot_be_quantised_is_refused(bits, size):
    with pytest.raises(ValueError, match=r"bits|divide"):
        quantise(torch.zeros(1, size), bits)
    with pytest.raises(ValueError, match=r"bits|divide"):
        KVCache(tiny_config(d_head=size, positions="none"), room=4, bits=bits)


@given(st.sampled_from([8, 4]), st.none() | st.integers(1, 4), st.lists(st.integers(1, 3), min_size=2, max_size=6))
@torch.no_grad()
def test_every_token_is_quantised_once(bits, window, pieces):
    """Codes of old tokens stay as they were, when others come and when slots are moved."""
    transformer, ids = tiny(), some_ids(2, sum(pieces))
    room = sum(pieces) if window is None else window + 2
    cache = KVCache(transformer.config, room=room, batch=2, window=window, bits=bits)
    first_seen = {}
    for piece in ids.split(pieces, 1):
        transformer(piece, cache=cache)
        for slot in range(cache.length):
            for row in range(2):
                token = row, int(cache._positions[row, slot])
                codes = [store[:, row, :, slot].clone() for store in cache._storage()]
                for old, new in zip(first_seen.setdefault(token, codes), codes, strict=True):
                    assert torch.equal(old, new)


@pytest.mark.parametrize("bits", [8, 4])
@torch.no_grad()
def test_what_is_read_is_what_was_stored_up_to_half_a_step(bits):
    config = tiny_config()
    cache, k, v = KVCache(config, room=6, bits=bits), vectors(2, 1, 2, 6, 8), vectors(3, 1, 2, 6, 8)
    for start in (0, 3):
        plan = cache.plan(3)
        for layer in range(config.n_layers):
            read = cache.append(layer, k[:, :, start : start + 3], v[:, :, start : start + 3], plan.first)
        cache.commit(plan)
    for back, x in zip(read, (k, v), strict=True):
        step = (x.amax(-1) - x.amin(-1))[..., None] / (2**bits - 1)
        assert ((back - x).abs() <= step / 2 + 1e-6).all()


@torch.no_grad()
def test_eight_bits_cost_less_than_four():
    transformer, ids = tiny(), some_ids(4, 20)
    exact, errors = transformer(ids), {}
    for bits in (8, 4):
        cache = KVCache(transformer.config, room=20, batch=4, bits=bits)
        parts = [transformer(piece, cache=cache) for piece in ids.split(5, 1)]
        errors[bits] = (torch.cat(parts, 1) - exact).abs().mean().item()
    assert 0 < errors[8] < errors[4] / 8 < exact.abs().mean().item() / 8


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("d_head", [48, 80])
def test_heads_of_any_usual_size_can_be_quantised(d_head, bits):
    config = tiny_config(d_model=2 * d_head, n_heads=2, n_kv_heads=2, d_head=d_head)
    cache = KVCache(config, room=6, bits=bits)
    x = vectors(3, 1, 2, 5, d_head)
    cache.plan(5)
    keys, _ = cache.append(0, x, x)
    assert float((keys - x).abs().max()) <= float(x.max() - x.min()) / (2**bits - 1) / 2


@pytest.mark.parametrize(("d_head", "bits", "says"), [(37, 8, "groups of 8 to 32"), (9, 4, "choose 8 bits")])
def test_a_head_that_cannot_be_quantised_is_refused_at_once(d_head, bits, says):
    config = tiny_config(d_model=2 * d_head, n_heads=2, n_kv_heads=2, d_head=d_head, positions="none")
    with pytest.raises(ValueError, match=says):
        KVCache(config, room=6, bits=bits)
