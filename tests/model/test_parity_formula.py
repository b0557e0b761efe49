"""Any combination of the options against the papers' formulas in plain float64."""

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from model.masks import MaskRule
from tests.model import plain
from tests.model.tiny import close, some_ids, tiny

OPTIONS = {
    "kind": ["decoder", "encoder", "encoder_decoder"],
    "positions": ["rope", "learned", "sinusoidal", "alibi", "none"],
    "norm": ["layernorm", "rmsnorm"],
    "norm_place": ["pre", "post"],
    "activation": ["relu", "gelu_tanh", "gelu_erf", "swiglu", "geglu"],
    "n_kv_heads": [1, 2, 3, 6],
    "d_head": [4, 8],
    "qkv_bias": [False, True],
    "out_bias": [False, True],
    "mlp_bias": [False, True],
    "tied_embeddings": [False, True],
    "scale_embeddings": [False, True],
    "embedding_norm": [False, True],
    "rope_theta": [10_000.0, 50.0],
    "norm_eps": [1e-5, 0.1],
}
# What only some of the other options allow; drawn on top of them.
MORE = {
    "unembed_bias": [False, True],
    "n_token_types": [0, 2],
    "head": ["linear", "mlm", "none"],
    "parallel": [False, True],
    "qk_norm": [False, True],
    "d_rotary": [None, 2, 4],
    "rope_divisors": [(), (1.5,), (1.0, 3.0), (1, 2, 3, 4)],
}
PLAIN = {name: values[0] for name, values in OPTIONS.items()} | {"n_kv_heads": 6}


def build(options):
    two = options["kind"] == "encoder_decoder"
    sizes = {"vocab_size": 20, "d_model": 12, "n_heads": 6, "d_ff": 10, "max_positions": 16}
    transformer = tiny(**sizes | options | {"n_encoder_layers": 2 if two else 0})
    return transformer, {name: p.double().numpy() for name, p in transformer.named_parameters()}


@given(st.fixed_dictionaries({name: st.sampled_from(values) for name, values in OPTIONS.items()}))
@example(PLAIN)
@example(PLAIN | {"kind": "encoder_decoder", "positions": "learned", "embedding_norm": True})
@torch.no_grad()
def test_every_combination_of_options(options):
    transformer, weights = build(options)
    two = options["kind"] == "encoder_decoder"
    ids, source = some_ids(1, 7, vocabulary=20), some_ids(1, 5, seed=2, vocabulary=20)
    ours = transformer(ids, encoder_ids=source if two else None)[0]
    theirs = plain.logits(transformer.config, weights, ids[0].tolist(), source[0].tolist())
    close(ours, torch.from_numpy(theirs).float())


@given(
    st.fixed_dictionaries({name: st.sampled_from(values) for name, values in OPTIONS.items()}),
    st.fixed_dictionaries({name: st.sampled_from(values) for name, values in MORE.items()}),
)
@example(PLAIN, {"parallel": True, "d_rotary": 2, "rope_divisors": (1.5,), "qk_norm": True})
@example(PLAIN, {"head": "mlm", "unembed_bias": True, "n_token_types": 2, "qk_norm": True})
@torch.no_grad()
def test_options_that_real_models_brought(options, more):
    options = options | {"kind": "encoder" if more.get("n_token_types") else "decoder"}
    if options["positions"] != "rope":
        more = more | {"qk_norm": False, "d_rotary": None, "rope_divisors": ()}
    elif len(more.get("rope_divisors", ())) != (more.get("d_rotary") or options["d_head"]) // 2:
        more = more | {"rope_divisors": ()}
    if options["norm_place"] == "post":
        more = more | {"parallel": False}
    transformer, weights = build(options | more)
    ids = some_ids(1, 7, vocabulary=20)
    ours = transformer(ids)[0]
    theirs = plain.logits(transformer.config, weights, ids[0].tolist())
    close(ours, torch.from_numpy(theirs).float())


@given(
    st.sampled_from(OPTIONS["positions"]),
    st.booleans(),
    st.none() | st.integers(1, 9),
    st.integers(0, 9),
)
@torch.no_grad()
def test_every_mask_rule(positions, causal, window, prefix):
    transformer, weights = build(PLAIN | {"positions": positions})
    ids = some_ids(1, 7, vocabulary=20)
    ours = transformer(ids, rule=MaskRule(causal, window, prefix))[0]
    theirs = plain.logits(transformer.config, weights, ids[0].tolist(), (), window, prefix, causal)
    close(ours, torch.from_numpy(theirs).float())
