"""The curves that a neuron's input can go through, and a run's neurons on the one that its model has."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.palette import Palette

_DOT = {"size": 7, "opacity": 0.75, "symbol": "circle-open", "line": {"width": 1.3}}
_STROKES = {"solid": (26,), "dot": (2, 3), "dash": (7, 4), "dashdot": (7, 3, 2, 3), "longdash": (11, 4)}
_DASHES = tuple(_STROKES)[1:]


@dataclass(frozen=True)
class Curve:
    """One curve. name: as the legend has it; values: one per place; own: whether it is the model's."""

    name: str
    values: Sequence[float] | np.ndarray
    own: bool = False


def activation_curves(
    x: Sequence[float] | np.ndarray,
    curves: Sequence[Curve],
    points: tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray],
    palette: Palette,
    *,
    chosen: int,
    chosen_name: str,
    point_word: str = "",
    x_title: str = "",
    y_title: str = "",
    height: int = 330,
) -> go.Figure:
    """`curves` over `x`: the model's own solid, the others in muted dashes; a dot per neuron, the chosen one large.

    points: the neurons' inputs and the curve's values for them, in the order of their numbers.
    chosen: number of the neuron to mark, with `chosen_name` beside it. point_word: before a neuron's number on hover.
    Raises ValueError if a curve or the points differ in length.
    """
    places = np.asarray(x, dtype=np.float64)
    into, out = (np.asarray(values, dtype=np.float64) for values in points)
    drawn = [np.asarray(curve.values, dtype=np.float64) for curve in curves]
    if into.shape != out.shape or any(values.shape != places.shape for values in drawn):
        raise ValueError("a curve needs a value for every place, a point an input and a value")
    fig = style.figure(palette, height, left=46, right=16, top=28 if y_title else 10, bottom=44 if x_title else 28)
    for curve, values, look in zip(curves, drawn, _looks(curves, palette), strict=True):
        fig.add_trace(
            go.Scatter(
                x=places,
                y=values,
                mode="lines",
                name=style.label(curve.name, 40),
                line={"color": look[0], "dash": look[1], "width": 1.6 if curve.own else 1.3},
                hovertemplate="%{fullData.name}<br>%{x:.3~g} → %{y:.3~g}<extra></extra>",
            )
        )
    word = style.literal(point_word)
    for which, marker in (
        (
            np.flatnonzero(np.arange(into.size) != chosen),
            _DOT | {"color": style.mix(palette.accent, palette.paper, 0.35)},
        ),
        (np.array([chosen]), {"size": 12, "color": palette.key, "line": {"width": 2, "color": palette.paper}}),
    ):
        fig.add_trace(
            go.Scatter(
                x=into[which],
                y=out[which],
                mode="markers",
                marker=marker,
                customdata=which,
                hovertemplate=f"{word} %{{customdata}}<br>%{{x:.4~g}} → %{{y:.4~g}}<extra></extra>",
            )
        )
    right = into[chosen] > (places[0] + places[-1]) / 2
    fig.add_annotation(
        x=float(into[chosen]),
        y=float(out[chosen]),
        xanchor="right" if right else "left",
        xshift=-11 if right else 11,
        yshift=10,
        showarrow=False,
        text=f"<b>{style.literal(chosen_name)}</b>",
        font={"size": style.TEXT_SIZE, "color": palette.key},
        bgcolor=style.faded(palette.paper, 0.8),
    )
    hair = {"type": "line", "layer": "below", "line": {"color": palette.line, "width": 1}}
    across = {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": 0, "y1": 0}
    upright = {"xref": "x", "yref": "paper", "x0": 0, "x1": 0, "y0": 0, "y1": 1}
    fig.update_layout(shapes=[hair | across, hair | upright])
    air = 0.03 * float(places[-1] - places[0])
    fig.update_xaxes(style.value_axis(palette, range=[float(places[0]) - air, float(places[-1]) + air], nticks=9))
    fig.update_xaxes(title={"text": style.literal(x_title), "standoff": 8})
    fig.update_yaxes(style.value_axis(palette, nticks=6))
    if y_title:
        style.title_above(fig, palette, style.literal(y_title), left=38, up=5)
    return fig


def curve_legend(curves: Sequence[Curve], palette: Palette) -> str:
    """The names of the curves beside a piece of each one's line, as HTML; all text is escaped."""
    items = "".join(
        f'<span style="white-space:nowrap;{"color:" + palette.ink + ";font-weight:600" if curve.own else ""}">'
        f'<i style="display:inline-block;width:26px;height:2px;margin:0 7px 4px 0;vertical-align:middle;'
        f'background:{_stroke(colour, _STROKES[dash])}"></i>'
        f"{html.escape(style.visible(curve.name))}</span>"
        for curve, (colour, dash) in zip(curves, _looks(curves, palette), strict=True)
    )
    look = f"display:flex;flex-wrap:wrap;gap:2px 18px;color:{palette.muted};font-size:13px;line-height:1.5"
    return f'<div style="{look}">{items}</div>'


def _looks(curves: Sequence[Curve], palette: Palette) -> list[tuple[str, str]]:
    """Colour and dash of each curve."""
    dashes = iter(_DASHES * len(curves))
    return [(palette.accent, "solid") if curve.own else (palette.muted, next(dashes)) for curve in curves]


def _stroke(colour: str, pieces: Sequence[int]) -> str:
    """A dashed line as a CSS background: pieces in pixels, drawn and left out in turn."""
    stops, at = [], 0
    for index, length in enumerate(pieces):
        stops.append(f"{'transparent' if index % 2 else colour} {at}px {at + length}px")
        at += length
    return f"repeating-linear-gradient(90deg,{','.join(stops)})"
