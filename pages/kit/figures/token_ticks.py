"""The tokens below upright bars, one a bar, slanted where they are long."""

import html
import math
from collections.abc import Sequence

import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.palette import Palette

_CELLS = 12  # of a label, before it is cut
_SLANT = 50  # degrees
_BAR, _LEFT, _RIGHT = 16, 42, 14  # pixels that a bar takes at least, and those beside all of them
MAX_DRAWN = 128  # labels that plotly draws: it measures each of them, which takes a browser 2 ms


def bars_figure(labels: Sequence[str], palette: Palette, top: int, highlight: int | None = None) -> go.Figure:
    """An empty figure for one bar per label, at 0, 1, 2, …; `highlight` is the label in the query colour.

    top: pixels above the bars. `layout.meta["min_width"]` is the width in pixels below which the figure should scroll
    instead of shrink, `max_width` the one above which bars would only grow fat. Of more than `MAX_DRAWN` labels, which
    scroll on any screen, both are the same, and the labels are one picture.
    """
    count = len(labels)
    deepest = max((style.columns(style.short(text, _CELLS)) for text in labels), default=1)
    flat = deepest <= 2  # a Chinese character or two letters fit under a bar upright
    bottom = 28 if flat else round(deepest * 8 * 0.78) + 22
    fig = style.figure(palette, 190 + bottom, left=_LEFT, right=_RIGHT, top=top, bottom=bottom)
    width = 60 + _BAR * count
    span = [-0.6, count - 0.4]
    if count <= MAX_DRAWN:
        ticks = [style.label(text, _CELLS) for text in labels]
        if highlight is not None and 0 <= highlight < count:
            ticks[highlight] = style.coloured(ticks[highlight], palette.query, bold=True)
        fig.update_xaxes(style.token_axis(palette, ticks, range=span, tickangle=0 if flat else -_SLANT))
        fig.update_xaxes(tickfont={"size": style.SMALL_SIZE})
        fig.update_layout(meta={"min_width": width, "max_width": max(320, 60 + 64 * count)})
        return fig
    fig.update_xaxes(style.bare_axis(type="linear", range=span))
    bars = width - _LEFT - _RIGHT  # pixels that they have together
    step = bars / (span[1] - span[0])
    places = [_LEFT + step * (index - span[0]) for index in range(count)]
    fig.add_layout_image(
        source=_picture(labels, places, (width, bottom), palette, highlight, flat),
        xref="paper",
        yref="paper",
        x=-_LEFT / bars,
        y=0,
        sizex=width / bars,
        sizey=bottom / (190 - top),
        sizing="stretch",
    )
    fig.update_layout(meta={"min_width": width, "max_width": width})
    return fig


def _picture(
    labels: Sequence[str],
    places: Sequence[float],
    size: tuple[int, int],
    palette: Palette,
    highlight: int | None,
    flat: bool,
) -> str:
    """The labels as an SVG picture of that size in pixels, each at its place, as a data address."""
    turn = 0.0 if flat else math.radians(_SLANT)
    below, beside = (16, 0) if flat else (13, 4)  # where a label ends, seen from the foot of its bar
    texts = []
    for index, (text, place) in enumerate(zip(labels, places, strict=True)):
        # The place as the turned axes have it, which all labels share.
        x = (place + beside) * math.cos(turn) - below * math.sin(turn)
        y = (place + beside) * math.sin(turn) + below * math.cos(turn)
        look = f" fill='{palette.query}' font-weight='bold'" if index == highlight else ""
        texts.append(f"<text x='{x:.0f}' y='{y:.0f}'{look}>{html.escape(style.short(text, _CELLS))}</text>")
    width, height = size
    family, anchor = html.escape(style.MONO), "middle" if flat else "end"
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}'>"
        f"<g transform='rotate({0 if flat else -_SLANT})' font-family='{family}' font-size='{style.SMALL_SIZE}'"
        f" fill='{palette.ink}' text-anchor='{anchor}'>{''.join(texts)}</g></svg>"
    )
    # Of what an address may not have, or JSON writes longer; base64 would be longer still.
    escaped = {ord(sign): f"%{ord(sign):02X}" for sign in "%#<>&"}
    return "data:image/svg+xml;charset=utf-8," + svg.translate(escaped)
