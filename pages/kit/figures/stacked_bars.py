"""Parts of a whole as one bar a row, piece after piece; a part that takes away lies left of zero."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from pages.kit import numbers
from pages.kit.figures import style
from pages.kit.palette import Palette

_ROW = 27
_ROOM = 0.075  # share of the width that a printed percentage needs


def stacked_bars(
    rows: Sequence[str],
    parts: Sequence[str],
    values: np.ndarray,
    palette: Palette,
    *,
    highlight: int | None = None,
) -> go.Figure:
    """One bar per row, a piece per part, its percentage in it where there is room, the parts' names above.

    rows: names of the rows, first on top. parts: at most three names. values: (rows, parts) shares of 1.
    highlight: the row whose name is drawn in the accent.
    Raises ValueError if the shape of `values` is another.
    """
    shares = np.asarray(values, dtype=np.float64)
    if shares.shape != (len(rows), len(parts)) or len(parts) > 3:
        raise ValueError(f"values of shape {shares.shape} for {len(rows)} rows and {len(parts)} parts")
    colours = (style.mix(palette.paper, palette.muted, 0.35), palette.accent, palette.value)
    low = float(np.minimum(shares, 0).sum(1).min(initial=0.0))
    high = max(1.0, float(np.maximum(shares, 0).sum(1).max(initial=0.0)))
    ticks = [style.label(name) for name in rows]
    if highlight is not None and 0 <= highlight < len(rows):
        ticks[highlight] = style.coloured(ticks[highlight], palette.accent, bold=True)
    fig = style.figure(
        palette, max(1, len(rows)) * _ROW + 40, left=style.label_margin(list(rows)), right=12, top=34, bottom=6
    )
    for index, name in enumerate(parts):
        column, colour = shares[:, index], colours[index]
        printed = [numbers.percent(share, 0) if abs(share) >= _ROOM * (high - low) else "" for share in column]
        fig.add_trace(
            go.Bar(
                x=column,
                y=list(range(len(rows))),
                orientation="h",
                name=style.label(name, 40),
                width=0.66,
                marker={"color": colour, "line": {"width": 1, "color": palette.paper}},
                text=printed,
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                textfont={"family": style.MONO, "size": style.SMALL_SIZE, "color": style.readable_on(colour)},
                customdata=[numbers.percent(share) for share in column],
                hovertemplate="%{fullData.name}<br>%{customdata}<extra></extra>",
            )
        )
    fig.update_layout(
        barmode="relative",
        showlegend=True,
        legend={
            "orientation": "h",
            "traceorder": "normal",
            "x": 0,
            "y": 1,
            "yanchor": "bottom",
            "xanchor": "left",
            "itemclick": False,
            "itemdoubleclick": False,
            "font": {"size": style.SMALL_SIZE, "color": palette.muted},
            "bgcolor": "rgba(0,0,0,0)",
        },
    )
    fig.update_xaxes(style.bare_axis(range=[low, high]))
    fig.update_yaxes(style.token_axis(palette, ticks, range=[len(rows) - 0.5, -0.5], ticklabelstandoff=6))
    fig.add_shape(type="line", xref="x", yref="paper", x0=0, x1=0, y0=0, y1=1, line={"color": palette.line, "width": 1})
    return fig
