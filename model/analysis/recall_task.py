"""Recall the first symbol after many others: the task on which recurrent networks were found to forget.

After Hochreiter & Schmidhuber 1997 (section 5.2): what counts stands at the very beginning, then come distractors that
mean nothing, then a sign that asks for the answer.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.analysis.recurrence import KINDS, Build, Kind, build_network

SYMBOLS = DISTRACTORS = 8
QUESTION = SYMBOLS + DISTRACTORS
VOCABULARY = QUESTION + 1
LABELS = (*"ABCDEFGH", *"12345678", "?")  # of the tokens, as they are printed
CHANCE = 1 / SYMBOLS  # of somebody who knows which tokens are symbols and nothing else
STEPS = 300
BATCH, HELD_OUT = 32, 256
EVERY = 10  # steps from one test to the next
RATE = 3e-3
ENOUGH = 3  # tests in a row without a mistake end a training
_HELD_OUT_SEED = 2**31  # no training has it: theirs are below


@dataclass(frozen=True)
class Task:
    """What is trained: `distance` distractors, networks as `build` says (its vocabulary is the task's).

    Raises:
        ValueError: for a distance of less than 0, or another vocabulary.
    """

    distance: int
    build: Build
    seed: int = 0

    def __post_init__(self) -> None:
        if self.distance < 0:
            raise ValueError(f"The distance is {self.distance}; it cannot be less than 0.")
        if self.build.vocabulary != VOCABULARY:
            raise ValueError(f"The task has {VOCABULARY} tokens, not {self.build.vocabulary}.")


def examples(count: int, distance: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Texts `(count, distance + 2)` and their answers `(count,)`: symbol, distractors, question; the symbol."""
    answers = torch.randint(0, SYMBOLS, (count,), generator=generator)
    between = torch.randint(SYMBOLS, QUESTION, (count, distance), generator=generator)
    question = torch.full((count, 1), QUESTION)
    return torch.cat([answers[:, None], between, question], dim=1), answers


@dataclass
class Learner:
    """One network while it learns. `steps`, `losses`, `accuracies`: every test so far, on texts it never trains on.

    `losses` in nats; `seconds` spent training, without the tests. `enough`: it has stopped making mistakes.
    """

    kind: Kind
    network: nn.Module
    parameters: int
    width: int
    trained: int = 0
    seconds: float = 0.0
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)

    @cached_property
    def optimizer(self) -> torch.optim.Optimizer:
        """Made when it is first used: with it torch loads its compiler, 130 MB of it."""
        return torch.optim.Adam(self.network.parameters(), lr=RATE, foreach=True)

    @property
    def enough(self) -> bool:
        """See the class."""
        return len(self.accuracies) >= ENOUGH and min(self.accuracies[-ENOUGH:]) == 1

    @property
    def learned_at(self) -> int | None:
        """Steps after which it made no mistake for the first time of `ENOUGH` in a row; None: it never did so."""
        return self.steps[-ENOUGH] if self.enough else None

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self.enough or self.trained >= STEPS


class Recall:
    """All four networks, or those of `kinds`, learn the same task from the same texts in the same order.

    Adam (Kingma & Ba 2015) with a rate of `RATE`, gradients clipped to length 1. Whoever has done fewer steps is next.
    """

    def __init__(self, task: Task, kinds: tuple[Kind, ...] = KINDS) -> None:
        self.task = task
        self._turn = threading.Lock()  # a run of the page that was broken off may still be in its last step
        self.learners: dict[Kind, Learner] = {}
        for kind in kinds:
            network = build_network(kind, task.build, task.seed)
            self.learners[kind] = Learner(kind, network, network.parameter_count, network.width)
        self._held_out = examples(HELD_OUT, task.distance, torch.Generator().manual_seed(_HELD_OUT_SEED))
        for learner in self.learners.values():
            self._test(learner)

    @property
    def done(self) -> bool:
        """Whether all have learned it, or done all their steps."""
        return all(learner.done for learner in self.learners.values())

    @property
    def steps(self) -> int:
        """How many steps the one that has done most of them has done."""
        return max(learner.trained for learner in self.learners.values())

    @property
    def share(self) -> float:
        """How much of the work is done, 0 to 1; it ends early where networks learn early."""
        parts = [1.0 if learner.done else learner.trained / STEPS for learner in self.learners.values()]
        return sum(parts) / len(parts)

    def advance(self) -> None:
        """One step of one network; nothing when all are done."""
        with self._turn:
            waiting = [learner for learner in self.learners.values() if not learner.done]
            if waiting:
                self._learn(min(waiting, key=lambda one: one.trained))

    def _learn(self, learner: Learner) -> None:
        texts, answers = self.batch(learner.trained)
        begun = time.perf_counter()
        with torch.enable_grad():
            loss = F.cross_entropy(learner.network(texts), answers)
            learner.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(learner.network.parameters(), 1.0)
            learner.optimizer.step()
        learner.seconds += time.perf_counter() - begun
        learner.trained += 1
        if learner.trained % EVERY == 0:
            self._test(learner)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """The texts of a step, the same for every network."""
        generator = torch.Generator().manual_seed((self.task.seed * STEPS + step) % _HELD_OUT_SEED)
        return examples(BATCH, self.task.distance, generator)

    @property
    def example(self) -> list[str]:
        """The first text that it is tested with, by `LABELS`."""
        return [LABELS[int(one)] for one in self._held_out[0][0]]

    @torch.no_grad()
    def _test(self, learner: Learner) -> None:
        texts, answers = self._held_out
        logits = learner.network(texts)
        learner.steps.append(learner.trained)
        learner.losses.append(float(F.cross_entropy(logits, answers)))
        learner.accuracies.append(float((logits.argmax(-1) == answers).double().mean()))


def chance_loss() -> float:
    """Nats that a guess among the symbols costs: ln 8."""
    return math.log(SYMBOLS)
