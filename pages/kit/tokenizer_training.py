"""A BPE that learns from the reader's own text, live: part of the tokenization page."""

import time
from dataclasses import dataclass
from functools import partial

import streamlit as st

from model.analysis.bpe_training import N_BYTES, BpeTraining
from pages.kit import errors, figures, numbers, selection, show, tickets
from pages.kit.components import CHIP_WORDS, chips
from pages.kit.figures import Series, TokenRow
from pages.kit.kept import kept
from pages.kit.live_work import LiveWork
from pages.kit.page import Page
from pages.kit.show import Kind

MAX_TEXT = 20_000  # characters
MAX_SECONDS = 20.0  # of learning
SIZES = (N_BYTES + 8, 288, 320, 384, 512, 768, 1_024, 2_048)
FIRST_SIZE = 512
TICK = 0.1  # seconds between two looks
TICK_SECONDS = 0.05  # of learning in a tick, and in a tick …
TICK_MERGES = 8  # … no more than this, so that there is something to watch
N_ROWS = 12
N_STRIP = 240  # characters of the text in the strip
_KEY = "atlas_bpe"


@dataclass
class Lesson(LiveWork):
    """A training of this visitor."""

    training: BpeTraining

    def tick(self) -> None:
        """Learn a little."""
        begun = time.perf_counter()
        for _ in range(TICK_MERGES):
            if self.training.advance() is None or time.perf_counter() - begun > TICK_SECONDS:
                break
        self.seconds += time.perf_counter() - begun
        if self.training.done:
            self.running = False
        elif self.seconds > MAX_SECONDS:
            self.running, self.stopped = False, "time"


def draw(page: Page) -> None:
    """Text and vocabulary size, then what was learned."""
    say = page.say
    with st.container(key="section_training", gap="xsmall"):
        st.header(say("training_title"), anchor=False)
        st.markdown(say("training_text"))
        given = st.text_area(
            say.label("training_own"),
            key=kept("training_text", say.plain("training_passage")),
            max_chars=MAX_TEXT,
            height=120,
        )[:MAX_TEXT]
        with st.container(key="controls_training", horizontal=True, vertical_alignment="bottom"):
            st.button(say.label("training_take"), key="training_take", on_click=partial(_take, page.text))
            size = st.select_slider(
                say.label("training_size"),
                SIZES,
                key=kept("training_size", FIRST_SIZE),
                format_func=lambda n: f"{n:,}",
                width=280,
            )
            st.button(say.label("train"), key="train", type="primary", on_click=partial(_begin, given, size))
        if _KEY not in st.session_state:
            st.session_state[_KEY] = _learned(say.plain("training_passage"), FIRST_SIZE)
        lesson: Lesson = st.session_state[_KEY]
        auto = lesson.running
        tickets.fragment(page.lm, _draw_lesson, page, lesson, auto, run_every=TICK if auto else None)


def _learned(text: str, size: int) -> Lesson:
    """What the page opens on: a short text, learned at once."""
    lesson = Lesson(BpeTraining(text, size))
    while lesson.running:
        lesson.tick()
    return lesson


def _take(text: str) -> None:
    st.session_state["training_text"] = text[:MAX_TEXT]


def _begin(text: str, size: int) -> None:
    st.session_state.pop("training_place", None)
    st.session_state[_KEY] = Lesson(BpeTraining(text, size))


def _draw_lesson(page: Page, lesson: Lesson, auto: bool) -> None:
    with errors.guarded(page.say):
        if lesson.running:
            lesson.tick()
        if lesson.running != auto or selection.current() != page.sel:
            st.rerun()
        say, training = page.say, lesson.training
        n, wanted = len(training.merges), max(1, training.vocab_size - N_BYTES)
        with st.container(key="training_progress", horizontal=True, vertical_alignment="center"):
            text = say.plain("training_progress", size=training.size, wanted=training.vocab_size)
            st.progress(min(1.0, (training.size - N_BYTES) / wanted), text=text)
            if lesson.running:
                st.button(say.label("stop"), key="training_stop", on_click=lesson.stop)
            elif not training.done:
                st.button(say.label("training_on"), key="training_on", on_click=lesson.go_on)
        if not lesson.running:
            _remark(page, lesson)
        if n == 0:
            return
        place = n
        if not lesson.running:
            st.session_state["training_place"] = min(st.session_state.get("training_place", n), n)
            place = st.slider(say.label("training_place"), 0, n, key="training_place", width=420)
        _draw_state(page, training, place)
        if not lesson.running:
            _draw_curve(page, training)


def _remark(page: Page, lesson: Lesson) -> None:
    say, training = page.say, lesson.training
    if lesson.stopped and not training.done:
        section = f"training_stopped_{lesson.stopped}"
    else:
        section = "training_full" if training.size >= training.vocab_size else "training_no_pair"
    st.caption(say(section, n=len(training.merges), seconds=f"{MAX_SECONDS:.0f}"))


def _draw_state(page: Page, training: BpeTraining, place: int) -> None:
    """The merges up to `place`, and the text as this vocabulary cuts it."""
    say = page.say
    coder = training.tokenizer(place)
    left, right = st.columns([1, 1.4], gap="large")
    with left:
        shown = training.merges[max(0, place - N_ROWS) : place]
        rows = []
        for number, merge in zip(range(place, 0, -1), reversed(shown), strict=False):
            token = coder.label(merge.id)
            sides = " + ".join(merge.labels)
            rows.append(TokenRow(f"{number}", token, (sides, f"{merge.count:,}")))
        columns = [say.plain(f"learned_{name}") for name in ("number", "token", "parts", "count")]
        if rows:
            st.html(figures.token_table(rows, page.palette, columns=columns, label=say.plain("learned_alt")))
    with right:
        ids = coder.encode(training.text[:N_STRIP])
        texts = {"label": say.plain("learned_strip"), "help": "", "hint": ""}
        words = texts | {word: say.plain(word) for word in CHIP_WORDS if word not in texts}
        if ids:
            chips(coder.pieces(ids), None, None, key="chips_learned", words=words, max_height=300)
    before, now = training.n_tokens_at[0], training.n_tokens_at[place]
    text = say.plain("learned_caption", n=place, before=before, now=now, ratio=numbers.three_digits(before / now))
    if len(training.text) > N_STRIP:
        text += " · " + say.plain("learned_part", n=N_STRIP)
    show.caption(Kind.MEASURED, say.plain("measured"), text)


def _draw_curve(page: Page, training: BpeTraining) -> None:
    say, palette = page.say, page.palette
    n_own = len(page.lm.tokenizer.encode(training.text))
    series = [Series(say.plain("curve_own"), training.n_tokens_at, palette.accent)]
    figure = figures.lines(
        range(N_BYTES, N_BYTES + len(training.n_tokens_at)),
        series,
        palette,
        x_title=say.plain("curve_x"),
        y_title=say.plain("curve_y"),
        decimals=0,
        height=220,
    )
    text = say.plain("curve_caption", n=n_own, vocab_size=page.lm.tokenizer.vocab_size, now=training.n_tokens)
    caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=palette)
    show.figure(figure, "training_curve", alt=say.plain("curve_alt"), caption=caption)
