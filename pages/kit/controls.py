"""Controls that several pages share. Their values live in the selection, so they outlive a page change."""

from collections.abc import Mapping

import streamlit as st

from pages.kit import selection
from pages.kit.page import Page
from pages.kit.selection import RANGES

MAX_BUTTONS = 16  # more than that do not fit in a row
WIDTH = 148
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


def sampling_controls(page: Page, idle: Mapping[str, str] | None = None) -> None:
    """Temperature, top-p, top-k, min-p, repetition penalty and seed, in one line.

    idle: the controls whose value changes nothing, with the reason, as `Ledger.no_effect` says it. It is written
    below the control. Without it only what holds for every text is said.
    """
    sel, say = page.sel, page.say
    greedy = sel.temperature == 0
    if idle is None:
        idle = dict.fromkeys(("top_k", "top_p", "min_p", "seed"), "greedy") if greedy else {}
    with st.container(key="controls_sampling", horizontal=True, vertical_alignment="top"):
        _slider(page, "temperature", 0.05, 2.0, idle)
        _slider(page, "top_p", 0.01, 1.0, idle, off=1.0)
        _options(page, "top_k", _TOP_K, idle, off=0)
        _slider(page, "min_p", 0.01, 0.5, idle, off=0.0)
        _slider(page, "penalty", 0.05, 2.0, idle, low=1.0, off=1.0)
        with st.container(width=212, gap=None):
            with st.container(key="seed_and_draw", horizontal=True, vertical_alignment="bottom", gap="xsmall"):
                low, high = map(int, RANGES["seed"])
                key = selection.widget("seed", sel.seed)
                st.number_input(
                    say.label("seed"), low, high, key=key, width=104, disabled=greedy, help=say("help_seed")
                )
                if st.button(say.label("draw_again"), key="draw_again", disabled=greedy):
                    selection.update(seed=(sel.seed + 1) % high)
                    st.rerun()
            _reason(page, "seed", idle)


def _label(page: Page, name: str, value: str) -> str:
    return page.say.label("control_value", name=page.say.plain(name), value=value)


def _reason(page: Page, name: str, idle: Mapping[str, str]) -> None:
    """Why the control changes nothing; the line keeps its room, so that nothing moves when it comes and goes."""
    reason = idle.get("repetition_penalty" if name == "penalty" else name, "off")
    text = "" if reason == "off" else page.say.html(f"idle_{reason}")
    st.html(f'<p class="atlas-idle" data-control="{name}" role="status">{text}</p>')


def _slider(
    page: Page,
    name: str,
    step: float,
    high: float,
    idle: Mapping[str, str],
    *,
    low: float = 0.0,
    off: float | None = None,
) -> None:
    value = float(getattr(page.sel, name))
    with st.container(width=WIDTH, gap=None):
        st.slider(
            _label(page, name, page.say.plain("off") if value == off else f"{value:.2f}"),
            min(low, value),  # a link may ask for more than the slider offers
            max(high, value),
            key=selection.widget(name, value),
            step=step,
            format="%.2f",
            disabled=idle.get(name) == "greedy",
            help=page.say(f"help_{name}"),
        )
        _reason(page, name, idle)


def _options(page: Page, name: str, options: tuple[int, ...], idle: Mapping[str, str], *, off: int) -> None:
    value = getattr(page.sel, name)
    with st.container(width=WIDTH, gap=None):
        st.select_slider(
            _label(page, name, page.say.plain("off") if value == off else f"{value:,}"),
            sorted({*options, value}),
            key=selection.widget(name, value),
            format_func=lambda n: page.say.label("off") if n == off else f"{n:,}",
            disabled=idle.get(name) == "greedy",
            help=page.say(f"help_{name}"),
        )
        _reason(page, name, idle)
