"""The picture of all heads: every tile its pattern, masked cells hatched, clicks on the right head."""

import itertools
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from pages.kit import figures
from pages.kit.figures.heads_overview import _outlines
from pages.kit.figures.tiles import EMPTY, FIRST_LEVEL, TOP_LEVEL
from pages.kit.palette import LIGHT
from tests.pages.reading import array, patterns


def tiles_of(fig: go.Figure) -> np.ndarray:
    return array(next(trace for trace in fig.data if trace.type == "heatmap").z)


@pytest.mark.parametrize(("layers", "heads"), [(6, 8), (12, 12), (30, 9), (1, 1)])
def test_every_tile_shows_its_pattern(layers: int, heads: int) -> None:
    weights, hidden = patterns(layers, heads, 24)
    fig = figures.heads_overview(figures.tile_patterns(iter(weights), masked=hidden), LIGHT, layer=0, head=0)
    canvas, points = tiles_of(fig), next(trace for trace in fig.data if trace.name == "heads")
    assert canvas.dtype == np.uint8
    assert len(points.customdata) == layers * heads
    heatmap = fig.data[0]
    middles = [(array(edges)[1:] + array(edges)[:-1]) / 2 for edges in (heatmap.x, heatmap.y)]
    for (layer, head), x, y in zip(points.customdata, points.x, points.y, strict=True):
        across, down = (np.flatnonzero(np.abs(m - at) < 0.5) for m, at in zip(middles, (x, y), strict=True))
        assert len(across) == len(down) == 24
        tile = canvas[np.ix_(down, across)]
        shown = (tile[~hidden] - FIRST_LEVEL) / (TOP_LEVEL - FIRST_LEVEL)
        np.testing.assert_allclose(shown, weights[layer, head][~hidden], atol=0.502 / (TOP_LEVEL - FIRST_LEVEL))
        assert np.all(tile[hidden] == EMPTY)
        assert f"{layer} · " in points.hovertext[points.customdata.index([layer, head])]
    assert np.count_nonzero(canvas) == layers * heads * (~hidden).sum(), "nothing is drawn between the tiles"


def test_scale_starts_at_zero_and_is_shared() -> None:
    weights = np.zeros((2, 2, 4, 4), dtype=np.float32)
    weights[1, 1, 2, 2] = 1.0
    fig = figures.heads_overview(figures.tile_patterns(weights), LIGHT)
    trace = fig.data[0]
    assert (trace.zmin, trace.zmax) == (EMPTY, TOP_LEVEL)
    place, colour = trace.colorscale[3]
    assert (place, colour) == (pytest.approx(FIRST_LEVEL / TOP_LEVEL), LIGHT.sequential[0])
    assert trace.colorscale[2][0] < place, "no rounding may make a 0 look masked"
    assert [colour for _, colour in trace.colorscale][3:] == list(LIGHT.sequential)
    canvas = tiles_of(fig)
    assert canvas.shape == (9, 9)
    assert canvas[7, 7] == TOP_LEVEL
    assert np.count_nonzero(canvas == FIRST_LEVEL) == 63


def test_masked_differs_from_zero() -> None:
    weights, hidden = np.zeros((1, 1, 3, 3), dtype=np.float32), ~np.tril(np.ones((3, 3), dtype=bool))
    masked = figures.heads_overview(figures.tile_patterns(weights, masked=hidden), LIGHT)
    open_ = figures.heads_overview(figures.tile_patterns(weights), LIGHT)
    assert [trace.name for trace in masked.data].count("masked") == 1
    assert next(trace for trace in masked.data if trace.name == "masked").fillpattern.shape == "/"
    assert "masked" not in [trace.name for trace in open_.data]
    assert np.all(figures.tile_patterns(weights).levels == FIRST_LEVEL)


@pytest.mark.parametrize("kind", ["causal", "window", "padding", "prefix", "scattered", "none", "all"])
def test_hatching_covers_exactly_the_masked_cells(kind: str) -> None:
    rows, columns = np.indices((9, 9))
    mask = {
        "causal": columns > rows,
        "window": (columns > rows) | (columns < rows - 2),
        "padding": (columns > rows) | (columns < 3) | (rows < 3),
        "prefix": (columns > rows) & (columns >= 4),
        "scattered": np.random.default_rng(1).random((9, 9)) < 0.4,
        "none": np.zeros((9, 9), dtype=bool),
        "all": np.ones((9, 9), dtype=bool),
    }[kind]
    covered = np.zeros((9, 9), dtype=int)
    for outline in _outlines(mask):
        assert outline[0] == outline[-1]
        for row, column in np.ndindex(9, 9):
            crossings = 0  # of a ray to the left from the middle of the cell
            for (x0, y0), (x1, y1) in itertools.pairwise(outline):
                if x0 == x1 and x0 < column + 0.5 and min(y0, y1) < row + 0.5 < max(y0, y1):
                    crossings += 1
            covered[row, column] += crossings % 2
    np.testing.assert_array_equal(covered, mask.astype(int))


def test_pooling_keeps_the_strongest_cell_and_says_so() -> None:
    weights, hidden = patterns(2, 3, 200)
    weights[1, 2, 150, 30] = 1.0
    tiles = figures.tile_patterns(weights, masked=hidden, limit=48)
    assert tiles.block == 5
    assert tiles.levels.shape == (2, 3, 40, 40)
    assert tiles.levels[1, 2, 30, 6] == TOP_LEVEL
    assert tiles.levels[0, 0, 0, 1] == EMPTY
    assert tiles.levels[0, 0, 0, 0] != EMPTY, "a block with one visible cell is not masked"
    assert figures.tile_patterns(weights[:, :, :48, :48]).block == 1


def test_log_scale_lifts_small_weights() -> None:
    weights = np.array([[[[1e-5, 1e-4], [1e-2, 1.0]]]])
    levels = figures.tile_patterns(weights, scale="log", floor=1e-4).levels[0, 0]
    np.testing.assert_array_equal(levels, [[FIRST_LEVEL, FIRST_LEVEL], [128, TOP_LEVEL]])


def test_cross_attention_tiles_may_be_oblong() -> None:
    weights = np.random.default_rng(0).random((2, 2, 5, 9)).astype(np.float32)
    tiles = figures.tile_patterns(weights)
    assert (tiles.queries, tiles.keys) == (5, 9)
    assert tiles_of(figures.heads_overview(tiles, LIGHT)).dtype == np.uint8


def test_chosen_head_is_framed_where_it_is() -> None:
    weights, hidden = patterns(6, 8, 10)
    tiles = figures.tile_patterns(weights, masked=hidden)
    fig = figures.heads_overview(tiles, LIGHT, layer=3, head=2)
    points = next(trace for trace in fig.data if trace.name == "heads")
    index = [tuple(pair) for pair in points.customdata].index((3, 2))
    (frame,) = fig.layout.shapes
    assert frame.x0 < points.x[index] < frame.x1
    assert frame.y0 < points.y[index] < frame.y1
    assert frame.x1 - frame.x0 < 1.5 * (points.x[1] - points.x[0])
    assert not figures.heads_overview(tiles, LIGHT).layout.shapes


def test_clicks_reach_the_points_and_only_them() -> None:
    weights, _ = patterns(2, 2, 6)
    fig = figures.heads_overview(figures.tile_patterns(weights), LIGHT)
    info = {trace.name or trace.type: trace.hoverinfo for trace in fig.data}
    assert info.pop("heads") == "text"
    assert set(info.values()) == {"skip"}
    points = next(trace for trace in fig.data if trace.name == "heads")
    assert points.marker.opacity == points.selected.marker.opacity == points.unselected.marker.opacity == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"patterns": []},
        {"patterns": [np.zeros((2, 3, 3)), np.zeros((2, 4, 4))]},
        {"patterns": [np.zeros((3, 3))]},
        {"patterns": [np.zeros((2, 3, 3))], "masked": np.zeros((4, 4), dtype=bool)},
        {"patterns": [np.zeros((2, 3, 3))], "scale": "square"},
    ],
)
def test_wrong_tiles_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"shape|layer|scale"):
        figures.tile_patterns(**bad)


@pytest.mark.parametrize("side", [7, 100])
def test_a_threshold_may_come_after_pooling(side: int) -> None:
    """The largest weight of a block is at least the threshold just when any of the block is."""
    weights = np.random.default_rng(0).random((2, 3, side, side)).astype(np.float32)
    weights[0, 0, 0, 0] = 0.3
    before = figures.tile_patterns([np.where(layer >= np.float32(0.3), layer, 0) for layer in weights], scale="log")
    after = figures.shaded(figures.pool_patterns(weights), scale="log", threshold=0.3)
    np.testing.assert_array_equal(before.levels, after.levels)
    assert figures.shaded(figures.pool_patterns(weights), threshold=1.5).levels.max() == FIRST_LEVEL
