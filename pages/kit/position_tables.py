"""Positions as a table that is added to the tokens: sinusoidal and learned."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from model.analysis.position_views import (
    pair_of_wavelength,
    position_table,
    row_lengths,
    similarity,
    sinusoid,
    sinusoids,
    table_difference,
    wavelengths,
)
from model.config import Positions
from model.language import LanguageModel
from pages.kit import figures, numbers, position_data, selection, show
from pages.kit.choices import MAX_POSITIONS, TABLE_WIDTHS, THETAS
from pages.kit.figures import Mark, Series, Step, Term
from pages.kit.page import Page
from pages.kit.show import Kind, Scale

PAPER_THETA = 10_000.0
OPENING_WAVELENGTH = 32  # positions: a pair that is seen to turn


def model_of(page: Page, scheme: Positions) -> LanguageModel:
    """The loaded model where it has this scheme, else the small one that has."""
    return page.lm if page.lm.config.positions == scheme else position_data.models()[scheme]


def position_slider(page: Page) -> int:
    """The control of the position; returns the chosen one."""
    position = position_data.position(page.sel, MAX_POSITIONS - 1)
    if page.sel.position is None:
        position = min(position, len(position_data.ids_of(page)) - 1)
    st.slider(
        page.say.label("choose_position"), 0, MAX_POSITIONS - 1, key=selection.widget("position", position), width=260
    )
    return position


def pair_input(page: Page, count: int, suggested: int) -> int:
    """The control of the pair of features; returns the chosen one."""
    pair = min(suggested if page.sel.pair is None else page.sel.pair, count - 1)
    st.number_input(page.say.label("choose_pair"), 0, count - 1, key=selection.widget("pair", pair), width=130)
    return pair


def theta_options(page: Page, value: float) -> None:
    """The control of the base."""
    st.select_slider(
        page.say.label("choose_theta"),
        sorted({*THETAS, value}),
        key=selection.widget("theta", value),
        format_func=lambda n: f"{n:,.0f}",
        width=200,
    )


def draw_sinusoidal(page: Page) -> None:
    """The table, one pair of its columns, how fast each pair turns, and how alike two rows are."""
    say, sel, palette = page.say, page.sel, page.palette
    lm = model_of(page, "sinusoidal")
    width = lm.config.d_model if sel.table_width is None else sel.table_width
    theta = PAPER_THETA if sel.theta is None else sel.theta
    waves = wavelengths(width, theta).numpy()
    with st.container(key="controls_scheme", horizontal=True, vertical_alignment="bottom"):
        position = position_slider(page)
        pair = pair_input(page, width // 2, pair_of_wavelength(width, theta, OPENING_WAVELENGTH))
        theta_options(page, theta)
        st.select_slider(
            say.label("choose_table_width"),
            sorted({*TABLE_WIDTHS, width}),
            key=selection.widget("table_width", width),
            width=200,
        )
    table = sinusoids(MAX_POSITIONS, width, theta).numpy()
    st.markdown(say("sinusoidal"))
    columns = (2 * pair, 2 * pair + 1)
    left, right = st.columns([1.15, 1], gap="large")
    with left, st.container(key="section_table", gap="xsmall"):
        st.markdown(say("table_title"))
        _draw_table(page, table, position, columns)
        _draw_check(page, lm, table, theta)
    with right, st.container(key="section_pair", gap="xsmall"):
        st.markdown(say("pair_title", pair=pair, first=columns[0], second=columns[1]))
        at = np.arange(MAX_POSITIONS)
        series = [
            Series(say.plain("sine"), table[:, columns[0]], palette.accent),
            Series(say.plain("cosine"), table[:, columns[1]], palette.key, "dash"),
        ]
        fig = figures.lines(
            at,
            series,
            palette,
            x_title=say.plain("position"),
            marks=[Mark(position, f"{position}")],
            y_range=(-1.1, 1.1),
            height=200,
        )
        text = say.plain("pair_caption", wave=numbers.three_digits(float(waves[pair])))
        _show(page, Kind.COMPUTED, fig, "pair", say.plain("pair_alt"), text)
        fig = figures.lines(
            np.arange(width // 2),
            [Series(say.plain("wavelength"), waves, palette.value, points=width <= 64)],
            palette,
            x_title=say.plain("pair"),
            y_title=say.plain("wavelength"),
            log_y=True,
            marks=[Mark(pair, f"{pair}")],
            height=190,
        )
        ends = {"first": numbers.three_digits(float(waves[0])), "last": numbers.three_digits(float(waves[-1]))}
        _show(page, Kind.COMPUTED, fig, "waves", say.plain("waves_alt"), say.plain("waves_caption", **ends))
    st.html(figures.arithmetic(_who(page, position), _cell(page, position, pair, width, theta), palette))
    _draw_dots(page, table, position, Kind.COMPUTED, say.plain("dots_caption", position=position, half=width // 2))


def other_base(page: Page) -> dict[str, str]:
    """The slowest wavelength with the paper's base and with a small one, at the chosen width."""
    width = model_of(page, "sinusoidal").config.d_model if page.sel.table_width is None else page.sel.table_width
    own, other = (float(wavelengths(width, theta)[-1]) for theta in (PAPER_THETA, THETAS[0]))
    return {"own": numbers.three_digits(own), "wave": numbers.three_digits(other), "base": f"{THETAS[0]:.0f}"}


def draw_learned(page: Page) -> None:
    """The table that a model learned, how long its rows are, and how alike two of them are."""
    say, palette = page.say, page.palette
    lm = model_of(page, "learned")
    rows = min(MAX_POSITIONS, lm.config.max_positions)
    table = position_table(lm.transformer, rows).numpy()
    small = lm is not page.lm
    trained = position_data.curves().trained_length if small else rows
    with st.container(key="controls_scheme", horizontal=True, vertical_alignment="bottom"):
        position = min(position_slider(page), rows - 1)
    st.markdown(say("learned_small" if small else "learned_loaded", rows=lm.config.max_positions, trained=trained))
    left, right = st.columns([1.15, 1], gap="large")
    border = (trained, say.plain("never_trained")) if trained < rows else None
    with left, st.container(key="section_table", gap="xsmall"):
        st.markdown(say("table_title"))
        _draw_table(page, table, position, (), border, Kind.MEASURED)
    with right, st.container(key="section_rows", gap="xsmall"):
        lengths = row_lengths(table)
        st.markdown(say("rows_title"))
        marks = [Mark(trained, say.plain("trained_to", n=trained))] if trained < rows else []
        fig = figures.lines(
            np.arange(rows),
            [Series(say.plain("row_length"), lengths, palette.accent)],
            palette,
            x_title=say.plain("position"),
            y_title=say.plain("row_length"),
            marks=marks,
            height=290,
        )
        means = [
            numbers.three_digits(float(part.mean())) for part in (lengths[:trained], lengths[trained:]) if part.size
        ]
        section = "rows_caption" if len(means) == 2 else "rows_caption_all"
        text = say.plain(section, trained=means[0], rest=means[-1])
        _show(page, Kind.MEASURED, fig, "row_lengths", say.plain("rows_alt"), text)
    text = say.plain("dots_caption_learned", position=position)
    _draw_dots(page, table, position, Kind.MEASURED, text, marks)


def _draw_table(
    page: Page,
    table: np.ndarray,
    position: int,
    columns: tuple[int, ...],
    border: tuple[float, str] | None = None,
    kind: Kind = Kind.COMPUTED,
) -> None:
    say = page.say
    fig = figures.position_table(
        table,
        page.palette,
        x_title=say.plain("feature"),
        y_title=say.plain("position"),
        row=position,
        columns=columns,
        border=border,
    )
    end = figures.symmetric_limit(table)
    scale = Scale("", numbers.signed(-end), numbers.signed(end), page.palette.diverging)
    text = say.plain("table_caption", rows=table.shape[0], columns=table.shape[1], position=position)
    caption = show.caption_html(kind, say.plain(kind.value), text, scale, palette=page.palette)
    show.figure(fig, "table", alt=say.plain("table_alt"), caption=caption)


def _draw_check(page: Page, lm: LanguageModel, table: np.ndarray, theta: float) -> None:
    """Whether the shown table is the one that a model adds."""
    say = page.say
    if theta != PAPER_THETA or table.shape[1] != lm.config.d_model:
        st.caption(say("table_other", width=lm.config.d_model, theta=f"{PAPER_THETA:,.0f}"))
        return
    difference = numbers.power_of_ten(table_difference(lm.transformer, table))
    st.caption(say("table_own", difference=difference))


def _draw_dots(
    page: Page, table: np.ndarray, position: int, kind: Kind, text: str, marks: list[Mark] | None = None
) -> None:
    """How alike the chosen row is to every other."""
    say, palette = page.say, page.palette
    row = similarity(table, position)
    with st.container(key="section_dots", gap="xsmall"):
        st.markdown(say("dots_title", position=position))
        fig = figures.lines(
            np.arange(len(table)),
            [Series(say.plain("dot_product"), row, palette.accent)],
            palette,
            x_title=say.plain("other_position"),
            y_title=say.plain("dot_product"),
            marks=[Mark(position, f"{position}"), *(marks or [])],
            height=220,
        )
        _show(page, kind, fig, "dots", say.plain("dots_alt", position=position), text)


def _who(page: Page, position: int) -> list[Term]:
    return [Term(page.say.plain("position_number", n=position), "query")]


def _cell(page: Page, position: int, pair: int, width: int, theta: float) -> list[Step]:
    """The two numbers of the chosen pair at the chosen position."""
    say = page.say
    exponent = 2 * pair / width
    angle = position / theta**exponent
    steps = [
        Step(
            say.plain("step_angle"),
            [
                Term(f"{position} ÷ {theta:,.0f}"),
                Term(f"{2 * pair}/{width}", raised=True),
                Term(f" = {numbers.three_digits(angle)}"),
            ],
        )
    ]
    for column, name in ((2 * pair, "sin"), (2 * pair + 1, "cos")):
        value = numbers.signed(sinusoid(position, column, width, theta), 3)
        terms = [Term(f"{name}({numbers.three_digits(angle)}) = "), Term(value, "result")]
        steps.append(Step(say.plain("step_column", column=column), terms))
    return steps


def _show(page: Page, kind: Kind, fig: go.Figure, key: str, alt: str, text: str) -> None:
    caption = show.caption_html(kind, page.say.plain(kind.value), text, palette=page.palette)
    show.figure(fig, key, alt=alt, caption=caption)
