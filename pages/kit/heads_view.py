"""How attention is drawn on the page about heads, the same in every figure: scale, threshold, with or without a key."""

from functools import partial

import streamlit as st

from model.analysis.interest import Place
from model.analysis.mixing import View, masked_cells, mean_pattern, without_first
from pages.kit import captions, chosen_rows, mixture, selection, show
from pages.kit.components import Panel, matrices
from pages.kit.page import Page
from pages.kit.show import Kind

LOG_FOOT = 1e-4  # the weight at the foot of the logarithmic scale
THRESHOLDS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


def draw_settings(page: Page) -> None:
    """How attention is drawn, the same in every figure of the page."""
    say, sel = page.say, page.sel
    st.segmented_control(
        say.label("scale"),
        selection.SCALES,
        key=selection.widget("scale", sel.scale),
        format_func=lambda name: say.label(f"scale_{name}"),
        required=True,
    )
    with st.container(key="slider_threshold", width=170, gap=None):
        below = say.plain("threshold_below", value=f"{sel.threshold:g}")
        printed = say.plain("off") if sel.threshold == 0 else below
        st.markdown(say.label("control_value", name=say.plain("threshold"), value=printed))
        st.select_slider(
            say.label("threshold"),
            sorted({*THRESHOLDS, sel.threshold}),
            key=selection.widget("threshold", sel.threshold),
            format_func=lambda value: say.label("off") if value == 0 else f"{value:g}",
            label_visibility="collapsed",
        )
    st.toggle(
        say.label("without_first", token=page.run.labels[0]),
        key=selection.widget("without_first", sel.without_first),
    )


def seen(page: Page, heads: list[mixture.Head]) -> View:
    """The mean of these heads' patterns, without the first token where the reader wants that."""
    return as_wanted(page, View(mean_pattern(page.run, heads), masked_cells(page.run)))


def as_wanted(page: Page, view: View) -> View:
    """The view, without the first token where the reader wants that."""
    return without_first(view.weights, view.hidden) if page.sel.without_first else view


def left_out(page: Page) -> str:
    """The word for the cells of the first token where the reader wants it left out, else ""."""
    return page.say.plain("left_out") if page.sel.without_first else ""


def tell_hidden(page: Page, place: Place) -> str:
    """Why a cell has no weight: its key is left out, or the mask forbids it."""
    labels = page.run.labels
    section = "cell_left_out" if page.sel.without_first and place.key == 0 else "cell_hidden"
    return page.say(section, query=labels[place.query], key=labels[place.key])


def draw_panel(page: Page, view: View, shown: Place, key: str, label: str, title: str = "panel_title") -> None:
    """One matrix on the page's scale, the cell that is told of marked; `title` is the section that names it."""
    labels, rows = page.run.labels, chosen_rows.of(page, view)
    panel = Panel(
        page.say.plain(title),
        rows.weights,
        high=1.0,
        subtitle=page.say.plain("panel_without_first" if page.sel.without_first else "panel_rows", token=labels[0]),
        masked=rows.hidden,
        log_from=LOG_FOOT if page.sel.scale == "log" else None,
        threshold=page.sel.threshold,
        left_out=left_out(page),
    )
    matrices(
        [panel],
        rows.labels(page),
        labels,
        rows.index(shown.query),
        shown.key,
        key=key,
        words=captions.matrix_words(page, label),
        side=360,
        on_change=partial(rows.pick, shown),
    )


def caption(page: Page, *said: str, view: View | None = None, kind: Kind = Kind.MEASURED, name: str = "pattern") -> str:
    """The line under a figure: what it shows, what is left out, and of a `view` in colours the scale and the mask.

    `name` is the section that says what the colours stand for.
    """
    say, sel = page.say, page.sel
    if sel.without_first:
        said += (say.plain("caption_without_first", token=page.run.labels[0]),)
    if sel.threshold:
        said += (say.plain("caption_threshold", threshold=f"{sel.threshold:g}"),)
    text = " · ".join(part for part in said if part)
    word = say.plain(kind.value)
    if view is None:
        return show.caption_html(kind, word, text)
    low = f"≤ {LOG_FOOT:g}" if sel.scale == "log" else "0"
    scale = show.Scale(say.plain(name), low, "1", page.palette.sequential)
    masked = view.hidden[:, 1:] if sel.without_first else view.hidden
    return show.caption_html(
        kind, word, text, scale, masked=say.plain("masked") if masked.any() else "", left_out=left_out(page)
    )
