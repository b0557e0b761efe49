"""Controls that several pages share. Their values live in the selection, so they outlive a page change."""

import streamlit as st

from pages.kit import selection
from pages.kit.page import Page
from pages.kit.selection import RANGES

MAX_BUTTONS = 16  # more than that do not fit in a row
_TOP_K = (0, 1, 2, 3, 5, 10, 20, 40, 100, 200, 500, 1_000)


def layer_and_head(page: Page) -> tuple[int, int]:
    """Rows of numbered buttons for layer and head, set to `page.place`; returns the chosen ones.

    To have them in one line with controls of the page's own, call it in `st.container(horizontal=True)`.
    """
    place, say = page.place, page.say
    rows = {"layer": (place.layer, page.lm.config.n_layers), "head": (place.head, page.lm.config.n_heads)}
    for name, (value, count) in rows.items():
        # The other one is shown, so it is chosen too: from now on it stays.
        key = selection.widget(
            name, value, lambda new, name=name: {"layer": place.layer, "head": place.head, name: new}
        )
        if count <= MAX_BUTTONS:
            st.segmented_control(say.label(name), range(count), key=key, required=True)
        else:
            st.selectbox(say.label(name), range(count), key=key, width=96)
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
        low, high = map(int, RANGES["seed"])
        st.number_input(
            say.label("seed"), low, high, key=selection.widget("seed", sel.seed), width=115, disabled=greedy
        )
        if st.button(say.label("draw_again"), key="draw_again", disabled=greedy):
            selection.update(seed=(sel.seed + 1) % high)
            st.rerun()
    if greedy or single:
        st.caption(say("idle_greedy" if greedy else "idle_single"))


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
    value = float(getattr(page.sel, name))
    st.slider(
        _label(page, name, value == off),
        min(low, value),  # a link may ask for more than the slider offers
        max(high, value),
        key=selection.widget(name, value),
        step=step,
        format="%.2f",
        width=width,
        disabled=idle,
    )


def _options(page: Page, name: str, options: tuple[int, ...], *, off: int, idle: bool) -> None:
    value = getattr(page.sel, name)
    st.select_slider(
        _label(page, name, value == off),
        sorted({*options, value}),
        key=selection.widget(name, value),
        format_func=lambda n: page.say.label("off") if n == off else f"{n:,}",
        width=135,
        disabled=idle,
    )
