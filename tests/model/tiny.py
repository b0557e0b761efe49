"""Small random models for tests, whose every weight matters: gains are not 1, biases are not 0."""

from typing import Any

import torch
from torch import Tensor, nn

from model.config import TransformerConfig
from model.transformer import Transformer

FP32 = {"rtol": 1.3e-6, "atol": 1e-5}  # torch.testing's own tolerance for fp32


def tiny_config(**changes: Any) -> TransformerConfig:
    """A grouped-query decoder of two layers, with some values changed."""
    sizes = {"vocab_size": 50, "d_model": 32, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "d_ff": 40}
    return TransformerConfig(**sizes | {"max_positions": 64} | changes)


def tiny(seed: int = 0, **changes: Any) -> Transformer:
    """A Transformer of `tiny_config(**changes)` with random weights."""
    transformer = Transformer(tiny_config(**changes))
    randomise(transformer, seed)
    return transformer.requires_grad_(False).eval()


@torch.no_grad()
def randomise(module: nn.Module, seed: int = 0) -> nn.Module:
    """Draw every trainable parameter: matrices so that activations keep their size, gains about 1, biases about 0."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() > 1:
            parameter.copy_(
                noise * (0.4 if "emb" in name or "wte" in name or "wpe" in name else parameter.shape[-1] ** -0.5)
            )
        elif name.endswith("bias"):
            parameter.copy_(noise * 0.2)
        else:
            parameter.copy_(1 + noise * 0.2)
    return module


def fill(transformer: Transformer, weights: dict[str, Tensor]) -> Transformer:
    """Put reference weights in; every parameter must be given."""
    transformer.load_state_dict({name: w.detach().clone() for name, w in weights.items()}, strict=True)
    return transformer.requires_grad_(False).eval()


def some_ids(*shape: int, seed: int = 1, vocabulary: int = 50) -> Tensor:
    """Random token ids."""
    return torch.randint(0, vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def close(ours: Tensor, theirs: Tensor) -> None:
    """Equal up to fp32 rounding."""
    torch.testing.assert_close(ours, theirs, **FP32)


def within_budget(ours: Tensor, plain: Tensor, exact: Tensor, tiny_error: float = 1e-6) -> None:
    """Low precision may cost us at most twice what it costs the plain reference (plus nearly nothing)."""
    error, budget = ((x.double() - exact.double()).abs().max().item() for x in (ours, plain))
    assert error <= 2 * budget + tiny_error, f"error {error:.3g}, reference's own {budget:.3g}"
