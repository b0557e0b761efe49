"""Steps that must wait for each other: followed round by round, and timed when the reader asks for it."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import streamlit as st

from model.analysis.recurrence import KINDS, Build, build_network
from model.analysis.recurrence import Kind as Network
from model.analysis.recurrence_rounds import rounds
from model.analysis.recurrence_time import TimeRace
from pages.kit import errors, figures, navigation, numbers, recurrence_data, show, tickets
from pages.kit.figures import Series, Strip
from pages.kit.live_work import LiveWork
from pages.kit.page import Page
from pages.kit.show import Kind

SHOWN = 10  # tokens whose rounds are drawn
TICK = 0.2  # seconds between two looks
_KEY = "atlas_recurrence_times"


def draw(page: Page) -> None:
    """Who knows the first token after each round; then the clock."""
    say = page.say
    with st.container(key="section_rounds", gap="xsmall"):
        st.header(say("rounds_title"), anchor=False)
        st.markdown(say("rounds"))
        n = min(len(page.run.tokens), SHOWN)
        counts, colours = {}, recurrence_data.colours(page)
        pair: tuple[Network, Network] = (page.sel.cell, "attention")
        for column, kind in zip(st.columns(2, gap="large"), pair, strict=True):
            found = _rounds(kind, recurrence_data.build(page), n)
            counts[kind] = len(found)
            strips = [
                Strip(say.plain("round", number=number), np.asarray(row, dtype=float))
                for number, row in enumerate(found, start=1)
            ]
            # Yes or no, in the colour that the network has on this page.
            palette = replace(page.palette, diverging=(page.palette.paper, page.palette.paper, colours[kind]))
            fig = figures.value_strip(strips, palette, limit=1.0, index_word=say.plain("token"), row=16)
            text = say.plain("rounds_caption", count=len(found), n=n)
            caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=page.palette)
            with column, st.container(key=f"section_rounds_{kind}", gap="xsmall"):
                st.markdown(f"**{say(kind)}**")
                show.figure(fig, f"rounds_{kind}", alt=say.plain("rounds_alt", name=say.plain(kind)), caption=caption)
        if n > 1:
            values = {"n": n, "cell": counts[pair[0]], "name": say.plain(pair[0]), "attention": counts[pair[1]]}
            st.markdown(say("rounds_found", **values))
        else:
            st.markdown(say("rounds_found_one"))
    with st.container(key="section_times", gap="xsmall"):
        st.header(say("times_title"), anchor=False)
        st.markdown(say("times"))
        build = recurrence_data.build(page)
        device = "cuda" if page.lm.device.type == "cuda" else "cpu"  # elsewhere torch tells no time
        begin = partial(_begin, build, device)
        st.button(say.label("times_start"), key="times_start", type="primary", on_click=begin)
        timing: Timing | None = st.session_state.get(_KEY)
        if timing is not None and timing.running and navigation.arrived():
            timing.interrupt("away")  # what was measured with a break in between does not compare
        if timing is not None and timing.race.build == build:
            run_every = TICK if timing.running else None
            tickets.fragment(page.lm, _draw_times, page, timing, timing.running, run_every=run_every)


@dataclass
class Timing(LiveWork):
    """A measurement of this visitor."""

    race: TimeRace

    def tick(self) -> None:
        """Measure one length."""
        try:
            self.race.advance()
        except BaseException:
            self.running = False  # or it would be tried again and again
            raise
        self.running = self.running and not self.race.done


def _begin(build: Build, device: str) -> None:
    st.session_state[_KEY] = Timing(TimeRace(build, device=device))


def _draw_times(page: Page, timing: Timing, auto: bool) -> None:
    say, race = page.say, timing.race
    with errors.guarded(say):
        if timing.running:
            timing.tick()
        if timing.running != auto:
            st.rerun()
        done, count = len(race.points), race.count
        if timing.running:
            with st.container(key="times_progress", horizontal=True, vertical_alignment="center"):
                text = say.plain("times_progress", done=done, count=count, length=race.next_length)
                st.progress(done / count, text=text)
                st.button(say.label("stop"), key="times_stop", icon=":material/stop:", on_click=timing.stop)
        elif timing.stopped:
            st.caption(say("times_stopped", done=done, count=count))
        if not done:
            return
        colours, device = recurrence_data.colours(page), {"cpu": "CPU", "cuda": "GPU"}[race.device]
        for column, what in zip(st.columns(2, gap="large"), ("forward", "backward"), strict=True):
            series = [
                Series(
                    say.plain(kind),
                    1e3 * np.array(race.of(kind, what)),
                    colours[kind],
                    recurrence_data.dash(page, kind),
                    points=True,
                )
                for kind in KINDS
            ]
            fig = figures.lines(
                race.lengths,
                series,
                page.palette,
                x_title=say.plain("tokens_read"),
                y_title=say.plain("milliseconds"),
                log_x=True,
                log_y=True,
                x_ticks=race.lengths,
                height=290,
            )
            caption = show.caption_html(
                Kind.MEASURED, say.plain("measured"), say.plain("times_caption", device=device), palette=page.palette
            )
            with column, st.container(key=f"section_times_{what}", gap="xsmall"):
                st.markdown(say(f"times_{what}"))
                show.figure(fig, f"times_{what}", alt=say.plain(f"times_alt_{what}"), caption=caption)
        if not timing.running:
            _draw_table(page, race)


def _draw_table(page: Page, race: TimeRace) -> None:
    """Forward and backward together, and what twice the length costs at the end."""
    say = page.say
    both = {kind: 1e3 * (np.array(race.of(kind, "forward")) + np.array(race.of(kind, "backward"))) for kind in KINDS}
    known = [i for i in range(len(race.lengths)) if not np.isnan(both["attention"][i])]
    rows = [(f"{race.lengths[i]:,}", [numbers.three_digits(both[kind][i]) for kind in KINDS]) for i in known]
    with st.container(key="times_table", gap="xsmall"):
        titles = [say.plain("tokens_read"), *(say.plain(kind) for kind in KINDS)]
        st.html(figures.number_table(titles, rows, page.palette, description=say.plain("times_table"), scrolls=True))
        show.caption(Kind.MEASURED, say.plain("measured"), say.plain("times_table"))
    if len(known) > 1:
        last, before = known[-1], known[-2]
        growth = {kind: numbers.three_digits(both[kind][last] / both[kind][before]) for kind in KINDS}
        st.markdown(say("times_growth", before=race.lengths[before], after=race.lengths[last], **growth))
    st.markdown(say(f"times_{race.device}"))


@st.cache_data(show_spinner=False, max_entries=256)
def _rounds(kind: Network, build: Build, n: int) -> list[list[bool]]:
    found: list[list[bool]] = rounds(build_network(kind, build), n).tolist()
    return found
