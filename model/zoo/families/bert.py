"""BERT (Devlin et al. 2019), MiniLM (Wang et al. 2020) and RoBERTa (Liu et al. 2019): post-norm encoders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.zoo.families.family import Family, Held, Values, activation, both, encoder_head, special_ids
from model.zoo.families.layouts import POSITIONS_AFTER_PADDING

_ENCODER: dict[str, str | Held] = {
    "embeddings.word_embeddings.weight": "embed.weight",
    "embeddings.position_embeddings.weight": "pos_embed.weight",
    "embeddings.token_type_embeddings.weight": "type_embed",
    **both(
        {
            "embeddings.LayerNorm": "embed_norm",
            "encoder.layer.{i}.attention.self.query": "blocks.{i}.attn.W_Q",
            "encoder.layer.{i}.attention.self.key": "blocks.{i}.attn.W_K",
            "encoder.layer.{i}.attention.self.value": "blocks.{i}.attn.W_V",
            "encoder.layer.{i}.attention.output.dense": "blocks.{i}.attn.W_O",
            "encoder.layer.{i}.attention.output.LayerNorm": "blocks.{i}.ln1",
            "encoder.layer.{i}.intermediate.dense": "blocks.{i}.mlp.W_in",
            "encoder.layer.{i}.output.dense": "blocks.{i}.mlp.W_out",
            "encoder.layer.{i}.output.LayerNorm": "blocks.{i}.ln2",
        }
    ),
}
BERT_TENSORS = _ENCODER | {
    "cls.predictions.bias": "unembed_bias",
    "cls.predictions.decoder.weight": "unembed.weight",
    **both(
        {"cls.predictions.transform.dense": "mlm_head.W", "cls.predictions.transform.LayerNorm": "mlm_head.ln"},
    ),
}
ROBERTA_TENSORS = _ENCODER | {
    "embeddings.position_embeddings.weight": Held(POSITIONS_AFTER_PADDING, ("pos_embed.weight",)),
    "lm_head.bias": "unembed_bias",
    "lm_head.decoder.weight": "unembed.weight",
    **both({"lm_head.dense": "mlm_head.W", "lm_head.layer_norm": "mlm_head.ln"}),
}


def bert_config(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of TransformerConfig.

    Raises:
        ValueError: for an option that we do not compute, or a missing size.
    """
    return _config(Values(data, "BERT"))


def roberta_config(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same for RoBERTa, whose table of positions begins after the padding id."""
    values = Values({"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2} | dict(data), "RoBERTa")
    read = _config(values)
    return read | {"max_positions": read["max_positions"] - values["pad_token_id"] - 1}


def _config(values: Values) -> dict[str, Any]:
    values.only("position_embedding_type", "absolute")
    values.only("is_decoder", False)
    values.only("add_cross_attention", False)
    d_model, heads = values["hidden_size"], values["num_attention_heads"]
    return {
        "kind": "encoder",
        "vocab_size": values["vocab_size"],
        "d_model": d_model,
        "n_layers": values["num_hidden_layers"],
        "n_heads": heads,
        "n_kv_heads": heads,
        "d_head": d_model // max(1, heads),
        "d_ff": values["intermediate_size"],
        "max_positions": values.get("max_position_embeddings", 512),
        "positions": "learned",
        "norm": "layernorm",
        "norm_place": "post",
        "norm_eps": values.get("layer_norm_eps", 1e-12),
        "activation": activation(values.get("hidden_act", "gelu")),
        "qkv_bias": True,
        "out_bias": True,
        "mlp_bias": True,
        "embedding_norm": True,
        "n_token_types": values.get("type_vocab_size", 2),
        "tied_embeddings": values.get("tie_word_embeddings", True),
        **encoder_head(values),
        **special_ids(values),
    }


# Files of before 2019 call the gain and shift of a norm gamma and beta.
_OLD = {".LayerNorm.gamma": ".LayerNorm.weight", ".LayerNorm.beta": ".LayerNorm.bias"}
# What a checkpoint may hold beyond encoder and masked-LM head: the heads of other tasks.
_OTHER_HEADS = ("pooler.*", "classifier.*", "qa_outputs.*", "embeddings.position_ids")
BERT = Family(
    ("bert",),
    bert_config,
    BERT_TENSORS,
    prefix="bert.",
    spellings=_OLD,
    ignored=(*_OTHER_HEADS, "cls.seq_relationship.*"),
    tied=("cls.predictions.decoder.*",),
)
ROBERTA = Family(
    ("roberta", "xlm-roberta"),
    roberta_config,
    ROBERTA_TENSORS,
    prefix="roberta.",
    spellings=_OLD,
    ignored=_OTHER_HEADS,
    tied=("lm_head.decoder.*",),
)
