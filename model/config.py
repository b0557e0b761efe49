"""The one description from which every Transformer of this project is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

Kind = Literal["decoder", "encoder", "encoder_decoder"]
Positions = Literal["rope", "learned", "sinusoidal", "alibi", "none"]
Norm = Literal["layernorm", "rmsnorm"]
NormPlace = Literal["pre", "post"]
Activation = Literal["relu", "gelu_tanh", "gelu_erf", "swiglu", "geglu"]
Head = Literal["linear", "mlm", "none"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "kind": get_args(Kind),
    "positions": get_args(Positions),
    "norm": get_args(Norm),
    "norm_place": get_args(NormPlace),
    "activation": get_args(Activation),
    "head": get_args(Head),
}
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "a whole number"),
    "int | None": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
    "tuple[int, ...]": ((int,), "a tuple of whole numbers"),
    "tuple[float, ...]": ((int, float), "a tuple of numbers"),
}
# Far above any published model, far below what a hostile file could ask for.
_LIMITS = {"vocab_size": 2_000_000, "d_model": 65_536, "d_ff": 1_048_576, "d_head": 8_192}
_LIMITS |= {"n_layers": 1_024, "n_encoder_layers": 1_024, "n_heads": 1_024, "max_positions": 16_777_216}
_LIMITS |= {"n_token_types": 65_536}


@dataclass(frozen=True)
class TransformerConfig:
    """Shape and options of a Transformer. Every option is a value here; no layer ever asks for a model's name.

    Sizes are counts: `vocab_size` tokens, `d_model` features of the residual stream, `n_layers` blocks,
    `n_heads` query heads of `d_head` features, `n_kv_heads` key/value heads shared by them (equal to
    `n_heads`: multi-head; 1: multi-query; between: grouped-query, Ainslie et al. 2023), `d_ff` neurons,
    `max_positions` tokens of context. `n_encoder_layers` counts the encoder's blocks of an encoder-decoder.

    Raises:
        ValueError: in one sentence, which value does not fit and what would.
    """

    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_ff: int
    max_positions: int
    kind: Kind = "decoder"
    positions: Positions = "rope"
    rope_theta: float = 10_000.0
    # RoPE turns the first `d_rotary` features of each head (GPT-NeoX: a quarter of them); None: all.
    d_rotary: int | None = None
    # What the frequency of each rotated pair is divided by, to read longer texts than in training; empty: nothing.
    rope_divisors: tuple[float, ...] = ()
    norm: Norm = "rmsnorm"
    norm_eps: float = 1e-5
    norm_place: NormPlace = "pre"
    # Attention and feed-forward both read the stream as it enters the block (Wang & Komatsuzaki 2021, GPT-J).
    parallel: bool = False
    # An RMS norm over the features of each query and key, before RoPE (Henry et al. 2020; Qwen3).
    qk_norm: bool = False
    activation: Activation = "swiglu"
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    tied_embeddings: bool = True
    # Vaswani et al. 2017 (section 3.4) multiply the embeddings by sqrt(d_model) before adding positions.
    scale_embeddings: bool = False
    # BERT normalises the sum of token and position embeddings before the first block.
    embedding_norm: bool = False
    # BERT adds a vector that tells the first sentence of a pair from the second; 0: none.
    n_token_types: int = 0
    # From the stream to the vocabulary: "linear"; "mlm", BERT's masked-LM head (dense, activation, norm first);
    # "none" for a model of sentences, whose output is one vector a token.
    head: Head = "linear"
    unembed_bias: bool = False
    n_encoder_layers: int = 0
    bos_id: int | None = None
    eos_id: int | None = None
    pad_id: int | None = None
    # More tokens that end a text, such as the end of a turn in a dialogue.
    more_eos_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(allowed)}.")
        for f in fields(self):
            self._check_type(f.name, str(f.type))
        for name in ("vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_ff", "max_positions"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        for name, limit in _LIMITS.items():
            if getattr(self, name) > limit:
                raise ValueError(f"{name} is {getattr(self, name):,}; more than {limit:,} is not a model we can hold.")
        if self.n_encoder_layers < 0 or self.n_token_types < 0:
            raise ValueError("n_encoder_layers and n_token_types must not be negative.")
        if self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"n_heads ({self.n_heads}) must be a multiple of n_kv_heads ({self.n_kv_heads}): "
                "each key/value head serves the same number of query heads."
            )
        if self.positions == "rope" and self.d_head % 2:
            raise ValueError(f"d_head is {self.d_head}; RoPE turns pairs of features, so it must be even.")
        if not 0 < self.rotary <= self.d_head or (self.rotary % 2 and self.d_rotary is not None):
            raise ValueError(f"d_rotary is {self.d_rotary}; it must be even and at most d_head ({self.d_head}).")
        if self.rope_divisors and (len(self.rope_divisors) != self.rotary // 2 or not min(self.rope_divisors) > 0):
            raise ValueError(f"rope_divisors must be {self.rotary // 2} numbers above 0, one for each rotated pair.")
        if self.positions != "rope" and (self.qk_norm or self.d_rotary is not None or self.rope_divisors):
            raise ValueError("qk_norm, d_rotary and rope_divisors are for a model with RoPE.")
        if self.n_token_types and self.kind == "encoder_decoder":
            raise ValueError("n_token_types is for a model of one stack.")
        if self.parallel and (self.norm_place == "post" or self.kind == "encoder_decoder"):
            raise ValueError("A parallel block is pre-norm and has no cross-attention.")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"d_model is {self.d_model}; sinusoidal positions need an even number.")
        if (self.kind == "encoder_decoder") != (self.n_encoder_layers > 0):
            raise ValueError("n_encoder_layers is for an encoder-decoder, and it needs at least one.")
        if not self.norm_eps > 0 or not self.rope_theta > 0:
            raise ValueError("norm_eps and rope_theta must be greater than 0.")

    def _check_type(self, name: str, annotation: str) -> None:
        """Configs come from files: a size may arrive as a string, a fraction or a truth value."""
        value = getattr(self, name)
        if annotation not in _TYPES or (value is None and "None" in annotation):
            return
        types, wanted = _TYPES[annotation]
        for part in value if isinstance(value, tuple) and annotation.startswith("tuple") else (value,):
            if not isinstance(part, types) or isinstance(part, bool) != (types == (bool,)):
                raise ValueError(f"{name} is {value!r:.40}; it must be {wanted}.")
        if annotation.startswith("tuple") and not isinstance(value, tuple):
            raise ValueError(f"{name} is {value!r:.40}; it must be {wanted}.")

    @property
    def gated(self) -> bool:
        """Whether the feed-forward multiplies a gate with a linear projection (Shazeer 2020)."""
        return self.activation in ("swiglu", "geglu")

    @property
    def rotary(self) -> int:
        """How many features of each head RoPE turns."""
        return self.d_head if self.d_rotary is None else self.d_rotary

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Every token that ends a text."""
        return (*(() if self.eos_id is None else (self.eos_id,)), *self.more_eos_ids)

    @property
    def causal(self) -> bool:
        """Whether a token of the main stack sees only itself and earlier tokens."""
        return self.kind != "encoder"

    @property
    def queries_per_kv(self) -> int:
        """How many query heads read each key/value head."""
        return self.n_heads // self.n_kv_heads

    def with_known_ids(self) -> TransformerConfig:
        """The same without special ids outside the vocabulary, by which some files mean that there is none."""
        known = {name: getattr(self, name) for name in ("bos_id", "eos_id", "pad_id")}
        known = {name: i if i is not None and 0 <= i < self.vocab_size else None for name, i in known.items()}
        return self.replace(**known, more_eos_ids=tuple(i for i in self.more_eos_ids if 0 <= i < self.vocab_size))

    @classmethod
    def from_hf(cls, data: Mapping[str, Any]) -> TransformerConfig:
        """The config that a Hugging Face `config.json` describes.

        Raises:
            ValueError: for a family that no name table reads, or values that do not fit.
        """
        from model.zoo.families import family_of

        return cls(**family_of(data).config(data))

    def replace(self, **changes: Any) -> TransformerConfig:
        """A copy with some values changed, validated again."""
        return TransformerConfig(**{f.name: getattr(self, f.name) for f in fields(self)} | changes)
