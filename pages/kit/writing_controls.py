"""What the reader chooses of writing: sampling, length, the ways that are compared; and the text to begin with."""

from functools import partial

import streamlit as st

from pages.kit import controls, selection, tokens, writing
from pages.kit.choices import OPTIONS
from pages.kit.page import Page
from pages.kit.selection import RANGES
from pages.kit.writing import Writing
from pages.kit.writing_texts import name


def draw(page: Page, prompt: tuple[int, ...]) -> None:
    """Sampling in one line; below it the length and the ways."""
    say, sel = page.say, page.sel
    controls.sampling_controls(page)
    most = min(writing.MAX_LENGTH, writing.room(page.lm, prompt))
    with st.container(key="controls_length", horizontal=True, vertical_alignment="top"):
        if most > 1:
            length = min(sel.length, most)
            with st.container(width=controls.WIDTH, gap=None):
                controls.label(page, "length", f"{length}")
                st.slider(
                    say.label("length"),
                    1,
                    most,
                    key=selection.widget("length", length),
                    label_visibility="collapsed",
                )
        st.segmented_control(
            say.label("greedy"),
            (False, True),
            format_func=lambda on: say.label("on" if on else "off"),
            key=selection.widget("greedy", sel.greedy),
            help=say("help_greedy"),
            required=True,
        )
        st.segmented_control(
            say.label("samples"),
            range(4),
            key=selection.widget("samples", sel.samples),
            help=say("help_samples"),
            required=True,
            disabled=sel.temperature == 0,
        )
        st.segmented_control(
            say.label("beams"),
            OPTIONS["beams"],
            format_func=lambda width: f"{width}" if width else say.label("off"),
            key=selection.widget("beams", sel.beams),
            help=say("help_beams"),
            required=True,
        )
        if sel.beams:
            _draw_alpha(page)
    if sel.temperature == 0 and sel.samples:
        st.caption(say("greedy_only"))
    if sel.beams and (sel.temperature != 1 or sel.top_k or sel.top_p < 1 or sel.min_p or sel.penalty != 1):
        st.caption(say("beam_own_probabilities"))
    if 0 < most < sel.length:
        draw_remark(page, "room")


def _draw_alpha(page: Page) -> None:
    say, alpha = page.say, page.sel.alpha
    with st.container(width=controls.WIDTH + 32, gap=None):
        controls.label(page, "alpha", f"{alpha:.2f}")
        low, high = RANGES["alpha"]
        st.slider(
            say.label("alpha"),
            low,
            high,
            key=selection.widget("alpha", float(alpha)),
            step=0.1,
            format="%.2f",
            label_visibility="collapsed",
        )


def draw_remark(page: Page, section: str) -> None:
    """What the model's context leaves room for."""
    n, limit = len(page.run.tokens), page.lm.config.max_positions
    values = {"n": n, "limit": limit, "room": limit - n, "model": page.lm.name}
    st.html(f'<p class="atlas-remark" role="status">{page.say.html(section, **values)}</p>')


def draw_prompt(page: Page, work: Writing) -> None:
    """The text to continue, and where it was rewound to."""
    say, last, ids = page.say, len(page.run.tokens) - 1, tuple(page.run.tokens)
    tokens.strip(page, query=last if page.sel.query is None else page.sel.query, ask_next=True)
    at = work.rewound(ids)
    if at is None:
        return
    section = "rewound" if work.is_text(at[0], ids) else "rewound_hypothesis"
    with st.container(key="rewound", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(say(section, place=at[1] + 1, row=name(page, work, at[0])), width="content")
        st.button(say.label("write_on"), key="write_on", on_click=writing.forget)
        st.button(say.label("back_to_text"), key="back_here", on_click=partial(selection.update, ids=None))
