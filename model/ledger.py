"""From logits to final probabilities, every step on record: penalty → temperature → top-k → top-p → min-p.

The order and the meaning of the steps are those of Transformers' logits processors, except that top-k keeps
exactly k tokens where several share the k-th place. Arithmetic is in float64.

Sources: nucleus sampling, Holtzman et al. 2020, arXiv:1904.09751; top-k, Fan et al. 2018, arXiv:1805.04833; min-p,
Nguyen et al. 2024, arXiv:2407.01082; repetition penalty, Keskar et al. 2019, arXiv:1909.05858.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from model.losses import entropy
from model.settings import SamplingSettings

Control = Literal["temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed"]
Reason = Literal["off", "greedy", "keeps_all", "no_difference", "nothing_repeated", "one_candidate"]

# Logits arrive in float32, so a mass or a ratio computed from them is uncertain by about this much. Without the
# allowance 0.5 + 0.3 would miss a top-p of 0.8 by the rounding of two logarithms.
ROUNDING = 1e-6

_OFF: dict[Control, Any] = {"temperature": 1, "repetition_penalty": 1, "top_k": 0, "top_p": 1, "min_p": 0}


class Ledger:
    """One choice of a next token: every stage, for the whole vocabulary of V tokens.

    Tensors are on the CPU, have shape `(V,)` and are indexed by token id, except where "in order" is said: then the
    most probable token comes first, and of equals the one with the lower id. Each filter keeps the front of that
    order, so a count tells what it kept. Stages are computed when asked for: generation needs few of them.

    At temperature 0 there is no distribution to filter: `probabilities` and `final` are 1 for the most probable
    token and 0 elsewhere, `scaled` equals `penalised`, and only that token counts as kept by each filter.

    Attributes:
        logits: as the model gave them (float32, or float64 if they were).
        settings: what they are sampled with.
        previous: the distinct token ids that the repetition penalty applies to; empty if the penalty is off.

    Raises:
        ValueError: if the logits have another shape, are empty or not finite (also after the penalty), or if a
            previous id is not in the vocabulary.
    """

    def __init__(self, logits: Tensor, settings: SamplingSettings, previous_ids: Iterable[int] = ()) -> None:
        if logits.dim() != 1 or logits.numel() == 0:
            raise ValueError(f"The logits of one position are a vector over the vocabulary, not {list(logits.shape)}.")
        dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
        self.logits = logits.detach().to("cpu", dtype, copy=True)  # the record must not follow later changes
        self.settings = settings
        self.previous = frozenset(previous_ids) if settings.repetition_penalty != 1 else frozenset[int]()
        _check_finite(self.logits, "The logits")
        if self.previous:
            if min(self.previous) < 0 or max(self.previous) >= self.vocab_size:
                raise ValueError(f"Previous token ids must be between 0 and {self.vocab_size - 1}.")
            _check_finite(self._penalise(), f"With a repetition penalty of {settings.repetition_penalty}, the logits")

    @property
    def vocab_size(self) -> int:
        """V, how many tokens there are to choose from."""
        return self.logits.numel()

    # --- the stages

    @cached_property
    def penalised(self) -> Tensor:
        """Logits after the repetition penalty."""
        return self._penalise()

    @cached_property
    def scaled(self) -> Tensor:
        """Penalised logits divided by the temperature (as they are, if that is 0)."""
        return self.penalised if self.settings.greedy else self.penalised / self.settings.temperature

    @cached_property
    def probabilities(self) -> Tensor:
        """Softmax of `scaled`: the probabilities after temperature, before the filters."""
        return self._softmax(self.penalised)

    @cached_property
    def cumulative(self) -> Tensor:
        """What top-p looks at: the share of a token and all before it in order, of the mass that top-k left.

        It reaches 1 at the last token that top-k kept, and stays 1 for those that top-k cut.
        """
        left = self.order[: self.n_top_k]
        mass = self.probabilities[left].cumsum(0)
        return torch.ones_like(self.probabilities).index_put_((left,), mass / mass[-1])

    @cached_property
    def final(self) -> Tensor:
        """The probabilities that are drawn from: those of the candidates, renormalised; 0 elsewhere."""
        if self._kept is None:
            return self.probabilities
        return torch.zeros_like(self.probabilities).index_put_((self._kept.ids,), self._kept.final)

    # --- in order

    @cached_property
    def order(self) -> Tensor:
        """All token ids in order: by penalised logit, which no temperature makes equal."""
        return self.penalised.sort(descending=True, stable=True).indices

    @cached_property
    def rank(self) -> Tensor:
        """The place of each token in `order`, from 0."""
        return torch.empty_like(self.order).index_put_((self.order,), torch.arange(self.vocab_size))

    def top(self, count: int) -> Tensor:
        """The first `count` ids of `order`, without sorting the whole vocabulary."""
        return _best(self.penalised, min(count, self.vocab_size))

    @property
    def candidates(self) -> Tensor:
        """`(n_kept,)` final probabilities of the candidates, in order."""
        return self.probabilities[self.order] if self._kept is None else self._kept.final

    def bar(self, count: int) -> Tensor:
        """`(count,)` at most: where the intervals of the first candidates, in order, end on the bar from 0 to 1."""
        return self.candidates[:count].cumsum(0)

    # --- counts and summaries

    @property
    def n_top_k(self) -> int:
        """How many tokens top-k left."""
        return self.vocab_size if self._kept is None else self._kept.n_top_k

    @property
    def n_top_p(self) -> int:
        """How many tokens top-k and top-p left: the size of the nucleus."""
        return self.vocab_size if self._kept is None else self._kept.n_top_p

    @property
    def n_kept(self) -> int:
        """How many tokens all filters left: the number of candidates."""
        return self.vocab_size if self._kept is None else len(self._kept.ids)

    @property
    def kept_mass(self) -> float:
        """The probability after temperature that the candidates had together, before the rest was cut."""
        return min(1.0, float(self.probabilities[self.rank < self.n_kept].sum()))

    @property
    def raw_entropy(self) -> float:
        """Entropy of the model's own distribution (no penalty, temperature 1), in bits."""
        return float(entropy(self.logits.double().softmax(0)))

    @property
    def final_entropy(self) -> float:
        """Entropy of the final distribution, in bits."""
        return float(entropy(self.final))

    def cut_by(self, token: int) -> Literal["temperature", "top_k", "top_p", "min_p"] | None:
        """The step that took a token out, or None for a candidate ("temperature": that is 0)."""
        place = int(self.rank[token])
        if place < self.n_kept:
            return None
        if self.settings.greedy:
            return "temperature"
        return "top_k" if place >= self.n_top_k else "top_p" if place >= self.n_top_p else "min_p"

    def no_effect(self) -> dict[Control, Reason]:
        """The controls whose present value changes nothing here, and why.

        "off": it has its neutral value. "greedy": at temperature 0 nothing is filtered or drawn. "keeps_all": all
        tokens that reach this filter pass it. "nothing_repeated": no token occurred before. "one_candidate": there is
        nothing to draw. "no_difference": without it the final probabilities would be the same (the other controls
        have this result already).
        """
        settings, reasons = self.settings, dict[Control, Reason]()
        special: dict[Control, Reason | None] = {
            "repetition_penalty": None if self.previous else "nothing_repeated",
            "top_k": "keeps_all" if self.n_top_k == self.vocab_size else None,
            "top_p": "keeps_all" if self.n_top_p == self.n_top_k else None,
            "min_p": "keeps_all" if self.n_kept == self.n_top_p else None,
        }
        if settings.greedy:
            special |= {"top_k": "greedy", "top_p": "greedy", "min_p": "greedy"}
        for control, off in _OFF.items():
            if getattr(settings, control) == off:
                reasons[control] = "off"
            elif reason := special.get(control):
                reasons[control] = reason
            elif self._same_with(replace(settings, **{str(control): off})):
                reasons[control] = "no_difference"
        if settings.greedy or self.n_kept == 1:
            reasons["seed"] = "greedy" if settings.greedy else "one_candidate"
        return reasons

    def _same_with(self, settings: SamplingSettings) -> bool:
        other = Ledger(self.logits, settings, self.previous)
        return torch.allclose(self.final, other.final, rtol=0, atol=1e-12)

    # --- what generation needs: the front of the order, without sorting or keeping the whole vocabulary

    def _penalise(self) -> Tensor:
        out = self.logits.double()
        if not self.previous:
            return out
        ids = torch.tensor(sorted(self.previous))
        penalty, chosen = self.settings.repetition_penalty, out[ids]
        return out.index_put((ids,), torch.where(chosen < 0, chosen * penalty, chosen / penalty))

    def _softmax(self, penalised: Tensor) -> Tensor:
        if self.settings.greedy:
            return torch.zeros_like(penalised).index_fill_(0, penalised.argmax(), 1)
        # The maximum goes first: dividing by a tiny temperature could overflow.
        return ((penalised - penalised.max()) / self.settings.temperature).softmax(0)

    @cached_property
    def _kept(self) -> _Kept | None:
        """What the filters left, or None if they are all off."""
        settings, size = self.settings, self.vocab_size
        penalised = self._penalise()
        if settings.greedy:
            return _Kept(penalised.argmax()[None], torch.ones(1, dtype=torch.float64), 1, 1)
        k = settings.top_k if 0 < settings.top_k < size else size
        if k == size and settings.top_p == 1 and settings.min_p == 0:
            return None
        probabilities = self._softmax(penalised)
        floor = settings.min_p * probabilities.max() * (1 - ROUNDING)
        if k < size:
            ids = _best(penalised, k)
        elif settings.top_p < 1:
            ids = _in_order(penalised, _reaching(probabilities, settings.top_p))
        else:
            ids = _in_order(penalised, probabilities >= floor)
        chosen = probabilities[ids]
        mass = chosen.cumsum(0)
        n_top_p = k
        if settings.top_p < 1:
            whole = mass[-1] if k < size else probabilities.sum()
            before = int((mass < (settings.top_p - ROUNDING) * whole).sum())
            n_top_p = min(before + 1, len(ids))  # the token that crosses p belongs to the set
        n_kept = int((chosen[:n_top_p] >= floor).sum())
        return _Kept(ids[:n_kept].clone(), chosen[:n_kept] / chosen[:n_kept].sum(), k, n_top_p)

    def front(self, u: float) -> tuple[Tensor, Tensor]:
        """The first candidates in order, at least as many as have a mass above `u`: ids and final probabilities."""
        if self._kept is not None:
            return self._kept.ids, self._kept.final
        penalised = self._penalise()
        probabilities = self._softmax(penalised)
        ids = _in_order(penalised, _reaching(probabilities, u))
        return ids, probabilities[ids]


@dataclass(frozen=True)
class _Kept:
    """`ids` and `final` probabilities of the candidates, in order."""

    ids: Tensor
    final: Tensor
    n_top_k: int
    n_top_p: int


def _reaching(probabilities: Tensor, mass: float) -> Tensor:
    """A mask of the most probable tokens, enough to exceed `mass`: what is below the threshold is too little for the
    rest of it, even if every token of the vocabulary were there."""
    return probabilities >= (1 - mass) / (2 * len(probabilities))


def _best(scores: Tensor, count: int) -> Tensor:
    if count == 0:
        return torch.empty(0, dtype=torch.long)
    return _in_order(scores, scores >= scores.topk(count).values[-1])[:count]


def _in_order(scores: Tensor, mask: Tensor) -> Tensor:
    ids = mask.nonzero()[:, 0]  # ascending, so that a stable sort leaves equals by lower id
    places: Tensor = scores[ids].sort(descending=True, stable=True).indices
    return ids[places]


def _check_finite(values: Tensor, what: str) -> None:
    # One pass in the common case: a finite sum has finite terms. (Finite terms whose sum overflows are looked at.)
    if not math.isfinite(float(values.sum(dtype=torch.float64))) and not bool(torch.isfinite(values).all()):
        bad = int((~torch.isfinite(values)).sum())
        raise ValueError(f"{what} of {bad} of {values.numel()} tokens are NaN or infinite: no token can be chosen.")
