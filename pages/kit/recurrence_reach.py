"""How far back a gradient reaches and why it fades, and what the last state still has of the first token."""

import math

import numpy as np
import streamlit as st

from model.analysis.recurrence import KINDS
from model.analysis.recurrence_reach import ROUNDING
from pages.kit import figures, numbers, recurrence_data, selection, show
from pages.kit.figures import Series, Step, Term
from pages.kit.page import Page
from pages.kit.recurrence_data import Measured
from pages.kit.show import Kind

LOWEST = 1e-46  # below the smallest number that float32 has
LEFT_LOWEST = 1e-10  # of what is left in the last state, as far as it is drawn


def draw(page: Page, found: Measured) -> None:
    """The gradient with its reason beside it, then the last state."""
    say = page.say
    with st.container(key="section_reach", gap="xsmall"):
        st.header(say("reach_title"), anchor=False)
        st.markdown(say("reach"))
        _draw_reach(page, found)
        for sentence in _reached(page, found):
            st.markdown(sentence)
    left, right = st.columns(2, gap="large")
    with left, st.container(key="section_why", gap="xsmall"):
        _draw_why(page, found)
    with right, st.container(key="section_left", gap="xsmall"):
        _draw_left(page, found)
    with st.container(border=True, key="aside_try"):
        st.markdown(say("try_title"))
        st.markdown(say("try_own" if page.sel.cell_length else "try_long", n=len(page.run.tokens)))
        st.markdown(say("try_rnn" if page.sel.cell == "rnn" else "try_gates"))


def _draw_reach(page: Page, found: Measured) -> None:
    say = page.say
    colours = recurrence_data.colours(page)
    lowest = min(value for reach in found.reach.values() for value in reach.relative if value > 0)
    highest = max(value for reach in found.reach.values() for value in reach.relative)
    fig = figures.lines(
        range(found.length),
        [
            Series(
                say.plain(kind),
                found.reach[kind].relative,
                colours[kind],
                recurrence_data.dash(page, kind),
                points=found.length <= 32,
            )
            for kind in KINDS
        ],
        page.palette,
        x_title=say.plain("steps_back"),
        y_title=say.plain("reach_axis"),
        log_y=True,
        y_range=(max(lowest / 3, LOWEST), 3 * highest),
        height=340,
    )
    one = found.reach["attention"]
    source = say.plain("of_own_text" if page.sel.cell_length == 0 else "of_random_texts", n=found.length)
    text = say.plain("reach_caption", runs=one.runs, source=source)
    caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=page.palette)
    show.figure(fig, "reach", alt=say.plain("reach_alt"), caption=caption)


def _reached(page: Page, found: Measured) -> list[str]:
    """What the figure shows, in its own numbers."""
    say, reach = page.say, found.reach[page.sel.cell]
    if found.length < 3:
        return [say("reach_short", n=found.length)]
    name, n, last = say.plain(reach.kind), found.length - 1, reach.relative[-1]
    if reach.first_zero is not None:
        cell = say("reach_zero", name=name, steps=reach.first_zero)
    else:
        cell = say("reach_grown" if last > 1 else "reach_faded", name=name, n=n, value=_size(last))
    other = found.reach["attention"]
    level = "–" if other.factor is None else numbers.three_digits(other.factor)
    return [cell, say("reach_attention", n=n, value=_size(other.relative[-1]), factor=level)]


def _draw_why(page: Page, found: Measured) -> None:
    say, cell, factor = page.say, page.sel.cell, found.factor
    reach = found.reach[cell]
    st.header(say("why_title"), anchor=False)
    st.markdown(say("why"))
    st.markdown(say(f"formula_{cell}"))
    st.markdown(say(f"why_{cell}"))
    three = numbers.three_digits
    if cell == "rnn":
        steps = [
            Step(say.plain("step_slope"), [Term(three(factor.slope))]),
            Step(say.plain("step_radius"), [Term(three(factor.radius))]),
            Step(
                say.plain("step_product"),
                [Term(f"{three(factor.slope)} × {three(factor.radius)} = {three(factor.slope * factor.radius)}")],
            ),
        ]
    else:
        steps = [
            Step(say.plain("step_gate"), [Term(three(factor.gate))]),
            Step(say.plain("step_widest"), [Term(three(factor.widest))]),
        ]
    if reach.factor is not None:
        far = found.length - 1
        steps.append(Step(say.plain("step_measured"), [Term(three(reach.factor), "result")]))
        power = far * math.log10(reach.factor)
        value = numbers.power_of_ten(10**power) if power > -300 else "< 10⁻³⁰⁰"
        # More digits than above: the power makes a difference in the fifth one visible.
        terms = [Term(f"{reach.factor:.6f}"), Term(str(far), raised=True), Term(f" = {value}")]
        steps.append(Step(say.plain("step_power", n=far), terms))
    st.html(figures.arithmetic([Term(say.plain(cell))], steps, page.palette))
    show.caption(Kind.MEASURED, say.plain("measured"), say.plain("why_caption", runs=reach.runs))
    st.markdown(say("why_attention"))
    pairs = found.length * (found.length + 1) // 2
    st.markdown(say("attention_cost", n=found.length, pairs=pairs))
    address = selection.to_parameters(page.sel)
    with st.container(key="recurrence_links", horizontal=True):
        for there in ("flash", "cost"):
            st.page_link(f"pages/{there}.py", label=say.label(f"page_{there}"), query_params=address)


def _draw_left(page: Page, found: Measured) -> None:
    say = page.say
    colours = recurrence_data.colours(page)
    st.header(say("left_title"), anchor=False)
    st.markdown(say("left"))
    lengths = found.survival["attention"].lengths
    series = [
        Series(
            say.plain(kind),
            found.survival[kind].ratios,
            colours[kind],
            recurrence_data.dash(page, kind),
            points=kind in (page.sel.cell, "attention"),
        )
        for kind in KINDS
    ]
    highest = max(value for one in found.survival.values() for value in one.ratios)
    lowest = min((value for one in found.survival.values() for value in one.ratios if value > 0), default=1.0)
    if lowest < ROUNDING:
        series.append(Series(say.plain("rounding"), [ROUNDING] * len(lengths), page.palette.muted, "dash"))
    # Curves end where they leave the figure, so that their names stand in it.
    shown = [
        Series(one.name, np.where(np.asarray(one.values) < LEFT_LOWEST, np.nan, one.values), one.colour, one.dash,
               one.points) for one in series
    ]  # fmt: skip
    fig = figures.lines(
        lengths,
        shown,
        page.palette,
        x_title=say.plain("tokens_read"),
        y_title=say.plain("left_axis"),
        log_x=True,
        log_y=True,
        y_range=(max(lowest / 2, LEFT_LOWEST), 2 * highest),
        x_ticks=[n for n in lengths if n & (n - 1) == 0],
        height=320,
    )
    text = say.plain("left_caption", runs=found.survival["attention"].runs)
    caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=page.palette)
    show.figure(fig, "left", alt=say.plain("left_alt"), caption=caption)
    one, other = found.survival[page.sel.cell], found.survival["attention"]
    section = "left_found" if one.lost_at is None else "left_lost"
    values = {"value": _size(one.ratios[-1]), "attention": _size(other.ratios[-1]), "n": lengths[-1]}
    st.markdown(say(section, name=say.plain(one.kind), lost=one.lost_at or 0, **values))


def _size(value: float) -> str:
    """Plain digits while they say something, else a power of ten."""
    return numbers.three_digits(value) if value == 0 or 1e-3 <= value < 1e4 else numbers.power_of_ten(value)
