"""RoPE: the query and the key of a run, turned pair by pair, and the score that only their distance decides."""

import math

import numpy as np
import streamlit as st

from model.analysis.position_views import rope_angles
from model.analysis.rope_steps import DISTANCES, SHIFTS, RopeScore, rope_score
from model.trace import Trace
from pages.kit import controls, figures, numbers, show, tokens
from pages.kit.choices import MAX_POSITIONS, THETAS
from pages.kit.figures import Mark, Series, Step, Term, Turn
from pages.kit.page import Page
from pages.kit.position_tables import pair_input, theta_options
from pages.kit.show import Kind, Scale


def draw(page: Page) -> None:
    """Controls and tokens, one pair as arrows, every pair's angle, and the score by distance and by shift."""
    say, sel, place, config = page.say, page.sel, page.place, page.lm.config
    if config.d_head % 2:
        st.markdown(say("rope_odd", d=config.d_head))
        return
    theta = config.rope_theta if sel.theta is None else sel.theta
    of = _score(page.run, *place, theta)
    with st.container(key="controls_scheme", horizontal=True, vertical_alignment="bottom"):
        controls.layer_and_head(page)
        pair = pair_input(page, config.d_head // 2, of.most_changed)
        theta_options(page, theta)
    tokens.strip(page, query=place.query, key_index=place.key)
    st.markdown(say("rope", d=config.d_head, pairs=config.d_head // 2))
    section = "rope_own" if config.positions == "rope" else "rope_not_own"
    st.markdown(say(section if of.own or config.positions != "rope" else "rope_other_theta", theta=f"{theta:,.0f}"))
    left, right = st.columns([1, 1.35], gap="large")
    with left, st.container(key="section_turn", gap="xsmall"):
        _draw_pair(page, of, pair)
    with right, st.container(key="section_angles", gap="xsmall"):
        _draw_angles(page, of, pair, theta)
    st.html(figures.arithmetic(_who(page), _steps(page, of, pair), page.palette, note=say.plain("rope_note")))
    left, right = st.columns([1.35, 1], gap="large")
    with left, st.container(key="section_distance", gap="xsmall"):
        _draw_distance(page, of)
    with right, st.container(key="section_shifts", gap="xsmall"):
        _draw_shifts(page, of)


def other_base(page: Page) -> dict[str, str]:
    """The score of the chosen query and key with the model's own base and with a small one."""
    bases = page.lm.config.rope_theta, THETAS[0]
    own, other = (_score(page.run, *page.place, theta).score for theta in bases)
    return {"own": numbers.signed(own), "other": numbers.signed(other), "base": f"{bases[1]:.0f}"}


def _names(page: Page) -> tuple[str, str]:
    place, labels = page.place, page.run.labels
    return f"q {labels[place.query]}", f"k {labels[place.key]}"


def _draw_pair(page: Page, of: RopeScore, pair: int) -> None:
    say, palette = page.say, page.palette
    q, k, turned_q, turned_k = (v.tolist() for v in of.pair(pair))
    frequency = float(of.frequencies[pair])
    names = _names(page)
    turns = [
        Turn(names[0], q, turned_q, of.query * frequency, palette.query),
        Turn(names[1], k, turned_k, of.key * frequency, palette.key),
    ]
    half = len(of.q) // 2
    st.markdown(say("turn_title", pair=pair, first=pair, second=pair + half))
    kind = Kind.MEASURED if of.own else Kind.COMPUTED
    text = say.plain("turn_caption", layer=page.place.layer, head=page.place.head)
    caption = show.caption_html(kind, say.plain(kind.value), text, palette=palette)
    show.figure(figures.rotation(turns, palette), "turn", alt=say.plain("turn_alt", pair=pair), caption=caption)


def _draw_angles(page: Page, of: RopeScore, pair: int, theta: float) -> None:
    say = page.say
    rows = min(MAX_POSITIONS, max(32, len(page.run.tokens)))
    angles, cosines = (part.numpy() for part in rope_angles(rows, len(of.q), theta))
    st.markdown(say("angles_title"))
    fig = figures.position_table(
        cosines,
        page.palette,
        x_title=say.plain("pair"),
        y_title=say.plain("position"),
        row=min(of.query, rows - 1),
        columns=(pair,),
        shown=angles,
        height=330,
    )
    text = say.plain("angles_caption", fast=numbers.three_digits(2 * math.pi), slow=numbers.three_digits(_slowest(of)))
    scale = Scale(say.plain("cosine"), "−1", "1", page.palette.diverging)
    caption = show.caption_html(Kind.COMPUTED, say.plain("computed"), text, scale, palette=page.palette)
    show.figure(fig, "angles", alt=say.plain("angles_alt"), caption=caption)


def _slowest(of: RopeScore) -> float:
    return 2 * math.pi / float(of.frequencies[-1])


def _who(page: Page) -> list[Term]:
    names = _names(page)
    return [Term(names[0], "query"), Term(" → ", "muted"), Term(names[1], "key")]


def _steps(page: Page, of: RopeScore, pair: int) -> list[Step]:
    """The chosen pair's way into the score."""
    say, frequency = page.say, float(of.frequencies[pair])
    _, _, turned_q, turned_k = of.pair(pair)
    speed = [
        Term(f"{of.theta:,.0f}"),
        Term(f"−{2 * pair}/{len(of.q)}", raised=True),
        Term(f" = {numbers.three_digits(frequency)}"),
    ]
    both = [
        Term(f"{of.query} · {numbers.three_digits(frequency)} = {numbers.three_digits(of.query * frequency)}", "query"),
        Term(", "),
        Term(f"{of.key} · {numbers.three_digits(frequency)} = {numbers.three_digits(of.key * frequency)}", "key"),
    ]
    root = len(of.q)
    products = " + ".join(
        f"{_bracketed(float(a))}·{_bracketed(float(b))}" for a, b in zip(turned_q, turned_k, strict=True)
    )
    share = [Term(f"({products}) ÷ √{root} = "), Term(numbers.signed(float(of.parts[pair]), 3), "result")]
    whole = [Term(f"{numbers.signed(of.plain, 3)} → "), Term(numbers.signed(of.score, 3), "result")]
    return [
        Step(say.plain("step_speed"), speed),
        Step(say.plain("step_angles"), both),
        Step(say.plain("step_part", pair=pair), share),
        Step(say.plain("step_whole"), whole),
    ]


def _bracketed(value: float) -> str:
    printed = numbers.signed(value)
    return f"({printed})" if printed.startswith("−") else printed


def _draw_distance(page: Page, of: RopeScore) -> None:
    say, palette = page.say, page.palette
    distance = of.query - of.key
    st.markdown(say("distance_title"))
    marks = [Mark(distance, say.plain("distance_mark", n=distance))] if 0 <= distance < DISTANCES else []
    fig = figures.lines(
        np.arange(DISTANCES),
        [Series(say.plain("score"), of.by_distance.numpy(), palette.accent)],
        palette,
        x_title=say.plain("distance"),
        y_title=say.plain("score"),
        marks=marks,
        height=250,
    )
    text = say.plain("distance_caption", plain=numbers.signed(of.plain, 3))
    caption = show.caption_html(Kind.COMPUTED, say.plain("computed"), text, palette=palette)
    show.figure(fig, "distance", alt=say.plain("distance_alt"), caption=caption)


def _draw_shifts(page: Page, of: RopeScore) -> None:
    say = page.say
    st.markdown(say("shifts_title"))
    first, exact = of.by_shift[0]
    rows = []
    for shift, (single, double) in zip(SHIFTS, of.by_shift, strict=True):
        name = f"{of.query + shift:,},\u00a0{of.key + shift:,}"
        cells = [numbers.signed(single, 4), _difference(single - first), _difference(double - exact)]
        rows.append((name, cells))
    columns = ("shift_positions", "score", "shift_single", "shift_double")
    titles, alt = [say.plain(c) for c in columns], say.plain("shifts_alt")
    with st.container(key="shifts_table"):
        st.html(figures.number_table(titles, rows, page.palette, description=alt, scrolls=True))
    show.caption(Kind.COMPUTED, say.plain("computed"), say.plain("shifts_caption"))


def _difference(value: float) -> str:
    return numbers.power_of_ten(abs(value))


@st.cache_data(show_spinner=False, max_entries=64, hash_funcs={Trace: lambda run: run.id})
def _score(run: Trace, layer: int, head: int, query: int, key: int, theta: float) -> RopeScore:
    return rope_score(run, layer, head, query, key, theta)
