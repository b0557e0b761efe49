"""What each token of the text cost: its surprise, in bits, along the text."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from pages.kit import numbers
from pages.kit.figures import style
from pages.kit.figures.token_ticks import bars_figure
from pages.kit.palette import Palette


def token_costs(
    labels: Sequence[str],
    bits: Sequence[float] | np.ndarray,
    palette: Palette,
    *,
    highlight: int | None = None,
    y_title: str = "",
    mean: float | None = None,
    mean_text: str = "",
    unknown_text: str = "–",
    unit: str = "bits",
) -> go.Figure:
    """One vertical bar per token, in reading order.

    labels: one per token; repeated tokens stay separate bars.
    bits: cross-entropy of each token given those before it, −log₂ p; NaN where there is none (the first token).
    mean: a hairline at this value, named `mean_text` above the figure. highlight: the token drawn in the query colour.
    Its frame is that of `bars_figure`.
    Raises ValueError if the lengths differ.
    """
    costs = np.asarray(bits, dtype=np.float64)
    if costs.shape != (len(labels),):
        raise ValueError(f"{len(labels)} labels for costs of shape {costs.shape}")
    finite = costs[np.isfinite(costs)]
    top = max(float(finite.max(initial=0.0)), mean or 0.0, 1.0) * 1.08
    fills = [palette.accent] * len(labels)
    behind = style.literal(unit)
    printed = [f"{numbers.bits(cost)} {behind}" if np.isfinite(cost) else unknown_text for cost in costs]
    if highlight is not None and 0 <= highlight < len(labels):
        fills[highlight] = palette.query
    fig = bars_figure(labels, palette, 26, highlight)
    fig.add_trace(
        go.Bar(
            x=list(range(len(labels))),
            y=costs,
            width=0.66,
            marker={"color": fills, "cornerradius": 3, "line": {"width": 0}},
            customdata=[[style.label(text, 40), cost] for text, cost in zip(labels, printed, strict=True)],
            hovertemplate="%{x} · %{customdata[0]}<br>%{customdata[1]}<extra></extra>",
        )
    )
    if mean is not None:
        fig.add_shape(
            type="line",
            xref="paper",
            yref="y",
            x0=0,
            x1=1,
            y0=mean,
            y1=mean,
            line={"color": palette.muted, "width": 1, "dash": "dot"},
        )
    fig.update_yaxes(style.value_axis(palette, range=[0, top], nticks=5))
    mean_note = f"┄┄ {style.label(mean_text, 40)}" if mean is not None else ""
    head = "&nbsp;&nbsp;&nbsp;".join(text for text in (style.literal(y_title), mean_note) if text)
    if head:
        style.title_above(fig, palette, head, left=38, up=5)
    return fig
