"""Explicit against fused attention by length, measured on this machine when the reader asks for it."""

from dataclasses import dataclass, field
from functools import partial
from threading import Lock

import numpy as np
import streamlit as st

from model.analysis.attention_race import CPU_LONGEST, LENGTHS, Point, Shape, contenders, lengths, measure
from model.analysis.flash_traffic import BYTES
from pages.kit import controls, errors, figures, numbers, selection, show, tickets
from pages.kit.figures import Series
from pages.kit.flash_view import View
from pages.kit.live_work import LiveWork
from pages.kit.show import Kind

MAX_SECONDS = 45.0  # of measuring
TICK = 0.1  # seconds between two looks
_KEY = "atlas_race"


@dataclass
class Race(LiveWork):
    """What a visitor has measured: of the `shape` and up to the length that were `asked` for, the points `wanted`."""

    asked: tuple[Shape, int]
    wanted: list[tuple[int, str]]
    points: list[Point] = field(default_factory=list)
    _turn: Lock = field(default_factory=Lock)  # a run that was broken off may still be at its last point

    def tick(self) -> None:
        """Measure one point."""
        with self._turn:
            if len(self.points) < len(self.wanted):
                self._measure()

    def _measure(self) -> None:
        length, name = self.wanted[len(self.points)]
        try:
            point = measure(self.shape, length, name)
        except BaseException:
            self.running = False  # or it would be tried again and again
            raise
        self.points.append(point)
        self.seconds += point.seconds * (point.runs + 2)
        if len(self.points) == len(self.wanted):
            self.running = False
        elif self.seconds > MAX_SECONDS:
            self.running, self.stopped = False, "time"

    @property
    def shape(self) -> Shape:
        """What is measured."""
        return self.asked[0]

    def of(self, name: str, what: str) -> list[float]:
        """One kernel's "seconds" or "peak" at each length; NaN where it is not measured."""
        found = {point.length: float(getattr(point, what)) for point in self.points if point.name == name}
        return [found.get(length, float("nan")) for length in self.lengths]

    @property
    def lengths(self) -> list[int]:
        """The lengths to measure, each once."""
        return sorted({length for length, _ in self.wanted})

    @property
    def names(self) -> list[str]:
        """The kernels, in the order of the race."""
        return list(dict.fromkeys(name for _, name in self.wanted))


def draw(view: View) -> None:
    """The button, then what was measured."""
    page, say = view.page, view.page.say
    device = "cuda" if page.lm.device.type == "cuda" else "cpu"  # elsewhere torch tells neither time nor memory
    with st.container(key="section_race", gap="xsmall"):
        st.header(say("race_title"), anchor=False)
        st.markdown(say("race"))
        with st.container(key="controls_race", horizontal=True, vertical_alignment="bottom"):
            with st.container(width=300, gap=None):
                controls.label(page, "longest", f"{page.sel.longest:,}")
                st.select_slider(
                    say.label("longest"),
                    LENGTHS,
                    key=selection.widget("longest", page.sel.longest),
                    format_func=lambda n: f"{n:,}",
                    label_visibility="collapsed",
                )
            asked = _shape(view, device), page.sel.longest
            st.button(say.label("race_start"), key="race_start", type="primary", on_click=partial(_begin, asked))
        if device == "cpu" and page.sel.longest > CPU_LONGEST:
            st.caption(say("race_bound", most=CPU_LONGEST))
        race: Race | None = st.session_state.get(_KEY)
        if race is None or race.asked != asked:
            return
        possible = min(page.sel.longest, CPU_LONGEST) if device == "cpu" else page.sel.longest
        if race.lengths[-1] < possible:
            st.caption(say("race_bound_memory", most=race.lengths[-1], asked=possible))
        auto = race.running
        tickets.fragment(page.lm, _draw_race, view, race, auto, run_every=TICK if auto else None)


def _shape(view: View, device: str) -> Shape:
    config = view.page.lm.config
    return Shape(1 if device == "cpu" else config.n_heads, config.d_head, view.page.sel.dtype, view.causal, device)


def _begin(asked: tuple[Shape, int]) -> None:
    """What fits is decided here, once: on a GPU free memory changes while it is measured."""
    shape, longest = asked
    kernels = contenders(shape.device)
    wanted = [(n, name) for n in lengths(shape.device, longest, shape.heads) for name in kernels]
    st.session_state[_KEY] = Race(asked, wanted)


def _draw_race(view: View, race: Race, auto: bool) -> None:
    say = view.page.say
    with errors.guarded(say):
        if race.running:
            race.tick()
        if race.running != auto:
            st.rerun()
        done, count = len(race.points), len(race.wanted)
        if race.running:
            length, name = race.wanted[done]
            with st.container(key="race_progress", horizontal=True, vertical_alignment="center"):
                text = say.plain(
                    "race_progress", done=done, count=count, length=length, name=say.plain(f"kernel_{name}")
                )
                st.progress(done / count, text=text)
                st.button(say.label("race_stop"), key="race_stop", on_click=race.stop)
        elif race.stopped:
            st.caption(say(f"race_stopped_{race.stopped}", done=done, count=count, seconds=f"{MAX_SECONDS:.0f}"))
        if not done:
            return
        for column, what in zip(st.columns(2, gap="large"), ("seconds", "peak"), strict=True):
            with column, st.container(key=f"section_race_{what}", gap="xsmall"):
                _draw_curves(view, race, what)
        if not race.running:
            _draw_table(view, race)


def _draw_curves(view: View, race: Race, what: str) -> None:
    say, palette = view.page.say, view.page.palette
    colours = {"explicit": palette.key, "fused": palette.accent, "ours": palette.value}
    factor = 1e3 if what == "seconds" else 2**-20
    fig = figures.lines(
        race.lengths,
        [
            Series(say.plain(f"kernel_{name}"), np.array(race.of(name, what)) * factor, colours[name], points=True)
            for name in race.names
        ],
        palette,
        x_title=say.plain("race_x"),
        y_title=say.plain(f"race_y_{what}"),
        log_x=True,
        log_y=True,
        x_ticks=race.lengths,
        height=290,
    )
    st.markdown(say(f"race_{what}"))
    text = say.plain(f"race_caption_{what}_{'cpu' if race.shape.device == 'cpu' else 'cuda'}")
    caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=palette)
    show.figure(fig, f"race_{what}", alt=say.plain(f"race_alt_{what}"), caption=caption)


def _draw_table(view: View, race: Race) -> None:
    page, say = view.page, view.page.say
    columns, rows = [say.plain("race_length")], []
    for name in race.names:
        columns += [say.plain(f"race_column_{what}", name=say.plain(f"kernel_{name}")) for what in ("seconds", "peak")]
    for i, length in enumerate(race.lengths):
        cells = []
        for name in race.names:
            seconds, peak = race.of(name, "seconds")[i], race.of(name, "peak")[i]
            cells += [_printed(1e3 * seconds), _printed(peak / 2**20)]
        rows.append((f"{length:,}", cells))
    with st.container(key="race_table", gap="xsmall"):
        st.html(figures.number_table(columns, rows, page.palette, description=say.plain("race_title"), scrolls=True))
        shape = race.shape
        kernels = " · ".join(
            say.plain("kernel_ran", name=say.plain(f"kernel_{name}"), kernel=kernel)
            for name, kernel in _kernels(race).items()
            if name != kernel
        )
        values = {"heads": shape.heads, "d": shape.d, "device": shape.device.upper(), "kernels": kernels}
        values["dtype"] = say.plain(f"weights_{shape.dtype}")
        mask = say.plain("mask_true" if shape.causal else "mask_false")
        show.caption(Kind.MEASURED, say.plain("measured"), say.plain("race_caption", mask=mask, **values))
    _draw_growth(view, race)


def _printed(value: float) -> str:
    return "–" if np.isnan(value) else numbers.three_digits(value)


def _kernels(race: Race) -> dict[str, str]:
    """Which kernel ran, by contender."""
    return {point.name: point.kernel for point in race.points}


def _draw_growth(view: View, race: Race) -> None:
    """How much more twice the length takes, in the two longest that all have finished."""
    say = view.page.say
    done = [
        n for i, n in enumerate(race.lengths) if not np.isnan([race.of(name, "peak")[i] for name in race.names]).any()
    ]
    if len(done) < 2:
        return
    at = race.lengths.index(done[-1])
    values = {}
    for name in ("explicit", "fused"):
        for what in ("seconds", "peak"):
            series = race.of(name, what)
            values[f"{name}_{what}"] = numbers.three_digits(series[at] / series[at - 1])
    ratio = race.of("explicit", "peak")[at] / race.of("fused", "peak")[at]
    more = (race.of("fused", "peak")[at] - race.of("fused", "peak")[at - 1]) / (done[-1] - done[-2])
    shape = race.shape
    text = say("race_growth", before=done[-2], after=done[-1], ratio=numbers.three_digits(ratio), **values)
    if more == shape.heads * (shape.d * BYTES[shape.dtype] + 4):  # else torch takes larger tiles from here on
        text += " " + say("race_token", bytes=int(more), d=shape.d, number=BYTES[shape.dtype], heads=shape.heads)
    st.markdown(text)
