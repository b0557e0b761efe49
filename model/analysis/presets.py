"""Published models as configs: sizes only, no weights."""

from __future__ import annotations

from dataclasses import dataclass

from model.config import TransformerConfig


@dataclass(frozen=True)
class Preset:
    """A published model. `context`: the tokens of text to begin with; `source`: where its sizes are from."""

    name: str
    config: TransformerConfig
    context: int
    source: str


def _gpt(d_model: int, n_layers: int, n_heads: int, context: int) -> TransformerConfig:
    return TransformerConfig(
        vocab_size=50_257,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=n_heads,
        d_head=d_model // n_heads,
        d_ff=4 * d_model,
        max_positions=context,
        positions="learned",
        norm="layernorm",
        activation="gelu_tanh",
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
    )


def _llama(
    vocabulary: int, d_model: int, n_layers: int, heads: tuple[int, int], d_ff: int, context: int, theta: float
) -> TransformerConfig:
    return TransformerConfig(
        vocab_size=vocabulary,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=heads[0],
        n_kv_heads=heads[1],
        d_head=d_model // heads[0],
        d_ff=d_ff,
        max_positions=context,
        rope_theta=theta,
        tied_embeddings=False,
    )


PRESETS: dict[str, Preset] = {
    "gpt2": Preset("GPT-2", _gpt(768, 12, 12, 1_024), 1_024, "Radford et al. 2019"),
    "gpt3": Preset("GPT-3", _gpt(12_288, 96, 96, 2_048), 2_048, "Brown et al. 2020, table 2.1"),
    "llama2_7b": Preset(
        "Llama 2 7B", _llama(32_000, 4_096, 32, (32, 32), 11_008, 4_096, 1e4), 4_096, "Touvron et al. 2023"
    ),
    "llama3_8b": Preset(
        "Llama 3 8B", _llama(128_256, 4_096, 32, (32, 8), 14_336, 8_192, 5e5), 8_192, "Grattafiori et al. 2024, table 3"
    ),
    "llama31_70b": Preset(
        "Llama 3.1 70B",
        _llama(128_256, 8_192, 80, (64, 8), 28_672, 131_072, 5e5),
        131_072,
        "Grattafiori et al. 2024, table 3",
    ),
}
