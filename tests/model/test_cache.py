"""The cache changes nothing but the time: cached = uncached, in any pieces, with padding, at any capacity."""

import psutil
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from model.cache import CacheFullError, KVCache
from model.hooks import edit
from model.masks import MaskRule
from tests.model.tiny import close, some_ids, tiny, tiny_config, within_budget

POSITIONS = ["rope", "learned", "sinusoidal", "alibi", "none"]
PIECES = st.lists(st.integers(1, 6), min_size=1, max_size=6)


def in_pieces(transformer, ids, pieces, cache, mask=None):
    """Logits of `ids` fed piece by piece."""
    masks = [None] * len(pieces) if mask is None else mask.split(pieces, 1)
    return torch.cat([transformer(x, m, cache) for x, m in zip(ids.split(pieces, 1), masks, strict=True)], dim=1)


@given(st.sampled_from(POSITIONS), PIECES, st.integers(0, 20))
@example("alibi", [4, 1, 1], 0)
@torch.no_grad()
def test_any_pieces_equal_the_whole_at_any_capacity(positions, pieces, spare):
    transformer, ids = tiny(positions=positions), some_ids(2, sum(pieces))
    cache = KVCache(transformer.config, room=sum(pieces) + spare, batch=2)
    cached = in_pieces(transformer, ids, pieces, cache)
    close(cached, transformer(ids))
    assert cache.length == sum(pieces)
    # Capacity changes no bit.
    assert torch.equal(cached, in_pieces(transformer, ids, pieces, KVCache(transformer.config, room=64, batch=2)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("positions", POSITIONS)
@torch.no_grad()
def test_in_low_precision_the_cache_costs_nothing_more(positions, dtype):
    transformer, ids = tiny(positions=positions).to(dtype), some_ids(2, 12)
    cache = KVCache(transformer.config, room=12, batch=2, dtype=dtype)
    cached, uncached = in_pieces(transformer, ids, [5, 1, 1, 4, 1], cache), transformer(ids)
    within_budget(cached, uncached, transformer.float()(ids))


@given(
    st.sampled_from(POSITIONS),
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 8)), min_size=1, max_size=4),
    st.booleans(),
    st.integers(0, 4),
    st.integers(0, 999),
)
@torch.no_grad()
def test_each_row_equals_its_unpadded_run(positions, rows, use_cache, steps, seed):
    """Padding on the left, the right and both sides, another amount in every row; and decoding after it."""
    transformer = tiny(positions=positions)
    width = max(left + real for left, real in rows)
    ids, new = some_ids(len(rows), width, seed=seed), some_ids(len(rows), steps, seed=seed + 1)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    for row, (left, real) in enumerate(rows):
        mask[row, left : left + real] = 1
    cache = KVCache(transformer.config, room=width + steps, batch=len(rows)) if use_cache else None
    logits = transformer(ids, mask, cache)
    last = transformer(ids, mask, last_only=True)[:, 0]
    decoded = [transformer(new[:, i : i + 1], cache=cache) for i in range(steps)] if use_cache else []
    for row, (left, real) in enumerate(rows):
        alone = torch.cat([ids[row, left : left + real], new[row]])[None]
        expected = transformer(alone)[0]
        close(logits[row, left : left + real], expected[:real])
        close(last[row], expected[real - 1])
        for i, step in enumerate(decoded):
            close(step[row, 0], expected[real + i])


@torch.no_grad()
def test_a_row_of_padding_only_is_finite_and_disturbs_nobody():
    for positions in POSITIONS:
        transformer, ids, mask = tiny(positions=positions), some_ids(2, 5), torch.tensor([[1] * 5, [0] * 5])
        logits = transformer(ids, mask)
        assert logits.isfinite().all()
        close(logits[0], transformer(ids[:1])[0])
        assert transformer(ids, mask, last_only=True).shape == (2, 1, 50)


@given(st.sampled_from(POSITIONS), st.integers(1, 6), st.integers(0, 5), PIECES, st.integers(0, 7))
@torch.no_grad()
def test_sliding_equals_the_windowed_whole(positions, window, spare, pieces, padding):
    """Any room from the window up, texts longer than the room, and (in one row) padding before the text."""
    transformer, room = tiny(positions=positions), window + spare
    pieces = [min(piece, room - window + 1) for piece in pieces]
    ids, rule = some_ids(2, sum(pieces)), MaskRule(window=window)
    padding = min(padding, sum(pieces) - 1)
    mask = torch.ones(2, sum(pieces), dtype=torch.long)
    mask[1, :padding] = 0
    expected = transformer(ids, rule=rule)
    plain = in_pieces(transformer, ids, pieces, KVCache(transformer.config, room=room, batch=2, window=window))
    close(plain, expected)
    mixed = in_pieces(transformer, ids, pieces, KVCache(transformer.config, room=room, batch=2, window=window), mask)
    close(mixed[0], expected[0])
    close(mixed[1, padding:], transformer(ids[1:, padding:], rule=rule)[0])


@torch.no_grad()
def test_sliding_says_how_much_it_takes_at_once():
    transformer, ids = tiny(), some_ids(1, 9)
    cache = KVCache(transformer.config, room=8, window=3)
    assert cache.max_chunk == 8
    transformer(ids[:, :8], cache=cache)
    assert cache.max_chunk == 6
    with pytest.raises(CacheFullError, match="7 more tokens"):
        transformer(ids[:, :7], cache=cache)
    transformer(ids[:, :6], cache=cache)


@given(st.integers(1, 5), st.integers(1, 4))
@torch.no_grad()
def test_a_narrower_rule_holds_with_a_cache(window, rule_window):
    transformer, ids, rule = tiny(), some_ids(1, 9), MaskRule(window=rule_window)
    for cache in (
        KVCache(transformer.config, room=9),
        KVCache(transformer.config, room=9, window=window),
    ):
        narrow = MaskRule(window=rule_window if cache.window is None else min(window, rule_window))
        parts = [transformer(x, cache=cache, rule=rule) for x in ids.split([4, 1, 3, 1], 1)]
        close(torch.cat(parts, 1), transformer(ids, rule=narrow))


def state(cache):
    """Everything that later passes can see: the filled slots, their positions and validity."""
    n = cache.length
    tensors = [store[:, :, :, :n].clone() for store in cache._storage()]
    return n, cache.max_chunk, *tensors, cache._positions[:, :n].clone(), cache._valid[:, :n].clone()


def same(one, other):
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("bits", [None, 8, 4])
@torch.no_grad()
def test_a_full_cache_refuses_before_anything_is_written(bits):
    transformer, ids = tiny(), some_ids(1, 8)
    cache = KVCache(transformer.config, room=6, bits=bits)
    transformer(ids[:, :4], cache=cache)
    before, whole = state(cache), [store.clone() for store in cache._storage()]
    with pytest.raises(CacheFullError, match=r"3 more tokens do not fit: the cache holds 4 of 6"):
        transformer(ids[:, :3], cache=cache)
    assert same(before, state(cache))
    assert all(torch.equal(a, b) for a, b in zip(whole, cache._storage(), strict=True))
    transformer(ids[:, 4:6], cache=cache)  # what fits still goes in
    assert cache.length == 6


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize(
    "where", ["blocks.0.attn.hook_k", "blocks.1.hook_resid_pre", "blocks.1.mlp.hook_post", "hook_logits"]
)
@torch.no_grad()
def test_a_pass_that_failed_can_be_repeated(where, window):
    def fail(value, name):
        value.fill_(torch.nan)
        raise RuntimeError("stop here")

    transformer, ids = tiny(), some_ids(1, 12)
    cache = KVCache(transformer.config, room=12 if window is None else 4, window=window)
    parts = [transformer(ids[:, :4], cache=cache)]
    for piece in ids[:, 4:].split(2, 1):
        with pytest.raises(RuntimeError, match="stop here"), edit({where: fail}):
            transformer(piece, cache=cache)
        parts.append(transformer(piece, cache=cache))
    close(torch.cat(parts, 1), transformer(ids, rule=MaskRule(window=window)))


@torch.no_grad()
def test_a_failed_first_pass_keeps_nothing_of_the_source():
    def fail(value, name):
        raise RuntimeError("stop here")

    transformer = tiny(kind="encoder_decoder", n_encoder_layers=1)
    ids, source, other = some_ids(1, 4), some_ids(1, 5, seed=2), some_ids(1, 3, seed=3)
    for where in ("encoder.blocks.0.hook_mlp_out", "blocks.1.cross_attn.hook_q", "hook_logits"):
        cache = KVCache(transformer.config, room=4)
        with pytest.raises(RuntimeError, match="stop here"), edit({where: fail}):
            transformer(ids, cache=cache, encoder_ids=other)
        parts = [transformer(ids[:, :2], cache=cache, encoder_ids=source), transformer(ids[:, 2:], cache=cache)]
        close(torch.cat(parts, 1), transformer(ids, encoder_ids=source))


@torch.no_grad()
def test_rows_must_match():
    transformer = tiny()
    for batch, rows in ((1, 2), (2, 1)):
        with pytest.raises(ValueError, match=f"made for {batch} rows and the ids have {rows}"):
            transformer(some_ids(rows, 3), cache=KVCache(transformer.config, room=4, batch=batch))


@torch.no_grad()
def test_past_a_learned_table_nothing_is_kept():
    transformer = tiny(positions="learned", max_positions=6)
    cache, ids = KVCache(transformer.config, room=9), some_ids(1, 9)
    transformer(ids[:, :5], cache=cache)
    with pytest.raises(ValueError, match="6 positions"):
        transformer(ids[:, 5:7], cache=cache)
    assert cache.length == 5
    close(transformer(ids[:, 5:6], cache=cache), transformer(ids[:, :6])[:, 5:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bytes_follow_the_formula(dtype):
    config = tiny_config(n_layers=3, d_head=64)
    values = 2 * 3 * 4 * config.n_kv_heads * 10 * 64  # k and v, layers, rows, heads, slots, features
    assert KVCache(config, room=10, batch=4, dtype=dtype).nbytes == values * dtype.itemsize
    for bits in (8, 4):  # and a step and a low of 4 bytes for every group of 32
        assert KVCache(config, room=10, batch=4, bits=bits).nbytes == values * bits // 8 + values // 32 * 8


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"room": 0}, "slot"),
        ({"batch": 0}, "row"),
        ({"window": 9}, "window"),
        ({"window": 0}, "window"),
        ({"bits": 3}, "bits"),
    ],
    ids=str,
)
def test_what_makes_no_cache(changes, word):
    with pytest.raises(ValueError, match=word):
        KVCache(tiny_config(), **{"room": 8} | changes)


@pytest.mark.parametrize("bits", [None, 8])
@pytest.mark.parametrize("positions", POSITIONS)
@torch.no_grad()
def test_selected_rows_go_on_as_if_they_had_been_alone(positions, bits):
    """Rows left out, taken twice and in another order, with padding in one of them."""
    transformer, ids = tiny(positions=positions), some_ids(3, 6)
    mask = torch.ones(3, 6, dtype=torch.long)
    mask[2, :2] = 0
    cache = KVCache(transformer.config, room=9, batch=3, bits=bits)
    transformer(ids, mask, cache)
    rows, new = [2, 0, 2, 2], some_ids(4, 3, seed=4)
    cache.select(rows)
    found = in_pieces(transformer, new, [1, 2], cache)
    whole = KVCache(transformer.config, room=9, batch=4, bits=bits)
    transformer(ids[rows], mask[rows], whole)
    close(found, in_pieces(transformer, new, [1, 2], whole))
    if bits is None:
        close(found, transformer(torch.cat([ids[rows], new], 1), torch.cat([mask[rows], torch.ones(4, 3)], 1))[:, 6:])


@pytest.mark.parametrize("bits", [None, 8])
@torch.no_grad()
def test_rows_of_one_beginning_change_places_as_a_beam_does(bits):
    """One text is read, goes on in three ways, and what each row has read since follows it to its next place."""
    transformer, prompt = tiny(), some_ids(1, 6)
    cache = KVCache(transformer.config, room=12, bits=bits)
    transformer(prompt, cache=cache)
    cache.select([0, 0, 0])
    read = prompt.expand(3, -1)
    for seed, rows in enumerate(([1, 0, 0], [2, 2, 1], [0, 1, 2], [1, 1, 1], [0, 2, 2])):
        new = some_ids(3, 1, seed=seed)
        transformer(new, cache=cache)
        cache.select(rows)
        read = torch.cat([read, new], 1)[rows]
    whole = KVCache(transformer.config, room=12, batch=3, bits=bits)
    transformer(read[:, :6], cache=whole)
    in_pieces(transformer, read[:, 6:], [1] * 5, whole)
    last = some_ids(3, 1, seed=9)
    found = transformer(last, cache=cache)
    close(found, transformer(last, cache=whole))
    if bits is None:
        close(found, transformer(torch.cat([read, last], 1), last_only=True))


def test_a_prefix_that_a_window_would_forget_is_refused():
    transformer, ids = tiny(), some_ids(1, 9)
    cache = KVCache(transformer.config, room=9, window=3)
    with pytest.raises(ValueError, match="forgets the first tokens, so a prefix of 2 cannot stay open"):
        transformer(ids, cache=cache, rule=MaskRule(prefix=2))
    assert cache.length == 0
    whole = KVCache(transformer.config, room=9)
    close(transformer(ids, cache=whole, rule=MaskRule(prefix=2)), transformer(ids, rule=MaskRule(prefix=2)))


def test_slots_that_are_never_written_take_no_memory():
    config = tiny_config(max_positions=100_000)
    own = psutil.Process()
    before = own.memory_info().rss
    cache = KVCache(config, room=1_000_000, dtype=torch.bfloat16)
    assert cache.nbytes == 2 * 2 * 2 * 1_000_000 * 8 * 2
    assert own.memory_info().rss - before < cache.nbytes / 4
    cache.select([0, 0, 0])
    assert cache.nbytes == 3 * 2 * 2 * 2 * 1_000_000 * 8 * 2
    assert own.memory_info().rss - before < cache.nbytes / 4
    assert not any(bool(part[..., :100, :].any()) for part in cache._dense)
