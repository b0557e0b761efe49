"""One block of the stack: attention, (cross-attention,) feed-forward, each added to the residual stream."""

from __future__ import annotations

from torch import Tensor, nn

from model.attention import Attention, Pass
from model.config import TransformerConfig
from model.feedforward import FeedForward
from model.hooks import HookPoint
from model.norms import Normalization


class Block(nn.Module):
    """Pre-norm: x + f(norm(x)) (Xiong et al. 2020). Post-norm: norm(x + f(x)) (Vaswani et al. 2017).

    Parallel: x + f(norm(x)) + g(norm(x)), so that the feed-forward does not see what attention wrote (GPT-J).
    """

    def __init__(self, config: TransformerConfig, name: str, layer: int, cross: bool = False) -> None:
        super().__init__()
        self.pre = config.norm_place == "pre"
        self.parallel = config.parallel
        self.ln1 = Normalization(config, f"{name}.ln1")
        self.attn = Attention(config, f"{name}.attn", layer)
        self.ln_cross = Normalization(config, f"{name}.ln_cross") if cross else None
        self.cross_attn = Attention(config, f"{name}.cross_attn", layer, cross=True) if cross else None
        self.ln2 = Normalization(config, f"{name}.ln2")
        self.mlp = FeedForward(config, f"{name}.mlp")
        self.hook_resid_pre = HookPoint(f"{name}.hook_resid_pre")
        self.hook_attn_out = HookPoint(f"{name}.hook_attn_out")
        self.hook_resid_mid = HookPoint(f"{name}.hook_resid_mid")
        self.hook_cross_attn_out = HookPoint(f"{name}.hook_cross_attn_out")
        self.hook_resid_mid_cross = HookPoint(f"{name}.hook_resid_mid_cross")
        self.hook_mlp_out = HookPoint(f"{name}.hook_mlp_out")
        self.hook_resid_post = HookPoint(f"{name}.hook_resid_post")

    def forward(self, x: Tensor, run: Pass) -> Tensor:
        """`(B, T, d_model)` to the same shape."""
        x = self.hook_resid_pre(x)
        before = x
        h = self.ln1(x) if self.pre else x
        x = self.hook_resid_mid(x + self.hook_attn_out(self.attn(h, run)))
        x = x if self.pre else self.ln1(x)
        if self.cross_attn is not None and self.ln_cross is not None:
            h = self.ln_cross(x) if self.pre else x
            x = self.hook_resid_mid_cross(x + self.hook_cross_attn_out(self.cross_attn(h, run)))
            x = x if self.pre else self.ln_cross(x)
        h = self.ln2(before if self.parallel else x) if self.pre else x
        x = self.hook_resid_post(x + self.hook_mlp_out(self.mlp(h)))
        return x if self.pre else self.ln2(x)
