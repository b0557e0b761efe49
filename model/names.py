"""Every hook name with its shape and meaning: the one table that docs, labels and tests read.

The names are those that TransformerLens made common, so that its users feel at home; `hook_logits`,
`cross_attn` and the `encoder.` prefix are ours beyond them. Shapes are without the batch axis.
"""

from __future__ import annotations

from dataclasses import dataclass

from model.config import TransformerConfig


@dataclass(frozen=True)
class HookName:
    """One hook: its name (`{i}` stands for the layer), shape in words, meaning, and whether it is `derived`:
    computed from other activations when it is asked for."""

    name: str
    shape: tuple[str, ...]
    meaning: str
    derived: bool = False


_T, _D = "positions", "d_model"
_STREAM, _SCALE = (_T, _D), (_T, "1")

_NORM = (
    HookName("hook_scale", _SCALE, "what the norm divides each token's vector by"),
    HookName("hook_normalized", _STREAM, "the vector after that division, before the learned gain"),
)
_ATTENTION = (
    HookName("hook_q", (_T, "heads", "d_head"), "queries"),
    HookName("hook_k", (_T, "kv_heads", "d_head"), "keys"),
    HookName("hook_v", (_T, "kv_heads", "d_head"), "values"),
    HookName("hook_rot_q", (_T, "heads", "d_head"), "queries after RoPE turned them by their position"),
    HookName("hook_rot_k", (_T, "kv_heads", "d_head"), "keys after RoPE turned them by their position"),
    HookName("hook_attn_scores", ("heads", "queries", "keys"), "scaled scores, minus infinity where masked", True),
    HookName("hook_pattern", ("heads", "queries", "keys"), "softmax of the scores: each row sums to 1", True),
    HookName("hook_z", (_T, "heads", "d_head"), "values mixed by the pattern"),
    HookName("hook_result", (_T, "heads", _D), "what each head writes into the stream (without the bias)", True),
)
_MLP = (
    HookName("hook_pre", (_T, "d_ff"), "neurons before the activation (of a gated network: the gate)"),
    HookName("hook_pre_linear", (_T, "d_ff"), "the linear branch that the gate multiplies"),
    HookName("hook_post", (_T, "d_ff"), "neurons after the activation (and the gate's product)"),
)
_BLOCK = (
    HookName("hook_resid_pre", _STREAM, "the residual stream as it enters the block"),
    HookName("hook_attn_out", _STREAM, "what attention adds"),
    HookName("hook_resid_mid", _STREAM, "the stream after attention"),
    HookName("hook_cross_attn_out", _STREAM, "what cross-attention adds"),
    HookName("hook_resid_mid_cross", _STREAM, "the stream after cross-attention"),
    HookName("hook_mlp_out", _STREAM, "what the feed-forward adds"),
    HookName("hook_resid_post", _STREAM, "the stream as it leaves the block"),
)
_TOP = (
    HookName("hook_embed", _STREAM, "token embeddings"),
    HookName("hook_pos_embed", _STREAM, "position embeddings (learned or sinusoidal)"),
    HookName("hook_token_type_embed", _STREAM, "the vector of the first sentence of a pair, for every token"),
)
_LOGITS = HookName("hook_logits", (_T, "vocabulary"), "one score for every token that could come next")
_MASKED_LOGITS = HookName("hook_logits", (_T, "vocabulary"), "one score for every token that could stand here")
_OUTPUT = HookName("hook_output", _STREAM, "the model's output: one vector a token")
_HEAD_NORM = (
    HookName("hook_scale", (_T, "heads", "1"), "what the norm divides each head's vector by"),
    HookName("hook_normalized", (_T, "heads", "d_head"), "that vector after the division, before the learned gain"),
)


def _under(prefix: str, names: tuple[HookName, ...]) -> list[HookName]:
    return [HookName(f"{prefix}.{n.name}", n.shape, n.meaning, n.derived) for n in names]


def hook_table(config: TransformerConfig) -> dict[str, HookName]:
    """Every hook of a model built from `config`, by its full name, in the order of the data's way."""
    two = config.kind == "encoder_decoder"
    table: list[HookName] = []
    if two:
        table += _stack(config, "encoder.", config.n_encoder_layers, cross=False)
    table += _stack(config, "", config.n_layers, cross=two)
    if config.head == "mlm":
        table += _under("mlm_head.ln", _NORM)
    table.append(_OUTPUT if config.head == "none" else _LOGITS if config.causal else _MASKED_LOGITS)
    return {n.name: n for n in table}


def _stack(config: TransformerConfig, prefix: str, n_layers: int, cross: bool) -> list[HookName]:
    absolute = config.positions in ("learned", "sinusoidal")
    top = [_TOP[0], *(_TOP[1:2] if absolute else ()), *(_TOP[2:] if config.n_token_types else ())]
    table = [HookName(prefix + n.name, n.shape, n.meaning) for n in top]
    if config.embedding_norm:
        table += _under(f"{prefix}embed_norm", _NORM)
    for i in range(n_layers):
        at = f"{prefix}blocks.{i}"
        block = {n.name.rsplit(".", 1)[-1]: n for n in _under(at, _BLOCK)}
        ln1, ln2 = _under(f"{at}.ln1", _NORM), _under(f"{at}.ln2", _NORM)
        attn = [n for n in _under(f"{at}.attn", _ATTENTION) if config.positions == "rope" or "hook_rot" not in n.name]
        if config.qk_norm:
            q, k = _under(f"{at}.attn.q_norm", _HEAD_NORM), _under(f"{at}.attn.k_norm", _HEAD_NORM)
            attn[3:3] = [*q, *(HookName(n.name, (_T, "kv_heads", n.shape[-1]), n.meaning) for n in k)]
        mlp = [n for n in _under(f"{at}.mlp", _MLP) if config.gated or "pre_linear" not in n.name]
        pre = config.norm_place == "pre"
        table += [block["hook_resid_pre"], *(ln1 if pre else ()), *attn]
        table += [block["hook_attn_out"], block["hook_resid_mid"]]
        table += () if pre else ln1
        if cross:
            ln = _under(f"{at}.ln_cross", _NORM)
            over = [n for n in _under(f"{at}.cross_attn", _ATTENTION) if "hook_rot" not in n.name]
            table += [*(ln if pre else ()), *over, block["hook_cross_attn_out"], block["hook_resid_mid_cross"]]
            table += () if pre else ln
        table += [*(ln2 if pre else ()), *mlp, block["hook_mlp_out"], block["hook_resid_post"], *(() if pre else ln2)]
    if config.norm_place == "pre":
        table += _under(f"{prefix}ln_final", _NORM)
    return table
