"""Controls that several pages share. Their values live in the selection, so they outlive a page change."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from pages.kit import selection
from pages.kit.page import Page
from pages.kit.selection import RANGES

MAX_BUTTONS = 16  # more than that do not fit in a row
_TOP_K = (0, 1, 2, 3, 5, 10, 20, 40, 100, 200, 500, 1_000)


def show(key: str, value: Any) -> None:
    """Make the widget `key` show a value of the selection. Call it before the widget."""
    if st.session_state.get(key) != value:
        st.session_state[key] = value


def layer_and_head(page: Page) -> tuple[int, int]:
    """Rows of numbered buttons for layer and head, set to `page.place`; returns the chosen ones.

    To have them in one line with controls of the page's own, call it in `st.container(horizontal=True)`.
    """
    place, config = page.place, page.lm.config
    chosen = {"layer": place.layer, "head": place.head}
    for name, count in (("layer", config.n_layers), ("head", config.n_heads)):
        key = f"choose_{name}"
        show(key, chosen[name])

        def choose(name: str = name, key: str = key) -> None:
            selection.update(**(chosen | {name: st.session_state[key]}))

        if count <= MAX_BUTTONS:
            st.segmented_control(page.say.label(name), range(count), key=key, required=True, on_change=choose)
        else:
            st.selectbox(page.say.label(name), range(count), key=key, width=96, on_change=choose)
    return place.layer, place.head


def sampling_controls(page: Page) -> None:
    """Temperature, top-k, top-p, min-p, repetition penalty and seed; below, why some have no effect now."""
    sel, say = page.sel, page.say
    greedy, single = sel.temperature == 0, sel.top_k == 1
    with st.container(key="controls_sampling", horizontal=True, vertical_alignment="bottom"):
        _slider(page, "temperature", 0.05, 2.0)
        _options(page, "top_k", _TOP_K, off=0, idle=greedy)
        _slider(page, "top_p", 0.01, 1.0, off=1.0, idle=greedy or single)
        _slider(page, "min_p", 0.01, 0.5, off=0.0, idle=greedy or single)
        _slider(page, "penalty", 0.05, 2.0, low=1.0, off=1.0, width=160)
        show("choose_seed", sel.seed)
        low, high = map(int, RANGES["seed"])
        st.number_input(
            say.label("seed"), low, high, key="choose_seed", width=115, disabled=greedy, on_change=_choose("seed")
        )
        st.button(
            say.label("draw_again"),
            key="draw_again",
            disabled=greedy,
            on_click=lambda: selection.update(seed=(selection.current().seed + 1) % high),
        )
    if greedy or single:
        st.caption(say("idle_greedy" if greedy else "idle_single"))


def _choose(name: str) -> Callable[[], None]:
    return lambda: selection.update(**{name: st.session_state[f"choose_{name}"]})


def _label(page: Page, name: str, is_off: bool) -> str:
    return page.say.label("control_off", name=page.say.plain(name)) if is_off else page.say.label(name)


def _slider(
    page: Page,
    name: str,
    step: float,
    high: float,
    *,
    low: float = 0.0,
    off: float | None = None,
    idle: bool = False,
    width: int = 135,
) -> None:
    value, key = float(getattr(page.sel, name)), f"choose_{name}"
    show(key, value)
    st.slider(
        _label(page, name, value == off),
        min(low, value),  # a link may ask for more than the slider offers
        max(high, value),
        key=key,
        step=step,
        format="%.2f",
        width=width,
        disabled=idle,
        on_change=_choose(name),
    )


def _options(page: Page, name: str, options: tuple[int, ...], *, off: int, idle: bool) -> None:
    value, key = getattr(page.sel, name), f"choose_{name}"
    show(key, value)
    st.select_slider(
        _label(page, name, value == off),
        sorted({*options, value}),
        key=key,
        format_func=lambda n: page.say.label("off") if n == off else f"{n:,}",
        width=135,
        disabled=idle,
        on_change=_choose(name),
    )
