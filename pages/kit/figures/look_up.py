"""One-hot vector × table = row: some rows of the embedding table, each with its number in the one-hot vector."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.figures.value_strip import symmetric_limit
from pages.kit.palette import Palette

_ROW = 22
_GAP = 0.8  # rows between the table and its product


@dataclass(frozen=True)
class TableRow:
    """A row of the table: the token's `id` and `label`, `values` (d,). Without values: rows that are left out."""

    id: int = -1
    label: str = ""
    values: Sequence[float] | np.ndarray | None = None


def look_up(rows: Sequence[TableRow], chosen: int, palette: Palette, *, row_word: str) -> go.Figure:
    """The rows from top to bottom, the one with the id `chosen` multiplied by 1, all others by 0, and the product.

    row_word: what the product is called. Hovering a cell shows its value.
    Raises ValueError if the chosen row is not there once, or rows differ in length.
    """
    values = [None if row.values is None else np.asarray(row.values, dtype=np.float32) for row in rows]
    places = [place for place, row in enumerate(rows) if row.id == chosen and row.values is not None]
    if len(places) != 1:
        raise ValueError(f"row {chosen} is there {len(places)} times")
    place = places[0]
    product = values[place]
    assert product is not None
    if any(one is not None and one.shape != product.shape for one in values):
        raise ValueError("the rows differ in length")
    limit = symmetric_limit(*[one for one in values if one is not None])
    names = [
        "⋮" if row.values is None else f"{int(at == place)} × #{row.id} {row.label}" for at, row in enumerate(rows)
    ]
    ticks = [style.label(name, 22) for name in names]
    ticks[place] = style.coloured(ticks[place], palette.accent, bold=True)
    below = len(rows) + _GAP
    fig = style.figure(
        palette,
        round((below + 1) * _ROW) + 30,
        left=style.label_margin([*names, f"= {row_word}"], 22),
        right=12,
        top=4,
        bottom=26,
    )
    drawn = [(f"#{row.id} {row.label}", one, at) for at, (row, one) in enumerate(zip(rows, values, strict=True))]
    for name, one, middle in [*drawn, (row_word, product, below)]:
        if one is None:
            continue
        fig.add_trace(
            go.Heatmap(
                z=one[None],
                x0=0,
                dx=1,
                y=[middle - 0.44, middle + 0.44],
                zmin=-limit,
                zmax=limit,
                zmid=0,
                colorscale=style.colourscale(palette.diverging),
                showscale=False,
                name=style.label(name, 30),
                hovertemplate="%{fullData.name}[%{x}] = %{z:.4f}<extra></extra>",
            )
        )
    for middle in (place, below):
        fig.add_shape(
            type="rect",
            x0=-0.5,
            x1=product.size - 0.5,
            y0=middle - 0.5,
            y1=middle + 0.5,
            line={"color": palette.accent, "width": 1.5},
            layer="above",
        )
    step = next(s for s in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096) if product.size / s <= 4 or s == 4096)
    numbers = [*range(0, product.size - max(1, step // 2), step), product.size - 1] if product.size > 1 else [0]
    fig.update_xaxes(
        style.bare_axis(
            showticklabels=True,
            range=[-0.5, product.size - 0.5],
            tickmode="array",
            tickvals=numbers,
            tickfont={"family": style.MONO, "size": 11, "color": palette.muted},
            tickangle=0,
        )
    )
    product_tick = style.coloured(style.label(f"= {row_word}", 22), palette.accent, bold=True)
    fig.update_yaxes(
        style.token_axis(
            palette,
            [*ticks, product_tick],
            tickvals=[*range(len(rows)), below],
            range=[below + 0.6, -0.6],
            ticklabelstandoff=6,
        )
    )
    return fig
