"""ALiBi: a slope for every head, and what one head loses with distance."""

import numpy as np
import streamlit as st

from model.analysis.position_views import alibi_matrix, alibi_shares, slopes
from pages.kit import captions, figures, numbers, position_data, selection, show
from pages.kit.choices import RANGES
from pages.kit.components import Panel, matrices
from pages.kit.figures import Series, Step, Term
from pages.kit.page import Page
from pages.kit.show import Kind, Scale

MAX_TOKENS = 64  # of the bias matrix
FAR = 64  # places back that the shares are drawn to


def draw(page: Page) -> None:
    """Controls, the slopes, one head's bias over the text, and how far each head sees."""
    say, sel, palette = page.say, page.sel, page.palette
    head = min(sel.slope, sel.slopes - 1)
    with st.container(key="controls_scheme", horizontal=True, vertical_alignment="bottom"):
        low, high = map(int, RANGES["slopes"])
        key = selection.widget("slopes", sel.slopes)
        st.number_input(say.label("choose_slopes"), low, high, key=key, width=150)
        key = selection.widget("slope", head)
        st.number_input(say.label("choose_slope"), 0, max(sel.slopes - 1, 1), key=key, width=130)
    st.markdown(say("alibi"))
    of_heads = slopes(sel.slopes)
    left, right = st.columns([1, 1.2], gap="large")
    with left, st.container(key="section_slopes", gap="xsmall"):
        _draw_slopes(page, of_heads, head)
    with right, st.container(key="section_bias", gap="xsmall"):
        _draw_bias(page, head)
    far = MAX_TOKENS // 2
    terms = [Term(f"−{_slope(of_heads[head])} · {far} = "), Term(f"−{_slope(of_heads[head] * far)}", "result")]
    step = Step(say.plain("step_bias", n=far), terms)
    st.html(figures.arithmetic([Term(say.plain("head_number", n=head), "query")], [step], palette))
    with st.container(key="section_reach", gap="xsmall"):
        _draw_reach(page, of_heads, head)


def _draw_slopes(page: Page, of_heads: list[float], head: int) -> None:
    say, count = page.say, len(of_heads)
    st.markdown(say("slopes_title", n=count))
    shown = list(range(count)) if count <= 16 else sorted({*range(15), head, count - 1})
    fig = figures.bars(
        [say.plain("head_number", n=one) for one in shown],
        [of_heads[one] for one in shown],
        page.palette,
        highlight=shown.index(head),
        printed=[_slope(of_heads[one]) for one in shown],
    )
    power = count & (count - 1) == 0
    text = say.plain(
        "slopes_caption_power" if power else "slopes_caption_other", n=count, lower=2 ** (count.bit_length() - 1)
    )
    if count == position_data.models()["alibi"].config.n_heads:
        text += " · " + say.plain("slopes_own")
    caption = show.caption_html(Kind.COMPUTED, say.plain("computed"), text, palette=page.palette)
    show.figure(fig, "slopes", alt=say.plain("slopes_alt"), caption=caption)


def _draw_bias(page: Page, head: int) -> None:
    say, sel, ids = page.say, page.sel, position_data.ids_of(page)[:MAX_TOKENS]
    labels = position_data.models()["alibi"].tokenizer.labels(ids)
    values = alibi_matrix(len(ids), sel.slopes, head).numpy()
    end = figures.symmetric_limit(values)
    panel = Panel(
        say.plain("bias_title", n=head), values, end, "", np.triu(np.ones(values.shape, bool), 1), "diverging", digits=3
    )
    position = position_data.position(sel, len(ids) - 1)
    words = captions.matrix_words(page, say.plain("bias_alt", n=head))
    matrices(
        [panel],
        labels,
        labels,
        position,
        None,
        key="bias",
        words=words,
        on_change=lambda picked: selection.update(position=picked.query),
    )
    scale = Scale(say.plain("bias"), numbers.signed(-end), "0", page.palette.diverging[:2])
    show.caption(Kind.COMPUTED, say.plain("computed"), say.plain("bias_caption"), scale, masked=say.plain("masked"))


def _draw_reach(page: Page, of_heads: list[float], head: int) -> None:
    say, palette, count = page.say, page.palette, len(of_heads)
    chosen = list(dict.fromkeys((0, head, count - 1)))
    colours = (palette.key, palette.accent, palette.value)
    series = []
    for one in chosen:
        colour = palette.accent if one == head else colours[0 if one == 0 else 2]
        dash = "solid" if one == head else "dash"
        series.append(Series(say.plain("head_number", n=one), alibi_shares(count, one, FAR).numpy(), colour, dash))
    st.markdown(say("reach_title"))
    fig = figures.lines(
        np.arange(FAR), series, palette, x_title=say.plain("places_back"), y_title=say.plain("share"), height=230
    )
    caption = show.caption_html(
        Kind.COMPUTED, say.plain("computed"), say.plain("reach_caption", n=FAR), palette=palette
    )
    show.figure(fig, "reach", alt=say.plain("reach_alt"), caption=caption)


def _slope(value: float) -> str:
    """A slope as the paper writes it where it is a power of two, else in digits."""
    exact = 1 / value if 0 < value < 1 else 0
    return f"1/{exact:.0f}" if exact and exact == int(exact) and exact <= 4096 else numbers.three_digits(value)
