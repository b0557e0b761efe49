"""DistilBERT (Sanh et al. 2019): BERT with half the layers and without token types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.zoo.families.family import Family, Held, Values, activation, both, encoder_head, special_ids

TENSORS: dict[str, str | Held] = {
    "embeddings.word_embeddings.weight": "embed.weight",
    "embeddings.position_embeddings.weight": "pos_embed.weight",
    "vocab_projector.weight": "unembed.weight",
    "vocab_projector.bias": "unembed_bias",
    **both(
        {
            "embeddings.LayerNorm": "embed_norm",
            "transformer.layer.{i}.attention.q_lin": "blocks.{i}.attn.W_Q",
            "transformer.layer.{i}.attention.k_lin": "blocks.{i}.attn.W_K",
            "transformer.layer.{i}.attention.v_lin": "blocks.{i}.attn.W_V",
            "transformer.layer.{i}.attention.out_lin": "blocks.{i}.attn.W_O",
            "transformer.layer.{i}.sa_layer_norm": "blocks.{i}.ln1",
            "transformer.layer.{i}.ffn.lin1": "blocks.{i}.mlp.W_in",
            "transformer.layer.{i}.ffn.lin2": "blocks.{i}.mlp.W_out",
            "transformer.layer.{i}.output_layer_norm": "blocks.{i}.ln2",
            "vocab_transform": "mlm_head.W",
            "vocab_layer_norm": "mlm_head.ln",
        }
    ),
}


def config(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of TransformerConfig.

    Raises:
        ValueError: for an option that we do not compute, or a missing size.
    """
    values = Values(data, "DistilBERT")
    d_model, heads = values["dim"], values["n_heads"]
    return {
        "kind": "encoder",
        "vocab_size": values["vocab_size"],
        "d_model": d_model,
        "n_layers": values["n_layers"],
        "n_heads": heads,
        "n_kv_heads": heads,
        "d_head": d_model // max(1, heads),
        "d_ff": values["hidden_dim"],
        "max_positions": values.get("max_position_embeddings", 512),
        # Sinusoidal positions are stored as a table as well.
        "positions": "learned",
        "norm": "layernorm",
        "norm_place": "post",
        "norm_eps": 1e-12,
        "activation": activation(values.get("activation", "gelu")),
        "qkv_bias": True,
        "out_bias": True,
        "mlp_bias": True,
        "embedding_norm": True,
        "tied_embeddings": values.get("tie_word_embeddings", True),
        **encoder_head(values),
        **special_ids(values),
    }


DISTILBERT = Family(
    ("distilbert",),
    config,
    TENSORS,
    prefix="distilbert.",
    ignored=("classifier.*", "pre_classifier.*", "qa_outputs.*"),
    tied=("vocab_projector.weight",),
)
