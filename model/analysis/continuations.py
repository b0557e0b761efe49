"""Texts that a model writes, token by token, kept small enough for a page to hold many of them, and their branches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from model.generation import Step
from model.language import LanguageModel
from model.sampling import SamplingSettings


@dataclass(frozen=True)
class Alternative:
    """A token that could have come: the probability the model itself gave it, and the final one, after all settings."""

    id: int
    model_probability: float
    probability: float


@dataclass(frozen=True)
class WrittenToken:
    """One token of a continuation: a `Step` without its ledger.

    `probability` is the final one that it was drawn with; `logprob` (nats), `model_probability` and `rank` (0: first
    choice) are the model's own, before any setting. `alternatives` are the model's five first choices. `u` is the
    random number that drew it, None where nothing was drawn; `by_reader` tells that it was put there by hand.
    `milliseconds` is what forward pass and choice took.
    """

    id: int
    probability: float
    logprob: float
    rank: int
    alternatives: tuple[Alternative, ...]
    u: float | None
    milliseconds: float
    by_reader: bool = False

    @property
    def model_probability(self) -> float:
        """The probability that the model itself gave it."""
        return math.exp(self.logprob)


def written_token(step: Step) -> WrittenToken:
    """What is kept of a step."""
    final = step.ledger.final
    return WrittenToken(
        id=step.id,
        probability=step.probability,
        logprob=step.logprob,
        rank=step.rank,
        alternatives=tuple(Alternative(token, p, float(final[token])) for token, p in step.alternatives),
        u=None if step.ledger.settings.greedy else step.draw.u,
        milliseconds=step.milliseconds,
    )


class Continuation:
    """A prompt and what has been written behind it so far. It can stop after any token and go on later.

    The tokens are those of `lm.generate(prompt, …, settings)`; in a branch those of the text up to the place where
    it begins, the token that was put there, and then those of `lm.generate` for all of that.

    Raises:
        ValueError: for a model that cannot continue texts, or an empty prompt.
    """

    def __init__(
        self,
        lm: LanguageModel,
        prompt: Sequence[int],
        settings: SamplingSettings,
        given: Sequence[WrittenToken] = (),
    ) -> None:
        self.prompt = tuple(prompt)
        self.settings = settings
        self.n_given = len(given)
        self._lm = lm
        self._written = list(given)
        self._steps: Iterator[Step] = iter(())
        if self.room:
            self._begin()

    def _begin(self) -> None:
        """Get ready to write. What does not fit is said now; the work begins with the first token."""
        self._steps = self._lm.generate(self.ids, self.room, self.settings)

    @property
    def written(self) -> tuple[WrittenToken, ...]:
        """The tokens behind the prompt."""
        return tuple(self._written)

    @property
    def ids(self) -> tuple[int, ...]:
        """Prompt and text so far."""
        return self.prompt + tuple(token.id for token in self._written)

    @property
    def text(self) -> str:
        """What was written, decoded, without the end-of-text token."""
        ids = [token.id for token in self._written]
        return self._lm.tokenizer.decode(ids[:-1] if ids and ids[-1] in self._lm.config.eos_ids else ids)

    @property
    def length(self) -> int:
        """How far it has been written, in tokens."""
        return len(self._written)

    @property
    def total_logprob(self) -> float:
        """The model's own log-probability of all its tokens behind the prompt together, nats."""
        return sum(token.logprob for token in self._written)

    @property
    def room(self) -> int:
        """How many tokens still fit into the model's context."""
        return 0 if self.ended else max(0, self._lm.config.max_positions - len(self.prompt) - len(self._written))

    @property
    def ended(self) -> bool:
        """Whether a token that ends the text was written."""
        return bool(self._written) and self._written[-1].id in self._lm.config.eos_ids

    @property
    def tokens_per_second(self) -> float | None:
        """Of the tokens that were written here, forward pass and choice alone; None before the first."""
        own = self._written[self.n_given :]
        spent = sum(token.milliseconds for token in own)
        return 1000 * len(own) / spent if spent else None

    @property
    def mean_probability(self) -> float | None:
        """The model's own probability of a token, averaged over those that were not put there by hand."""
        own = [token.model_probability for token in self._written if not token.by_reader]
        return sum(own) / len(own) if own else None

    def advance(self) -> bool:
        """Write one more token; False where there is none to come."""
        step = next(self._steps, None)
        if step is None:
            return False
        self._written.append(written_token(step))
        return True

    def branched(self, index: int, token: int) -> Continuation:
        """Another continuation: the same up to the token `index`, there with `token`, one of its alternatives.

        Raises:
            ValueError: if there is no such token, or it has no such alternative.
        """
        if not 0 <= index < len(self._written):
            raise ValueError(f"There is no token {index} among the {len(self._written)} written.")
        here = self._written[index]
        place = next((i for i, other in enumerate(here.alternatives) if other.id == token), None)
        if place is None:
            raise ValueError(f"Token {token} is not among the alternatives.")
        other = here.alternatives[place]
        chosen = WrittenToken(
            id=token,
            probability=other.probability,
            logprob=math.log(other.model_probability) if other.model_probability else -math.inf,
            rank=place,
            alternatives=here.alternatives,
            u=None,
            milliseconds=0.0,
            by_reader=True,
        )
        return self._copy((*self._written[:index], chosen))

    def _copy(self, given: Sequence[WrittenToken]) -> Continuation:
        """Another one of the same kind, with these tokens behind the prompt."""
        return Continuation(self._lm, self.prompt, self.settings, given)


def parting(one: Continuation, other: Continuation) -> int | None:
    """The place of the first token in which two continuations differ; None if one is the beginning of the other."""
    pairs = zip(one.written, other.written, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a.id != b.id), None)


@dataclass(frozen=True)
class Comparison:
    """Two texts with one beginning, by the model's own log-probabilities, nats.

    `place` is the first token in which they differ; `one` and `other` are the tokens there. `shared` is the
    log-probability of what comes before it, `rest_one` and `rest_other` of what follows it, each in its text.
    """

    place: int
    one: WrittenToken
    other: WrittenToken
    shared: float
    rest_one: float
    rest_other: float

    @property
    def total_one(self) -> float:
        """Log-probability of the whole first text."""
        return self.shared + self.one.logprob + self.rest_one

    @property
    def total_other(self) -> float:
        """Log-probability of the whole second text."""
        return self.shared + self.other.logprob + self.rest_other


def compared(one: Continuation, other: Continuation) -> Comparison | None:
    """Where two texts part and what each part of them is worth; None if they do not part."""
    place = parting(one, other)
    if place is None:
        return None
    a, b = one.written, other.written
    rest_one, rest_other = (sum(token.logprob for token in text[place + 1 :]) for text in (a, b))
    return Comparison(place, a[place], b[place], sum(token.logprob for token in a[:place]), rest_one, rest_other)


def least_probable(texts: Sequence[Continuation]) -> tuple[int, int] | None:
    """Text and place of the token that the model itself held least probable; None where nothing is written."""
    places = [
        (token.model_probability, index, place)
        for index, text in enumerate(texts)
        for place, token in enumerate(text.written)
    ]
    return min(places)[1:] if places else None
