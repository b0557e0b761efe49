"""A model to reckon with: the loaded one or a published one, with the sizes that the reader changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from model.analysis.presets import PRESETS
from model.config import TransformerConfig
from pages.kit import loading, notices

if TYPE_CHECKING:
    from pages.kit.choices import Selection

LOADED = "loaded"
NAMES = (LOADED, *PRESETS)
WEIGHT_BITS = (32, 16, 8, 4)
CACHE_BITS = WEIGHT_BITS
MAX_HEAD = 8_192
RANGES: dict[str, tuple[float, float]] = {
    "plan_d": (2, 65_536),
    "plan_layers": (1, 1_024),
    "plan_heads": (1, 1_024),
    "plan_kv": (1, 1_024),
    "plan_ff": (1, 1_048_576),
    "plan_vocab": (1, 2_000_000),
    "plan_context": (1, 16_777_216),
}
WHOLE = (*RANGES, "plan_bits", "plan_cache")
FLAGS = ("plan_learned", "plan_tied", "plan_gated")
NOTHING_CHANGED: dict[str, None] = dict.fromkeys((*WHOLE, *FLAGS))


@dataclass(frozen=True)
class Plan:
    """What is reckoned with. `name`: of the model it began as; `changed`: whether the reader changed any of its sizes.

    `bits` a weight, `cache_bits` a number of the cache; `context` tokens of text. `source`: where the sizes are
    published, "" for the loaded model.
    """

    name: str
    config: TransformerConfig
    context: int
    bits: int
    cache_bits: int
    source: str
    changed: bool


def of(sel: Selection) -> Plan:
    """The plan of a selection that `repaired` has seen."""
    lm = loading.chosen(sel)
    if sel.plan == LOADED:
        name, base, context, source = lm.name, lm.config, lm.config.max_positions, ""
        bits, cache_bits = 8 * lm.dtype.itemsize, 8 * lm.compute_dtype.itemsize
    else:
        preset = PRESETS[sel.plan]
        name, base, context, source = preset.name, preset.config, preset.context, preset.source
        bits = cache_bits = 16
    if sel.plan_bits is not None:
        bits, cache_bits = sel.plan_bits, max(sel.plan_bits, 16)
    context = sel.plan_context or context
    config = _changed(base, sel)
    return Plan(name, config, context, bits, sel.plan_cache or cache_bits, source, config != base)


def repaired(sel: Selection) -> Selection:
    """`sel` with a width that its heads divide, and key/value heads that divide those; what changed is noted."""
    base = loading.chosen(sel).config if sel.plan == LOADED else PRESETS[sel.plan].config
    if sel.plan_d is not None or sel.plan_heads is not None:
        d, heads = sel.plan_d or base.d_model, sel.plan_heads or base.n_heads
        step = 2 * heads  # RoPE turns pairs, so every head has an even number of features
        fitting = min(max(round(d / step), 1), MAX_HEAD // 2, int(RANGES["plan_d"][1]) // step) * step
        if d != fitting and (d, heads) != (base.d_model, base.n_heads):
            notices.add("plan_width", asked=d, heads=heads, used=fitting)
            sel = replace(sel, plan_d=fitting)
    heads = sel.plan_heads or base.n_heads
    if sel.plan_kv is not None and heads % sel.plan_kv:
        fitting = _divisor(heads, sel.plan_kv)
        notices.add("plan_kv_heads", asked=sel.plan_kv, heads=heads, used=fitting)
        sel = replace(sel, plan_kv=fitting)
    return sel


def resized(config: TransformerConfig, **changes: Any) -> TransformerConfig:
    """`config` with other sizes; options of RoPE that belong to its own head size or positions are dropped."""
    if "d_head" in changes or "positions" in changes:
        changes = {"d_rotary": None, "rope_divisors": ()} | changes
    if changes.get("positions", config.positions) != "rope":
        changes["qk_norm"] = False
    return config.replace(**changes)


def _changed(base: TransformerConfig, sel: Selection) -> TransformerConfig:
    """What the reader left alone follows what was changed: neurons the width, key/value heads the heads."""
    changes: dict[str, Any] = {}
    if sel.plan_d is not None or sel.plan_heads is not None:
        d, heads = sel.plan_d or base.d_model, sel.plan_heads or base.n_heads
        if (d, heads) != (base.d_model, base.n_heads):
            changes |= {"d_model": d, "n_heads": heads, "d_head": d // heads}
            changes["d_ff"] = max(1, round(base.d_ff * d / base.d_model))
            changes["n_kv_heads"] = _divisor(heads, max(1, heads // base.queries_per_kv))
    given = {"n_layers": sel.plan_layers, "n_kv_heads": sel.plan_kv, "d_ff": sel.plan_ff, "vocab_size": sel.plan_vocab}
    given["max_positions"] = sel.plan_context
    given["tied_embeddings"] = sel.plan_tied
    changes |= {name: value for name, value in given.items() if value is not None}
    if sel.plan_learned is not None and sel.plan_learned != (base.positions == "learned"):
        turned = "rope" if changes.get("d_head", base.d_head) % 2 == 0 else "none"
        changes["positions"] = "learned" if sel.plan_learned else turned
    if sel.plan_gated is not None and sel.plan_gated != base.gated:
        changes["activation"] = "swiglu" if sel.plan_gated else "gelu_tanh"
    return resized(base, **changes)


def _divisor(whole: int, wanted: int) -> int:
    """The divisor of `whole` that is nearest to `wanted`, the smaller of two."""
    return min((n for n in range(1, whole + 1) if whole % n == 0), key=lambda n: (abs(n - wanted), n))
