"""What each token of a text cost in two runs: a wide pale bar for the one, a narrow strong one for the other."""

import html
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from pages.kit import numbers
from pages.kit.figures import style
from pages.kit.figures.token_ticks import bars_figure
from pages.kit.palette import Palette


def cost_changes(
    labels: Sequence[str],
    before: Sequence[float] | np.ndarray,
    after: Sequence[float] | np.ndarray,
    palette: Palette,
    *,
    before_name: str,
    after_name: str,
    marked: Sequence[bool] | np.ndarray | None = None,
    marked_name: str = "",
    y_title: str = "",
    unit: str = "",
) -> go.Figure:
    """One pair of bars per token, in reading order; the lower one is drawn in full, whichever it is.

    labels: one per token; repeated tokens stay separate. before, after: costs ≥ 0; NaN where there is none.
    marked: tokens whose strong bar has the key's colour, named `marked_name` in the hover label.
    Its frame is that of `bars_figure`.
    Raises ValueError if the lengths differ.
    """
    pair = [np.asarray(values, dtype=np.float64) for values in (before, after)]
    special = np.zeros(len(labels), bool) if marked is None else np.asarray(marked, dtype=bool)
    if any(values.shape != (len(labels),) for values in (*pair, special)):
        raise ValueError(f"{len(labels)} labels for {pair[0].shape} and {pair[1].shape} costs")
    finite = np.concatenate([values[np.isfinite(values)] for values in pair])
    top = max(float(finite.max(initial=0.0)), 1.0) * 1.08
    fig = bars_figure(labels, palette, 28)
    colour = pair_colours(palette)
    fills = [colour["marked"] if is_special else colour["after"] for is_special in special]
    notes = [f"<br>{style.label(marked_name, 60)}" if is_special else "" for is_special in special]
    for values, name, width, of_bars in zip(
        pair, (before_name, after_name), (0.8, 0.36), ([colour["before"]] * len(labels), fills), strict=True
    ):
        printed = [f"{numbers.bits(value)} {style.literal(unit)}" if np.isfinite(value) else "–" for value in values]
        fig.add_trace(
            go.Bar(
                x=list(range(len(labels))),
                y=values,
                width=width,
                name=style.label(name, 40),
                marker={"color": of_bars, "cornerradius": 2, "line": {"width": 0}},
                customdata=[
                    [style.label(text, 40), cost + note]
                    for text, cost, note in zip(labels, printed, notes, strict=True)
                ],
                hovertemplate="%{customdata[0]}<br>%{fullData.name}: %{customdata[1]}<extra></extra>",
            )
        )
    fig.update_layout(barmode="overlay")
    fig.update_yaxes(style.value_axis(palette, range=[0, top], nticks=5))
    if y_title:
        style.title_above(fig, palette, style.literal(y_title), left=38, up=6)
    return fig


def cost_legend(names: Mapping[str, str], palette: Palette) -> str:
    """What the bars of `cost_changes` are, as HTML. `names`: for "before", "after" and, if there are any, "marked"."""
    colour = pair_colours(palette)
    square = "display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px"
    items = "".join(
        f'<span style="white-space:nowrap"><i style="{square};background:{colour[kind]}"></i>'
        f"{html.escape(style.visible(name))}</span>"
        for kind, name in names.items()
    )
    look = f"display:flex;flex-wrap:wrap;gap:2px 18px;color:{palette.muted};font-size:13px;line-height:1.5"
    return f'<div style="{look}">{items}</div>'


def pair_colours(palette: Palette) -> dict[str, str]:
    """Of the run before, the run after, and what is marked in it."""
    return {
        "before": style.mix(palette.paper, palette.muted, 0.38),
        "after": palette.accent,
        "marked": palette.key,
    }
