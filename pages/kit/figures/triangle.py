"""Three words as the corners of a triangle whose sides are their distances: exact, as a triangle is flat."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.palette import Palette

_HEIGHT, _WIDTH = 270, 460
_SIDE, _EDGE = 70, 36  # pixels for a name beside and above or below
_SIDES = ((0, 1), (0, 2), (1, 2))


def triangle(
    names: Sequence[str],
    corners: np.ndarray,
    lengths: Sequence[str],
    palette: Palette,
    *,
    extent: tuple[float, float],
    shortest: int | None = None,
) -> go.Figure:
    """The triangle with its names at the corners and `lengths` at the sides AB, AC and BC.

    corners: (3, 2); A and B below, C above. extent: width and height of the largest of several triangles, so that
    they are drawn to one scale. shortest: the side that is drawn strong. Raises ValueError for other than three.
    """
    if corners.shape != (3, 2) or len(names) != 3 or len(lengths) != 3:
        raise ValueError(f"{len(names)} names and {len(lengths)} lengths for corners of shape {corners.shape}")
    fig = style.figure(palette, _HEIGHT, left=0, right=0, top=0, bottom=0)
    for side, (one, other) in enumerate(_SIDES):
        strong = side == shortest
        fig.add_trace(
            go.Scatter(
                x=corners[[one, other], 0],
                y=corners[[one, other], 1],
                mode="lines",
                line={"color": palette.accent if strong else palette.muted, "width": 3 if strong else 1.5},
                hoverinfo="skip",
            )
        )
    fig.add_trace(
        go.Scatter(
            x=corners[:, 0],
            y=corners[:, 1],
            mode="markers",
            marker={"color": palette.ink, "size": 10, "line": {"color": palette.paper, "width": 2}},
            customdata=[style.label(name, 60) for name in names],
            hovertemplate="%{customdata}<extra></extra>",
        )
    )
    for side, (one, other) in enumerate(_SIDES):
        middle = corners[[one, other]].mean(0)
        fig.add_annotation(
            x=float(middle[0]),
            y=float(middle[1]),
            text=f"<b>{style.literal(lengths[side])}</b>" if side == shortest else style.literal(lengths[side]),
            showarrow=False,
            bgcolor=palette.paper,
            borderpad=2,
            font={
                "family": style.MONO,
                "size": style.TEXT_SIZE,
                "color": palette.accent if side == shortest else palette.ink,
            },
        )
    for place, name in enumerate(names):
        outward = (-1, 1, 0)[place]  # A to the left, B to the right, C above
        x, y = corners[place].tolist()
        fig.add_annotation(
            x=x,
            y=y,
            xanchor=("right", "left", "center")[place],
            xshift=-20 * outward,
            yanchor="top" if outward else "bottom",
            yshift=-10 if outward else 10,
            text=style.label(name, 14),
            showarrow=False,
            font={"family": style.MONO, "size": 14, "color": palette.ink},
        )
    pixel = max(extent[0] / (_WIDTH - 2 * _SIDE), extent[1] / (_HEIGHT - 2 * _EDGE), 1e-6)
    middle = float(corners[:, 0].max() + corners[:, 0].min()) / 2
    reach = _WIDTH / 2 * pixel
    fig.update_xaxes(style.bare_axis(range=[middle - reach, middle + reach]))
    heights = [-_EDGE * pixel, (_HEIGHT - _EDGE) * pixel]
    fig.update_yaxes(style.bare_axis(range=heights, scaleanchor="x", scaleratio=1))
    fig.update_layout(meta={"max_width": _WIDTH})
    return fig
