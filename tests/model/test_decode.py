"""One token at a time equals the general pass, and steps aside where it cannot serve."""

import copy

import pytest
import torch

from model import load
from model.cache import CacheFullError, KVCache
from model.decode import OneToken
from model.hooks import edit, observe
from model.int8 import Int8Matrix, to_int8
from model.losses import token_losses
from model.products import side_by_side
from model.sampling import SamplingSettings
from tests.model.tiny import close, some_ids, tiny, within_budget

LLAMA = [{}, {"n_kv_heads": 4}, {"n_kv_heads": 1}, {"tied_embeddings": False}, {"rope_theta": 50.0, "norm_eps": 1e-2}]
LLAMA += [{"rope_divisors": (1.0, 2.0, 4.0, 8.0), "more_eos_ids": (3, 4)}]


def laid_out(**changes):
    transformer = tiny(**changes)
    side_by_side(transformer)
    return transformer


@pytest.mark.parametrize("changes", LLAMA, ids=str)
def test_equals_the_general_pass_token_by_token(changes):
    transformer, ids = laid_out(**changes), some_ids(1, 20)
    cache = KVCache(transformer.config, room=20)
    transformer(ids[:, :6], cache=cache)
    one = OneToken.of(transformer, cache)
    for place in range(6, 20):
        close(one(int(ids[0, place])), transformer(ids[:, : place + 1])[0, -1])
        assert cache.length == place + 1


def test_equals_the_general_pass_of_the_bundled_model(storyteller):
    ids = storyteller.tokenizer.encode("Once upon a time, there was a little girl named Lily. She went to the park")
    cache = KVCache(storyteller.config, room=len(ids))
    one = OneToken.of(storyteller.transformer, cache)
    logits = torch.stack([one(token).clone() for token in ids])
    torch.testing.assert_close(logits, storyteller.trace(ids).logits, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8])
@pytest.mark.parametrize("changes", LLAMA, ids=str)
def test_in_low_precision_it_costs_no_more_than_a_plain_pass(changes, dtype):
    exact = tiny(**{"d_model": 64, "d_ff": 96} | changes)
    transformer = copy.deepcopy(exact)
    if dtype == torch.int8:
        to_int8(transformer)
        for name, module in transformer.named_modules():
            if isinstance(module, Int8Matrix):
                exact.get_parameter(f"{name}.weight").copy_(module.weight)
    else:
        transformer.bfloat16()
    before = dict(transformer.state_dict())
    side_by_side(transformer)
    for name, tensor in transformer.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    ids, cache = some_ids(1, 20), KVCache(transformer.config, room=20, dtype=transformer.dtype)
    one = OneToken.of(transformer, cache)
    logits = torch.stack([one(int(token)).clone() for token in ids[0]])
    within_budget(logits, copy.deepcopy(exact).bfloat16()(ids)[0], exact(ids)[0])
    assert cache.length == 20


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_the_bundled_model_is_served_in_every_format(storyteller, dtype):
    lm = load("storyteller", "cpu", dtype)
    ids = lm.tokenizer.encode("Once upon a time, there was a little girl named Lily. She went to the park")
    cache = KVCache(lm.config, room=len(ids), dtype=lm.compute_dtype)
    one = OneToken.of(lm.transformer, cache)
    logits = torch.stack([one(token).clone() for token in ids])
    loss = [float(token_losses(some, ids).mean()) for some in (logits, storyteller.trace(ids).logits)]
    assert loss[0] == pytest.approx(loss[1], abs=1e-5 if dtype == "float32" else 0.03)


def test_the_cache_is_as_the_general_pass_leaves_it():
    """Either pass may go on where the other has stopped."""
    transformer, ids = laid_out(), some_ids(1, 9)
    caches = [KVCache(transformer.config, room=9) for _ in range(2)]
    one = OneToken.of(transformer, caches[0])
    for place in range(8):
        token = ids[:, place : place + 1]
        one(int(token)) if place % 3 else transformer(token, cache=caches[0])
        transformer(token, cache=caches[1])
    for layer in range(2):
        for mine, theirs in zip(caches[0].stored(layer), caches[1].stored(layer), strict=True):
            close(mine, theirs)
    close(*(transformer(ids[:, 8:], cache=cache) for cache in caches))


@pytest.mark.parametrize(
    "changes",
    [*LLAMA, {"kind": "encoder_decoder", "n_encoder_layers": 1}, {"activation": "relu", "mlp_bias": True}],
    ids=str,
)
def test_laying_weights_side_by_side_changes_no_value(changes):
    before, after = dict(tiny(**changes).named_parameters()), dict(laid_out(**changes).named_parameters())
    assert before.keys() == after.keys()
    for name, parameter in before.items():
        assert torch.equal(after[name], parameter), name


def test_steps_aside_where_the_general_pass_is_needed():
    def served(transformer, listen=None, **options):
        return OneToken.of(transformer, KVCache(transformer.config, room=8, **options)) is not None

    assert served(laid_out())
    assert not served(tiny())  # weights where they were made
    for changes in (
        {"norm": "layernorm"},
        {"positions": "learned"},
        {"positions": "alibi"},
        {"activation": "geglu"},
        {"norm_place": "post"},
        {"qkv_bias": True},
        {"qk_norm": True},
        {"parallel": True},
        {"d_rotary": 4},
        {"unembed_bias": True},
        {"mlp_bias": True},
        {"scale_embeddings": True},
        {"kind": "encoder_decoder", "n_encoder_layers": 1},
    ):
        assert not served(laid_out(**changes)), changes
    assert not served(laid_out().bfloat16())  # laid out for fp32
    assert not served(tiny().half())
    assert not served(laid_out(), batch=2)
    assert not served(laid_out(), window=4)
    assert not served(laid_out(), bits=8)
    assert OneToken.of(laid_out(), None) is None
    with observe(lambda name, value: None):
        assert not served(laid_out())
    moved = laid_out()
    moved.blocks[1].attn.W_K.weight.data = moved.blocks[1].attn.W_K.weight.data.clone()
    assert not served(moved)


def test_a_full_cache_is_said_and_left_alone():
    transformer = laid_out()
    cache = KVCache(transformer.config, room=2)
    one = OneToken.of(transformer, cache)
    one(1), one(2)
    with pytest.raises(CacheFullError):
        one(3)
    assert cache.length == 2


def test_an_edit_that_begins_while_it_writes_is_in_force(storyteller):
    """Between two tokens a reader may begin to edit: the next token must already come from the edited pass."""
    settings, name = SamplingSettings(temperature=0), "blocks.5.hook_resid_post"
    plain = [step.id for step in storyteller.generate("Once upon a time", 6, settings)]
    stream = storyteller.generate("Once upon a time", 6, settings)
    begun = [next(stream).id for _ in range(3)]
    with edit({name: lambda value, _: torch.zeros_like(value)}):
        blank = next(stream)
    assert begun == plain[:3]
    assert blank.id != plain[3]
    assert float(blank.ledger.logits.std()) == 0
