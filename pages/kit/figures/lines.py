"""Curves over a numeric axis, named at their ends."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.palette import Palette


@dataclass(frozen=True)
class Series:
    """One curve. values: one number per x, NaN leaves a gap. dash: "solid", "dash" or "dot". points: draw dots.

    line: False draws dots alone. named: False leaves the name at the end out.
    """

    name: str
    values: Sequence[float] | np.ndarray
    colour: str | None = None
    dash: str = "solid"
    points: bool = False
    line: bool = True
    named: bool = True


@dataclass(frozen=True)
class Mark:
    """A vertical hairline at `x` with a short text at its top."""

    x: float
    text: str
    colour: str | None = None


def lines(
    x: Sequence[float] | np.ndarray,
    series: Sequence[Series],
    palette: Palette,
    *,
    x_title: str = "",
    y_title: str = "",
    log_x: bool = False,
    log_y: bool = False,
    y_range: tuple[float, float] | None = None,
    marks: Sequence[Mark] = (),
    height: int = 260,
    decimals: int = 3,
    x_ticks: Sequence[float] | None = None,
) -> go.Figure:
    """Curves of `series` over `x`, each named in its own colour at its last point.

    x: (n,) numbers; every series has n values. On a log axis values ≤ 0 are left out.
    y_range: lowest and highest value shown (in units of the data, also on a log axis); default: fits the data,
        and starts at 0 on a linear axis when no value is negative.
    Raises ValueError if a series has another length than `x`.
    """
    places = np.asarray(x, dtype=np.float64)
    curves = [np.asarray(one.values, dtype=np.float64) for one in series]
    for one, curve in zip(series, curves, strict=True):
        if curve.shape != places.shape:
            raise ValueError(f"{one.name}: {curve.shape} values for {places.shape} places")
    if log_y:
        curves = [np.where(curve > 0, curve, np.nan) for curve in curves]
    low, high = y_range or _range(curves, log_y)
    colours = [one.colour or _colour(palette, index) for index, one in enumerate(series)]
    names = [style.short(one.name, 22) if one.named else "" for one in series]
    top, bottom = (26 if marks else 12) + (16 if y_title else 0), 44 if x_title else 28
    right = max((style.columns(name) for name in names), default=0) * 7 + 18 if len(series) > 1 else 14

    fig = style.figure(palette, height, left=52, right=right, top=top, bottom=bottom)
    for one, curve, colour in zip(series, curves, colours, strict=True):
        fig.add_trace(
            go.Scatter(
                x=places,
                y=curve,
                name=style.label(one.name, 22),
                mode="lines+markers" if one.points and one.line else "lines" if one.line else "markers",
                line={"color": colour, "width": 2, "dash": one.dash},
                marker={"color": colour, "size": 6 if one.line else 4},
                hovertemplate=f"%{{fullData.name}}<br>%{{x:,}} → %{{y:.{decimals}~g}}<extra></extra>",
            )
        )
    if len(series) > 1:
        _name_ends(fig, palette, places, curves, names, colours, (low, high), log_x, log_y, height - top - bottom)
    for mark in marks:
        at = math.log10(mark.x) if log_x else mark.x
        colour = mark.colour or palette.muted
        fig.add_shape(
            type="line",
            xref="x",
            yref="paper",
            x0=mark.x,
            x1=mark.x,
            y0=0,
            y1=1,
            line={"color": colour, "width": 1, "dash": "dot"},
        )
        fig.add_annotation(
            x=at,
            y=1,
            xref="x",
            yref="paper",
            yanchor="bottom",
            showarrow=False,
            text=style.label(mark.text, 28),
            font={"size": style.SMALL_SIZE, "color": colour},
        )
    ticks: dict[str, Any] = {}
    if x_ticks is not None:
        ticks = {"tickmode": "array", "tickvals": list(x_ticks), "ticktext": [f"{tick:,.6g}" for tick in x_ticks]}
    width = _x_range(places, log_x)
    fig.update_xaxes(style.value_axis(palette, type="log" if log_x else "linear", showgrid=False, range=width, **ticks))
    fig.update_xaxes(title={"text": style.literal(x_title), "standoff": 8})
    span = [math.log10(low), math.log10(high)] if log_y else [low, high]
    fig.update_yaxes(style.value_axis(palette, type="log" if log_y else "linear", range=span, nticks=6))
    if log_y:
        step = max(1, math.ceil((span[1] - span[0]) / 5))
        powers = range(step * math.ceil(span[0] / step), math.floor(span[1]) + 1, step)  # 1 is among them
        fig.update_yaxes(tickmode="array", tickvals=[10.0**p for p in powers], ticktext=[_power(p) for p in powers])
        if len(powers) < 2:  # too few to read a value by
            between = [m * 10.0**p for p in range(math.floor(span[0]), math.ceil(span[1])) for m in (1, 2, 5)]
            shown = [value for value in between if span[0] <= math.log10(value) <= span[1]]
            fig.update_yaxes(tickvals=shown, ticktext=[f"{value:,.6g}" for value in shown])
    if y_title:
        style.title_above(fig, palette, style.literal(y_title), left=44, up=20 if marks else 5)
    return fig


def _colour(palette: Palette, index: int) -> str:
    return (palette.accent, palette.key, palette.value, palette.query, palette.muted)[index % 5]


def _range(curves: list[np.ndarray], log: bool) -> tuple[float, float]:
    """Lowest and highest value to show, with a little air; (0, 1) without any finite value."""
    finite = np.concatenate([curve[np.isfinite(curve)] for curve in curves]) if curves else np.array([])
    if finite.size == 0:
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = float(finite.min()), float(finite.max())
    if log:
        return low / 1.3, high * 1.3
    air = 0.06 * ((high - min(low, 0.0)) or abs(high) or 1.0)
    return (0.0 if low >= 0 else low - air), high + air


def _x_range(places: np.ndarray, log: bool) -> list[float]:
    """Range of the x axis in axis units, with a little air for dots at the ends."""
    finite = places[np.isfinite(places) & ((places > 0) | (not log))]
    ends = np.array([finite.min(), finite.max()]) if finite.size else np.array([1.0, 10.0])
    low, high = np.log10(ends) if log else ends
    air = 0.02 * float(high - low) or 0.5
    return [float(low) - air, float(high) + air]


def _power(exponent: int) -> str:
    """Tick text of 10 to the `exponent`: written out while short (0.001, 1,000), else as a power."""
    if -4 < exponent < 0:
        return f"{10.0**exponent:.{-exponent}f}"
    if 0 <= exponent < 5:
        return f"{10**exponent:,}"
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _name_ends(
    fig: go.Figure,
    palette: Palette,
    places: np.ndarray,
    curves: list[np.ndarray],
    names: list[str],
    colours: list[str],
    span: tuple[float, float],
    log_x: bool,
    log_y: bool,
    pixels: int,
) -> None:
    """Write each curve's name behind its last finite point, pushed apart so that no two overlap."""
    measure = np.log10 if log_y else np.asarray
    low, high = measure(np.asarray(span, dtype=np.float64))
    ends = []
    for index, curve in enumerate(curves):
        finite = np.flatnonzero(np.isfinite(curve))
        if finite.size and names[index]:
            last = int(finite[-1])
            ends.append((float((measure(curve[last]) - low) / ((high - low) or 1)) * pixels, index, last))
    ends.sort()
    heights = [height for height, _, _ in ends]
    for _ in range(20 * len(heights)):
        for lower in range(len(heights) - 1):
            lack = 16 - (heights[lower + 1] - heights[lower])
            if lack > 0:
                heights[lower] -= lack / 2
                heights[lower + 1] += lack / 2
    for height, (wanted, index, last) in zip(heights, ends, strict=True):
        at_x = math.log10(places[last]) if log_x else float(places[last])
        at_y = math.log10(curves[index][last]) if log_y else float(curves[index][last])
        fig.add_annotation(
            x=at_x,
            y=at_y,
            xref="x",
            yref="y",
            xanchor="left",
            yanchor="middle",
            xshift=7,
            yshift=height - wanted,
            showarrow=False,
            text=style.literal(names[index]),
            font={"size": style.SMALL_SIZE, "color": colours[index]},
            bgcolor=palette.paper if last < len(places) - 1 else None,  # other curves run on behind it
        )
