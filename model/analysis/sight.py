"""Who may look at whom: the masks of encoder, decoder and encoder-decoder, and what a changed token changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from model.trace import Trace

Stack = Literal["encoder.", ""]  # the prefix of the hook names: an encoder-decoder's encoder, or the main stack
CHANGED = 1e-5  # what two passes over the same numbers may differ by in fp32, and less than any token's effect


@dataclass(frozen=True)
class Sight:
    """One kind of attention in a run, over all its layers and heads.

    `weights` `(queries, keys)` is their mean pattern, `hidden` `(queries, keys)` true where the mask lets none look.
    `ahead` is the share of the weight that goes to later tokens (of cross-attention, which has another text for its
    keys: None). `row_error` is the largest distance from 1 of a row's sum, over all of them.
    """

    weights: Tensor
    hidden: Tensor
    ahead: float | None
    row_error: float

    @property
    def peak(self) -> float:
        """The largest weight of a query that may choose, among two keys or more; of any query where none may."""
        choosing = (~self.hidden).sum(-1) > 1
        return float((self.weights[choosing] if bool(choosing.any()) else self.weights).max())


def sight(run: Trace, stack: Stack = "", *, cross: bool = False) -> Sight:
    """The attention of a stack to itself, or (`cross`) of the decoder to the source.

    Raises:
        KeyError: for a stack, or cross-attention, that the model does not have.
    """
    layers = run.config.n_encoder_layers if stack else run.config.n_layers
    names = [f"{stack}blocks.{layer}.{'cross_attn' if cross else 'attn'}" for layer in range(layers)]
    total, error = torch.zeros(()), 0.0
    for name in names:
        pattern = run[f"{name}.hook_pattern"].double().cpu()
        total = total + pattern.mean(0)
        error = max(error, float((pattern.sum(-1) - 1).abs().max()))
    weights = total / len(names)
    hidden = torch.isneginf(run[f"{names[0]}.hook_attn_scores"][0]).cpu()
    ahead = None if cross else float(weights.triu(1).sum() / weights.sum())
    return Sight(weights.float(), hidden, ahead, error)


def last_vectors(run: Trace, stack: Stack = "") -> Tensor:
    """The last hidden state `(positions, d_model)`, fp32: what leaves a stack's last block, after the norm that follows
    it (the block's own in a post-norm model, the final one in a pre-norm model)."""
    last = (run.config.n_encoder_layers if stack else run.config.n_layers) - 1
    block = f"{stack}blocks.{last}"
    norm = f"{block}.ln2" if run.config.norm_place == "post" else f"{stack}ln_final"
    with torch.no_grad():
        vectors: Tensor = run.module(norm)(run[f"{block}.hook_resid_post"][None])[0]
    return vectors.float().cpu()


def change(one: Trace, other: Trace, stack: Stack = "") -> Tensor:
    """The largest difference in a number of the last hidden state, position by position, `(positions,)`.

    Raises:
        ValueError: for runs of different lengths.
    """
    before, after = last_vectors(one, stack), last_vectors(other, stack)
    if before.shape != after.shape:
        raise ValueError(f"The runs have {len(before)} and {len(after)} positions; the same number is needed.")
    return (before - after).abs().amax(-1)


def changed(differences: Tensor) -> Tensor:
    """`(positions,)`: true where the change is more than rounding."""
    return differences > CHANGED


def replaced(ids: Sequence[int], position: int, token: int) -> tuple[int, ...]:
    """The same tokens with another one at `position`.

    Raises:
        IndexError: for a position that there is not.
    """
    if not 0 <= position < len(ids):
        raise IndexError(f"Position {position}: there are {len(ids)} tokens.")
    return (*ids[:position], token, *ids[position + 1 :])
