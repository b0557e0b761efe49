"""Controls that several pages share. Their values live in the selection, so they outlive a page change."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from model.ledger import Control, Reason
from pages.kit import selection
from pages.kit.page import Page
from pages.kit.selection import RANGES

MAX_BUTTONS = 16  # more than that do not fit in a row
WIDTH = 140  # of a slider
_TOP_K = (0, 1, 2, 3, 5, 10, 20, 40, 100, 200, 500, 1_000)


def layer_and_head(page: Page) -> tuple[int, int]:
    """Rows of numbered buttons for layer and head, set to `page.place`; returns the chosen ones.

    To have them in one line with controls of the page's own, call it in `st.container(horizontal=True)`.
    """
    place, say = page.place, page.say
    rows = {"layer": (place.layer, page.lm.config.n_layers), "head": (place.head, page.lm.config.n_heads)}
    for name, (value, count) in rows.items():

        def changes(new: int, name: str = name) -> dict[str, int]:
            # The other one is shown, so it is chosen too: from now on it stays.
            return {"layer": place.layer, "head": place.head, name: new}

        numbered(name, say.label(name), value, count, changes)
    return place.layer, place.head


def numbered(
    name: str, label: str, value: int, count: int, changes: Callable[[int], Mapping[str, Any]] | None = None
) -> None:
    """A choice of the field `name` among 0, 1, …, `count` - 1: buttons in a row while they fit, else a list.

    `changes`: as `selection.widget` has it. Buttons and list are widgets of two names: of one name, the value would be
    lost where a model with few layers follows one with many, and the first taken for the reader's choice.
    """
    changes = changes or (lambda new: {name: new})
    if count <= MAX_BUTTONS:
        st.segmented_control(label, range(count), key=selection.widget(name, value, changes), required=True)
    else:
        st.selectbox(label, range(count), key=selection.widget(f"{name}_list", value, changes), width=96)


@dataclass(frozen=True)
class _Idle:
    """Which controls change nothing, and why. keep_room: the line for it is there even when it is empty."""

    page: Page
    reasons: Mapping[str, str]
    keep_room: bool

    def greedy(self, name: str) -> bool:
        """Whether the control has nothing to do because nothing is drawn."""
        return self._of(name) == "greedy"

    def draw(self, name: str) -> None:
        """Write the reason below the control."""
        reason = self._of(name)
        text = "" if reason == "off" else self.page.say.html(f"idle_{reason}")
        kept = " kept" if self.keep_room else ""
        st.html(f'<p class="atlas-idle{kept}" data-control="{name}" role="status">{text}</p>')

    def _of(self, name: str) -> str:
        return self.reasons.get("repetition_penalty" if name == "penalty" else name, "off")


def sampling_controls(page: Page, reasons: Mapping[Control, Reason] | None = None) -> None:
    """Temperature, top-p, top-k, min-p, repetition penalty and seed, in one line.

    reasons: why the value of a control changes nothing, as `Ledger.no_effect` says it; it is written below the
    control. Without it only what holds for every text is said.
    """
    sel, say = page.sel, page.say
    greedy = dict.fromkeys(("top_k", "top_p", "min_p", "seed"), "greedy") if sel.temperature == 0 else {}
    idle = _Idle(page, dict[str, str]((reasons or {}).items()) | greedy, keep_room=reasons is not None)
    with st.container(key="controls_sampling", horizontal=True, vertical_alignment="top"):
        _slider(page, "temperature", 0.05, 2.0, idle)
        _slider(page, "top_p", 0.01, 1.0, idle, off=1.0)
        _options(page, "top_k", _TOP_K, idle, off=0)
        _slider(page, "min_p", 0.01, 0.5, idle, off=0.0)
        _slider(page, "penalty", 0.05, 2.0, idle, low=1.0, off=1.0, width=WIDTH + 32)
        with st.container(width=212, gap=None):
            with st.container(key="seed_and_draw", horizontal=True, vertical_alignment="bottom", gap="xsmall"):
                low, high = map(int, RANGES["seed"])
                drawn = not idle.greedy("seed")
                with st.container(width=104, gap="xsmall"):
                    st.markdown(say.label("seed"), help=say("help_seed"))  # a label of its own keeps its ? far away
                    st.number_input(
                        say.label("seed"),
                        low,
                        high,
                        key=selection.widget("seed", sel.seed),
                        disabled=not drawn,
                        label_visibility="collapsed",
                    )
                st.button(
                    say.label("draw_again"),
                    key="draw_again",
                    disabled=not drawn,
                    on_click=lambda: selection.update(seed=(sel.seed + 1) % (high + 1)),
                )
            idle.draw("seed")


def label(page: Page, name: str, value: str) -> None:
    """The visible label of a slider, with its value. The slider's own, for screen readers, is the name alone."""
    st.markdown(page.say.label("control_value", name=page.say.plain(name), value=value), help=page.say(f"help_{name}"))


def _slider(
    page: Page,
    name: str,
    step: float,
    high: float,
    idle: _Idle,
    *,
    low: float = 0.0,
    off: float | None = None,
    width: int = WIDTH,
) -> None:
    value = float(getattr(page.sel, name))
    with st.container(width=width, gap=None):
        label(page, name, page.say.plain("off") if value == off else f"{value:.2f}")
        st.slider(
            page.say.label(name),
            min(low, value),  # a link may ask for more than the slider offers
            max(high, value),
            key=selection.widget(name, value),
            step=step,
            format="%.2f",
            disabled=idle.greedy(name),
            label_visibility="collapsed",
        )
        idle.draw(name)


def _options(page: Page, name: str, options: tuple[int, ...], idle: _Idle, *, off: int) -> None:
    say, value = page.say, getattr(page.sel, name)
    with st.container(width=WIDTH, gap=None):
        label(page, name, say.plain("off") if value == off else f"{value:,}")
        st.select_slider(
            say.label(name),
            sorted({*options, value}),
            key=selection.widget(name, value),
            format_func=lambda n: say.label("off") if n == off else f"{n:,}",
            disabled=idle.greedy(name),
            label_visibility="collapsed",
        )
        idle.draw(name)
