"""One token at a time equals the general pass, and steps aside where it cannot serve."""

import pytest
import torch

from model.cache import CacheFullError, KVCache
from model.decode import OneToken, side_by_side
from model.hooks import edit, observe
from model.sampling import SamplingSettings
from tests.model.tiny import close, some_ids, tiny

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
    logits = torch.stack([one(token) for token in ids])
    torch.testing.assert_close(logits, storyteller.trace(ids).logits, rtol=1e-5, atol=1e-4)


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
    assert not served(laid_out().bfloat16())
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
