"""GPT-2 (Radford et al. 2019) and DistilGPT-2: learned positions, LayerNorm, GELU in its tanh form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.zoo.families.family import Family, Held, Values, activation, both, special_ids
from model.zoo.families.layouts import AS_IS, QKV_COLUMNS, TRANSPOSED

_QKV = ("blocks.{i}.attn.W_Q", "blocks.{i}.attn.W_K", "blocks.{i}.attn.W_V")
_MATRICES = {
    "h.{i}.attn.c_proj": "blocks.{i}.attn.W_O",
    "h.{i}.mlp.c_fc": "blocks.{i}.mlp.W_in",
    "h.{i}.mlp.c_proj": "blocks.{i}.mlp.W_out",
}
TENSORS: dict[str, str | Held] = {
    "wte.weight": "embed.weight",
    "wpe.weight": "pos_embed.weight",
    "lm_head.weight": "unembed.weight",
    **both({"ln_f": "ln_final", "h.{i}.ln_1": "blocks.{i}.ln1", "h.{i}.ln_2": "blocks.{i}.ln2"}),
    "h.{i}.attn.c_attn.weight": Held(QKV_COLUMNS, tuple(f"{name}.weight" for name in _QKV)),
    "h.{i}.attn.c_attn.bias": Held(QKV_COLUMNS, tuple(f"{name}.bias" for name in _QKV)),
    **{f"{theirs}.weight": Held(TRANSPOSED, (f"{ours}.weight",)) for theirs, ours in _MATRICES.items()},
    **{f"{theirs}.bias": Held(AS_IS, (f"{ours}.bias",)) for theirs, ours in _MATRICES.items()},
}


def config(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of TransformerConfig.

    Raises:
        ValueError: for an option that we do not compute, or a missing size.
    """
    values = Values(data, "GPT-2")
    values.only("scale_attn_weights", True)
    values.only("scale_attn_by_inverse_layer_idx", False)
    values.only("add_cross_attention", False)
    d_model, heads = values["n_embd"], values["n_head"]
    return {
        "vocab_size": values["vocab_size"],
        "d_model": d_model,
        "n_layers": values["n_layer"],
        "n_heads": heads,
        "n_kv_heads": heads,
        "d_head": d_model // max(1, heads),
        "d_ff": values.get("n_inner", 4 * d_model),
        "max_positions": values.get("n_positions", 1024),
        "positions": "learned",
        "norm": "layernorm",
        "norm_eps": values.get("layer_norm_epsilon", 1e-5),
        "activation": activation(values.get("activation_function", "gelu_new")),
        "qkv_bias": True,
        "out_bias": True,
        "mlp_bias": True,
        "tied_embeddings": values.get("tie_word_embeddings", True),
        **special_ids(values),
    }


# Older files also store the triangle of the causal mask.
IGNORED = ("h.*.attn.bias", "h.*.attn.masked_bias")
GPT2 = Family(("gpt2",), config, TENSORS, prefix="transformer.", ignored=IGNORED, tied=("lm_head.weight",))
