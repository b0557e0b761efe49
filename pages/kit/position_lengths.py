"""Past the trained length: what each scheme loses at every position, on held-out stories and on a text of choice."""

import numpy as np
import streamlit as st

from model.analysis.position_models import SCHEMES
from pages.kit import figures, numbers, position_data, selection, show
from pages.kit.choices import SAMPLES
from pages.kit.figures import Mark, Series
from pages.kit.page import Page
from pages.kit.show import Kind

SPAN = 16  # positions that a number of the table averages


def draw(page: Page) -> None:
    """The measured curves with their numbers, then the same measured here."""
    say = page.say
    with st.container(key="section_lengths", gap="xsmall"):
        curves = position_data.curves()
        st.header(say("lengths_title"), anchor=False)
        st.markdown(say("lengths", trained=curves.trained_length, length=curves.length))
        series = _series(page, curves.bits_per_token)
        fig = figures.lines(
            curves.middles,
            series,
            page.palette,
            x_title=say.plain("tokens_read"),
            y_title=say.plain("bits_per_token"),
            y_range=_range(list(curves.bits_per_token.values())),
            marks=[Mark(curves.trained_length, say.plain("trained_to", n=curves.trained_length))],
            height=340,
        )
        facts = {"windows": f"{curves.windows:,}", "length": curves.length, "bin": curves.bin}
        text = say.plain("lengths_caption", **facts)
        caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=page.palette)
        show.figure(fig, "lengths", alt=say.plain("lengths_alt"), caption=caption)
        _draw_table(page)
        st.markdown(say("lengths_found", trained=curves.trained_length, **_ends()))
        st.markdown(say("lengths_learned", trained=curves.trained_length, length=curves.length))
    _draw_here(page)


def _series(page: Page, values: dict[str, list[float]]) -> list[Series]:
    colours = {
        "sinusoidal": (page.palette.query, "dash"),
        "learned": (page.palette.key, "dot"),
        "rope": (page.palette.accent, "solid"),
        "alibi": (page.palette.value, "solid"),
        "none": (page.palette.muted, "dash"),
    }
    return [Series(page.say.plain(f"scheme_{scheme}"), values[scheme], *colours[scheme]) for scheme in SCHEMES]


def _range(curves: list[list[float]]) -> tuple[float, float]:
    """From a little below the lowest value to a little above the highest: the differences are what is to be seen."""
    values = np.concatenate([np.asarray(curve) for curve in curves])
    air = 0.06 * (float(np.ptp(values)) or 1.0)
    return max(0.0, float(values.min()) - air), float(values.max()) + air


def _ends() -> dict[str, str]:
    """What each scheme loses at the end of the trained length and at the far end, as the table has it."""
    curves = position_data.curves()
    ends = {"before": curves.trained_length, "after": curves.length}
    return {
        f"{scheme}_{name}": numbers.bits(curves.mean(scheme, stop - SPAN, stop))
        for scheme in SCHEMES
        for name, stop in ends.items()
    }


def _draw_table(page: Page) -> None:
    say, curves = page.say, position_data.curves()
    trained, length = curves.trained_length, curves.length
    spans = ((trained - SPAN, trained), (trained, trained + SPAN), (length - SPAN, length))
    rows = []
    for scheme in SCHEMES:
        means = [curves.mean(scheme, *span) for span in spans]
        cells = [*map(numbers.bits, means), numbers.bits(means[-1] - means[0])]
        rows.append((say.plain(f"scheme_{scheme}"), cells))
    titles = [say.plain("scheme"), *(say.plain("span", first=a + 1, last=b) for a, b in spans), say.plain("change")]
    with st.container(key="lengths_table"):
        table = figures.number_table(titles, rows, page.palette, description=say.plain("lengths_table_alt"))
        st.html(f'<div style="overflow-x:auto">{table}</div>')
        show.caption(Kind.MEASURED, say.plain("measured"), say.plain("lengths_table_caption"))


def _draw_here(page: Page) -> None:
    say, sel = page.say, page.sel
    with st.container(key="section_here", gap="xsmall"):
        st.header(say("here_title"), anchor=False)
        st.markdown(say("here"))
        st.segmented_control(
            say.label("choose_sample"),
            SAMPLES,
            key=selection.widget("sample", sel.sample),
            format_func=lambda name: say.label(f"sample_{name}"),
            required=True,
        )
        lm = position_data.models()["none"]
        ids = position_data.ids_of(page) if sel.sample == "own" else tuple(lm.tokenizer.encode(position_data.story()))
        found = position_data.loss_on(ids)
        one = found["none"]
        if len(one.bits) < 2:
            st.markdown(say("here_short", n=len(ids)))
            return
        trained = position_data.curves().trained_length
        marks = [Mark(trained, say.plain("trained_to", n=trained))] if one.read[-1] > trained else []
        bits: dict[str, list[float]] = {scheme: list(of.bits) for scheme, of in found.items()}
        fig = figures.lines(
            one.read,
            _series(page, bits),
            page.palette,
            x_title=say.plain("tokens_read"),
            y_title=say.plain("bits_per_token"),
            y_range=_range(list(bits.values())),
            marks=marks,
            height=300,
        )
        section = "here_caption" if one.windows > 1 else "here_caption_once"
        text = say.plain(section, n=len(ids), windows=one.windows)
        caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=page.palette)
        show.figure(fig, "here", alt=say.plain("here_alt"), caption=caption)
        if sel.sample == "own" and len(ids) <= trained:
            st.markdown(say("here_within", n=len(ids), trained=trained))
        if sel.sample == "story":
            with st.expander(say.label("read_story")):
                st.text(position_data.story())
