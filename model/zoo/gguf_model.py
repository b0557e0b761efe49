"""What a GGUF file says about its model: the config, and the names of its tensors, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from model.config import TransformerConfig
from model.zoo.families.family import Family, Held, both
from model.zoo.families.layouts import NEIGHBOUR_KEYS, NEIGHBOUR_QUERIES, QKV_ROWS
from model.zoo.files import ConfigError, KindError
from model.zoo.gguf_file import GGUFWeights

_COMMON: dict[str, str | Held] = {
    "token_embd.weight": "embed.weight",
    "output.weight": "unembed.weight",
    **both(
        {
            "output_norm": "ln_final",
            "blk.{i}.attn_norm": "blocks.{i}.ln1",
            "blk.{i}.ffn_norm": "blocks.{i}.ln2",
            "blk.{i}.attn_output": "blocks.{i}.attn.W_O",
            "blk.{i}.ffn_up": "blocks.{i}.mlp.W_in",
            "blk.{i}.ffn_down": "blocks.{i}.mlp.W_out",
            "blk.{i}.ffn_gate": "blocks.{i}.mlp.W_gate",
        }
    ),
}
_SEPARATE = both(
    {
        "blk.{i}.attn_q": "blocks.{i}.attn.W_Q",
        "blk.{i}.attn_k": "blocks.{i}.attn.W_K",
        "blk.{i}.attn_v": "blocks.{i}.attn.W_V",
        "blk.{i}.attn_q_norm": "blocks.{i}.attn.q_norm",
        "blk.{i}.attn_k_norm": "blocks.{i}.attn.k_norm",
    }
)
_NEIGHBOURS = both({"blk.{i}.attn_q": "blocks.{i}.attn.W_Q"}, NEIGHBOUR_QUERIES)
_NEIGHBOURS |= both({"blk.{i}.attn_k": "blocks.{i}.attn.W_K"}, NEIGHBOUR_KEYS)
_QKV = tuple(f"blocks.{{i}}.attn.W_{part}" for part in "QKV")
_FUSED: dict[str, str | Held] = {
    "blk.{i}.attn_qkv.weight": Held(QKV_ROWS, tuple(f"{name}.weight" for name in _QKV)),
    "blk.{i}.attn_qkv.bias": Held(QKV_ROWS, tuple(f"{name}.bias" for name in _QKV)),
}

# By architecture, as `general.architecture` spells it. Of these only "llama" reorders the rows of queries and keys.
_TABLES: dict[str, Mapping[str, str | Held]] = {
    "llama": _COMMON | _SEPARATE | _NEIGHBOURS,
    "qwen2": _COMMON | _SEPARATE,
    "qwen3": _COMMON | _SEPARATE,
    "gpt2": _COMMON | _FUSED | {"position_embd.weight": "pos_embed.weight"},
    "gptneox": _COMMON | _FUSED,
}
# What the name of the architecture implies and no metadata say. The others are of the kind of Llama.
_LIKE_GPT = {"norm": "layernorm", "positions": "learned", "activation": "gelu_tanh"}
_IMPLIED: dict[str, dict[str, Any]] = {
    "gpt2": _LIKE_GPT,
    "gptneox": _LIKE_GPT | {"positions": "rope", "activation": "gelu_erf"},
}


def describe(weights: GGUFWeights) -> tuple[TransformerConfig, Family]:
    """The config that a file's metadata and tensors make, and the family that names its tensors.

    Raises:
        CheckpointError: for an architecture that we do not read, or metadata that are missing or do not fit.
    """
    architecture = weights.metadata.get("general.architecture")
    if architecture not in _TABLES:
        raise KindError(
            f"{weights.path.name} holds a model of type {architecture!r:.60}; read are {', '.join(_TABLES)}."
        )
    try:
        values = _config(architecture, weights)
        table = _TABLES[architecture]
        family = Family(
            (architecture,), lambda _: values, table, ignored=("rope_freqs.weight",), tied=("output.weight",)
        )
        return TransformerConfig(**values).with_known_ids(), family
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ConfigError(f"The metadata of {weights.path.name} cannot be used: {error}") from None


def _config(architecture: str, weights: GGUFWeights) -> dict[str, Any]:
    data, shapes = weights.metadata, weights.shapes

    def read(key: str, default: Any = None) -> Any:
        value = data.get(f"{architecture}.{key}", default)
        if value is None:
            raise ValueError(f"{architecture}.{key} is missing.")
        return value

    if "token_embd.weight" not in shapes:
        raise ValueError("there are no token embeddings (token_embd.weight).")
    if read("attention.sliding_window", 0) or read("expert_count", 0):
        raise ValueError("sliding windows and experts are not supported.")
    d_model, heads = read("embedding_length"), read("attention.head_count")
    d_head = read("attention.key_length", d_model // max(1, heads))
    implied = {"norm": "rmsnorm", "positions": "rope", "activation": "swiglu"} | _IMPLIED.get(architecture, {})
    values = {
        "vocab_size": shapes["token_embd.weight"][0],
        "d_model": d_model,
        "n_layers": read("block_count"),
        "n_heads": heads,
        "n_kv_heads": read("attention.head_count_kv", heads),
        "d_head": d_head,
        "d_ff": read("feed_forward_length"),
        "max_positions": read("context_length"),
        "norm_eps": read(f"attention.layer_norm_{'rms_' if implied['norm'] == 'rmsnorm' else ''}epsilon"),
        "parallel": architecture == "gptneox" and read("use_parallel_residual", True),
        "qkv_bias": "blk.0.attn_q.bias" in shapes or "blk.0.attn_qkv.bias" in shapes,
        "out_bias": "blk.0.attn_output.bias" in shapes,
        "mlp_bias": "blk.0.ffn_up.bias" in shapes,
        "qk_norm": "blk.0.attn_q_norm.weight" in shapes,
        "tied_embeddings": "output.weight" not in shapes,
        **implied,
        **_special_ids(data),
    }
    if implied["positions"] == "learned":
        return values
    d_rotary = read("rope.dimension_count", d_head)
    if d_rotary != d_head and architecture != "gptneox":
        raise ValueError("RoPE on a part of each head is not supported for this architecture.")
    return values | {"d_rotary": None if d_rotary == d_head else d_rotary} | _rope(d_rotary, read, weights)


def _rope(d_rotary: int, read: Any, weights: GGUFWeights) -> dict[str, Any]:
    divisors: tuple[float, ...] = ()
    kind = read("rope.scaling.type", "none")
    if kind not in ("none", "linear"):
        raise ValueError(f"RoPE scaling of type {kind!r:.60} is not supported.")
    if kind == "linear":
        divisors = (read("rope.scaling.factor"),) * (d_rotary // 2)
    if "rope_freqs.weight" in weights.shapes:  # Llama 3: the divisors themselves
        if weights.shapes["rope_freqs.weight"] != (d_rotary // 2,):
            raise ValueError(f"rope_freqs.weight has shape {weights.shapes['rope_freqs.weight']}.")
        factors: Tensor = weights.read("rope_freqs.weight")
        divisors = tuple(factors.tolist())
    return {"rope_theta": read("rope.freq_base", 10_000.0), "rope_divisors": divisors}


def _special_ids(data: Mapping[str, Any]) -> dict[str, Any]:
    names = {"bos_id": "bos_token_id", "eos_id": "eos_token_id", "pad_id": "padding_token_id"}
    ids = {ours: data.get(f"tokenizer.ggml.{theirs}") for ours, theirs in names.items()}
    turn = data.get("tokenizer.ggml.eot_token_id")
    return ids | {"more_eos_ids": () if turn in (None, ids["eos_id"]) else (turn,)}
