"""The figures of the page on embeddings: what they were given is what they draw."""

import re

import numpy as np
import pytest

from pages.kit.figures import MapPoint, TableRow, look_up, point_map, style, triangle
from pages.kit.palette import DARK, LIGHT, Palette
from tests.pages.reading import AWKWARD, array, drawn, without_colour

PALETTES = pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])


@PALETTES
@pytest.mark.parametrize("width", [1, 3, 600])
def test_a_row_times_one_is_the_product(palette: Palette, width: int) -> None:
    values = np.random.default_rng(0).normal(size=(2, width)).astype(np.float32)
    fig = look_up([TableRow(4, "<b>", values[0]), TableRow(), TableRow(9, "x", values[1])], 9, palette, row_word="$r$")
    np.testing.assert_array_equal(np.concatenate([array(t.z) for t in fig.data]), values[[0, 1, 1]])
    ticks = [drawn(without_colour(tick)) for tick in fig.layout.yaxis.ticktext]
    assert ticks == ["0 × #4 <b>", "⋮", "1 × #9 x", "= $r$"]
    assert {t.zmax for t in fig.data} == {-t.zmin for t in fig.data}
    assert fig.data[0].zmax == pytest.approx(np.abs(values).max())
    assert list(fig.layout.xaxis.tickvals)[-1] == width - 1


def test_a_row_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        look_up([TableRow(1, "a", [1.0])], 2, LIGHT, row_word="")
    with pytest.raises(ValueError, match="length"):
        look_up([TableRow(1, "a", [1.0]), TableRow(2, "b", [1.0, 2.0])], 1, LIGHT, row_word="")


@PALETTES
@pytest.mark.parametrize("name", AWKWARD)
def test_names_are_text(palette: Palette, name: str) -> None:
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.8]])
    fig = triangle([name] * 3, corners, ["1.0"] * 3, palette, extent=(1.0, 1.0), shortest=0)
    assert {drawn(one.text) for one in fig.layout.annotations[3:]} == {style.short(name, 14)}
    places = np.random.default_rng(0).normal(size=(3, 3))
    points = [MapPoint(name, name, 0), MapPoint("a", "b", 1), MapPoint(name, name, 1)]
    flat = point_map(points, places[:, :2], [name, "words"], palette, axes=[name, name], highlight=0)
    assert drawn(flat.data[0].customdata[0]) == style.short(name, 90)
    assert drawn(re.sub("</?b>", "", flat.data[0].text[0])) in ("", style.short(name, 12))
    spatial = point_map(points, places, [name, "words"], palette, axes=[name] * 3)
    assert not re.search("<[a-z/]", spatial.data[0].text[0])
    assert spatial.data[0].text[0].replace("\u2060", "") == style.short(name, 12)
    assert drawn(spatial.data[1].customdata[1]) == style.short(name, 90)


def test_a_triangle_needs_three_corners() -> None:
    with pytest.raises(ValueError, match="2 names"):
        triangle(["a", "b"], np.zeros((3, 2)), ["1"] * 3, LIGHT, extent=(1, 1))
    flat = triangle(["a"] * 3, np.zeros((3, 2)), ["0"] * 3, LIGHT, extent=(0, 0))
    assert flat.layout.xaxis.range[0] < flat.layout.xaxis.range[1]


@pytest.mark.parametrize("seed", range(5))
def test_labels_of_a_flat_map_cover_neither_each_other_nor_the_points(seed: int) -> None:
    places = np.random.default_rng(seed).normal(size=(60, 2))
    points = [MapPoint("word" * (1 + i % 3), "", i % 2) for i in range(60)]
    fig = point_map(points, places, ["a", "b"], LIGHT, highlight=3)
    texts = {
        (float(x), float(y)): (text, side)
        for t in fig.data
        for x, y, text, side in zip(array(t.x), array(t.y), t.text, t.textposition, strict=True)
    }
    assert all("<b>" in text for place, (text, _) in texts.items() if place == tuple(places[3].tolist()))
    labelled = [text for text, _ in texts.values() if text]
    assert 20 < len(labelled) < 60
    scale = 500 / max(np.ptp(places, axis=0))  # coarser than the figure's own: what is apart here is apart there
    boxes = []
    for (x, y), (text, side) in texts.items():
        wide = 7 * len(re.sub("</?b>", "", text))
        if not text:
            continue
        across = {"left": -8 - wide, "right": 8, "center": -wide / 2}[side.split()[1]]
        up = {"top": 8, "bottom": -20, "middle": -6}[side.split()[0]]
        boxes.append((x * scale + across, x * scale + across + wide, y * scale + up, y * scale + up + 12))
    overlaps = sum(
        a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3] for i, a in enumerate(boxes) for b in boxes[:i]
    )
    assert overlaps <= 1


def test_labels_of_a_flat_map_stay_within_its_frame() -> None:
    """A long word at the very edge is written inwards, or not at all."""
    places = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.2], [0.0, -0.2]])
    fig = point_map([MapPoint("librarians", "")] * 4, places, ["a"], LIGHT)
    (dots,) = fig.data
    sides = dict(zip(array(dots.x).tolist()[:2], dots.textposition[:2], strict=True))
    assert sides[-1.0].endswith("right")
    assert sides[1.0].endswith("left")


def test_a_map_needs_a_place_for_every_point() -> None:
    for places in (np.zeros((1, 2)), np.zeros((2, 4)), np.zeros(2)):
        with pytest.raises(ValueError, match="2 points"):
            point_map([MapPoint("a", "b")] * 2, places, ["x"], LIGHT)
