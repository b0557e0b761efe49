"""Several texts with one beginning as a tree: what they share is there once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from model.analysis.beam_continuation import BeamContinuation
from model.analysis.continuations import Continuation, WrittenToken
from model.beam import Hypothesis

KINDS = ("text", "kept", "dropped")


@dataclass(frozen=True)
class Path:
    """One text from the prompt on. `tokens` are its ids and log-probabilities (nats), each given those before.

    `kind`: "text" is one of the texts themselves; of beam search "kept" is another hypothesis that is in the beam, and
    "dropped" one that is not any more, or was not taken. `text` is the number of the text that it belongs to, `order`
    its place in the beam, 0 the best; None where it is in none.
    """

    tokens: tuple[tuple[int, float], ...]
    kind: str
    text: int
    order: int | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """The new tokens."""
        return tuple(token for token, _ in self.tokens)

    @property
    def total(self) -> float:
        """Log-probability of all its tokens together, nats."""
        return sum(logprob for _, logprob in self.tokens)


@dataclass(frozen=True)
class Node:
    """One token of the tree.

    `ids` are the new tokens from the prompt to here, this one included; `parent` the node before, None at the
    prompt. `logprob` is the token's own and `total` that of all of `ids`, nats. `kind` is the first in `KINDS`
    of the paths that run through it, `ends` the numbers of those that end here.
    """

    ids: tuple[int, ...]
    parent: int | None
    logprob: float
    total: float
    kind: str
    ends: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Log-probability a token, from the prompt to here, nats."""
        return self.total / len(self.ids)


def tree(paths: Sequence[Path]) -> tuple[Node, ...]:
    """The nodes of the tree that has these paths, parents before their children, in the order of the paths.

    A token that two paths share is one node if all before it is shared, too. Its probability is that of the first path.
    """
    numbers: dict[tuple[int, ...], int] = {}
    nodes: list[tuple[tuple[int, ...], int | None, float, float]] = []
    kinds: list[int] = []
    ends: list[list[int]] = []
    for path_number, path in enumerate(paths):
        ids = path.ids
        here: int | None = None
        for n, (_, logprob) in enumerate(path.tokens, start=1):
            parent, beginning = here, ids[:n]
            if beginning not in numbers:
                numbers[beginning] = len(nodes)
                before = 0.0 if parent is None else nodes[parent][3]
                nodes.append((beginning, parent, logprob, before + logprob))
                kinds.append(len(KINDS) - 1)
                ends.append([])
            here = numbers[beginning]
            kinds[here] = min(kinds[here], KINDS.index(path.kind))
        if here is not None:
            ends[here].append(path_number)
    return tuple(Node(*node, KINDS[kind], tuple(ending)) for node, kind, ending in zip(nodes, kinds, ends, strict=True))


def paths_of(texts: Sequence[Continuation], steps: int | None = None) -> tuple[Path, ...]:
    """The texts, and behind them the other hypotheses of those that beam search writes.

    Beam search is shown after `steps` steps (None: after all that were taken): its text is then the best hypothesis
    at that time, those beside it are kept, and dropped are the next best of that step and all that had been in the
    beam before and have nothing of theirs left in it. Texts of which nothing is written yet make no path.
    """
    own: list[Path] = []
    others: list[Path] = []
    for number, text in enumerate(texts):
        if not isinstance(text, BeamContinuation) or not text.steps:
            own.append(Path(_tokens(text.written), "text", number))
            continue
        shown = len(text.steps) if steps is None else min(max(steps, 1), len(text.steps))
        step = text.steps[shown - 1]
        own.append(Path(_tokens(text.tokens_of(step.best)), "text", number, 0))
        beside: list[tuple[Hypothesis, str, int | None]] = [(h, "kept", n) for n, h in enumerate(step.kept) if n]
        beside += [(h, "dropped", None) for earlier in range(shown - 1) for h in text.fell(earlier)]
        beside += [(h, "dropped", None) for h in step.dropped]
        others += [Path(_tokens(text.tokens_of(h)), kind, number, order) for h, kind, order in beside]
    return tuple(path for path in (*own, *others) if path.tokens)


def _tokens(written: Sequence[WrittenToken]) -> tuple[tuple[int, float], ...]:
    return tuple((token.id, token.logprob) for token in written)
