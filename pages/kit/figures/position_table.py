"""A table with one row per position and one column per feature, as a heatmap on a scale that centres on 0."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.figures.value_strip import symmetric_limit
from pages.kit.palette import Palette


def position_table(
    values: np.ndarray,
    palette: Palette,
    *,
    x_title: str,
    y_title: str,
    row: int | None = None,
    columns: Sequence[int] = (),
    shown: np.ndarray | None = None,
    border: tuple[float, str] | None = None,
    height: int = 340,
) -> go.Figure:
    """`values` (positions, features) as coloured cells, position 0 on top.

    row, columns: the position and the features to frame. shown: numbers of the same shape for the hover text, where
    they say more than the coloured ones. border: a line below that many rows, with a short text.
    Raises ValueError if there are no cells, or `shown` has another shape.
    """
    cells = np.asarray(values, dtype=np.float32)
    if cells.ndim != 2 or not cells.size:
        raise ValueError(f"a table needs rows and columns, not the shape {cells.shape}")
    if shown is not None and np.shape(shown) != cells.shape:
        raise ValueError(f"{np.shape(shown)} numbers to show for {cells.shape} cells")
    rows, width = cells.shape
    limit = symmetric_limit(cells)
    fig = style.figure(palette, height, left=44, right=10, top=26, bottom=44)
    number = "%{z:.4f}" if shown is None else "%{customdata:.4f}"
    place = f"{style.literal(y_title)} %{{y}} · {style.literal(x_title)} %{{x}}"
    fig.add_trace(
        go.Heatmap(
            z=cells,
            customdata=None if shown is None else np.asarray(shown, dtype=np.float32),
            zmin=-limit,
            zmax=limit,
            colorscale=style.colourscale(palette.diverging),
            showscale=False,
            hovertemplate=f"{place}<br>{number}<extra></extra>",
        )
    )
    frames = [(-0.5, row - 0.5, width - 0.5, row + 0.5)] if row is not None and 0 <= row < rows else []
    frames += [(column - 0.5, -0.5, column + 0.5, rows - 0.5) for column in columns if 0 <= column < width]
    for index, (x0, y0, x1, y1) in enumerate(frames):
        across = index == 0 and row is not None
        fig.add_shape(
            type="rect",
            x0=x0,
            y0=y0,
            x1=x1,
            y1=y1,
            line={"color": palette.query if across else palette.key, "width": 1.5},
            layer="above",
        )
    if border is not None:
        at, text = border
        fig.add_shape(
            type="line", x0=-0.5, x1=width - 0.5, y0=at - 0.5, y1=at - 0.5, line={"color": palette.ink, "dash": "dot"}
        )
        fig.add_annotation(
            x=width - 0.5,
            y=at - 0.5,
            xanchor="right",
            yanchor="top",
            showarrow=False,
            text=style.literal(text),
            font={"size": style.SMALL_SIZE, "color": palette.ink},
            bgcolor=style.faded(palette.paper, 0.85),
        )
    fig.update_xaxes(style.value_axis(palette, showgrid=False, range=[-0.5, width - 0.5], nticks=8))
    fig.update_xaxes(title={"text": style.literal(x_title), "standoff": 8})
    fig.update_yaxes(style.value_axis(palette, showgrid=False, range=[rows - 0.5, -0.5], nticks=8))
    style.title_above(fig, palette, style.literal(y_title), left=40, up=5)
    return fig
