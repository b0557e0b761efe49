"""Why attention divides by √d: three small figures over the head size d."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures.lines import Mark, Series, lines
from pages.kit.palette import Palette


def variance_of_dots(
    dims: Sequence[int] | np.ndarray,
    raw: Sequence[float] | np.ndarray,
    scaled: Sequence[float] | np.ndarray,
    palette: Palette,
    *,
    raw_name: str,
    scaled_name: str,
    x_title: str = "",
    y_title: str = "",
    mark: Mark | None = None,
    height: int = 250,
) -> go.Figure:
    """Measured variance of q·k (`raw`) and q·k/√d (`scaled`) by head size, on log axes: points on the lines d and 1.

    dims: (n,) head sizes; raw, scaled: (n,) variances. The lines are what independent unit-variance entries give.
    """
    sizes = np.asarray(dims, dtype=np.float64)
    fig = with_and_without(
        sizes,
        raw,
        scaled,
        palette,
        raw_name=raw_name,
        scaled_name=scaled_name,
        x_title=x_title,
        y_title=y_title,
        log_y=True,
        mark=mark,
        height=height,
    )
    fig.update_traces(mode="markers")
    for expected, name in ((sizes, "d"), (np.ones_like(sizes), "1")):
        fig.add_trace(
            go.Scatter(
                x=sizes,
                y=expected,
                mode="lines",
                name=name,
                hoverinfo="skip",
                line={"color": palette.muted, "width": 1.5, "dash": "dot"},
            )
        )
    return fig


def with_and_without(
    dims: Sequence[int] | np.ndarray,
    raw: Sequence[float] | np.ndarray,
    scaled: Sequence[float] | np.ndarray,
    palette: Palette,
    *,
    raw_name: str,
    scaled_name: str,
    x_title: str = "",
    y_title: str = "",
    log_y: bool = False,
    mark: Mark | None = None,
    height: int = 250,
) -> go.Figure:
    """One quantity of the softmax (its entropy, the size of its gradient) by head size, without and with ÷√d.

    Same colours and geometry as `variance_of_dots`, so that the figures stand beside each other as small multiples.
    """
    return lines(
        dims,
        [
            Series(raw_name, raw, palette.key, points=True),
            Series(scaled_name, scaled, palette.accent, points=True),
        ],
        palette,
        x_title=x_title,
        y_title=y_title,
        log_x=True,
        log_y=log_y,
        marks=[mark] if mark else [],
        height=height,
        x_ticks=list(np.asarray(dims)),
    )
