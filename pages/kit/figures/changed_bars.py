"""Horizontal bars of the same rows in two runs: a wide pale one for the one, a narrow strong one for the other."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.figures.cost_changes import pair_colours
from pages.kit.palette import Palette

_ROW = 30


def changed_bars(
    labels: Sequence[str],
    before: Sequence[float] | np.ndarray,
    after: Sequence[float] | np.ndarray,
    palette: Palette,
    *,
    before_name: str,
    after_name: str,
    printed: Sequence[str] | None = None,
    highlight: int | None = None,
) -> go.Figure:
    """A pair of bars per row, first on top; legend: `cost_legend`.

    labels: names as people read them; repeated ones stay separate rows. before, after: numbers ≥ 0.
    printed: what stands behind a pair. highlight: the row whose name is drawn in the accent.
    Raises ValueError if the lengths differ.
    """
    pair = [np.asarray(values, dtype=np.float64) for values in (before, after)]
    texts = ["" for _ in labels] if printed is None else [style.literal(text) for text in printed]
    if any(values.shape != (len(labels),) for values in pair) or len(texts) != len(labels):
        raise ValueError(f"{len(labels)} labels for {pair[0].shape} and {pair[1].shape} values")
    colour = pair_colours(palette)
    ticks = [style.label(text) for text in labels]
    if highlight is not None and 0 <= highlight < len(labels):
        ticks[highlight] = style.coloured(ticks[highlight], palette.accent, bold=True)
    room = max((len(text) for text in (printed or [])), default=0) * 8 + 14
    height = max(1, len(labels)) * _ROW + 8
    fig = style.figure(palette, height, left=style.label_margin(list(labels)), right=room, top=4, bottom=4)
    rows = list(range(len(labels)))
    for values, name, width, kind in zip(
        pair, (before_name, after_name), (0.78, 0.32), ("before", "after"), strict=True
    ):
        fig.add_trace(
            go.Bar(
                x=values,
                y=rows,
                orientation="h",
                width=width,
                name=style.label(name, 60),
                marker={"color": colour[kind], "cornerradius": 3, "line": {"width": 0}},
                customdata=[style.label(text, 60) for text in labels],
                hovertemplate="%{customdata}<br>%{fullData.name}: %{x:.4f}<extra></extra>",
            )
        )
    top = max((float(values.max(initial=0.0)) for values in pair), default=0.0) or 1.0
    notes = [
        {
            "x": max(float(values[row]) for values in pair),
            "y": row,
            "xanchor": "left",
            "xshift": 6,
            "showarrow": False,
            "text": text,
            "font": {"family": style.MONO, "size": style.TEXT_SIZE, "color": palette.ink},
        }
        for row, text in zip(rows, texts, strict=True)
    ]
    fig.update_layout(barmode="overlay", annotations=notes)
    fig.update_xaxes(style.bare_axis(range=[0, top]))
    fig.update_yaxes(style.token_axis(palette, ticks, range=[len(labels) - 0.5, -0.5], ticklabelstandoff=6))
    fig.add_shape(type="line", xref="x", yref="paper", x0=0, x1=0, y0=0, y1=1, line={"color": palette.line, "width": 1})
    return fig
