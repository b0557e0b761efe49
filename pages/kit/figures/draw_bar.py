"""The draw: final probabilities laid end to end from 0 to 1, and the random number that falls on one of them."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.palette import Palette

_NARROW = 0.004


def draw_bar(
    labels: Sequence[str],
    probabilities: Sequence[float] | np.ndarray,
    palette: Palette,
    *,
    rest_label: str = "",
    u: float | None = None,
    drawn: int | None = None,
    mark_text: str = "",
) -> go.Figure:
    """The cumulative bar of final probabilities with the draw as a mark on it.

    labels, probabilities: the largest first, as many as there is reason to name; what is left to 1 becomes one
        segment called `rest_label` (for example "+ 212 more").
    u: the random number in [0, 1); `mark_text` is written below it. drawn: the index of the token that it hits.
    Labels show only where they fit; hovering names every segment, with its interval.
    Raises ValueError if probabilities are negative, rise, or sum to more than 1.
    """
    shares = np.asarray(probabilities, dtype=np.float64)
    if shares.shape != (len(labels),):
        raise ValueError(f"{len(labels)} labels for probabilities of shape {shares.shape}")
    if shares.size and (shares.min() < 0 or np.any(np.diff(shares) > 1e-9) or shares.sum() > 1 + 1e-6):
        raise ValueError("probabilities must be non-negative, sorted from the largest, and sum to at most 1")
    rest = max(0.0, 1.0 - float(shares.sum()))
    widths, names = list(shares), [f" {style.label(text, 24)}" for text in labels]
    fills = [_fill(palette, index) for index in range(len(widths))]
    if drawn is not None and 0 <= drawn < len(fills):
        fills[drawn] = palette.accent
    inks = [style.readable_on(fill) for fill in fills]
    if rest > 1e-6:
        widths.append(rest)
        names.append(" " + style.label(rest_label or "…", 28))
        fills.append(style.mix(palette.paper, palette.line, 0.75))
        inks.append(palette.ink)
    starts = np.concatenate(([0.0], np.cumsum(widths)[:-1])) if widths else np.array([])

    fig = style.figure(palette, 92, left=2, right=2, top=6, bottom=36)
    fig.add_trace(
        go.Bar(
            x=widths,
            base=starts,
            y=[0] * len(widths),
            orientation="h",
            width=1,
            marker={
                "color": fills,
                "line": {"color": palette.paper, "width": [2 if width > _NARROW else 0 for width in widths]},
            },
            text=names,
            textposition="inside",
            insidetextanchor="start",
            textangle=0,
            textfont={"family": style.MONO, "size": style.SMALL_SIZE, "color": inks},
            customdata=[[low, low + width] for low, width in zip(starts, widths, strict=True)],
            hovertemplate="%{text}<br>p = %{x:.4f}<br>%{customdata[0]:.4f} – %{customdata[1]:.4f}<extra></extra>",
        )
    )
    if u is not None:
        colour = palette.ink
        fig.add_shape(
            type="line", xref="x", yref="y", x0=u, x1=u, y0=-0.62, y1=0.62, line={"color": colour, "width": 2}
        )
        fig.add_trace(
            go.Scatter(
                x=[u],
                y=[-0.74],
                mode="markers",
                hoverinfo="skip",
                cliponaxis=False,
                name="u",
                marker={"symbol": "triangle-up", "size": 11, "color": colour},
            )
        )
        anchor = "left" if u < 0.3 else "right" if u > 0.7 else "center"
        fig.add_annotation(
            x=u,
            y=0,
            xref="x",
            yref="paper",
            yanchor="top",
            xanchor=anchor,
            yshift=-10,
            showarrow=False,
            text=f"<b>{style.label(mark_text, 48)}</b>",
            font={"family": style.MONO, "size": style.TEXT_SIZE, "color": colour},
        )
    fig.update_xaxes(style.bare_axis(range=[0, 1]))
    fig.update_yaxes(style.bare_axis(range=[-0.75, 0.6]))
    fig.update_layout(uniformtext={"minsize": style.SMALL_SIZE, "mode": "hide"}, barmode="overlay", bargap=0)
    return fig


def _fill(palette: Palette, index: int) -> str:
    """Fill of the segment `index`: the accent stepping back toward the paper, so that neighbours differ."""
    return style.mix(palette.accent, palette.paper, min(0.18 + 0.09 * index, 0.72))
