"""Llama (Touvron et al. 2023): RMSNorm, RoPE half-split, SwiGLU, grouped-query attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.config import TransformerConfig
from model.zoo.families.family import Family

TENSORS = {
    "model.embed_tokens.weight": "embed.weight",
    "model.layers.{i}.input_layernorm.weight": "blocks.{i}.ln1.weight",
    "model.layers.{i}.self_attn.q_proj.weight": "blocks.{i}.attn.W_Q.weight",
    "model.layers.{i}.self_attn.k_proj.weight": "blocks.{i}.attn.W_K.weight",
    "model.layers.{i}.self_attn.v_proj.weight": "blocks.{i}.attn.W_V.weight",
    "model.layers.{i}.self_attn.o_proj.weight": "blocks.{i}.attn.W_O.weight",
    "model.layers.{i}.self_attn.q_proj.bias": "blocks.{i}.attn.W_Q.bias",
    "model.layers.{i}.self_attn.k_proj.bias": "blocks.{i}.attn.W_K.bias",
    "model.layers.{i}.self_attn.v_proj.bias": "blocks.{i}.attn.W_V.bias",
    "model.layers.{i}.self_attn.o_proj.bias": "blocks.{i}.attn.W_O.bias",
    "model.layers.{i}.post_attention_layernorm.weight": "blocks.{i}.ln2.weight",
    "model.layers.{i}.mlp.gate_proj.weight": "blocks.{i}.mlp.W_gate.weight",
    "model.layers.{i}.mlp.up_proj.weight": "blocks.{i}.mlp.W_in.weight",
    "model.layers.{i}.mlp.down_proj.weight": "blocks.{i}.mlp.W_out.weight",
    "model.layers.{i}.mlp.gate_proj.bias": "blocks.{i}.mlp.W_gate.bias",
    "model.layers.{i}.mlp.up_proj.bias": "blocks.{i}.mlp.W_in.bias",
    "model.layers.{i}.mlp.down_proj.bias": "blocks.{i}.mlp.W_out.bias",
    "model.norm.weight": "ln_final.weight",
    "lm_head.weight": "unembed.weight",
}


def config(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of TransformerConfig.

    Raises:
        ValueError: for a RoPE scaling or an activation that we do not compute, or a missing size.
    """
    rope = data.get("rope_parameters") or data.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise ValueError(f"RoPE scaling of type {kind!r} is not supported yet.")
    if rope.get("partial_rotary_factor", 1) != 1:
        raise ValueError("RoPE on a part of each head (partial_rotary_factor) is not supported yet.")
    if data.get("hidden_act", "silu") != "silu":
        raise ValueError(f"A Llama model has the activation silu, not {data['hidden_act']!r}.")
    try:
        heads, d_model = data["num_attention_heads"], data["hidden_size"]
        kv_heads, d_head, ends = (data.get(k) for k in ("num_key_value_heads", "head_dim", "eos_token_id"))
        if d_head is None:
            d_head = d_model // max(1, heads)
        return {
            "vocab_size": data["vocab_size"],
            "d_model": d_model,
            "n_layers": data["num_hidden_layers"],
            "n_heads": heads,
            "n_kv_heads": heads if kv_heads is None else kv_heads,
            "d_head": d_head,
            "d_ff": data["intermediate_size"],
            "max_positions": data.get("max_position_embeddings", 2048),
            "rope_theta": rope.get("rope_theta") or data.get("rope_theta", 10_000.0),
            "norm_eps": data.get("rms_norm_eps", 1e-6),
            "qkv_bias": data.get("attention_bias", False),
            "out_bias": data.get("attention_bias", False),
            "mlp_bias": data.get("mlp_bias", False),
            "tied_embeddings": data.get("tie_word_embeddings", False),
            "bos_id": data.get("bos_token_id"),
            "eos_id": ends[0] if isinstance(ends, list) and ends else ends,  # of several the first is the text's end
            "pad_id": data.get("pad_token_id"),
        }
    except KeyError as missing:
        raise ValueError(f"The config lacks {missing}, without which a Llama model has no shape.") from None


def to_hf(config: TransformerConfig) -> dict[str, Any]:
    """A config.json that Transformers' LlamaForCausalLM reads.

    Raises:
        ValueError: for options that a Llama model does not have.
    """
    options = (config.kind, config.positions, config.norm, config.norm_place, config.activation)
    beyond = config.scale_embeddings or config.embedding_norm or config.qkv_bias != config.out_bias
    if options != ("decoder", "rope", "rmsnorm", "pre", "swiglu") or beyond:
        raise ValueError("Only a pre-norm decoder with RoPE, RMSNorm and SwiGLU can be saved as a Llama model.")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.d_head,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_positions,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "attention_bias": config.qkv_bias,
        "mlp_bias": config.mlp_bias,
        "tie_word_embeddings": config.tied_embeddings,
        "bos_token_id": config.bos_id,
        "eos_token_id": config.eos_id,
        "pad_token_id": config.pad_id,
    }


# Older files also store the frequencies of RoPE, which follow from the config.
LLAMA = Family(("llama",), config, to_hf, TENSORS, ignored=("rotary_emb.inv_freq",))
