"""The race between writing with and without the cache, live: part of the page on the cache."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import streamlit as st

from model.analysis.cache_race import Race
from pages.kit import errors, figures, numbers, selection, show, tickets
from pages.kit.figures import Series, style
from pages.kit.live_work import LiveWork
from pages.kit.page import Page
from pages.kit.show import Kind, Scale
from pages.kit.tickets import later

MAX_SECONDS = 20.0  # of writing, in both lanes together, before it asks to go on
TICK = 0.25  # seconds between two looks; more than a tick takes, so that clicks get through
TICK_SECONDS = 0.1  # of writing in a tick
_KEY = "atlas_cache_race"


@dataclass
class Racing(LiveWork):
    """A race of this visitor, and what it is a race `of`."""

    race: Race
    of: tuple[object, ...]

    def tick(self, seconds: float = TICK_SECONDS) -> None:
        """Write a little in whichever lane is next."""
        self.spend(self.race, seconds, MAX_SECONDS)


def current(page: Page, n: int) -> Racing:
    """The race of the page's run; begun anew when model, text or length changed."""
    of = (page.sel.model, id(page.lm), tuple(page.run.tokens), n)
    kept: Racing | None = tickets.value(st.session_state.get(_KEY))
    if kept is not None and kept.of == of:
        return kept
    begun = Racing(Race(page.lm.transformer, page.run.tokens, n), of)
    st.session_state[_KEY] = tickets.issue(page.lm, begun)
    return begun


def forget() -> None:
    """Let it begin anew."""
    st.session_state.pop(_KEY, None)


def draw(page: Page, racing: Racing, layer: int, kv_head: int, after: Callable[[Page, Racing], None]) -> None:
    """The race and the cache that grows in it; `after` draws below when it is over."""
    run_every = TICK if racing.running else None
    tickets.fragment(page.lm, _draw, page, racing, layer, kv_head, racing.running, after, run_every=run_every)


def _draw(
    page: Page, racing: Racing, layer: int, kv_head: int, auto: bool, after: Callable[[Page, Racing], None]
) -> None:
    with errors.guarded(page.say):
        racing.tick()
        if racing.running != auto or selection.current() != page.sel:
            st.rerun()
        _draw_buttons(page, racing)
        _draw_lanes(page, racing)
        left, right = st.columns([1.2, 1], gap="large")
        with left:
            _draw_times(page, racing)
        with right:
            _draw_grid(page, racing, layer, kv_head)
        if not racing.running:
            after(page, racing)


def _draw_buttons(page: Page, racing: Racing) -> None:
    say, race = page.say, racing.race
    with st.container(key="race_buttons", horizontal=True, vertical_alignment="center", gap="small"):
        if racing.running:
            st.button(say.label("stop"), key="race_stop", icon=":material/stop:", on_click=later(racing, Racing.stop))
        elif not race.done:
            st.button(
                say.label("go_on"), key="race_on", icon=":material/play_arrow:", on_click=later(racing, Racing.go_on)
            )
        st.button(say.label("again"), key="race_again", icon=":material/replay:", on_click=forget)
        if racing.stopped:
            st.caption(say(f"stopped_{racing.stopped}", seconds=f"{MAX_SECONDS:.0f}"), width="content")


def _draw_lanes(page: Page, racing: Racing) -> None:
    say, palette, race = page.say, page.palette, racing.race
    prompt = page.lm.tokenizer.decode(race.prompt)
    lanes = (("cached", race.cached, palette.accent), ("uncached", race.uncached, palette.key))
    for column, (name, lane, colour) in zip(st.columns(2, gap="medium"), lanes, strict=True):
        rate = lane.tokens_per_second
        facts = {
            say.plain("fact_rate"): "–" if rate is None else say.plain("rate", n=numbers.three_digits(rate)),
            say.plain("fact_time"): say.plain("seconds", n=numbers.three_digits(lane.seconds)),
            say.plain("fact_read"): f"{lane.tokens_read:,}",
        }
        written = page.lm.tokenizer.decode([*race.prompt, *race.text[: lane.written]])
        text = written[len(prompt) :] if written.startswith(prompt) else written
        note = say.plain("written", n=lane.written, of=race.n)
        shown = figures.Lane(say.plain(name), note, lane.written / race.n, facts, prompt, text, colour)
        with column:
            st.html(figures.lane(shown, palette))


def _draw_times(page: Page, racing: Racing) -> None:
    say, palette, race = page.say, page.palette, racing.race
    positions = np.arange(len(race.prompt), len(race.prompt) + race.n)

    def padded(values: list[float]) -> np.ndarray:
        return np.array([*values, *[np.nan] * (race.n - len(values))])

    lanes = (("uncached_short", race.uncached, palette.key), ("cached_short", race.cached, palette.accent))
    series = [
        Series(
            say.plain(name), padded(lane.milliseconds), style.faded(colour, 0.45), points=True, line=False, named=False
        )
        for name, lane, colour in lanes
    ]
    series += [Series(say.plain(name), padded(lane.typical), colour) for name, lane, colour in lanes]
    # A single delay of the machine would press all else to the floor.
    top = 1.5 * max((value for _, lane, _ in lanes for value in lane.typical), default=1.0)
    above = sum(value > top for _, lane, _ in lanes for value in lane.milliseconds)
    fig = figures.lines(
        positions,
        series,
        palette,
        x_title=say.plain("position_axis"),
        y_title=say.plain("time_axis"),
        y_range=(0.0, top),
        height=300,
        decimals=3,
    )
    text = say.plain("times_caption", device=str(page.lm.device).upper(), n=len(race.prompt))
    if above:
        text += " · " + say.plain("times_above", n=above)
    with st.container(key="section_times", gap="xsmall"):
        st.markdown(say("times_text"))
        caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=palette)
        show.figure(fig, "race_times", alt=say.plain("times_alt"), caption=caption)


def _draw_grid(page: Page, racing: Racing, layer: int, kv_head: int) -> None:
    say, palette, race = page.say, page.palette, racing.race
    cache = race.cached.cache
    assert cache is not None
    keys, values = (part[0, kv_head].float().cpu().numpy() for part in cache.stored(layer))
    ids = [*race.prompt, *race.text][: len(keys)]
    labels = page.lm.tokenizer.labels(ids) if ids else []
    ends = figures.symmetric_limit(keys), figures.symmetric_limit(values)
    names = say.plain("keys_of", head=kv_head), say.plain("values_of", head=kv_head)
    free = say.plain("free_rows", n=cache.room - len(keys))
    fig = figures.cache_grid(
        labels, keys, values, cache.room, palette, names=names, free=free, highlight=page.sel.query, limits=ends
    )
    scales = [
        Scale(name, f"−{numbers.three_digits(end)}", numbers.three_digits(end), palette.diverging)
        for name, end in zip(("K", "V"), ends, strict=True)
    ]
    text = say.plain("grid_caption", layer=layer, rows=len(keys), room=cache.room)
    with st.container(key="section_grid", gap="xsmall"):
        st.markdown(say("grid_text"))
        caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, *scales, palette=palette)
        show.figure(fig, "race_grid", alt=say.plain("grid_alt"), caption=caption)
