"""A pair of features as an arrow in the plane, before and after it was turned by its position."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.palette import Palette


@dataclass(frozen=True)
class Turn:
    """One arrow. before, after: its two numbers; angle: by how much it was turned, radians, counter-clockwise."""

    name: str
    before: Sequence[float]
    after: Sequence[float]
    angle: float
    colour: str


def rotation(turns: Sequence[Turn], palette: Palette, *, side: int = 300) -> go.Figure:
    """Every arrow dotted as it was and solid as it is now, with the arc between them.

    Both axes have the same scale, so angles are true. Of an angle of more than a full turn the part beyond whole turns
    is drawn.
    Raises ValueError without an arrow, or for one that has not two numbers.
    """
    if not turns or any(len(turn.before) != 2 or len(turn.after) != 2 for turn in turns):
        raise ValueError("every arrow needs two numbers before and two after")
    reach = max(math.hypot(*turn.before) for turn in turns) * 1.4 or 1.0
    fig = style.figure(palette, side, left=6, right=6, top=6, bottom=6)
    for index, turn in enumerate(turns):
        length = math.hypot(*turn.before)
        start = math.atan2(turn.before[1], turn.before[0])
        drawn = math.fmod(turn.angle, 2 * math.pi)
        swept = start + np.linspace(0, drawn, max(2, int(abs(drawn) * 24) + 2))
        arc = length * (0.62 + 0.16 * index)
        fig.add_trace(
            go.Scatter(
                x=length * np.cos(np.linspace(0, 2 * math.pi, 120)),
                y=length * np.sin(np.linspace(0, 2 * math.pi, 120)),
                mode="lines",
                hoverinfo="skip",
                line={"color": palette.line, "width": 1},
            )
        )
        fig.add_trace(
            go.Scatter(
                x=arc * np.cos(swept),
                y=arc * np.sin(swept),
                mode="lines",
                hoverinfo="skip",
                line={"color": turn.colour, "width": 1},
            )
        )
        for end, dash in ((turn.before, "dot"), (turn.after, "solid")):
            fig.add_trace(
                go.Scatter(
                    x=[0, end[0]],
                    y=[0, end[1]],
                    mode="lines+markers",
                    name=style.label(turn.name, 22),
                    line={"color": turn.colour, "width": 2 if dash == "solid" else 1.5, "dash": dash},
                    marker={"color": turn.colour, "size": [0, 8 if dash == "solid" else 5]},
                    hovertemplate="%{fullData.name}<br>%{x:.3f}, %{y:.3f}<extra></extra>",
                )
            )
        outward = 1 if length == 0 else 1 + 0.14 * reach / length
        fig.add_annotation(
            x=turn.after[0] * outward,
            y=turn.after[1] * outward,
            showarrow=False,
            text=style.literal(style.short(turn.name, 16)),
            font={"family": style.MONO, "size": style.SMALL_SIZE, "color": turn.colour},
        )
    axis = style.bare_axis(range=[-reach, reach], zeroline=True, zerolinecolor=palette.line)
    fig.update_xaxes(axis, constrain="domain")
    fig.update_yaxes(axis, scaleanchor="x", constrain="domain")
    fig.update_layout(meta={"max_width": 340, "aspect": 1})
    return fig
