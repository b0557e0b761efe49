"""Smaller caches: merged heads against edited activations, integers and windows against references of their own."""

import math

import pytest
import torch

from model.analysis.costs import cache_formula
from model.analysis.smaller_caches import CacheChoice, cache_cost, head_counts, with_merged_heads
from model.cache import KVCache, dequantise, quantise
from model.hooks import edit
from model.language import LanguageModel
from model.losses import token_losses
from model.masks import MaskRule
from model.trace import Trace
from tests.model.tiny import close, some_ids, tiny

TEXT = "The little cat sat on the mat because it was very tired. 我今天很开心，因为"


@pytest.fixture(scope="module")
def run(storyteller: LanguageModel) -> Trace:
    return storyteller.trace(TEXT)


def bits(logits: torch.Tensor, run: Trace) -> float:
    return float(token_losses(logits, run.tokens).mean()) / math.log(2)


def loss_with(lm: LanguageModel, run: Trace, change) -> float:
    """Bits a token when keys and values of every layer are changed on their way into attention."""
    names = [f"blocks.{i}.attn.{hook}" for i in range(lm.config.n_layers) for hook in ("hook_rot_k", "hook_v")]
    with lm.edit(dict.fromkeys(names, lambda x, name: change(x))):
        logits = lm.trace(run.tokens)["hook_logits"]
    return bits(logits, run)


def test_the_full_cache_costs_nothing(storyteller: LanguageModel, run: Trace) -> None:
    found = cache_cost(run, storyteller.transformer, CacheChoice(4))
    assert found.loss == pytest.approx(bits(run["hook_logits"], run), abs=1e-5)
    assert found.key_error is found.value_error is None
    assert found.nbytes == cache_formula(storyteller.config, len(run.tokens), 32).count


@pytest.mark.parametrize("heads", [2, 1])
def test_merged_heads_are_means_of_neighbours(storyteller: LanguageModel, run: Trace, heads: int) -> None:
    """Averaging weights is averaging what they project; RoPE turns all heads alike."""
    found = cache_cost(run, storyteller.transformer, CacheChoice(heads))
    assert found.loss == pytest.approx(loss_with(storyteller, run, lambda x: mean_of(x, heads)), abs=1e-4)
    assert found.nbytes * 4 // heads == cache_formula(storyteller.config, len(run.tokens), 32).count
    for name, error in (("hook_rot_k", found.key_error), ("hook_v", found.value_error)):
        x = torch.stack([run[f"blocks.{i}.attn.{name}"] for i in range(6)])
        assert error == pytest.approx(float((x - mean_of(x, heads)).norm() / x.norm()), rel=1e-4)


def mean_of(x: torch.Tensor, heads: int) -> torch.Tensor:
    """`(…, T, H, D)`: every head replaced by its group's mean."""
    groups = x.split(x.shape[2] // heads, dim=2)
    return torch.cat([group.mean(2, keepdim=True).expand_as(group) for group in groups], dim=2)


def test_merging_changes_nobody_elses_weights(storyteller: LanguageModel) -> None:
    before = storyteller.transformer.blocks[0].attn.W_K.weight.clone()
    smaller = with_merged_heads(storyteller.transformer, 1)
    assert smaller.embed.weight.data_ptr() == storyteller.transformer.embed.weight.data_ptr()
    assert torch.equal(storyteller.transformer.blocks[0].attn.W_K.weight, before)
    expected = before.view(4, 32, 256).mean(0)
    torch.testing.assert_close(smaller.blocks[0].attn.W_K.weight, expected)
    assert with_merged_heads(storyteller.transformer, 4) is storyteller.transformer


def test_merging_equal_heads_changes_nothing() -> None:
    transformer = tiny(qkv_bias=True)
    for block in transformer.blocks:
        for matrix in (block.attn.W_K, block.attn.W_V):
            matrix.weight.copy_(matrix.weight[:8].repeat(2, 1))
            matrix.bias.copy_(matrix.bias[:8].repeat(2))
    close(with_merged_heads(transformer, 1)(some_ids(1, 9)), transformer(some_ids(1, 9)))


@pytest.mark.parametrize("bits", [8, 4])
def test_integers(storyteller: LanguageModel, run: Trace, bits: int) -> None:
    found = cache_cost(run, storyteller.transformer, CacheChoice(4, bits))
    expected = loss_with(storyteller, run, lambda x: dequantise(*quantise(x, bits), bits))
    assert found.loss == pytest.approx(expected, abs=1e-4)
    assert found.nbytes == cache_formula(storyteller.config, len(run.tokens), bits).count
    x = torch.stack([run[f"blocks.{i}.attn.hook_v"] for i in range(6)])
    assert found.value_error == pytest.approx(float((x - dequantise(*quantise(x, bits), bits)).norm() / x.norm()))
    assert 0 < found.key_error < 1 / 2**bits * 2


def test_token_by_token_costs_the_same(storyteller: LanguageModel, run: Trace) -> None:
    """One pass through a cache of integers is what writing one token at a time does."""
    cache = KVCache(storyteller.config, room=len(run.tokens), bits=4)
    ids = torch.tensor([run.tokens])
    with torch.no_grad():
        logits = torch.cat([storyteller.transformer(x, cache=cache)[0] for x in ids.split(1, 1)])
    loss = bits(logits, run)
    assert cache_cost(run, storyteller.transformer, CacheChoice(4, 4)).loss == pytest.approx(loss, abs=1e-4)


@pytest.mark.parametrize("window", [1, 3, 10])
def test_a_window_is_the_windowed_mask(storyteller: LanguageModel, run: Trace, window: int) -> None:
    found = cache_cost(run, storyteller.transformer, CacheChoice(4, None, window))
    masked = storyteller.trace(run.tokens, rule=MaskRule(window=window))
    assert found.loss == pytest.approx(bits(masked["hook_logits"], run), abs=1e-5)
    assert found.nbytes == cache_formula(storyteller.config, window, 32).count


def test_a_window_longer_than_the_text_is_none(storyteller: LanguageModel, run: Trace) -> None:
    found = cache_cost(run, storyteller.transformer, CacheChoice(4, None, len(run.tokens)))
    assert found.choice.window is None


def test_one_token_has_no_loss(storyteller: LanguageModel) -> None:
    found = cache_cost(storyteller.trace([5]), storyteller.transformer, CacheChoice(1, 4))
    assert found.loss is None
    assert found.nbytes == 288


def test_head_counts() -> None:
    assert head_counts(12) == (12, 6, 4, 3, 2, 1)
    assert head_counts(4) == (4, 2, 1)


@pytest.mark.parametrize("choice", [CacheChoice(3), CacheChoice(4, 5), CacheChoice(4, None, 0)])
def test_what_cannot_be_is_said(storyteller: LanguageModel, run: Trace, choice: CacheChoice) -> None:
    with pytest.raises(ValueError, match=r"merged|bits|window"):
        cache_cost(run, storyteller.transformer, choice)


@pytest.mark.parametrize("bits", [None, 8, 4])
def test_what_a_cache_has_stored(bits: int | None) -> None:
    transformer = tiny()
    cache = KVCache(transformer.config, room=9, bits=bits)
    with torch.no_grad():
        transformer(some_ids(1, 6), cache=cache)
        k, v = cache.stored(1)
        assert k.shape == v.shape == (1, 2, 6, 8)
        seen = {}
        names = ["blocks.1.attn.hook_rot_k", "blocks.1.attn.hook_v"]
        with edit({name: lambda x, name: seen.update({name: x.transpose(1, 2)}) for name in names}):
            transformer(some_ids(1, 6), cache=KVCache(transformer.config, room=9, bits=bits))
    for stored, name in zip((k, v), names, strict=True):
        x = seen[name]
        close(stored, x if bits is None else dequantise(*quantise(x, bits), bits))
