"""What depth does to an untrained stack: size of the stream and of the gradients, layer by layer.

Glorot & Bengio 2010 asked this of plain networks, Xiong et al. 2020 of the two places of a Transformer's norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.block import Block
from model.config import Norm, NormPlace, TransformerConfig
from model.hooks import edit, observe
from model.transformer import Transformer

Placement = Literal["pre", "post", "none"]
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
DEPTHS = (2, 6, 12, 24, 48)
MAX_DEPTH = DEPTHS[-1]
WIDTH, HEADS, VOCABULARY = 32, 4, 64
TEXTS, TOKENS = 2, 16


@dataclass(frozen=True)
class Depth:
    """One stack, measured in one forward and one backward pass.

    `sizes`: root mean square of the stream's numbers as it enters the first block and as it leaves each, so
    `depth + 1` of them. `gradients`: Euclidean length of the loss's gradient with respect to all weights of each
    block, `depth` of them. `loss`: cross-entropy, nats.
    """

    norm: Norm
    placement: Placement
    depth: int
    loss: float
    sizes: tuple[float, ...]
    gradients: tuple[float, ...]

    @property
    def growth(self) -> float:
        """How many times larger the stream's numbers leave the last block than they entered the first."""
        return self.sizes[-1] / self.sizes[0]


def measure_depth(norm: Norm, placement: Placement, depth: int, *, seed: int = 0) -> Depth:
    """Build a stack of `depth` of our own blocks with random weights, and measure it.

    Every matrix is drawn with variance 1/inputs, so that by itself it keeps the size of what goes through it
    (LeCun et al. 1998); gains are 1 and shifts 0. The loss is cross-entropy on random tokens, its gradients are
    autograd's. With "none" each norm inside the blocks hands its input on unchanged (the one after the last block
    stays, as it does with "pre").

    Raises:
        ValueError: for a depth of less than 1 or more than `MAX_DEPTH`, or an unknown norm or placement.
    """
    stack = random_stack(norm, placement, depth, seed=seed)
    ids = random_tokens(seed)
    with torch.enable_grad():
        streams = watch(stack, ids[:, :-1])
        logits = streams.pop()
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
    return Depth(
        norm,
        placement,
        depth,
        float(loss.detach()),
        tuple(float(stream.detach().double().square().mean().sqrt()) for stream in streams),
        tuple(gradient_length(block) for block in stack.blocks),
    )


def random_stack(norm: Norm, placement: Placement, depth: int, *, seed: int = 0) -> Transformer:
    """The stack that `measure_depth` measures; see there."""
    if placement not in PLACEMENTS:
        raise ValueError(f"The placement is {placement!r}; it must be one of {', '.join(PLACEMENTS)}.")
    if not 1 <= depth <= MAX_DEPTH:
        raise ValueError(f"A stack of {depth} layers is not measured here, only 1 to {MAX_DEPTH}.")
    place: NormPlace = "post" if placement == "post" else "pre"
    stack = Transformer(
        TransformerConfig(
            vocab_size=VOCABULARY,
            d_model=WIDTH,
            n_layers=depth,
            n_heads=HEADS,
            n_kv_heads=HEADS,
            d_head=WIDTH // HEADS,
            d_ff=4 * WIDTH,
            max_positions=TOKENS,
            norm=norm,
            norm_place=place,
            activation="gelu_erf",
            tied_embeddings=False,
        )
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in stack.named_parameters():
            if parameter.dim() > 1:
                inputs = 1 if name == "embed.weight" else parameter.shape[1]
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / math.sqrt(inputs))
    if placement == "none":
        for block in stack.blocks:
            assert isinstance(block, Block)
            for half in ("ln1", "ln2"):
                setattr(block, half, nn.Identity())
    return stack


def random_tokens(seed: int = 0) -> Tensor:
    """`(TEXTS, TOKENS + 1)` random ids: inputs and, shifted by one, what is to be guessed."""
    return torch.randint(0, VOCABULARY, (TEXTS, TOKENS + 1), generator=torch.Generator().manual_seed(seed + 1))


def watch(stack: Transformer, ids: Tensor) -> list[Tensor]:
    """The stream `(B, T, d_model)` as it enters each block, as it leaves the last one, and then the logits."""
    seen: dict[str, Tensor] = {}
    # A fused kernel keeps of each row only the logarithm of its sum. Without norms scores get so large that its
    # rounding alone ruins the gradient; asking for the patterns makes the explicit kernel run.
    patterns = {f"blocks.{i}.attn.hook_pattern": _as_it_is for i in range(stack.config.n_layers)}
    with edit(patterns), observe(seen.__setitem__):
        logits = stack(ids)
    last = stack.config.n_layers - 1
    streams = [seen[f"blocks.{i}.hook_resid_pre"] for i in range(last + 1)]
    end = seen[f"blocks.{last}.hook_resid_post"]
    if stack.config.norm_place == "post":  # what leaves a post-norm block is its norm's output
        end = stack.get_submodule(f"blocks.{last}.ln2")(end)
    return [*streams, end, logits]


def _as_it_is(pattern: Tensor, name: str) -> None:
    return None


def gradient_length(module: nn.Module) -> float:
    """Euclidean length of the gradients of all parameters of `module` together; those without one count as 0."""
    found = [p.grad.double().square().sum() for p in module.parameters() if p.grad is not None]
    return float(torch.stack(found).sum().sqrt()) if found else 0.0
