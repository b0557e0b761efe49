"""Llama (Touvron et al. 2023): RMSNorm, RoPE half-split, SwiGLU, grouped-query attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.config import TransformerConfig
from model.zoo.families.family import Family, Held, Values, both, special_ids
from model.zoo.families.rope import rope

TENSORS: dict[str, str | Held] = {
    "model.embed_tokens.weight": "embed.weight",
    "model.layers.{i}.input_layernorm.weight": "blocks.{i}.ln1.weight",
    "model.layers.{i}.post_attention_layernorm.weight": "blocks.{i}.ln2.weight",
    "model.norm.weight": "ln_final.weight",
    "lm_head.weight": "unembed.weight",
}
TENSORS |= both(
    {
        "model.layers.{i}.self_attn.q_proj": "blocks.{i}.attn.W_Q",
        "model.layers.{i}.self_attn.k_proj": "blocks.{i}.attn.W_K",
        "model.layers.{i}.self_attn.v_proj": "blocks.{i}.attn.W_V",
        "model.layers.{i}.self_attn.o_proj": "blocks.{i}.attn.W_O",
        "model.layers.{i}.mlp.gate_proj": "blocks.{i}.mlp.W_gate",
        "model.layers.{i}.mlp.up_proj": "blocks.{i}.mlp.W_in",
        "model.layers.{i}.mlp.down_proj": "blocks.{i}.mlp.W_out",
    }
)
# Older files also store the frequencies of RoPE, which follow from the config.
IGNORED = ("*rotary_emb.inv_freq",)
TIED = ("lm_head.weight",)


def config(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of TransformerConfig.

    Raises:
        ValueError: for a RoPE scaling or an activation that we do not compute, or a missing size.
    """
    return llama_like(Values(data, "Llama"))


def llama_like(data: Values) -> dict[str, Any]:
    """What Llama and the families that follow it write alike."""
    if (data.get("rope_parameters") or {}).get("partial_rotary_factor", 1) != 1:
        raise ValueError("RoPE on a part of each head (partial_rotary_factor) is not supported for this family.")
    if data.get("hidden_act", "silu") != "silu":
        raise ValueError(f"A model of this family has the activation silu, not {data['hidden_act']!r:.60}.")
    heads, d_model = data["num_attention_heads"], data["hidden_size"]
    d_head = data.get("head_dim")
    if d_head is None:
        d_head = d_model // max(1, heads)
    return {
        "vocab_size": data["vocab_size"],
        "d_model": d_model,
        "n_layers": data["num_hidden_layers"],
        "n_heads": heads,
        "n_kv_heads": data.get("num_key_value_heads", heads),
        "d_head": d_head,
        "d_ff": data["intermediate_size"],
        "max_positions": data.get("max_position_embeddings", 2048),
        "norm_eps": data.get("rms_norm_eps", 1e-6),
        "qkv_bias": data.get("attention_bias", False),
        "out_bias": data.get("attention_bias", False),
        "mlp_bias": data.get("mlp_bias", False),
        "tied_embeddings": data.get("tie_word_embeddings", False),
        **rope(data, d_head),
        **special_ids(data),
    }


def to_hf(config: TransformerConfig) -> dict[str, Any]:
    """A config.json that Transformers' LlamaForCausalLM reads.

    Raises:
        ValueError: for options that a Llama model does not have.
    """
    values: dict[str, Any] = {
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
        "eos_token_id": list(config.eos_ids) if config.more_eos_ids else config.eos_id,
        "pad_token_id": config.pad_id,
    }
    if TransformerConfig.from_hf(values) != config:
        raise ValueError("Only a pre-norm decoder with RoPE, RMSNorm and SwiGLU can be saved as a Llama model.")
    return values


LLAMA = Family(("llama",), config, TENSORS, ignored=IGNORED, tied=TIED, to_hf=to_hf)
