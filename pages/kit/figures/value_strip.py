"""Vectors as rows of coloured cells, aligned under each other: a query, a key, a value."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.palette import Palette


@dataclass(frozen=True)
class Strip:
    """One vector. name: written before it; values: (n,); colour: of the name (query, key and value have their own).

    limit: the end of a scale of its own, where it cannot be compared with the others.
    """

    name: str
    values: Sequence[float] | np.ndarray
    colour: str | None = None
    limit: float | None = None


def symmetric_limit(*arrays: Sequence[float] | np.ndarray) -> float:
    """The largest absolute finite value in `arrays`: the end of a scale that centres on 0. 1 when all are 0."""
    largest = 0.0
    for array in arrays:
        numbers = np.abs(np.asarray(array, dtype=np.float64))
        largest = max(largest, float(np.max(numbers[np.isfinite(numbers)], initial=0.0)))
    return largest or 1.0


def value_strip(
    strips: Sequence[Strip],
    palette: Palette,
    *,
    limit: float | None = None,
    index_word: str = "",
    row: int = 24,
) -> go.Figure:
    """Each vector as a row of cells on one diverging scale from −`limit` over 0 to `limit` (or the strip's own).

    strips: top to bottom; vectors may differ in length and all start at the left edge.
    limit: end of the scale (default: `symmetric_limit` of all vectors, so that they compare with each other).
    index_word: written under the first cell's number, for example "dimension".
    Hovering a cell shows its name, index and value. Raises ValueError without any value.
    """
    vectors = [np.asarray(strip.values, dtype=np.float32) for strip in strips]
    if not vectors or any(vector.ndim != 1 or vector.size == 0 for vector in vectors):
        raise ValueError("every strip needs a vector with at least one value")
    end = limit if limit is not None else symmetric_limit(*vectors)
    longest = max(vector.size for vector in vectors)
    names = [style.label(strip.name, 14) for strip in strips]
    pitch = row + 8
    fig = style.figure(
        palette,
        len(strips) * pitch + 26,
        left=style.label_margin([index_word, *(strip.name for strip in strips)], 14),
        right=10,
        top=2,
        bottom=24,
    )
    for index, (strip, vector, name) in enumerate(zip(strips, vectors, names, strict=True)):
        top = end if strip.limit is None else strip.limit
        fig.add_trace(
            go.Heatmap(
                z=vector[None, :],
                x0=0,
                dx=1,
                y=[index - row / pitch / 2, index + row / pitch / 2],
                zmin=-top,
                zmax=top,
                zmid=0,
                colorscale=style.colourscale(palette.diverging),
                showscale=False,
                xgap=1 if longest <= 96 else 0,
                name=name,
                hovertemplate="%{fullData.name}[%{x}] = %{z:.4f}<extra></extra>",
            )
        )
        fig.add_shape(
            type="rect",
            x0=-0.5,
            x1=vector.size - 0.5,
            y0=index - row / pitch / 2,
            y1=index + row / pitch / 2,
            line={"color": palette.line, "width": 1},
            layer="above",
        )
    step = next(s for s in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096) if longest / s <= 8 or s == 4096)
    fig.update_xaxes(
        style.bare_axis(
            showticklabels=True,
            range=[-0.5, longest - 0.5],
            tickmode="array",
            tickvals=[*range(0, longest - max(1, step // 2), step), longest - 1] if longest > 1 else [0],
            tickfont={"family": style.MONO, "size": 11, "color": palette.muted},
            tickangle=0,
        )
    )
    ticks = [
        style.coloured(name, strip.colour, bold=True) if strip.colour else name
        for name, strip in zip(names, strips, strict=True)
    ]
    fig.update_yaxes(style.token_axis(palette, ticks, range=[len(strips) - 0.5, -0.5], ticklabelstandoff=6))
    if index_word:
        fig.add_annotation(
            x=0,
            y=0,
            xref="paper",
            yref="paper",
            xanchor="right",
            yanchor="top",
            xshift=-6,
            yshift=-2,
            showarrow=False,
            text=style.label(index_word, 14),
            font={"size": 11, "color": palette.muted},
        )
    return fig
