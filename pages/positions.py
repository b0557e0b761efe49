"""How does it know the order?"""

import numpy as np
import streamlit as st

from pages.kit import (
    captions,
    figures,
    numbers,
    position_bias,
    position_data,
    position_lengths,
    position_order,
    position_tables,
    position_turning,
    selection,
    show,
)
from pages.kit.choices import POSITION_SCHEMES
from pages.kit.components import Panel, Picked, matrices
from pages.kit.page import Page, opening
from pages.kit.show import Kind, Scale

MAX_TOKENS = 18  # of the text that the four are drawn on: so many fit beside each other
DETAILS = {
    "sinusoidal": position_tables.draw_sinusoidal,
    "learned": position_tables.draw_learned,
    "rope": position_turning.draw,
    "alibi": position_bias.draw,
}


def draw(page: Page) -> None:
    position_order.draw(page)
    draw_side_by_side(page)
    draw_details(page)
    position_lengths.draw(page)


def draw_side_by_side(page: Page) -> None:
    """What each scheme says about two places, and where models that have it look in the reader's text."""
    say, sel = page.say, page.sel
    own, models = position_data.ids_of(page), position_data.models()
    ids = own[:MAX_TOKENS]
    labels = models["none"].tokenizer.labels(ids)
    position = position_data.position(sel, len(ids) - 1)
    head = min(sel.slope, models["alibi"].config.n_heads - 1)
    says = {scheme: position_data.matrix(scheme, len(ids), head) for scheme in POSITION_SCHEMES}
    looks = {scheme: position_data.attention(scheme, ids) for scheme in POSITION_SCHEMES}
    future = np.triu(np.ones((len(ids), len(ids)), bool), 1)
    with st.container(key="section_side", gap="xsmall"):
        st.header(say("side_title"), anchor=False)
        st.markdown(say("side"))
        if len(own) > len(ids):
            st.markdown(say("side_part", n=len(ids), of=len(own)))
        panels = [
            Panel(
                say.plain(f"scheme_{scheme}"),
                values,
                figures.symmetric_limit(values),
                say.plain(f"says_{scheme}", head=head),
                scale="diverging",
                digits=2,
            )
            for scheme, values in says.items()
        ]
        _matrices(page, panels, labels, position, "says", say.plain("says_alt"))
        ends = ", ".join(
            f"{say.plain(f'scheme_{scheme}')} ±{numbers.three_digits(figures.symmetric_limit(values))}"
            for scheme, values in says.items()
        )
        scale = Scale("", "−", "+", page.palette.diverging)
        show.caption(Kind.COMPUTED, say.plain("computed"), say.plain("says_caption", ends=ends), scale)
        st.markdown(say("looks"))
        panels = [
            Panel(say.plain(f"scheme_{scheme}"), values, 1.0, say.plain("looks_subtitle"), future)
            for scheme, values in looks.items()
        ]
        _matrices(page, panels, labels, position, "looks", say.plain("looks_alt"))
        show.caption(
            Kind.MEASURED,
            say.plain("measured"),
            say.plain("looks_caption", layers=models["rope"].config.n_layers, heads=models["rope"].config.n_heads),
            Scale(say.plain("pattern"), "0", "1", page.palette.sequential),
            masked=say.plain("masked"),
        )


def _matrices(page: Page, panels: list[Panel], labels: list[str], position: int, key: str, label: str) -> None:
    words = captions.matrix_words(page, label)
    matrices(panels, labels, labels, position, None, key=key, words=words, side=230, on_change=_choose)


def _choose(picked: Picked) -> None:
    selection.update(position=picked.query)


def draw_details(page: Page) -> None:
    """One scheme from near: the reader's choice, else the loaded model's own."""
    say, own = page.say, page.lm.config.positions
    scheme = page.sel.scheme or (own if own in POSITION_SCHEMES else POSITION_SCHEMES[0])
    with st.container(key="section_scheme", gap="small"):
        st.header(say("details_title"), anchor=False)
        st.segmented_control(
            say.label("choose_scheme"),
            POSITION_SCHEMES,
            key=selection.widget("scheme", scheme),
            format_func=lambda name: say.label(f"scheme_{name}"),
            required=True,
        )
        DETAILS[scheme](page)
        with st.container(border=True, key="aside_try"):
            st.markdown(say("try_title"))
            loaded = "_loaded" if scheme == own == "learned" else ""
            st.markdown(say(f"try_{scheme}{loaded}", **_to_try(page, scheme)))


def _to_try(page: Page, scheme: str) -> dict[str, str]:
    """What the thing to try changes, measured here."""
    if scheme == "sinusoidal":
        return position_tables.other_base(page)
    if scheme == "rope":
        return position_turning.other_base(page)
    return {"trained": str(position_data.curves().trained_length)}


draw(opening("positions"))
