"""A cache as a grid: a row a token, its key in the left half, its value in the right one; rows to come are empty."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.figures.value_strip import symmetric_limit
from pages.kit.palette import Palette

_HEIGHT = 430  # pixels that many rows share
_ROW = (1.0, 17.0)  # smallest and largest height of a row
_GAP = 2  # columns between keys and values


def cache_grid(
    labels: Sequence[str],
    keys: np.ndarray,
    values: np.ndarray,
    slots: int,
    palette: Palette,
    *,
    names: tuple[str, str],
    free: str,
    highlight: int | None = None,
    limits: tuple[float, float] | None = None,
) -> go.Figure:
    """One head's cache, both halves on diverging scales of their own around 0.

    labels: one token a filled row; as many as have room are written. keys, values: (rows, features).
    slots: rows that the cache has room for; those not yet filled are framed, with the text `free` in them.
    names: of the two halves. highlight: a row that is framed. limits: ends of the two scales.
    Raises ValueError if the shapes do not fit each other or the slots.
    """
    n = len(labels)
    if keys.shape != values.shape or keys.ndim != 2 or keys.shape[0] != n or not n <= slots:
        raise ValueError(f"keys {keys.shape}, values {values.shape}, {n} labels and {slots} slots do not fit")
    row = min(max(_HEIGHT / max(slots, 1), _ROW[0]), _ROW[1])
    width = keys.shape[1]
    every = max(1, int(np.ceil(15 / row)))
    shown = list(range(0, n, every))
    if n and shown[-1] != n - 1:
        shown = [*(place for place in shown if n - 1 - place >= every), n - 1]
    top = 26
    fig = style.figure(
        palette,
        round(row * slots) + top + 8,
        left=style.label_margin([labels[place] for place in shown], 12),
        right=8,
        top=top,
        bottom=8,
    )
    ends = limits or (symmetric_limit(keys), symmetric_limit(values))
    halves = ((keys, 0, names[0], palette.key, ends[0]), (values, width + _GAP, names[1], palette.value, ends[1]))
    hover = [style.label(label, 24) for label in labels]
    for half, start, name, colour, end in halves:
        fig.add_trace(
            go.Heatmap(
                z=half.astype(np.float32),
                x0=start,
                dx=1,
                y0=0,
                dy=1,
                zmin=-end,
                zmax=end,
                colorscale=style.colourscale(palette.diverging),
                showscale=False,
                ygap=1 if row >= 8 else 0,
                customdata=np.broadcast_to(np.array(hover, dtype=object)[:, None], half.shape).tolist()
                if row >= 8
                else None,
                hovertemplate=("%{customdata}<br>" if row >= 8 else "") + "%{y}: %{z:.3f}<extra></extra>",
            )
        )
        edges = {"x0": start - 0.5, "x1": start + width - 0.5}
        fig.add_shape(type="rect", **edges, y0=-0.5, y1=slots - 0.5, line={"color": palette.line, "width": 1})
        if n < slots:
            fig.add_shape(
                type="rect",
                **edges,
                y0=n - 0.5,
                y1=slots - 0.5,
                layer="below",
                fillcolor=style.faded(palette.muted, 0.08),
                line={"color": palette.muted, "width": 1, "dash": "dot"},
            )
        fig.add_annotation(
            x=start - 0.5,
            y=1,
            xref="x",
            yref="paper",
            xanchor="left",
            yanchor="bottom",
            yshift=4,
            showarrow=False,
            text=style.coloured(style.literal(name), colour, bold=True),
            font={"size": style.SMALL_SIZE},
        )
    if highlight is not None and highlight < n:
        fig.add_shape(
            type="rect",
            x0=-0.5,
            x1=2 * width + _GAP - 0.5,
            y0=highlight - 0.5,
            y1=highlight + 0.5,
            line={"color": palette.query, "width": 2},
        )
    if (slots - n) * row >= 20:
        fig.add_annotation(
            x=width + _GAP / 2 - 0.5,
            y=(n + slots - 1) / 2,
            showarrow=False,
            text=style.literal(free),
            font={"size": style.SMALL_SIZE, "color": palette.muted},
        )
    fig.update_xaxes(style.bare_axis(range=[-0.5, 2 * width + _GAP - 0.5]))
    ticks = [style.label(labels[place], 12) for place in shown]
    fig.update_yaxes(
        style.token_axis(palette, ticks, range=[slots - 0.5, -0.5], ticklabelstandoff=6) | {"tickvals": shown}
    )
    return fig
