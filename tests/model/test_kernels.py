"""Fused attention equals the explicit one, whatever is visible; watching changes nothing; editing goes explicit."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from model.attention import Pass
from model.cache import KVCache
from model.hooks import edit, observe
from model.kernels import Visible, attention_pattern, attention_scores, explicit, fused, repeat_kv
from model.masks import MaskRule
from model.positions import alibi_bias, alibi_slopes
from tests.model.tiny import close, some_ids, tiny, within_budget

VISIBLE = ["all", "causal", "window", "prefix", "padding", "dead rows", "cached", "nothing"]


def qkv(seed, heads, kv_heads, queries, keys, batch=2, size=8, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch, heads, queries, size), (batch, kv_heads, keys, size), (batch, kv_heads, keys, size)]
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def visible(kind, queries, keys, heads, alibi, batch=2):
    """What is visible, by name; the last query stands at the last key."""
    q_at = torch.arange(keys - queries, keys).expand(batch, -1)
    k_at = torch.arange(keys).expand(batch, -1)
    valid = torch.ones(batch, keys, dtype=torch.bool)
    bias = alibi_bias(q_at, k_at, alibi_slopes(heads)) if alibi else None
    if kind == "all":
        return Visible(bias=bias)
    if kind == "causal" and queries == keys:
        return Visible(causal=True, bias=bias)
    rule = {"window": MaskRule(window=2), "prefix": MaskRule(prefix=2)}.get(kind, MaskRule())
    if kind == "padding":
        valid[0, -1] = False
    mask = rule.mask(q_at, k_at, valid)
    if kind == "dead rows":
        mask[0, :, 0] = mask[1, :, -1] = False
    if kind == "nothing":
        mask = torch.zeros_like(mask)
    return Visible(mask=mask, bias=bias)


def one_by_one(q, k, v, allowed, bias, scale):
    """The formula in float64, a query and a head at a time."""
    out = torch.zeros_like(q, dtype=torch.float64)
    group = q.shape[1] // k.shape[1]
    for b, h, t in torch.cartesian_prod(*(torch.arange(n) for n in q.shape[:3])).tolist():
        keys = [s for s in range(k.shape[2]) if allowed[b, 0, t, s]]
        if keys:
            scores = k[b, h // group, keys].double() @ q[b, h, t].double() * scale
            scores = scores if bias is None else scores + bias[b, h, t, keys].double()
            out[b, h, t] = scores.softmax(-1) @ v[b, h // group, keys].double()
    return out


@given(
    st.sampled_from(VISIBLE),
    st.sampled_from([(4, 4), (4, 2), (6, 1), (6, 3)]),
    st.sampled_from([(5, 5), (1, 5), (3, 7), (1, 1)]),
    st.booleans(),
    st.integers(0, 99),
)
def test_fused_equals_explicit_equals_formula(kind, heads, lengths, alibi, seed):
    q, k, v = (x.requires_grad_() for x in qkv(seed, *heads, *lengths))
    see = visible(kind, *lengths, heads[0], alibi)
    mask = see.mask
    if mask is None:
        mask = torch.ones(2, 1, *lengths, dtype=torch.bool)
        mask = mask.tril() if see.causal else mask
    results, gradients = [], []
    for kernel in (fused, explicit):
        attended = kernel(q, k, v, see)
        results.append(attended.out)
        gradients.append(torch.autograd.grad(attended.out.square().sum(), (q, k, v)))
    torch.testing.assert_close(*results, rtol=0, atol=1e-5)
    close(results[1].double(), one_by_one(q, k, v, mask, see.bias, 8**-0.5))
    for ours, theirs in zip(*gradients, strict=True):
        assert ours.isfinite().all()
        # With one visible key a query's gradient is 0: terms of some tens that cancel, each rounded in fp32.
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=5e-5)
    assert attended.pattern is not None
    rows = mask.any(-1).expand(-1, heads[0], -1).float()
    close(attended.pattern.sum(-1), rows)  # 1 for every query that may read something, 0 for the others
    assert not attended.pattern.masked_select(~mask).any()
    assert not results[0][rows == 0].any()
    assert not results[1][rows == 0].any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("alibi", [False, True])
@pytest.mark.parametrize("kind", VISIBLE)
def test_low_precision_costs_no_more_than_plainly(dtype, alibi, kind):
    q, k, v = qkv(0, 4, 2, 5, 5, dtype=dtype)
    see = visible(kind, 5, 5, 4, alibi)
    exact = explicit(q.float(), k.float(), v.float(), see).out
    # The plain low-precision reference: every step rounded to the dtype.
    scores = q @ repeat_kv(k, 4).transpose(-1, -2) * 8**-0.5
    scores = scores if see.bias is None else scores + see.bias.to(dtype)
    allowed = see.mask if see.mask is not None else torch.ones(5, 5, dtype=torch.bool)
    scores = scores.masked_fill(~(allowed.tril() if see.causal else allowed), -torch.inf)
    plain = scores.softmax(-1).nan_to_num() @ repeat_kv(v, 4)
    for kernel in (fused, explicit):
        out = kernel(q, k, v, see).out
        assert out.dtype == dtype
        within_budget(out, plain, exact)


def test_a_key_value_head_serves_neighbouring_query_heads():
    x = torch.arange(3.0).view(1, 3, 1, 1)
    assert repeat_kv(x, 6).flatten().tolist() == [0, 0, 1, 1, 2, 2]  # interleaved, not 0 1 2 0 1 2


@pytest.mark.parametrize("alibi", [False, True])
@pytest.mark.parametrize("kind", VISIBLE)
def test_large_scores_neither_overflow_nor_break_through_the_mask(kind, alibi):
    q, k, v = qkv(0, 2, 2, 5, 5)
    q, see = q * 1e6, visible(kind, 5, 5, 2, alibi)
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool) if see.mask is None else see.mask
    expected = one_by_one(q, k, v, mask.tril() if see.causal else mask, see.bias, 8**-0.5)
    for kernel in (fused, explicit):
        close(kernel(q, k, v, see).out.double(), expected)


def test_causal_with_a_cache_is_lower_right():
    """One new query reads all keys, and of several each reads up to its own; upper-left would read the first alone."""
    q, k, v = qkv(3, 4, 2, 2, 6)
    square = torch.cat([torch.zeros(2, 4, 4, 8), q], dim=2)
    expected = explicit(square, k, v, Visible(causal=True)).out[:, :, -2:]
    transformer = tiny()
    cache = KVCache(transformer.config, room=6, batch=2)
    ids, passes = some_ids(2, 6), []
    transformer(ids[:, :4], cache=cache)
    transformer(ids[:, 4:], cache=cache, passes=passes)
    for kernel in (fused, explicit):
        close(kernel(q, k, v, passes[0].visible).out, expected)
    transformer(ids[:, :4], cache=KVCache(transformer.config, room=6, batch=2), passes=passes)
    assert passes[1].visible == Visible(causal=True)


def names_of(run):
    return set(run.kernels.values())


def recorded(transformer, ids, names=(), **arguments):
    """Logits and the pass, with some hooks edited into themselves."""
    passes: list[Pass] = []
    with observe(lambda name, value: None), edit({name: lambda x, _: x.clone() for name in names}):
        logits = transformer(ids, passes=passes, **arguments)
    return logits, passes[0]


@pytest.mark.parametrize("positions", ["rope", "alibi", "none"])
@torch.no_grad()
def test_watching_leaves_the_logits_as_they_are_bit_for_bit(positions):
    transformer, ids, mask = tiny(positions=positions), some_ids(2, 9), torch.ones(2, 9)
    mask[0, :3] = 0
    for attention_mask in (None, mask):
        seen, passes = {}, []
        with observe(seen.__setitem__):
            watched = transformer(ids, attention_mask, passes=passes)
            q, k = (
                seen[f"blocks.1.attn.hook_{'rot_' if positions == 'rope' else ''}{x}"].transpose(1, 2) for x in "qk"
            )
            pattern = attention_pattern(attention_scores(q, k, passes[0].visible))
        assert torch.equal(watched, transformer(ids, attention_mask))
        # The pattern beside it is the one that was used.
        mixed = pattern @ repeat_kv(seen["blocks.1.attn.hook_v"].transpose(1, 2), 4)
        close(seen["blocks.1.attn.hook_z"], mixed.transpose(1, 2))


@torch.no_grad()
def test_the_pass_records_which_kernel_ran():
    transformer, ids = tiny(), some_ids(1, 7)
    logits, run = recorded(transformer, ids)
    assert set(run.kernels) == {"blocks.0.attn", "blocks.1.attn"}
    assert names_of(run) <= {"flash", "math", "memory-efficient", "cudnn"}
    for hook in ("hook_attn_scores", "hook_pattern"):
        edited, run = recorded(transformer, ids, [f"blocks.1.attn.{hook}"])
        assert run.kernels["blocks.1.attn"] == "explicit"
        assert run.kernels["blocks.0.attn"] != "explicit"
        close(edited, logits)
    for hook in ("hook_q", "hook_z"):
        assert "explicit" not in names_of(recorded(transformer, ids, [f"blocks.1.attn.{hook}"])[1])


@torch.no_grad()
def test_the_reported_kernel_is_the_one_torch_runs():
    """Flash on a CPU where torch has it: with that backend alone allowed, the call still works."""
    q, k, v = qkv(0, 4, 4, 6, 6)
    name = fused(q, k, v, Visible(causal=True), name_kernel=True).kernel
    backend = {"flash": torch.nn.attention.SDPBackend.FLASH_ATTENTION, "math": torch.nn.attention.SDPBackend.MATH}[name]
    with torch.nn.attention.sdpa_kernel(backend):
        fused(q, k, v, Visible(causal=True))


@torch.no_grad()
def test_a_device_that_does_not_tell_its_kernel(monkeypatch):
    """torch has no such query for Apple's MPS; a run there is recorded all the same."""

    def refuse(*_, **__):
        raise NotImplementedError("Could not run 'aten::_fused_sdp_choice' with arguments from the 'MPS' backend.")

    monkeypatch.setattr(torch, "_fused_sdp_choice", refuse)
    transformer, ids = tiny(), some_ids(1, 7)
    logits, run = recorded(transformer, ids)
    assert torch.equal(logits, transformer(ids))
    assert names_of(run) == {"fused"}


@torch.no_grad()
def test_kernels_are_not_recorded_for_nobody():
    passes: list[Pass] = []
    tiny()(some_ids(1, 4), passes=passes)
    assert passes[0].kernels == {}


@given(
    st.sampled_from(["rope", "alibi", "learned"]),
    st.none() | st.integers(1, 6),
    st.sampled_from([None, 8, 4]),
    st.lists(st.integers(1, 7), min_size=2, max_size=6),
    st.integers(0, 12),
)
@example("rope", 3, None, [6, 7], 12)  # a row of padding only, moved to make room
@torch.no_grad()
def test_what_lies_in_unused_slots_never_matters(positions, window, bits, pieces, padding):
    transformer, ids = tiny(positions=positions), some_ids(2, sum(pieces))
    mask = torch.ones(2, sum(pieces), dtype=torch.bool)
    mask[0, :padding] = False
    outs = []
    for poison in (0.0, torch.nan):
        cache = KVCache(
            transformer.config, room=sum(pieces) if window is None else 12, batch=2, window=window, bits=bits
        )
        for store in cache._storage():
            store.fill_(poison if store.is_floating_point() else 7)
        parts = [transformer(x, m, cache) for x, m in zip(ids.split(pieces, 1), mask.split(pieces, 1), strict=True)]
        outs.append(torch.cat(parts, dim=1))
    assert outs[0].isfinite().all()
    assert torch.equal(*outs)


def test_where_there_is_no_key_at_all_the_output_is_zero():
    q, nothing = torch.randn(1, 2, 3, 8), torch.empty(1, 2, 0, 8)
    attended = explicit(q, nothing, nothing, Visible())
    assert attended.pattern.shape == (1, 2, 3, 0)
    assert torch.equal(attended.out, torch.zeros(1, 2, 3, 8))
