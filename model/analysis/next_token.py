"""One choice of a next token as a page shows it: the candidates' way through the ledger, and where a logit is from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.losses import entropy, perplexity, token_losses
from model.sampling import Draw, Ledger, SamplingSettings, draw, ledger, random_numbers
from model.trace import Trace
from model.transformer import Transformer


@dataclass(frozen=True)
class Candidate:
    """One token's numbers at every stage of a `Ledger`; `rank` counts from 0, in the ledger's order."""

    id: int
    rank: int
    logit: float
    penalised: float
    scaled: float
    probability: float
    cumulative: float
    cut_by: str | None
    final: float


@dataclass(frozen=True)
class Choice:
    """The choice after token `position` of a run: every stage, and the draw."""

    position: int
    ledger: Ledger
    draw: Draw

    @property
    def most_penalised(self) -> int | None:
        """The token with the largest logit among those that the repetition penalty applies to."""
        previous = sorted(self.ledger.previous)
        return max(previous, key=lambda token: float(self.ledger.logits[token])) if previous else None

    def candidates(self, count: int, also: Iterable[int] = ()) -> list[Candidate]:
        """The first `count` tokens in the ledger's order, then those of `also` that are not among them, in order."""
        entries = self.ledger
        ids = entries.top(count).tolist()
        ids += sorted(set(also) - set(ids), key=lambda token: int(entries.rank[token]))
        return [
            Candidate(
                id=token,
                rank=int(entries.rank[token]),
                logit=float(entries.logits[token]),
                penalised=float(entries.penalised[token]),
                scaled=float(entries.scaled[token]),
                probability=float(entries.probabilities[token]),
                cumulative=float(entries.cumulative[token]),
                cut_by=entries.cut_by(token),
                final=float(entries.final[token]),
            )
            for token in ids
        ]


def choice(run: Trace, position: int, settings: SamplingSettings) -> Choice:
    """Choose the token after `position`, as generation does there: the repetition penalty sees the tokens up to it,
    and the random number is that of the place.

    Raises:
        IndexError: if the run has no such position.
    """
    n = len(run.tokens)
    if not 0 <= position < n:
        raise IndexError(f"Position {position}: this run has {n} tokens.")
    entries = ledger(run.logits[position], settings, run.tokens[: position + 1])
    return Choice(position, entries, draw(entries, random_numbers(settings.seed, position + 1)))


@dataclass(frozen=True)
class WhatIf:
    """The same choice at other settings, one changed at a time and the others off.

    `first`: the model's first choice, with its final probability by temperature in `probability` and the entropy in
    `entropy`, bits. `nucleus`: how many tokens top-p leaves, by p.
    """

    first: int
    probability: dict[float, float]
    entropy: dict[float, float]
    nucleus: dict[float, int]


def what_if(run: Trace, position: int, temperatures: Iterable[float], top_ps: Iterable[float]) -> WhatIf:
    """Try other settings after `position`.

    Raises:
        IndexError: if the run has no such position.
    """
    tried = {t: choice(run, position, SamplingSettings(temperature=t)).ledger for t in temperatures}
    nuclei = {p: choice(run, position, SamplingSettings(top_p=p)).ledger.n_kept for p in top_ps}
    first = int(run.logits[position].argmax())
    return WhatIf(
        first,
        {t: float(entries.final[first]) for t, entries in tried.items()},
        {t: entries.final_entropy for t, entries in tried.items()},
        nuclei,
    )


@dataclass(frozen=True)
class Readout:
    """How one token's logit comes about: the last vector is normalised and multiplied with the token's own.

    `stream` is the residual stream behind the last block, `normed` what the last norm makes of it, `weights` the
    token's row of the output matrix; each `(d_model,)`, fp32 on the CPU. `logit` is the product of the last two, and
    `difference` its distance from the run's own logit.
    """

    token: int
    stream: Tensor
    normed: Tensor
    weights: Tensor
    logit: float
    difference: float

    @property
    def lengths(self) -> tuple[float, float]:
        """The Euclidean length of the vector before and after the norm."""
        return float(self.stream.norm()), float(self.normed.norm())

    @property
    def products(self) -> Tensor:
        """`(d_model,)` what each dimension brings; they sum to the logit."""
        return self.normed * self.weights

    def largest(self, count: int) -> list[tuple[int, float, float]]:
        """`(dimension, x, w)` of the `count` products of the largest size, and so of the most weight."""
        dimensions = self.products.abs().topk(min(count, self.products.numel())).indices.tolist()
        return [(i, float(self.normed[i]), float(self.weights[i])) for i in dimensions]

    def rest(self, count: int) -> float:
        """The sum of all products but the `count` largest."""
        return self.logit - sum(x * w for _, x, w in self.largest(count))


def readout(run: Trace, transformer: Transformer, position: int, token: int) -> Readout:
    """The way from the last block to the logit of `token` after `position`.

    Raises:
        IndexError: if there is no such position or token.
    """
    config = transformer.config
    if not 0 <= position < len(run.tokens) or not 0 <= token < config.vocab_size:
        raise IndexError(f"Position {position} or token {token} does not exist.")
    stream = run[f"blocks.{config.n_layers - 1}.hook_resid_post"][position]
    matrix = transformer.output_matrix
    with torch.no_grad():
        normed = _last_norm(transformer)(stream[None].to(matrix.device, transformer.dtype))[0]
        x, w = normed.float().cpu(), matrix[token].float().cpu()
        logit = float(x.double() @ w.double())
    return Readout(token, stream.float().cpu(), x, w, logit, abs(logit - float(run.logits[position, token])))


def _last_norm(transformer: Transformer) -> nn.Module:
    if transformer.ln_final is not None:
        return transformer.ln_final
    return transformer.get_submodule(f"blocks.{transformer.config.n_layers - 1}.ln2")  # post-norm: the block's own end


@dataclass(frozen=True)
class Costs:
    """What the tokens of a run cost the model. `bits`: `(T - 1,)`, of each token but the first; the rest is None for
    a single token. `n_bytes`: of the text behind the first token, in UTF-8.
    """

    bits: Tensor
    mean: float | None
    perplexity: float | None
    n_bytes: int

    @property
    def total(self) -> float:
        """Bits of the whole text behind its first token."""
        return float(self.bits.double().sum())

    def probability(self, position: int) -> float:
        """What the model gave the token at `position` (1 to T - 1) of the run."""
        return math.exp2(-float(self.bits[position - 1]))

    @property
    def dearest(self) -> int:
        """The position in the run of the token that cost most."""
        return int(self.bits.argmax()) + 1

    @property
    def cheapest(self) -> int:
        """The position in the run of the token that cost least."""
        return int(self.bits.argmin()) + 1


def costs(run: Trace) -> Costs:
    """The cross-entropy of every token of a run given those before it, in bits, and their perplexity."""
    losses = token_losses(run.logits, run.tokens).cpu()
    n_bytes = sum(len(piece.data) for piece in run.pieces) - len(run.pieces[0].data)
    if not losses.numel():
        return Costs(losses, None, None, n_bytes)
    bits = losses / math.log(2)
    return Costs(bits, float(bits.double().mean()), perplexity(losses), n_bytes)


@dataclass(frozen=True)
class Openness:
    """The entropy of the model's own distribution after `position`, in bits, before any sampling setting."""

    position: int
    bits: float


def surest_and_most_open(run: Trace) -> tuple[Openness, Openness] | None:
    """The positions after which the distribution has the least and the greatest entropy; None for a single token."""
    if len(run.tokens) < 2:
        return None
    bits = entropy(run.logits.float().softmax(-1)).cpu()
    ends = int(bits.argmin()), int(bits.argmax())
    return Openness(ends[0], float(bits[ends[0]])), Openness(ends[1], float(bits[ends[1]]))
