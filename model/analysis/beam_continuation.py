"""A text that beam search writes: at every step the best hypothesis so far, with all that was kept and dropped."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

from model.analysis.continuations import Alternative, Continuation, WrittenToken
from model.beam import BeamStep, Hypothesis
from model.language import LanguageModel
from model.sampling import SamplingSettings

WIDTHS = (2, 3, 4, 6, 8)
ALPHAS = (0.0, 2.0)


class BeamContinuation(Continuation):
    """As a `Continuation`, but its text is the best hypothesis of a beam search so far.

    So the text can change from its first token on while the search goes on. The hypotheses are those of
    `lm.search(prompt, …, beam=width, alpha=alpha)`; in a branch the search begins behind the token that was put there.

    Raises:
        ValueError: for a model that cannot continue texts, an empty prompt, or a width below 1.
    """

    def __init__(
        self,
        lm: LanguageModel,
        prompt: Sequence[int],
        width: int,
        alpha: float,
        given: Sequence[WrittenToken] = (),
    ) -> None:
        self.width, self.alpha = width, alpha
        self.steps: list[BeamStep] = []
        self._tokens: dict[tuple[int, ...], WrittenToken] = {}  # by the new ids up to and with the token
        self._search: Iterator[BeamStep] = iter(())
        super().__init__(lm, prompt, SamplingSettings(temperature=0.0), given)

    def _begin(self) -> None:
        self._search = self._lm.search(self.ids, self.room, beam=self.width, alpha=self.alpha)

    @property
    def length(self) -> int:
        """How many tokens a hypothesis may have by now: one more with every step of the search."""
        return self.n_given + len(self.steps)

    @property
    def room(self) -> int:
        """How many more steps the search can take: none when all of its hypotheses have ended."""
        return 0 if self.ended else max(0, self._lm.config.max_positions - len(self.prompt) - self.length)

    @property
    def ended(self) -> bool:
        """Whether all hypotheses that were kept have come to the end of the text."""
        return all(h.ended for h in self.steps[-1].kept) if self.steps else super().ended

    def advance(self) -> bool:
        """Take one more step of the search; False where there is none to come."""
        begun = time.perf_counter()
        step = next(self._search, None)
        if step is None:
            return False
        milliseconds = (time.perf_counter() - begun) * 1000
        before = len(self.steps)
        self.steps.append(step)
        for found in (*step.kept, *step.dropped):
            if len(found.ids) > before:  # the others had ended before
                self._tokens[found.ids] = _written(found, step, milliseconds)
        self._written[self.n_given :] = self.tokens_of(step.best)[self.n_given :]
        return True

    def tokens_of(self, hypothesis: Hypothesis) -> tuple[WrittenToken, ...]:
        """All tokens behind the prompt of a hypothesis that was told in a step, the given ones included."""
        ids = hypothesis.ids
        own = (self._tokens[ids[: n + 1]] for n in range(len(ids)))
        return (*self._written[: self.n_given], *own)

    def told(self, ids: Sequence[int]) -> bool:
        """Whether these new tokens begin any hypothesis that a step has told."""
        given = tuple(token.id for token in self._written[: self.n_given])
        new = tuple(ids)
        return new[: self.n_given] == given[: len(new)] and (
            len(new) <= self.n_given or new[self.n_given :] in self._tokens
        )

    def fell(self, number: int) -> tuple[Hypothesis, ...]:
        """The hypotheses kept in step `number` that have nothing of theirs among those kept in the next."""
        if not 0 <= number < len(self.steps) - 1:
            return ()
        parents = {h.parent for h in self.steps[number + 1].kept}
        return tuple(h for place, h in enumerate(self.steps[number].kept) if place not in parents)

    def _copy(self, given: Sequence[WrittenToken]) -> Continuation:
        return BeamContinuation(self._lm, self.prompt, self.width, self.alpha, given)


def _written(found: Hypothesis, step: BeamStep, milliseconds: float) -> WrittenToken:
    p = math.exp(found.logprobs[-1])
    return WrittenToken(
        id=found.ids[-1],
        probability=p,
        logprob=found.logprobs[-1],
        rank=found.rank,
        alternatives=tuple(Alternative(token, p, p) for token, p in step.first_choices[found.parent]),
        u=None,
        milliseconds=milliseconds,
    )
