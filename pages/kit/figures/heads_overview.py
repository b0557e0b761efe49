"""All heads of a model in one picture: a single heatmap of tiles on one shared scale.

One heatmap instead of one chart per head keeps 12 × 12 heads at a few hundred DOM nodes. Streamlit reports no
selection for heatmap cells, so an invisible point lies on the centre of each tile and is what a click selects.
"""

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.figures.tiles import EMPTY, FIRST_LEVEL, TOP_LEVEL, Tiles
from pages.kit.palette import Palette

_GAP = 0.09
# Pixels: margins, and the side of a tile at its largest, at its smallest (below it the figure scrolls), and of
# the whole figure's height.
_LEFT, _TOP, _EDGE = 34, 38, 6
_TILE, _SMALLEST, _TALLEST = 92, 25, 640


def heads_overview(
    tiles: Tiles,
    palette: Palette,
    *,
    layer: int | None = None,
    head: int | None = None,
    layer_word: str = "layer",
    head_word: str = "head",
) -> go.Figure:
    """All layers × heads tiled in one heatmap; the tile of (`layer`, `head`) is framed.

    Layers run down and heads across; a model with many more layers than heads is laid on its side, so that it
    still fits a screen. Masked cells are hatched. `layout.meta` says `layers_along` ("x" or "y")
    and the rows and columns of a tile, `tiles`.
    A click on a tile selects the point whose customdata is [layer, head] (see `show.picked`).
    """
    n_layers, n_heads = tiles.levels.shape[:2]
    sideways = n_layers > 1.5 * n_heads
    levels = tiles.levels.transpose(1, 0, 2, 3) if sideways else tiles.levels
    rows, columns, n_down, n_across = levels.shape
    cell = 1 / max(n_down, n_across)  # the longer side of a tile is the unit of both axes
    width, height = n_across * cell, n_down * cell
    corners = [(c * (width + _GAP), r * (height + _GAP)) for r in range(rows) for c in range(columns)]

    fig = style.figure(palette, 360, left=_LEFT, right=_EDGE, top=_TOP, bottom=_EDGE)
    fig.add_trace(
        go.Heatmap(
            z=_canvas(levels),
            x=_edges(columns, n_across, cell),
            y=_edges(rows, n_down, cell),
            zmin=EMPTY,
            zmax=TOP_LEVEL,
            colorscale=_scale(palette),
            showscale=False,
            hoverinfo="skip",
            zsmooth=False,
        )
    )
    _add_hatching(fig, palette, levels.reshape(-1, n_down, n_across), cell, corners)
    _add_frames(fig, palette, corners, width, height)

    pairs = [(c, r) if sideways else (r, c) for r in range(rows) for c in range(columns)]
    fig.add_trace(
        go.Scatter(
            x=[x + width / 2 for x, _ in corners],
            y=[y + height / 2 for _, y in corners],
            customdata=[list(pair) for pair in pairs],
            hovertext=[
                f"{style.literal(layer_word)} {one_layer} · {style.literal(head_word)} {one_head}"
                for one_layer, one_head in pairs
            ],
            hoverinfo="text",
            mode="markers",
            marker={"symbol": "square", "size": 24, "color": palette.accent, "opacity": 0},
            selected={"marker": {"opacity": 0}},
            unselected={"marker": {"opacity": 0}},
            name="heads",
        )
    )
    chosen = (layer, head) if layer is not None and head is not None else None
    if chosen in pairs:
        x, y = corners[pairs.index(chosen)]
        pad = _GAP / 2
        fig.add_shape(
            type="rect",
            x0=x - pad,
            y0=y - pad,
            x1=x + width + pad,
            y1=y + height + pad,
            line={"color": palette.accent, "width": 2.5},
            layer="above",
        )
    down, across = (head, layer) if sideways else (layer, head)
    fig.update_xaxes(
        _ticks(palette, columns, width, across),
        side="top",
        range=[-_GAP / 2, columns * (width + _GAP) - _GAP / 2],
        constrain="domain",
        constraintoward="left",
    )
    fig.update_yaxes(
        _ticks(palette, rows, height, down),
        range=[rows * (height + _GAP) - _GAP / 2, -_GAP / 2],
        constrain="domain",
        scaleanchor="x",
        constraintoward="top",
    )
    words = (layer_word, head_word) if sideways else (head_word, layer_word)
    upright = style.columns(words[1]) <= 2  # a single Chinese character has no need to lie on its side
    places: tuple[dict[str, object], ...] = (
        {"x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "yshift": 18},
        {"x": 0, "y": 1, "xanchor": "right", "yanchor": "top", "xshift": -20, "textangle": 0 if upright else -90},
    )
    for text, place in zip(words, places, strict=True):
        fig.add_annotation(
            text=style.literal(text),
            xref="x domain",
            yref="y domain",
            showarrow=False,
            font={"size": style.SMALL_SIZE, "color": palette.muted},
            **place,
        )
    side = min(_TILE, _TALLEST / rows)
    wide, high = side * columns * (width + _GAP), side * rows * (height + _GAP)
    fig.update_layout(
        hoverdistance=-1,
        meta={
            "layers_along": "x" if sideways else "y",
            "tiles": [n_down, n_across],
            "max_width": wide + _LEFT + _EDGE,
            "min_width": min(_SMALLEST * columns * (width + _GAP), wide) + _LEFT + _EDGE,
            "aspect": (wide + _LEFT + _EDGE) / (high + _TOP + _EDGE),
        },
    )
    return fig


def _canvas(levels: np.ndarray) -> np.ndarray:
    """(rows, columns, n_down, n_across) tiles as one (…, …) uint8 image, one empty line between neighbours."""
    framed = np.pad(levels, [(0, 0), (0, 0), (0, 1), (0, 1)], constant_values=EMPTY)
    rows, columns, down, across = framed.shape
    return np.ascontiguousarray(framed.swapaxes(1, 2).reshape(rows * down, columns * across)[:-1, :-1])


def _edges(count: int, cells: int, cell: float) -> np.ndarray:
    """Where the cells of `count` tiles in a row begin and end, the gaps between tiles being cells of their own."""
    starts = np.arange(count)[:, None] * (cells * cell + _GAP)
    return (starts + np.arange(cells + 1) * cell).reshape(-1).astype(np.float32)


def _scale(palette: Palette) -> list[list[Any]]:
    """Nothing at the level of masked cells and gaps, then the sequential colours over the levels above it."""
    first = FIRST_LEVEL / TOP_LEVEL
    clear = [[0.0, "rgba(0,0,0,0)"], [first / 2, "rgba(0,0,0,0)"], [first / 2, palette.sequential[0]]]
    return clear + [[first + share * (1 - first), colour] for share, colour in style.colourscale(palette.sequential)]


def _ticks(palette: Palette, count: int, side: float, chosen: int | None) -> dict[str, Any]:
    """Axis settings with one number at the centre of each tile, the chosen one in the accent."""
    texts = [
        style.coloured(str(index), palette.accent, bold=True) if index == chosen else str(index)
        for index in range(count)
    ]
    return style.bare_axis(
        showticklabels=True,
        tickmode="array",
        ticktext=texts,
        tickvals=[index * (side + _GAP) + side / 2 for index in range(count)],
        tickfont={"family": style.MONO, "size": style.SMALL_SIZE, "color": palette.muted},
        tickangle=0,
    )


def _add_frames(
    fig: go.Figure, palette: Palette, corners: list[tuple[float, float]], width: float, height: float
) -> None:
    """A hairline round every tile, as one trace."""
    frame = [(0.0, 0.0), (width, 0.0), (width, height), (0.0, height), (0.0, 0.0), (math.nan, math.nan)]
    x, y = (np.array(corners, dtype=np.float32)[:, None] + np.array(frame, dtype=np.float32)).reshape(-1, 2).T
    fig.add_trace(
        go.Scatter(
            x=np.ascontiguousarray(x),
            y=np.ascontiguousarray(y),
            mode="lines",
            line={"color": palette.line, "width": 1},
            hoverinfo="skip",
            name="frames",
        )
    )


def _add_hatching(
    fig: go.Figure, palette: Palette, tiles: np.ndarray, cell: float, corners: list[tuple[float, float]]
) -> None:
    """Hatch the masked cells of all `tiles` (n, rows, columns), whose cells are `cell` wide, as one filled trace."""
    outlines: dict[bytes, np.ndarray] = {}
    pieces = []
    for tile, corner in zip(tiles, corners, strict=True):
        empty = tile == EMPTY
        key = empty.tobytes()
        if key not in outlines:
            gap = [(math.nan, math.nan)]
            points = [point for outline in _outlines(empty) for point in [*outline, *gap]]
            outlines[key] = np.array(points, dtype=np.float32).reshape(-1, 2) * cell
        pieces.append(outlines[key] + np.array(corner, dtype=np.float32))
    x, y = np.concatenate(pieces)[:-1].T
    if x.size:
        fig.add_trace(
            go.Scatter(
                x=np.ascontiguousarray(x),
                y=np.ascontiguousarray(y),
                mode="lines",
                line={"width": 0},
                fill="toself",
                hoverinfo="skip",
                name="masked",
                fillcolor="rgba(0,0,0,0)",
                fillpattern={
                    "shape": "/",
                    "size": 5,
                    "solidity": 0.14,
                    "fillmode": "replace",
                    "fgcolor": style.mix(palette.paper, palette.muted, 0.55),
                    "bgcolor": "rgba(0,0,0,0)",
                },
            )
        )


def _outlines(mask: np.ndarray) -> list[list[tuple[float, float]]]:
    """Closed polygons, (x, y) from the tile's corner, that cover the True cells of `mask` (rows, columns).

    Rows that overlap the row above and end at the same column join into one staircase, which is what causal,
    sliding and padding masks consist of; anything else becomes more polygons.
    """
    open_shapes: list[tuple[int, list[tuple[int, int, int]]]] = []
    shapes: list[list[tuple[int, int, int]]] = []
    for row, cells in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], cells.astype(np.int8), [0]))))
        runs = [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
        still_open = []
        for start, stop in runs:
            for end, shape in open_shapes:
                if shape[-1][0] == row - 1 and shape[-1][1] < stop and start < end:
                    shape.append((row, start, stop))
                    still_open.append((stop, shape))
                    open_shapes.remove((end, shape))
                    break
            else:
                fresh = [(row, start, stop)]
                shapes.append(fresh)
                still_open.append((stop, fresh))
        open_shapes = still_open
    polygons = []
    for shape in shapes:
        lefts = [point for row, start, _ in shape for point in ((start, row), (start, row + 1))]
        rights = [point for row, _, stop in shape for point in ((stop, row), (stop, row + 1))]
        outline = _corners([*rights, *reversed(lefts)])
        polygons.append([(float(px), float(py)) for px, py in [*outline, outline[0]]])
    return polygons


def _corners(outline: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """`outline` (closed, axis-parallel) without the points at which it does not turn."""
    kept = []
    for before, here, after in zip([outline[-1], *outline[:-1]], outline, [*outline[1:], outline[0]], strict=True):
        straight = before[0] == here[0] == after[0] or before[1] == here[1] == after[1]
        if not straight:
            kept.append(here)
    return kept
