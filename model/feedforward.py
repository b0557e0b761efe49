"""The feed-forward network of a block: a plain one, or one with a gate (GLU variants, Shazeer 2020)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from model.config import TransformerConfig
from model.hooks import HookPoint
from model.linear import Linear


def relu(x: Tensor) -> Tensor:
    """max(0, x)."""
    return nn.functional.relu(x)


def gelu_erf(x: Tensor) -> Tensor:
    """x times the normal distribution's cumulative probability at x (Hendrycks & Gimpel 2016)."""
    return nn.functional.gelu(x)


def gelu_tanh(x: Tensor) -> Tensor:
    """The tanh approximation of GELU; GPT-2's form."""
    return nn.functional.gelu(x, approximate="tanh")


def silu(x: Tensor) -> Tensor:
    """x times sigmoid(x), also called swish; the gate of SwiGLU."""
    return nn.functional.silu(x)


CURVES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": relu,
    "gelu_tanh": gelu_tanh,
    "gelu_erf": gelu_erf,
    "swiglu": silu,
    "geglu": gelu_tanh,
}


class FeedForward(nn.Module):
    """act(x W_in) W_out, or (act(x W_gate) * (x W_in)) W_out when gated."""

    def __init__(self, config: TransformerConfig, name: str) -> None:
        super().__init__()
        self.activation = CURVES[config.activation]
        self.W_in = Linear(config.d_model, config.d_ff, bias=config.mlp_bias)
        self.W_gate = Linear(config.d_model, config.d_ff, bias=config.mlp_bias) if config.gated else None
        self.W_out = Linear(config.d_ff, config.d_model, bias=config.mlp_bias)
        self.hook_pre = HookPoint(f"{name}.hook_pre")
        self.hook_pre_linear = HookPoint(f"{name}.hook_pre_linear")
        self.hook_post = HookPoint(f"{name}.hook_post")

    def forward(self, x: Tensor) -> Tensor:
        """`(B, T, d_model)` to the same shape."""
        if self.W_gate is None:
            post = self.activation(self.hook_pre(self.W_in(x)))  # (B, T, d_ff)
        else:
            pre = self.hook_pre(self.W_gate(x))
            post = self.activation(pre) * self.hook_pre_linear(self.W_in(x))
        out: Tensor = self.W_out(self.hook_post(post))
        return out
