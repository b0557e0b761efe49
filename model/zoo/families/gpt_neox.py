"""GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023): parallel blocks, RoPE on a part of each head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.zoo.families.family import Family, Held, Values, activation, both, special_ids
from model.zoo.families.layouts import QKV_BY_HEAD
from model.zoo.families.rope import rope

_QKV = ("blocks.{i}.attn.W_Q", "blocks.{i}.attn.W_K", "blocks.{i}.attn.W_V")
TENSORS: dict[str, str | Held] = {
    "embed_in.weight": "embed.weight",
    "embed_out.weight": "unembed.weight",
    "layers.{i}.attention.query_key_value.weight": Held(QKV_BY_HEAD, tuple(f"{name}.weight" for name in _QKV)),
    "layers.{i}.attention.query_key_value.bias": Held(QKV_BY_HEAD, tuple(f"{name}.bias" for name in _QKV)),
    **both(
        {
            "layers.{i}.input_layernorm": "blocks.{i}.ln1",
            "layers.{i}.post_attention_layernorm": "blocks.{i}.ln2",
            "layers.{i}.attention.dense": "blocks.{i}.attn.W_O",
            "layers.{i}.mlp.dense_h_to_4h": "blocks.{i}.mlp.W_in",
            "layers.{i}.mlp.dense_4h_to_h": "blocks.{i}.mlp.W_out",
            "final_layer_norm": "ln_final",
        }
    ),
}


def config(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of TransformerConfig.

    Raises:
        ValueError: for an option that we do not compute, or a missing size.
    """
    values = Values(data, "GPT-NeoX")
    d_model, heads = values["hidden_size"], values["num_attention_heads"]
    d_head = d_model // max(1, heads)
    # Files of before 2025 say rotary_pct and rotary_emb_base.
    part = (values.get("rope_parameters") or {}).get("partial_rotary_factor", values.get("rotary_pct", 0.25))
    d_rotary = int(d_head * part)
    return {
        "vocab_size": values["vocab_size"],
        "d_model": d_model,
        "n_layers": values["num_hidden_layers"],
        "n_heads": heads,
        "n_kv_heads": heads,
        "d_head": d_head,
        "d_ff": values["intermediate_size"],
        "max_positions": values.get("max_position_embeddings", 2048),
        "d_rotary": d_rotary,
        "norm": "layernorm",
        "norm_eps": values.get("layer_norm_eps", 1e-5),
        "parallel": values.get("use_parallel_residual", True),
        "activation": activation(values.get("hidden_act", "gelu")),
        "qkv_bias": values.get("attention_bias", True),
        "out_bias": values.get("attention_bias", True),
        "mlp_bias": True,
        "tied_embeddings": values.get("tie_word_embeddings", False),
        **rope(values, d_rotary, values.get("rotary_emb_base", 10_000.0)),
        **special_ids(values),
    }


# Older files also store the triangle of the causal mask and the frequencies of RoPE.
IGNORED = ("layers.*.attention.bias", "layers.*.attention.masked_bias", "*rotary_emb.inv_freq")
GPT_NEOX = Family(("gpt_neox",), config, TENSORS, prefix="gpt_neox.", ignored=IGNORED, tied=("embed_out.weight",))
