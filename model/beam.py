"""Beam search: the most probable continuation as a whole, looked for with a few hypotheses at a time.

One search serves decoders, which continue a text, and encoder-decoders, which translate a source. It looks at the
model's own probabilities: nothing is drawn, and no temperature or filter applies.

Sources: beam search for translation, Graves 2012, arXiv:1211.3711, and Sutskever et al. 2014, arXiv:1409.3215; the
length penalty, Wu et al. 2016, arXiv:1609.08144.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model.cache import KVCache
from model.transformer import Transformer

FIRST_CHOICES = 5  # of the model, that a step tells


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^alpha, what a hypothesis' log-probability is divided by (Wu et al. 2016, equation 14).

    Every token makes a text less probable, so without it (`alpha` 0) short hypotheses win.
    """
    return float(((5 + length) / 6) ** alpha)


@dataclass(frozen=True)
class Hypothesis:
    """A beginning of the text that is being looked for.

    `ids` are its new tokens, the one that ends the text included; `logprobs` their log-probabilities, nats, each given
    the prompt and the tokens before it. `parent` is its place among those kept in the step before; `rank` how many
    tokens the model held more probable than its last one there.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    ended: bool
    parent: int = 0
    rank: int = 0

    @property
    def logprob(self) -> float:
        """The log-probability of all its tokens together, nats."""
        return sum(self.logprobs)

    def score(self, alpha: float) -> float:
        """Its log-probability over the penalty of its length: what hypotheses are compared by."""
        return self.logprob / length_penalty(len(self.ids), alpha)


@dataclass(frozen=True)
class BeamStep:
    """One step: the hypotheses `kept`, and the next best, which were `dropped`; the best first.

    A hypothesis that had ended before stays in the beam as it is, until better ones take its place. `first_choices`
    has, for each hypothesis kept in the step before, the model's five most probable next tokens with their
    probabilities; nothing where the text had ended.
    """

    index: int
    kept: tuple[Hypothesis, ...]
    dropped: tuple[Hypothesis, ...]
    first_choices: tuple[tuple[tuple[int, float], ...], ...] = ()

    @property
    def best(self) -> Hypothesis:
        """The one with the highest score so far."""
        return self.kept[0]


def beam_search(
    transformer: Transformer,
    prompt: Sequence[int],
    *,
    beam: int = 4,
    max_new_tokens: int,
    alpha: float = 0.6,
    source: Sequence[int] | None = None,
    source_mask: Sequence[bool] | None = None,
    dropped: int | None = None,
    use_cache: bool = True,
) -> Iterator[BeamStep]:
    """Continue `prompt` with the `beam` best hypotheses at a time, one `BeamStep` a token.

    In each step every hypothesis that has not ended gets every token of the vocabulary behind it; the `beam` ones
    with the best scores are kept. It ends when all of them have ended, or with `max_new_tokens`. A beam of 1 takes
    the most probable token every time. The work begins with the first `next`, and ends when the caller stops.

    Args:
        alpha: of the length penalty.
        source, source_mask: an encoder-decoder's source, and where it is no padding (None: everywhere).
        dropped: how many of those that were not kept a step tells (None: as many as `beam`).
        use_cache: keep keys and values; without, everything is read again in every step, with the same result.

    Raises:
        ValueError: for an empty prompt, a beam below 1, a text beyond the model's context, a source for a model
            that reads none, or a model that does not continue texts.
    """
    config = transformer.config
    if config.kind == "encoder":
        raise ValueError("An encoder does not continue a text; beam search is for a decoder or an encoder-decoder.")
    if (source is None) == (config.kind == "encoder_decoder"):
        raise ValueError("A source is for an encoder-decoder, and it needs one.")
    if not prompt or (source is not None and not source):
        raise ValueError("There is nothing to continue: give the model at least one token.")
    if beam < 1 or max_new_tokens < 1 or alpha < 0:
        raise ValueError("A beam, and what it may write, must be at least 1, and alpha at least 0.")
    if max(len(prompt) + max_new_tokens, len(source or ())) > config.max_positions:
        raise ValueError(f"That is more than the {config.max_positions} tokens that the model can read. Shorten it.")
    reader = _Reader(transformer, list(prompt), source, source_mask, max_new_tokens if use_cache else None)
    return _steps(reader, beam, max_new_tokens, alpha, beam if dropped is None else dropped)


def _steps(reader: _Reader, beam: int, max_new_tokens: int, alpha: float, dropped: int) -> Iterator[BeamStep]:
    kept: tuple[Hypothesis, ...] = (Hypothesis((), (), ended=False),)
    for index in range(max_new_tokens):
        candidates = [replace(h, parent=place) for place, h in enumerate(kept) if h.ended]
        live = [place for place, h in enumerate(kept) if not h.ended]
        first_choices: list[tuple[tuple[int, float], ...]] = [() for _ in kept]
        logprobs = reader.next([kept[place] for place in live])  # (live, vocab_size)
        for place, row in zip(live, logprobs, strict=True):
            # More than these of one hypothesis can neither be kept nor told.
            best = _most_probable(row, max(beam + dropped, FIRST_CHOICES))
            first_choices[place] = tuple((token, math.exp(logprob)) for token, logprob, _ in best[:FIRST_CHOICES])
            parent = kept[place]
            candidates += [
                Hypothesis((*parent.ids, token), (*parent.logprobs, logprob), token in reader.ends, place, rank)
                for token, logprob, rank in best[: beam + dropped]
            ]
        ranked = sorted(candidates, key=lambda h: -h.score(alpha))
        kept = tuple(ranked[:beam])
        yield BeamStep(index, kept, tuple(ranked[beam : beam + dropped]), tuple(first_choices))
        if all(h.ended for h in kept):
            return


def _most_probable(row: Tensor, n: int) -> list[tuple[int, float, int]]:
    """Id, log-probability and rank of the `n` first tokens of `row`; of equal ones the lower id first, as arg-max."""
    least = row.topk(min(n, len(row))).values[-1]
    among = (row >= least).nonzero().squeeze(-1)
    values, order = row[among].sort(descending=True, stable=True)
    values, order = values[:n], order[:n]  # logits without differences would be a vocabulary of equal ones
    ranks = (values[:, None] < values).sum(-1)
    return list(zip(among[order].tolist(), values.tolist(), ranks.tolist(), strict=True))


class _Reader:
    """The model behind a search: what comes next after each hypothesis, with or without a cache."""

    def __init__(
        self,
        transformer: Transformer,
        prompt: list[int],
        source: Sequence[int] | None,
        source_mask: Sequence[bool] | None,
        room: int | None,
    ) -> None:
        self.transformer, self.prompt = transformer, prompt
        self.device = transformer.device
        self.source = None if source is None else torch.tensor([list(source)], device=self.device)
        self.mask = None if source_mask is None else torch.tensor([list(source_mask)], device=self.device)
        self.ends = transformer.config.eos_ids
        self.rows: dict[tuple[int, ...], int] = {}  # the cache's rows: what each has read
        self.cache: KVCache | None = None
        if room is not None:
            size = len(prompt) + room
            self.cache = KVCache(transformer.config, room=size, dtype=transformer.dtype, device=self.device)

    @torch.no_grad()
    def next(self, hypotheses: Sequence[Hypothesis]) -> Tensor:
        """Log-probabilities `(hypotheses, vocab_size)` of the next token, float64 on the CPU."""
        if self.cache is not None and self.cache.length:
            self.cache.select([self.rows[h.ids[:-1]] for h in hypotheses])
            ids = torch.tensor([[h.ids[-1]] for h in hypotheses], device=self.device)
            logits = self.transformer(ids, cache=self.cache, last_only=True)
        else:
            ids = torch.tensor([[*self.prompt, *h.ids] for h in hypotheses], device=self.device)
            rows = len(hypotheses)
            source = None if self.source is None else self.source.expand(rows, -1)
            mask = None if self.mask is None else self.mask.expand(rows, -1)
            logits = self.transformer(ids, cache=self.cache, last_only=True, encoder_ids=source, encoder_mask=mask)
        self.rows = {h.ids: row for row, h in enumerate(hypotheses)}
        logprobs: Tensor = logits[:, -1].double().cpu().log_softmax(-1)
        return logprobs
