"""The continuations that a visitor sees being written, for one text and its settings."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from threading import Lock
from typing import Any

import streamlit as st

from model.analysis.beam_continuation import BeamContinuation
from model.analysis.continuations import Continuation, least_probable
from model.language import LanguageModel
from model.sampling import SamplingSettings
from pages.kit import tickets
from pages.kit.page import Page
from pages.kit.selection import RANGES, Selection

MAX_LENGTH = 200  # of a continuation before it is asked to go on
MAX_BRANCHES = 3
TICK_SECONDS = 0.03  # of writing before what is there is shown
_KEY, _WISH_KEY = "atlas_writing", "atlas_writing_wish"
_WHOLE_RUNS = count(1)


@dataclass
class Branch:
    """Where a branch began: at token `place` of the row `of`."""

    of: int
    place: int


@dataclass(frozen=True)
class Wish:
    """What was asked of texts that had left with their model: written anew, they are to get as far as `target`, and
    then to have a `branch`, if one was asked for: row, place and token. `of`: prompt and settings."""

    of: tuple[object, ...]
    target: int
    branch: tuple[int, int, int] | None


@dataclass
class Row:
    """One continuation. `origin` is None for those that begin at the prompt."""

    text: Continuation
    origin: Branch | None = None

    @property
    def beam(self) -> BeamContinuation | None:
        """Its text, if beam search writes it."""
        return self.text if isinstance(self.text, BeamContinuation) else None

    @property
    def greedy(self) -> bool:
        """Whether every token is the most probable one at its place."""
        return self.beam is None and self.text.settings.greedy

    @property
    def drawn(self) -> bool:
        """Whether its tokens are drawn with random numbers."""
        return self.beam is None and not self.greedy


@dataclass
class Writing:
    """Continuations of one prompt, one model `lm`, one choice of settings.

    `target` tokens are written in each row, as far as the context goes; `running` while they are. `picked` is the
    row and place of the token that the reader chose. `whole_run`: the whole page is being run, not only the part
    with the texts. `whole_run_number`: of the last such run; no other of this server has it. `serials` numbers the
    places in the tree, by the new ids up to there, in the order in which they were first shown; `shown_tree` is the
    tree as it was drawn last, and until when it will do; `too_long` the tokens of a text that was chosen there, if no
    page can show it. `to_branch`: the branch to begin when all is written.
    """

    lm: LanguageModel
    sel: Selection
    prompt: tuple[int, ...]
    rows: list[Row]
    target: int
    running: bool = True
    picked: tuple[int, int] | None = None
    whole_run: bool = False
    whole_run_number: int = 0
    serials: dict[tuple[int, ...], int] = field(default_factory=lambda: {(): 0})
    shown_tree: tuple[float, Any] | None = None
    too_long: int | None = None
    to_branch: tuple[int, int, int] | None = None
    base_rows: int = field(init=False)
    _turn: Lock = field(default_factory=Lock)  # a run that was broken off may still be at its last token

    def __post_init__(self) -> None:
        self.base_rows = len(self.rows)

    @contextmanager
    def in_whole_run(self) -> Iterator[None]:
        """What runs inside is a run of the whole page."""
        self.whole_run = True
        self.whole_run_number = next(_WHOLE_RUNS)
        try:
            yield
        finally:
            self.whole_run = False

    def wants(self, row: Row) -> bool:
        """Whether this row is to go on now."""
        return row.text.length < self.target and row.text.room > 0

    @property
    def can_go_on(self) -> bool:
        """Whether any row has room for more."""
        return any(row.text.room > 0 for row in self.rows)

    @property
    def drawn_rows(self) -> int:
        """How many texts were begun with random numbers."""
        return sum(row.drawn and row.origin is None for row in self.rows)

    @property
    def searched(self) -> BeamContinuation | None:
        """The first text that beam search writes."""
        return next((row.beam for row in self.rows if row.beam), None)

    def tick(self, seconds: float = TICK_SECONDS) -> None:
        """Write a token in every row, then more until the time is over; stop running when all is written."""
        deadline = time.perf_counter() + seconds
        while self.running:
            for row in self.rows:
                with self._turn:
                    if self.wants(row):
                        row.text.advance()
                # Here Streamlit breaks this run off, if the reader has clicked meanwhile: once per token.
                _ = _KEY in st.session_state
            if not any(self.wants(row) for row in self.rows):
                self.running = False
                if self.to_branch is not None:
                    branch, self.to_branch = self.to_branch, None
                    self.branch(*branch)
            elif time.perf_counter() > deadline:
                return

    def looked_at(self) -> tuple[int, int] | None:
        """Row and place of the token to show: the reader's choice, else, when all is written, the least probable."""
        if self.picked is not None:
            row, place = self.picked
            there = row < len(self.rows) and place < len(self.rows[row].text.written)
            return self.picked if there else None
        return None if self.running else least_probable([row.text for row in self.rows])

    def rewound(self, ids: tuple[int, ...]) -> tuple[int, int] | None:
        """Row and place of the token that ended the text `ids`; None if that is not a text written here.

        Of a row that beam search writes it may be a hypothesis that is not, or no longer, the text of the row.
        """
        prompt, new = ids[: len(self.prompt)], ids[len(self.prompt) :]
        if prompt != self.prompt or not new:
            return None
        texts = [index for index in range(len(self.rows)) if self.is_text(index, ids)]
        told = [index for index, row in enumerate(self.rows) if row.beam and row.beam.told(new)]
        return next(((index, len(new) - 1) for index in (*texts, *told)), None)

    def is_text(self, row: int, ids: tuple[int, ...]) -> bool:
        """Whether the text of a row begins with `ids`, the prompt included."""
        return self.rows[row].text.ids[: len(ids)] == ids

    def go_on(self, n: int) -> None:
        """Write `n` tokens more, or what is missing after a stop."""
        if not any(self.wants(row) for row in self.rows):
            self.target = max(row.text.length for row in self.rows) + n
        self.running = True

    def wish(self, more: int = 0, branch: tuple[int, int, int] | None = None) -> Callable[[], None]:
        """For a click that finds these texts gone: they are written anew, `more` tokens further, and with a branch.

        Branches that there were are not begun again, nor one that began at one of them.
        """
        if branch is not None and branch[0] >= self.base_rows:
            branch = None
        return partial(_wish, Wish((self.prompt, _settings(self.sel)), self.target + more, branch))

    def branch(self, row: int, place: int, token: int) -> None:
        """Another row: as `row`, but with `token` at `place`. Of more than `MAX_BRANCHES` the oldest goes."""
        text = self.rows[row].text.branched(place, token)
        if len(self.rows) == self.base_rows + MAX_BRANCHES:
            del self.rows[self.base_rows]
        self.rows.append(Row(text, Branch(row, place)))
        self.picked = (len(self.rows) - 1, place)
        self.running = True


def room(lm: LanguageModel, prompt: tuple[int, ...]) -> int:
    """How many tokens the model can write behind a prompt."""
    return max(0, lm.config.max_positions - len(prompt))


def current(page: Page) -> Writing:
    """The continuations of the page's run; begun anew when text, model, settings, length or number changed.

    A text that was rewound to a token written here is the same writing.
    """
    sel, ids = page.sel, tuple(page.run.tokens)
    known: Writing | None = tickets.value(st.session_state.get(_KEY))
    # The model itself is compared: one that left the memory and was loaded again is another.
    same = known is not None and known.lm is page.lm and _settings(known.sel) == _settings(sel)
    if known and same and (known.prompt == ids or known.rewound(ids)):
        return known
    begun = Writing(page.lm, sel, ids, list(_rows(page.lm, ids, sel)), min(sel.length, room(page.lm, ids)))
    wish: Wish | None = st.session_state.pop(_WISH_KEY, None)
    if wish is not None and wish.of == (ids, _settings(sel)):
        begun.target, begun.to_branch = wish.target, wish.branch
    st.session_state[_KEY] = tickets.issue(page.lm, begun)
    return begun


def forget() -> None:
    """Let the page begin anew, with the run as it is now."""
    st.session_state.pop(_KEY, None)


def _wish(wish: Wish) -> None:
    st.session_state[_WISH_KEY] = wish


def _settings(sel: Selection) -> tuple[object, ...]:
    ways = sel.greedy, sel.samples, sel.beams, sel.alpha if sel.beams else None
    return sel.sampling, sel.length, ways


def _rows(lm: LanguageModel, prompt: tuple[int, ...], sel: Selection) -> Iterator[Row]:
    greedy: SamplingSettings = replace(sel.sampling, temperature=0.0)
    if sel.greedy:
        yield Row(Continuation(lm, prompt, greedy))
    if sel.temperature > 0:
        for number in range(sel.samples):
            seed = (sel.seed + number) % (int(RANGES["seed"][1]) + 1)
            yield Row(Continuation(lm, prompt, replace(sel.sampling, seed=seed)))
    if sel.beams:
        yield Row(BeamContinuation(lm, prompt, sel.beams, sel.alpha))
