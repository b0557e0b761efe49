"""From the residual stream to one score a vocabulary entry."""

from __future__ import annotations

from torch import Tensor, nn

from model.config import TransformerConfig
from model.feedforward import CURVES
from model.linear import Linear
from model.norms import Normalization


class MaskedHead(nn.Module):
    """What BERT does to a vector before the vocabulary's matrix: dense, activation, norm (Devlin et al. 2019)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.activation = CURVES[config.activation]
        self.W = Linear(config.d_model, config.d_model)
        self.ln = Normalization(config, "mlm_head.ln")

    def forward(self, x: Tensor) -> Tensor:
        """`(B, T, d_model)` to the same shape."""
        out: Tensor = self.ln(self.activation(self.W(x)))
        return out
