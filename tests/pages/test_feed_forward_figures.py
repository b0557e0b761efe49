"""The figures of the page on the feed-forward network draw what they are given, and any text as it stands."""

import re

import numpy as np
import pytest

from pages.kit import figures
from pages.kit.figures import Curve, ShadedText, style
from pages.kit.palette import DARK, LIGHT, Palette
from tests.pages.reading import AWKWARD, array, drawn, read, without_colour

BOTH = pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])


@BOTH
def test_curves_and_points(palette: Palette) -> None:
    x = np.linspace(-4, 4, 9)
    curves = [Curve("<b>a", x), Curve("$b$", np.maximum(x, 0), own=True)]
    into, out = np.array([-1.0, 3.0, 0.5]), np.array([0.0, 3.0, 0.5])
    fig = figures.activation_curves(x, curves, (into, out), palette, chosen=1, chosen_name="%{n}", y_title="<i>")
    assert [drawn(trace.name) for trace in fig.data[:2]] == ["<b>a", "$b$"]
    assert [trace.line.dash for trace in fig.data[:2]] == ["dot", "solid"]
    np.testing.assert_array_equal(array(fig.data[1].y), np.maximum(x, 0))
    others, chosen = fig.data[2:]
    assert (list(others.customdata), list(others.x), list(others.y)) == ([0, 2], [-1, 0.5], [0, 0.5])
    assert (list(chosen.customdata), list(chosen.x), list(chosen.y)) == ([1], [3], [3])
    assert chosen.marker.color == palette.key
    assert drawn(without_colour(fig.layout.annotations[0].text)) == "%{n}"
    legend = read(figures.curve_legend(curves, palette))
    assert [text for text in legend.texts if text.strip()] == ["<b>a", "$b$"]
    assert style.contrast(palette.muted, palette.paper) >= 4.5
    with pytest.raises(ValueError, match="value for every place"):
        figures.activation_curves(x, [Curve("a", [1, 2])], (into, out), palette, chosen=0, chosen_name="")


@BOTH
def test_bars_of_two_runs(palette: Palette) -> None:
    before, after = np.linspace(0.4, 0, len(AWKWARD)), np.linspace(0, 0.5, len(AWKWARD))
    printed = ["<u>"] * len(AWKWARD)
    fig = figures.changed_bars(
        AWKWARD, before, after, palette, before_name="$b$", after_name="a", printed=printed, highlight=0
    )
    np.testing.assert_array_equal(array(fig.data[0].x), before)
    np.testing.assert_array_equal(array(fig.data[1].x), after)
    assert [drawn(without_colour(t)) for t in fig.layout.yaxis.ticktext] == [style.short(text) for text in AWKWARD]
    assert list(fig.layout.yaxis.tickvals) == list(range(len(AWKWARD)))
    assert [drawn(note.text) for note in fig.layout.annotations] == printed
    assert [note.x for note in fig.layout.annotations] == list(np.maximum(before, after))
    assert fig.layout.xaxis.range == (0, 0.5)
    assert palette.accent in fig.layout.yaxis.ticktext[0]
    assert figures.changed_bars(["a"], [0], [0], palette, before_name="", after_name="").layout.xaxis.range == (0, 1)
    with pytest.raises(ValueError, match="labels"):
        figures.changed_bars(["a"], [1, 2], [1], palette, before_name="", after_name="")


@BOTH
def test_shaded_texts(palette: Palette) -> None:
    pieces = [(text, value) for text, value in zip(AWKWARD, np.linspace(-2, 2, len(AWKWARD)), strict=True)]
    fragment = figures.shaded_texts([ShadedText("−1.0", pieces, 3, "<note>")], palette, limit=2.0, description="<x>")
    page = read(fragment)
    assert {tag for tag, _ in page.tags} == {"style", "ul", "li", "span", "small", "p"}
    assert "".join(page.texts).endswith("".join(style.visible(text) for text in AWKWARD))
    assert "<note>" in page.texts
    assert fragment.count("class='peak'") == 1
    assert [float(v) for v in re.findall("title='(.*?)'", fragment)] == [round(value, 3) for _, value in pieces]
    grounds = re.findall("background:(#.{6});color:(#.{6})", fragment)
    assert grounds[0][0] == palette.diverging[0].upper()
    assert grounds[-1][0] == palette.diverging[2].upper()
    assert all(style.contrast(ground, ink) >= 4.5 for ground, ink in grounds)
    spaced = figures.shaded_texts([ShadedText("1", [("  was", 1.0), ("   ", 0.0)])], palette, limit=1.0)
    assert ">was</span>" in spaced
    assert "<p>  <span" in spaced
    assert ">   </span>" in spaced
    with pytest.raises(ValueError, match="end above 0"):
        figures.shaded_texts([], palette, limit=0)
