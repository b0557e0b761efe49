"""The recall task, learned live by all four networks: part of the page on recurrence."""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial

import numpy as np
import streamlit as st

from model.analysis.recall_task import CHANCE, EVERY, STEPS, SYMBOLS, Learner, Recall, Task, chance_loss
from model.analysis.recurrence import KINDS
from pages.kit import errors, figures, navigation, numbers, recurrence_data, selection, show, tickets
from pages.kit.choices import RECALL_DISTANCES
from pages.kit.figures import Series, style
from pages.kit.live_work import LiveWork
from pages.kit.page import Page
from pages.kit.show import Kind

MAX_SECONDS = 60.0  # of learning before it asks to go on
TICK = 0.4  # seconds between two looks; more than a tick takes, so that clicks get through
TICK_SECONDS = 0.2  # of learning in a tick
SHOWN = 5  # distractors at either end of the example
KEPT = 32  # finished trainings that are kept for whoever asks for the same
_KEY = "atlas_recall"


@dataclass
class Lesson(LiveWork):
    """A training of this visitor."""

    recall: Recall

    def tick(self, seconds: float = TICK_SECONDS) -> None:
        """Learn a little."""
        self.spend(self.recall, seconds, MAX_SECONDS)


class Finished:
    """Trainings that went to their end, by task, for all visitors; the oldest make room."""

    def __init__(self) -> None:
        self._recalls: OrderedDict[Task, Recall] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, task: Task) -> Recall | None:
        """The finished training of this task."""
        with self._lock:
            return self._recalls.get(task)

    def add(self, recall: Recall) -> None:
        """Keep it."""
        with self._lock:
            self._recalls[recall.task] = recall
            while len(self._recalls) > KEPT:
                self._recalls.popitem(last=False)


@st.cache_resource(show_spinner=False)
def finished() -> Finished:
    """The one store of the server."""
    return Finished()


def draw(page: Page) -> None:
    """The task, the networks, the button, and the curves."""
    say, sel = page.say, page.sel
    task = Task(sel.distance, recurrence_data.build(page), sel.cell_seed)
    with st.container(key="section_recall", gap="xsmall"):
        st.header(say("recall_title"), anchor=False)
        st.markdown(say("recall", symbols=SYMBOLS, chance=numbers.percent(CHANCE)))
        with st.container(key="controls_recall", horizontal=True, vertical_alignment="bottom"):
            st.segmented_control(
                say.label("choose_distance"),
                RECALL_DISTANCES,
                key=selection.widget("distance", sel.distance),
                required=True,
            )
            st.button(say.label("recall_start"), key="recall_start", type="primary", on_click=partial(_begin, task))
        lesson = _lesson(task)
        _draw_waiting(page, task)
        auto = lesson is not None and lesson.running
        tickets.fragment(page.lm, _draw_lesson, page, task, lesson, auto, run_every=TICK if auto else None)


def _begin(task: Task) -> None:
    known = finished().get(task)
    st.session_state[_KEY] = Lesson(known, running=False) if known else Lesson(Recall(task))


def _lesson(task: Task) -> Lesson | None:
    """This visitor's training of the task, or one that somebody has finished.

    A training goes on by itself only as long as its reader stays with it: else it waits to be told.
    """
    own: Lesson | None = st.session_state.get(_KEY)
    if own is not None and own.running and own.recall.task != task:
        own.interrupt("task")
    elif own is not None and own.running and navigation.arrived():
        own.interrupt("away")
    if own is not None and own.recall.task == task:
        return own
    known = finished().get(task)
    return None if known is None else Lesson(known, running=False)


def _draw_waiting(page: Page, task: Task) -> None:
    """That a training of another task waits."""
    own: Lesson | None = st.session_state.get(_KEY)
    if own is None or own.recall.done or own.recall.task == task:
        return
    values = {"steps": own.recall.steps, "distance": own.recall.task.distance}
    st.html(f'<p class="atlas-remark" role="status">{page.say.html("recall_waiting", **values)}</p>')


@st.cache_resource(show_spinner=False, max_entries=64)
def _untrained(task: Task) -> Recall:
    """Only looked at: what the networks do before they learn."""
    return Recall(task)


def _draw_lesson(page: Page, task: Task, lesson: Lesson | None, auto: bool) -> None:
    say = page.say
    with errors.guarded(say):
        if lesson is not None and lesson.running:
            lesson.tick()
            if lesson.recall.done:
                finished().add(lesson.recall)
        if (lesson is not None and lesson.running) != auto or selection.current() != page.sel:
            st.rerun()
        recall = _untrained(task) if lesson is None else lesson.recall
        first, *between, question = recall.example
        st.markdown(say("recall_example", first=first, between=_short(between), question=question))
        if lesson is not None and not recall.done:
            _draw_progress(page, lesson)
        if lesson is not None:
            _draw_curves(page, recall)
        _draw_table(page, recall)
        if recall.done:
            st.markdown(_found(page, recall))


def _short(between: list[str]) -> str:
    """The distractors, the middle left out where there are many."""
    return " ".join(between if len(between) <= 2 * SHOWN else [*between[:SHOWN], "…", *between[-SHOWN:]])


def _draw_progress(page: Page, lesson: Lesson) -> None:
    say = page.say
    with st.container(key="recall_progress", horizontal=True, vertical_alignment="center"):
        text = say.plain("recall_progress", steps=lesson.recall.steps, count=STEPS)
        st.progress(lesson.recall.share, text=text)
        if lesson.running:
            st.button(say.label("stop"), key="recall_stop", icon=":material/stop:", on_click=lesson.stop)
        else:
            st.button(say.label("go_on"), key="recall_on", icon=":material/play_arrow:", on_click=lesson.go_on)
    if lesson.stopped:
        values = {"seconds": f"{MAX_SECONDS:.0f}", "steps": lesson.recall.steps}
        st.caption(say(f"recall_stopped_{lesson.stopped}", **values))


def _draw_curves(page: Page, recall: Recall) -> None:
    say, palette = page.say, page.palette
    steps = range(0, STEPS + 1, EVERY)
    guess = {"accuracies": CHANCE, "losses": chance_loss()}
    tops = {"accuracies": 1.05, "losses": 1.15 * max(max(one.losses) for one in recall.learners.values())}
    for column, (what, level) in zip(st.columns(2, gap="large"), guess.items(), strict=True):
        series = [
            one
            for kind, learner in recall.learners.items()
            for one in _curve(page, learner, getattr(learner, what), len(steps))
        ]
        series.append(Series(say.plain("guessing"), [level] * len(steps), palette.muted, "dash"))
        fig = figures.lines(
            steps,
            series,
            palette,
            x_title=say.plain("steps_trained"),
            y_title=say.plain(f"recall_axis_{what}"),
            y_range=(-0.06 * tops[what], tops[what]),  # room for names below the last one
            height=300,
        )
        text = say.plain("recall_caption", distance=recall.task.distance)
        caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=palette)
        with column, st.container(key=f"section_recall_{what}", gap="xsmall"):
            st.markdown(say(f"recall_{what}"))
            show.figure(fig, f"recall_{what}", alt=say.plain(f"recall_alt_{what}"), caption=caption)


def _curve(page: Page, learner: Learner, values: list[float], count: int) -> list[Series]:
    """What was measured; and behind it, where training ended early, a pale line that leads the name to the margin."""
    name, colour = page.say.plain(learner.kind), recurrence_data.colours(page)[learner.kind]
    ended = learner.done and len(values) < count
    measured = [*values, *[np.nan] * (count - len(values))]
    curve = Series(name, measured, colour, recurrence_data.dash(page, learner.kind), named=not ended)
    if not ended:
        return [curve]
    rest = [*[np.nan] * (len(values) - 1), *[values[-1]] * (count - len(values) + 1)]
    end = [*[np.nan] * (count - 1), values[-1]]
    pale = style.mix(page.palette.paper, colour, 0.55)
    return [Series(name, rest, pale, "dot", named=False), curve, Series(name, end, colour, points=True, line=False)]


def _draw_table(page: Page, recall: Recall) -> None:
    say = page.say
    rows = []
    for kind, learner in recall.learners.items():
        learned = "–" if learner.learned_at is None else f"{learner.learned_at}"
        cells = [
            f"{learner.width}",
            f"{learner.parameters:,}",
            f"{learner.trained}",
            numbers.percent(learner.accuracies[-1]),
            f"{learner.losses[-1]:.3f}",
            learned,
            numbers.three_digits(learner.seconds) if learner.trained else "–",
        ]
        name = say.plain(kind)
        rows.append((f"{figures.MARK}{name}" if kind == page.sel.cell else name, cells))
    columns = ("network", "width", "parameters", "trained", "accuracy", "loss", "learned", "seconds")
    titles = [say.plain(f"column_{column}") for column in columns]
    with st.container(key="recall_table", gap="xsmall"):
        show.marked_table(
            Kind.MEASURED,
            say.plain("measured"),
            say.plain("recall_table_caption"),
            titles,
            rows,
            page.palette,
            description=say.plain("recall_table_alt"),
            mark=say.plain("mark_chosen"),
        )


def _found(page: Page, recall: Recall) -> str:
    """Who learned it, and who did not."""
    say = page.say
    learned = [kind for kind, learner in recall.learners.items() if learner.enough]
    missed = [kind for kind in KINDS if kind not in learned]
    between = " · "
    values = {
        "learned": between.join(say.plain(kind) for kind in learned),
        "missed": between.join(say.plain(kind) for kind in missed),
        "distance": recall.task.distance,
        "chance": numbers.percent(CHANCE),
        "steps": STEPS,
    }
    section = "recall_all" if not missed else "recall_none" if not learned else "recall_some"
    return say(section, **values)
