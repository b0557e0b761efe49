"""Layer normalisation (Ba et al. 2016) and root-mean-square normalisation (Zhang & Sennrich 2019)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.config import TransformerConfig
from model.hooks import HookPoint, edited_names, listening


class Normalization(nn.Module):
    """Brings each token's vector to unit scale, then applies the learned gain (and shift).

    Statistics are taken in fp32 at any model dtype: squares of fp16 activations overflow, and eps = 1e-5
    vanishes in half precision.
    """

    def __init__(self, config: TransformerConfig, name: str, head: bool = False) -> None:
        """`head`: an RMS norm over the features of each head, whatever norm the stream has."""
        super().__init__()
        self.eps = config.norm_eps
        self.centred = config.norm == "layernorm" and not head
        size = config.d_head if head else config.d_model
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size)) if self.centred else None
        self.hook_scale = HookPoint(f"{name}.hook_scale")
        self.hook_normalized = HookPoint(f"{name}.hook_normalized")

    def forward(self, x: Tensor) -> Tensor:
        """`(B, T, d_model)`, or `(B, T, heads, d_head)`, to the same shape; the last axis is normalised."""
        if listening():
            normalized = self._explicit(x)
            if edited_names().intersection((self.hook_scale.name, self.hook_normalized.name)):
                return self._with_gain(normalized).to(x.dtype)
        # Watching must not change the result: unless edited, it always comes from torch's own kernel.
        if self.centred:
            return nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)
        return nn.functional.rms_norm(x, x.shape[-1:], self.weight, self.eps)

    def _explicit(self, x: Tensor) -> Tensor:
        h = x.float()
        if self.centred:
            h = h - h.mean(-1, keepdim=True)
        scale = self.hook_scale((h.pow(2).mean(-1, keepdim=True) + self.eps).sqrt())  # (B, T, 1)
        # Named "normalized" before the gain, where LayerNorm's mean is 0 and variance 1.
        return self.hook_normalized(h / scale)  # (B, T, d_model)

    def _with_gain(self, normalized: Tensor) -> Tensor:
        out = normalized * self.weight.float()
        return out if self.bias is None else out + self.bias.float()
