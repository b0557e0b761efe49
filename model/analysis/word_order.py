"""The same tokens in another order: which of the vectors that a model makes of them change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.language import LanguageModel
from model.masks import MaskRule
from model.tokenizer import Piece


@dataclass(frozen=True)
class Reordered:
    """What leaves the last block for one set of tokens in two orders.

    `order[i]` says which token of the first text stands at place i of the second. `first` and `second` `(T, d_model)`
    are the vectors, both in the order of the first text, so that row t is the same token in either. `differences`
    `(T,)`: the largest absolute difference of any number of the token's vector.
    """

    order: tuple[int, ...]
    first: Tensor
    second: Tensor

    @property
    def differences(self) -> Tensor:
        return (self.first - self.second).abs().amax(-1)

    @property
    def difference(self) -> float:
        """The largest of all."""
        return float(self.differences.max())

    @property
    def usual(self) -> float:
        """What nine of ten numbers of the first token stay below, without sign: the end of a scale to draw on."""
        return float(self.first[0].abs().quantile(0.9)) or 1.0

    @property
    def largest(self) -> float:
        """The largest number, without sign, in the vectors of the first text: what a difference compares with."""
        return float(self.first.abs().max())


def reversed_pieces(pieces: Sequence[Piece]) -> tuple[int, ...]:
    """The order that turns a text round piece by piece; the tokens of one character stay as they are."""
    return tuple(token for piece in reversed(pieces) for token in range(piece.start, piece.end))


def reordered(lm: LanguageModel, ids: Sequence[int], order: Sequence[int], *, causal: bool) -> Reordered:
    """Run the model over the ids and over the same ids in another order.

    `causal`: whether a token sees only earlier ones; otherwise every token sees all.

    Raises:
        ValueError: if `order` does not name every place once.
    """
    if sorted(order) != list(range(len(ids))):
        raise ValueError(f"The order must name each of the {len(ids)} places once.")
    rule, last = MaskRule(causal=causal), f"blocks.{lm.config.n_layers - 1}.hook_resid_post"
    first = lm.trace(ids, rule=rule)[last].float()
    second = lm.trace([ids[i] for i in order], rule=rule)[last].float()
    back = torch.empty(len(ids), dtype=torch.long)
    back[torch.tensor(order)] = torch.arange(len(ids))
    return Reordered(tuple(order), first, second[back])
