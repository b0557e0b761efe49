"""One vector through LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019), step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from model.config import Norm
from model.norms import Normalization
from model.trace import Trace

Half = Literal["attention", "feed_forward"]
HALVES: tuple[Half, ...] = get_args(Half)
NORMS: tuple[Norm, ...] = get_args(Norm)


@dataclass(frozen=True)
class NormSteps:
    """The steps of one norm on one vector; vectors are `(d_model,)`, fp32 on the CPU.

    `centred` is x less its mean (RMSNorm takes none off: x itself), `scale` the root of the mean square of `centred`
    plus `eps`, `normalized` their quotient, `out` that times `gain` plus `shift`. `mean` and `variance` are of x,
    `mean_square` is of `centred`. `own`: whether the model has this very norm here; otherwise gain is 1 and shift 0.
    `difference`: largest distance of `out` from torch's own kernel. `run_difference`: of `normalized` from what the
    run recorded, None unless `own`.
    """

    kind: Norm
    own: bool
    x: Tensor
    mean: float
    variance: float
    mean_square: float
    eps: float
    scale: float
    centred: Tensor
    normalized: Tensor
    gain: Tensor
    shift: Tensor | None
    out: Tensor
    difference: float
    run_difference: float | None

    @property
    def largest(self) -> int:
        """The place of the largest number of x by size."""
        return int(self.x.abs().argmax())

    @property
    def after(self) -> tuple[float, float, float]:
        """Mean, variance and mean square of `normalized`."""
        h = self.normalized.double()
        return float(h.mean()), float(h.var(correction=0)), float(h.square().mean())


def norm_steps(run: Trace, layer: int, half: Half, position: int, kind: Norm) -> NormSteps:
    """Take the vector that one of a block's two norms got, through the steps of LayerNorm or RMSNorm.

    half: the norm of which half of the block; it stands before it in a pre-norm model and behind it in a post-norm
    one.

    Raises:
        IndexError: if the run has no such layer or position.
        ValueError: for an unknown half or norm.
    """
    if half not in HALVES or kind not in NORMS:
        raise ValueError(f"There is no half {half!r} with a norm {kind!r} here.")
    if not 0 <= layer < run.config.n_layers or not 0 <= position < len(run.tokens):
        raise IndexError(f"Layer {layer}, position {position}: this run has {run.config.n_layers} layers of tokens "
                         f"0 to {len(run.tokens) - 1}.")  # fmt: skip
    name = f"blocks.{layer}.{'ln1' if half == 'attention' else 'ln2'}"
    module = run.module(name)
    assert isinstance(module, Normalization)
    own = run.config.norm == kind
    x = run[f"blocks.{layer}.{_input(run, half)}"][position].float().cpu()
    gain = module.weight.detach().float().cpu() if own else torch.ones_like(x)
    shift = None
    if kind == "layernorm":
        learned = own and module.bias is not None
        shift = module.bias.detach().float().cpu() if learned and module.bias is not None else torch.zeros_like(x)
    mean, variance = float(x.double().mean()), float(x.double().var(correction=0))
    centred = x - x.mean() if kind == "layernorm" else x
    mean_square = centred.square().mean()
    scale = (mean_square + module.eps).sqrt()
    normalized = centred / scale
    out = normalized * gain + (0 if shift is None else shift)
    size = x.shape
    if kind == "layernorm":
        theirs = F.layer_norm(x, size, gain, shift, module.eps)
    else:
        theirs = F.rms_norm(x, size, gain, module.eps)
    recorded = run[f"{name}.hook_normalized"][position].float().cpu() if own else None
    return NormSteps(
        kind,
        own,
        x,
        mean,
        variance,
        float(mean_square),
        module.eps,
        float(scale),
        centred,
        normalized,
        gain,
        shift,
        out,
        float((out - theirs).abs().max()),
        None if recorded is None else float((normalized - recorded).abs().max()),
    )


def _input(run: Trace, half: Half) -> str:
    if run.config.norm_place == "pre":
        return "hook_resid_pre" if half == "attention" else "hook_resid_mid"
    return "hook_resid_mid" if half == "attention" else "hook_resid_post"
