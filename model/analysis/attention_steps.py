"""One attention head taken apart: every matrix between its input and its output, from one run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model.attention import Attention
from model.kernels import attention_pattern, attention_scores, explicit, fused
from model.masks import MaskRule
from model.trace import Trace


@dataclass(frozen=True)
class HeadSteps:
    """The steps of one head, all fp32 on the CPU; T tokens, D features a head, M = d_model.

    `x` `(T, M)` is what the projections read (after the norm where the model has it first); `q`, `k`, `v`
    `(T, D)` as the kernel gets them (after RoPE); `scores` `(T, T)` = q·k; `scaled` = scores ÷ √D, or the
    scores again when scaling is off, plus `bias` (ALiBi's; 0 elsewhere); `masked` has minus infinity where masked;
    `pattern` is its softmax; `z` `(T, D)` = pattern · v; `out` `(T, M)` = z · W_O of this head.
    `visible` `(T, T)` is true where attention is allowed. `scale` is what the scores were multiplied by.
    """

    layer: int
    head: int
    kv_head: int
    x: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    scores: Tensor
    bias: Tensor
    scaled: Tensor
    masked: Tensor
    pattern: Tensor
    z: Tensor
    out: Tensor
    visible: Tensor
    scale: float


def head_steps(run: Trace, layer: int, head: int, *, scaling: bool = True) -> HeadSteps:
    """Recompute one head step by step from the queries, keys and values that a run recorded.

    With scaling, `pattern` is the run's own (edits of scores or pattern aside). Without, everything after the
    scores is what this head would have done with the same queries and keys but no division by √D.

    Raises:
        IndexError: if the model has no such layer or head.
    """
    config = run.config
    if not (0 <= layer < config.n_layers and 0 <= head < config.n_heads):
        raise IndexError(f"Layer {layer}, head {head}: this model has {config.n_layers} layers of {config.n_heads}.")
    name = f"blocks.{layer}.attn"
    q, k, v, visible = run.attention_inputs(name)
    kv_head = head // config.queries_per_kv
    d = config.d_head
    scale = 1 / math.sqrt(d) if scaling else 1.0
    if visible.bias is not None:
        visible = replace(visible, bias=visible.bias[:, head : head + 1])
    masked = attention_scores(q[:, head : head + 1], k[:, kv_head : kv_head + 1], visible, scale)[0, 0]
    q_, k_, v_ = q[0, head].float(), k[0, kv_head].float(), v[0, kv_head].float()
    scores = q_ @ k_.T
    bias = torch.zeros_like(scores)
    if visible.bias is not None:
        bias = visible.bias.expand(1, 1, *scores.shape)[0, 0]
    scaled = scores * scale + bias
    pattern = attention_pattern(masked)
    z = pattern @ v_
    module = run.module(name)
    assert isinstance(module, Attention)
    w_o = module.W_O.weight[:, head * d : (head + 1) * d].float()  # (M, D)
    tensors = {
        "x": attention_input(run, layer),
        "q": q_,
        "k": k_,
        "v": v_,
        "scores": scores,
        "bias": bias,
        "scaled": scaled,
        "masked": masked,
        "pattern": pattern,
        "z": z,
        "out": z @ w_o.T,
        "visible": masked > -torch.inf,
    }
    on_cpu = {name: tensor.cpu() for name, tensor in tensors.items()}
    return HeadSteps(layer=layer, head=head, kv_head=kv_head, scale=scale, **on_cpu)


def attention_input(run: Trace, layer: int) -> Tensor:
    """`(T, d_model)`: what a layer's query, key and value projections read."""
    stream = run[f"blocks.{layer}.hook_resid_pre"]
    if run.config.norm_place == "post":
        return stream.float()
    norm = run.module(f"blocks.{layer}.ln1")
    out: Tensor = norm(stream[None])[0]
    return out.float()


@dataclass(frozen=True)
class CellArithmetic:
    """One cell's way through the steps.

    `dot` = q·k, `bias` = what ALiBi adds after the division (0 elsewhere), `scaled` after both, `row_max` = the
    largest of the row (minus infinity where the query may read no key), `numerator` = e^(scaled - row_max),
    `denominator` = the sum of these over the keys that the query may read, `weight` = numerator ÷ denominator.
    A masked cell has numerator and weight 0.
    """

    masked: bool
    dot: float
    bias: float
    scaled: float
    row_max: float
    numerator: float
    denominator: float
    weight: float


def cell_arithmetic(steps: HeadSteps, query: int, key: int) -> CellArithmetic:
    """The numbers that went through the formula for one query and key.

    Raises:
        IndexError: for a query or key outside of the text.
    """
    row = steps.masked[query]
    top = float(row.max())
    terms = (row - top).exp() if math.isfinite(top) else torch.zeros_like(row)
    return CellArithmetic(
        masked=not bool(steps.visible[query, key]),
        dot=float(steps.scores[query, key]),
        bias=float(steps.bias[query, key]),
        scaled=float(steps.scaled[query, key]),
        row_max=top,
        numerator=float(terms[key]),
        denominator=float(terms.sum()),
        weight=float(steps.pattern[query, key]),
    )


def kernel_difference(run: Trace, layer: int) -> float:
    """Largest difference between the explicit and the fused kernel's output on a layer's own q, k and v."""
    q, k, v, visible = run.attention_inputs(f"blocks.{layer}.attn")
    difference = explicit(q, k, v, visible).out.float() - fused(q, k, v, visible).out.float()
    return float(difference.abs().max())


# The masks that a reader can put on the whole model; sizes are for the text at hand.
MASK_KINDS = ("causal", "none", "padding", "window", "prefix")


@dataclass(frozen=True)
class MaskChoice:
    """A mask kind with its parameters: what `LanguageModel.trace` takes."""

    rule: MaskRule | None
    padding: int = 0


def mask_choice(kind: str, n_tokens: int, *, causal: bool = True) -> MaskChoice:
    """One of `MASK_KINDS`, sized for a text: a window of about a third of it (at least 2 tokens), a prefix of
    its first half, padding over its first third. `causal` is what the model itself does.

    Raises:
        ValueError: for a kind that is not one of these.
    """
    if kind == "causal":
        return MaskChoice(None if causal else MaskRule(causal=True))
    if kind == "none":
        return MaskChoice(MaskRule(causal=False) if causal else None)
    if kind == "padding":
        return MaskChoice(None, padding=n_tokens // 3)
    if kind == "window":
        return MaskChoice(MaskRule(causal=causal, window=max(2, round(n_tokens / 3))))
    if kind == "prefix":
        return MaskChoice(MaskRule(causal=causal, prefix=max(1, n_tokens // 2)))
    raise ValueError(f"The mask {kind!r} is not known; choose one of {', '.join(MASK_KINDS)}.")
