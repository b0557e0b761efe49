"""Horizontal bars with a name in front and the value behind: next tokens, and where a token looks."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.palette import Palette

_ROW = 27


def bars(
    labels: Sequence[str],
    values: Sequence[float] | np.ndarray,
    palette: Palette,
    *,
    highlight: int | None = None,
    highlight_colour: str | None = None,
    colours: Sequence[str] | None = None,
    maximum: float | None = None,
    decimals: int = 3,
    unit: str = "",
    printed: Sequence[str] | None = None,
    details: Sequence[str] | None = None,
) -> go.Figure:
    """One bar per row, in the order given, first on top.

    labels: names as people read them (`Tokenizer.labels`); repeated ones stay separate rows.
    values: numbers ≥ 0, one per label; printed behind the bars with `decimals` digits and `unit`.
    printed: what stands behind the bars instead, one text per value.
    highlight: the row drawn in `highlight_colour` (default: the accent; the other rows then step back).
    colours: a colour per row, instead of the accent.
    maximum: the value that fills the width (default: the largest value), to keep bars comparable between figures.
    details: a line per row for the hover label; default: the label in full.
    Raises ValueError if the lengths differ.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape != (len(labels),):
        raise ValueError(f"{len(labels)} labels for values of shape {numbers.shape}")
    top = float(maximum) if maximum else float(numbers.max(initial=0.0)) or 1.0
    plain = palette.accent if highlight is None or highlight_colour else style.mix(palette.paper, palette.accent, 0.45)
    fills = list(colours) if colours is not None else [plain] * len(labels)
    if highlight is not None and 0 <= highlight < len(labels):
        fills[highlight] = highlight_colour or palette.accent
    if printed is None:
        printed = [f"{number:.{decimals}f}{style.literal(unit)}" for number in numbers]
    else:
        printed = [style.literal(text) for text in printed]
    texts = [f" <b>{text}</b>" if row == highlight else f" {text}" for row, text in enumerate(printed)]
    ticks = [style.label(text) for text in labels]
    if highlight is not None and 0 <= highlight < len(labels):
        ticks[highlight] = style.coloured(ticks[highlight], fills[highlight], bold=True)
    room = max((len(text) for text in printed), default=5) * 8 + 14

    fig = style.figure(
        palette, max(1, len(labels)) * _ROW + 8, left=style.label_margin(list(labels)), right=room, top=4, bottom=4
    )
    fig.add_trace(
        go.Bar(
            x=numbers,
            y=list(range(len(labels))),
            orientation="h",
            width=0.58,
            marker={"color": fills, "cornerradius": 3, "line": {"width": 0}},
            text=texts,
            textposition="outside",
            textangle=0,
            textfont={"family": style.MONO, "size": style.TEXT_SIZE, "color": palette.ink},
            cliponaxis=False,
            customdata=[style.label(text, 60) for text in (details if details is not None else labels)],
            hovertemplate="%{customdata}<br>%{text}<extra></extra>",
        )
    )
    fig.update_xaxes(style.bare_axis(range=[0, top]))
    fig.update_yaxes(style.token_axis(palette, ticks, range=[len(labels) - 0.5, -0.5], ticklabelstandoff=6))
    fig.add_shape(type="line", xref="x", yref="paper", x0=0, x1=0, y0=0, y1=1, line={"color": palette.line, "width": 1})
    return fig
