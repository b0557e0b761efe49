"""What a Transformer costs, by formula: parameters, operations, memory, and the speed that a machine allows at best.

Symbols: d width of the stream, L blocks, H query heads of dₕ features, Hₖᵥ key/value heads, f neurons, V tokens in
the vocabulary, n tokens of text, b bytes a number. A product of an (m, k) with a (k, n) matrix is 2·m·k·n operations.
"""

from __future__ import annotations

from dataclasses import dataclass

from model.analysis.formula import Factor, Formula, Product, number
from model.analysis.parameters import PARTS
from model.config import TransformerConfig

TWO, THREE, FOUR = number(2), number(3), number(4)
CACHE_GROUP = 32  # numbers that share a step and a lowest value in a cache of integers, fp32 each (model/cache.py)
OPTIMISER_STATES = 2  # of AdamW: the running means of the gradient and of its square (Loshchilov & Hutter 2019)
CONTEXTS = (1_024, 4_096, 32_768, 131_072)  # 1k, 4k, 32k, 128k


@dataclass(frozen=True)
class Sizes:
    """The named sizes of a config, as factors of formulas."""

    config: TransformerConfig

    @property
    def d(self) -> Factor:
        """Width of the stream."""
        return Factor("d", self.config.d_model)

    @property
    def L(self) -> Factor:  # noqa: N802
        """Blocks."""
        return Factor("L", self.config.n_layers)

    @property
    def q(self) -> tuple[Factor, Factor]:
        """Features of all query heads together: H·dₕ."""
        return Factor("H", self.config.n_heads), Factor("dₕ", self.config.d_head)

    @property
    def kv(self) -> tuple[Factor, Factor]:
        """Features of all key (or value) heads together: Hₖᵥ·dₕ."""
        return Factor("Hₖᵥ", self.config.n_kv_heads), Factor("dₕ", self.config.d_head)

    @property
    def f(self) -> Factor:
        """Neurons of a feed-forward."""
        return Factor("f", self.config.d_ff)

    @property
    def V(self) -> Factor:  # noqa: N802
        """Tokens in the vocabulary."""
        return Factor("V", self.config.vocab_size)

    @property
    def matrices(self) -> Factor:
        """Matrices of a feed-forward: in, out, and a gate where there is one (Shazeer 2020)."""
        return THREE if self.config.gated else TWO

    @property
    def attentions(self) -> tuple[Factor, ...]:
        """Attention layers: one a block, two in the blocks that read an encoder, and the encoder's own."""
        c = self.config
        if c.kind != "encoder_decoder":
            return (self.L,)
        return (Factor("(2·L + Lₑ)", 2 * c.n_layers + c.n_encoder_layers),)

    @property
    def blocks(self) -> tuple[Factor, ...]:
        """Blocks of both stacks together."""
        c = self.config
        return (self.L,) if c.kind != "encoder_decoder" else (Factor("(L + Lₑ)", c.n_layers + c.n_encoder_layers),)


def parameter_formulas(config: TransformerConfig) -> dict[str, Formula]:
    """Parameters by part, as `model.analysis.parameters` counts them; parts without any left out.

    Brown et al. 2020 build GPT-3 so; Touvron et al. 2023 have a third feed-forward matrix and no biases.
    """
    s, c = Sizes(config), config
    two = c.kind == "encoder_decoder"
    stacks = (TWO,) if two else ()
    attention: list[Product] = [(TWO, s.d, *s.q), (TWO, s.d, *s.kv)]
    attention += [s.q, (TWO, *s.kv)] if c.qkv_bias else []
    attention += [(s.d,)] if c.out_bias else []
    per_layer = s.attentions
    if two and c.qk_norm:  # which cross-attention does not have
        attention = [(*s.attentions, *term) for term in attention]
        per_layer = ()
    attention += [(*(s.blocks if two else ()), TWO, s.q[1])] if c.qk_norm else []
    feed_forward: list[Product] = [(s.matrices, s.d, s.f)]
    if c.mlp_bias:
        feed_forward += [(s.f,), *([(s.f,)] if c.gated else []), (s.d,)]
    # Norms before every half (and before cross-attention), at the end of each pre-norm stack, after the embeddings.
    more = (1 + two) * ((c.norm_place == "pre") + c.embedding_norm)
    n_norms = more + ((3 * c.n_layers + 2 * c.n_encoder_layers) if two else 2 * c.n_layers)
    norms = " + ".join([*(["3·L", "2·Lₑ"] if two else ["2·L"]), *([str(more)] if more else [])])
    vectors = (TWO,) if c.norm == "layernorm" else ()  # gain and shift, or the gain alone
    types = [(Factor("types", c.n_token_types), s.d)] if c.n_token_types else []
    head: list[Product] = [] if c.tied_embeddings or c.head == "none" else [(s.V, s.d)]
    head += [(s.d, s.d), (s.d,), (*vectors, s.d)] if c.head == "mlm" else []
    head += [(s.V,)] if c.unembed_bias and c.head != "none" else []
    formulas = {
        "embedding": Formula(((s.V, s.d), *types)),
        "attention": Formula(tuple(attention), per_layer),
        "feed_forward": Formula(tuple(feed_forward), s.blocks),
        "norms": Formula(((*vectors, Factor(f"({norms})", n_norms), s.d),)),
    }
    if c.positions == "learned":
        formulas["positions"] = Formula(((*stacks, Factor("positions", c.max_positions), s.d),))
    if head:
        formulas["unembedding"] = Formula(tuple(head))
    return {part: formulas[part] for part in PARTS if part in formulas}


def parameter_count(config: TransformerConfig) -> int:
    """All parameters; a tied output matrix counts once."""
    return sum(formula.count for formula in parameter_formulas(config).values())


def rule_of_twelve(config: TransformerConfig) -> Formula:
    """12·L·d²: the matrices of the blocks where H·dₕ = Hₖᵥ·dₕ = d and f = 4·d, ungated (Kaplan et al. 2020)."""
    s = Sizes(config)
    return Formula(((number(12), *s.blocks, s.d, s.d),))


def block_parameters(config: TransformerConfig) -> int:
    """Parameters of attention and feed-forward of all blocks: what the rule of twelve estimates."""
    formulas = parameter_formulas(config)
    return formulas["attention"].count + formulas["feed_forward"].count


def pass_flops(config: TransformerConfig, length: int) -> dict[str, Formula]:
    """Operations of one pass over `length` tokens, logits for the last one alone (what reading a prompt costs).

    "matrices" of the blocks, "attention" (q·k and weights·v for every pair of tokens, the masked ones too, as is the
    custom: Kaplan et al. 2020; kernels that leave masked tiles out do about half), "head". Norms, softmax and
    activations, below a percent in models of some width, are not counted. An encoder–decoder reads a source as long.
    """
    s, n = Sizes(config), Factor("n", length)
    formulas = {
        "matrices": _matrices(s, (TWO, n)),
        "attention": Formula(((FOUR, *s.attentions, n, n, *s.q),)),
    }
    return formulas | _head(s)


def decode_flops(config: TransformerConfig, context: int) -> dict[str, Formula]:
    """Operations of writing one token with the cache, at the end of a text of `context` tokens.

    Raises:
        ValueError: for a model that is no decoder.
    """
    _require_decoder(config)
    s, n = Sizes(config), Factor("n", context)
    formulas = {
        "matrices": _matrices(s, (TWO,)),
        "attention": Formula(((FOUR, s.L, n, *s.q),)),
    }
    return formulas | _head(s)


def _head(s: Sizes) -> dict[str, Formula]:
    """The last token's logits; nothing for a model that has none."""
    if s.config.head == "none":
        return {}
    dense: list[Product] = [(TWO, s.d, s.d)] if s.config.head == "mlm" else []
    return {"head": Formula(((TWO, s.d, s.V), *dense))}


def _matrices(s: Sizes, outer: tuple[Factor, ...]) -> Formula:
    attention = ((TWO, s.d, *s.q), (TWO, s.d, *s.kv))
    feed_forward = (s.matrices, s.d, s.f)
    if s.config.kind != "encoder_decoder":
        return Formula((*attention, feed_forward), (*outer, s.L))
    terms = [(*s.attentions, *term) for term in attention]
    return Formula((*terms, (*s.blocks, *feed_forward)), outer)


def training_flops(parameters: int, tokens: int) -> Formula:
    """6·N·D for training N parameters on D tokens: 2 forward, 4 backward (Kaplan et al. 2020)."""
    return Formula(((number(6), Factor("N", parameters), Factor("D", tokens)),))


def bytes_per_value(bits: int, *, integers_with_scale: bool = True) -> float:
    """Bytes that one number of a cache takes: 4, 2, and 1.25 or 0.75 for integers of 8 or 4 bits.

    With integers go a step and a lowest value, fp32 each, for every 32 of them.
    """
    return bits / 8 + (8 / CACHE_GROUP if bits <= 8 and integers_with_scale else 0)


def cache_formula(config: TransformerConfig, length: int, bits: int) -> Formula:
    """Bytes of keys and values of `length` tokens: 2·L·Hₖᵥ·dₕ·n·b (Shazeer 2019; Pope et al. 2022).

    Raises:
        ValueError: for a model that is no decoder.
    """
    _require_decoder(config)
    s = Sizes(config)
    return Formula(((TWO, s.L, *s.kv, Factor("n", length), Factor("b", bytes_per_value(bits))),))


def weights_formula(config: TransformerConfig, bits: int) -> Formula:
    """Bytes of all parameters, without the scales that integers would need."""
    return Formula(((Factor("N", parameter_count(config)), Factor("b", bits / 8)),))


def training_memory(config: TransformerConfig, bits: int) -> dict[str, Formula]:
    """Bytes that training holds for the parameters themselves: "weights", "gradients", "optimiser".

    In 16 bits the optimiser has an fp32 copy of the weights beside AdamW's two states, 16 bytes a parameter in all
    (Micikevicius et al. 2018; Rajbhandari et al. 2020, section 3.1). In fp32 the weights are that copy.
    """
    n, b = Factor("N", parameter_count(config)), Factor("b", max(bits, 16) / 8)  # nobody trains in integers
    states = number(OPTIMISER_STATES + (bits < 32))
    return {
        "weights": Formula(((n, b),)),
        "gradients": Formula(((n, b),)),
        "optimiser": Formula(((states, FOUR, n),)),
    }


def activation_formulas(config: TransformerConfig, length: int, bits: int) -> dict[str, Formula]:
    """Bytes that one text of `length` tokens leaves behind in the blocks, and in the loss, for the backward pass.

    "vectors": per token and block what norms and matrices read, 4·d + 2·H·dₕ + 2·Hₖᵥ·dₕ + 2·f (4·f with a gate):
    the count of Korthikanti et al. 2022, equation 1, without its dropout masks, for any heads and widths.
    "logits": n·V numbers in fp32 for the loss (section 4.3 there); their gradient takes as much again, for a moment.
    "patterns": the weights of every pair of tokens, H·n² a block, unless the kernel keeps none (Dao et al. 2022).
    """
    s, n, b = Sizes(config), Factor("n", length), Factor("b", max(bits, 16) / 8)
    per_block: list[Product] = [(FOUR, s.d), (TWO, *s.q), (TWO, *s.kv), (FOUR if config.gated else TWO, s.f)]
    per_block += [s.q, s.kv] if config.qk_norm else []
    logits = {} if config.head == "none" else {"logits": Formula(((n, s.V, FOUR),))}
    return {
        "vectors": Formula(tuple(per_block), (*s.blocks, n, b)),
        **logits,
        "patterns": Formula(((*s.attentions, s.q[0], n, n, b),)),
    }


def bytes_read(config: TransformerConfig, context: int, bits: int, cache_bits: int) -> dict[str, Formula]:
    """Bytes that must come out of memory for every token written: "weights" and "cache".

    Of an embedding that is not also the output matrix, and of learned positions, one row is read: they do not count.

    Raises:
        ValueError: for a model that is no decoder.
    """
    formulas = parameter_formulas(config)
    left_out = ["positions"] if config.tied_embeddings else ["positions", "embedding"]
    read = sum(formula.count for part, formula in formulas.items() if part not in left_out)
    return {
        "weights": Formula(((Factor("Nᵣ", read), Factor("b", bits / 8)),)),
        "cache": cache_formula(config, context, cache_bits),
    }


@dataclass(frozen=True)
class Ceilings:
    """What no program can exceed on a machine, one text at a time; real ones stay below.

    `by_bandwidth`, `by_compute`: tokens per second written, if only memory or only arithmetic took time.
    `prefill_seconds`: the least time to read the prompt, by arithmetic.
    """

    by_bandwidth: float
    by_compute: float
    prefill_seconds: float

    @property
    def tokens_per_second(self) -> float:
        """The lower of the two (the roofline of Williams et al. 2009)."""
        return min(self.by_bandwidth, self.by_compute)


def ceilings(
    config: TransformerConfig, context: int, bits: int, cache_bits: int, bandwidth: float, flops: float
) -> Ceilings:
    """The ceilings of a machine that reads `bandwidth` bytes and does `flops` operations per second.

    Raises:
        ValueError: for a model that is no decoder, or a machine that does nothing.
    """
    if bandwidth <= 0 or flops <= 0:
        raise ValueError("Bandwidth and operations per second must be greater than 0.")
    read = sum(formula.value for formula in bytes_read(config, context, bits, cache_bits).values())
    written = sum(formula.value for formula in decode_flops(config, context).values())
    prefill = sum(formula.value for formula in pass_flops(config, context).values())
    return Ceilings(bandwidth / read, flops / written, prefill / flops)


def pair_growth(lengths: tuple[int, ...] = CONTEXTS) -> tuple[int, ...]:
    """How many times as many pairs of tokens each length has as the first: 1, 16, 1,024, 16,384."""
    return tuple((length // lengths[0]) ** 2 for length in lengths)


def _require_decoder(config: TransformerConfig) -> None:
    if config.kind != "decoder":
        raise ValueError("Only a decoder writes token by token, with a cache.")
