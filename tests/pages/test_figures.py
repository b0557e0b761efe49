"""Figures show the numbers they were given, one place per token, in the palette they were given."""

import ast
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import pytest

from pages.kit import figures
from pages.kit.figures import style
from pages.kit.palette import DARK, LIGHT, Palette
from tests.pages.reading import AWKWARD, array, drawn, without_colour


def test_bars_show_values_and_keep_repeated_tokens() -> None:
    values = np.linspace(0.5, 0.0, len(AWKWARD))
    fig = figures.bars(AWKWARD, values, LIGHT, highlight=3, highlight_colour=LIGHT.key)
    (bar,) = fig.data
    np.testing.assert_allclose(array(bar.x), values)
    assert list(bar.y) == list(fig.layout.yaxis.tickvals) == list(range(len(AWKWARD)))
    assert fig.layout.yaxis.type == "linear", "dates among the tokens must not turn the axis into a calendar"
    ticks = [drawn(without_colour(tick)) for tick in fig.layout.yaxis.ticktext]
    assert ticks == [style.short(text) for text in AWKWARD]
    assert [drawn(text) for text in bar.customdata] == [style.short(text, 60) for text in AWKWARD]
    assert "0.500" in bar.text[0]
    assert bar.marker.color[3] == LIGHT.key
    assert list(fig.layout.xaxis.range) == [0, 0.5]


def test_bars_share_a_scale_on_request_and_survive_zeros() -> None:
    assert figures.bars(["a"], [0.2], LIGHT, maximum=1).layout.xaxis.range == (0, 1)
    assert figures.bars(["a", "b"], [0.0, 0.0], LIGHT).layout.xaxis.range == (0, 1)
    assert len(figures.bars([], [], LIGHT).data[0].y) == 0
    with pytest.raises(ValueError, match="labels"):
        figures.bars(["a"], [1, 2], LIGHT)


def test_token_costs_one_bar_per_position() -> None:
    labels = ["the", "cat"] * 4
    bits = np.array([np.nan, 3, 1, 4, 1, 5, 9, 2.5])
    fig = figures.token_costs(labels, bits, DARK, highlight=5, y_title="bits", mean=3.6, mean_text="mean 3.6")
    (bar,) = fig.data
    np.testing.assert_array_equal(array(bar.y), bits)
    assert list(bar.x) == list(fig.layout.xaxis.tickvals) == list(range(8))
    assert fig.layout.yaxis.range[0] == 0
    assert fig.layout.yaxis.range[1] > 9
    assert fig.layout.shapes[0].y0 == 3.6
    assert bar.customdata[0][1] == "–"
    assert figures.token_costs(labels * 64, np.ones(512), DARK).layout.meta["min_width"] > 5000


def test_labels_of_a_long_text_are_one_picture_with_each_at_its_bar() -> None:
    """Plotly measures each label that it draws itself: 512 of them keep a browser busy for a second."""
    labels = ["the", "<b>", "50%", "#1", "a & 'b'", "\udc80", "猫"] * 40
    fig = figures.token_costs(labels, np.ones(280), DARK, highlight=3)
    assert fig.layout.xaxis.ticktext is None
    (image,) = fig.layout.images
    address, _, source = image.source.partition(",")
    assert address == "data:image/svg+xml;charset=utf-8"
    assert "#" not in source  # there an address would end
    texts = [text for text in ElementTree.fromstring(unquote(source)).iter() if text.tag.endswith("text")]
    assert [text.text for text in texts] == [figures.style.short(label, 12) for label in labels]
    assert [text.get("fill") for text in texts] == [None] * 3 + [DARK.query] + [None] * 276
    # Turned back, the labels stand where the bars do: from the axis' range over its width in pixels.
    width, (low, high) = fig.layout.meta["min_width"], fig.layout.xaxis.range
    assert fig.layout.meta["max_width"] == width
    margin, slant = fig.layout.margin, np.radians(50)
    bars = width - margin.l - margin.r
    assert image.x * bars == pytest.approx(-margin.l)
    assert image.sizex * bars == pytest.approx(width)
    assert image.sizey * (fig.layout.height - margin.t - margin.b) == pytest.approx(margin.b)
    for place in (0, 100, 279):
        x, y = (float(texts[place].get(name)) for name in "xy")
        across = x * np.cos(slant) + y * np.sin(slant)
        assert across == pytest.approx(margin.l + bars * (place - low) / (high - low) + 4, abs=1)
        assert y * np.cos(slant) - x * np.sin(slant) == pytest.approx(13, abs=1)


def test_strips_share_one_scale_centred_on_zero() -> None:
    query, key = np.array([0.5, -2.0, 1.0]), np.array([0.1, 0.2])
    fig = figures.value_strip(
        [figures.Strip("query", query, LIGHT.query), figures.Strip("key", key, LIGHT.key)], LIGHT, index_word="<i>"
    )
    for trace, vector in zip(fig.data, (query, key), strict=True):
        np.testing.assert_allclose(array(trace.z)[0], vector, rtol=1e-6)
        assert array(trace.z).dtype == np.float32
        assert (trace.zmin, trace.zmid, trace.zmax) == (-2, 0, 2)
        assert trace.colorscale[1] == (0.5, LIGHT.diverging[1])
    assert LIGHT.query in fig.layout.yaxis.ticktext[0]
    assert figures.symmetric_limit([-3, np.inf], [2.0]) == 3
    assert figures.symmetric_limit([0.0]) == 1
    with pytest.raises(ValueError, match="strip"):
        figures.value_strip([], LIGHT)


def test_lines_show_their_series() -> None:
    x = np.array([1, 2, 4, 8])
    series = [figures.Series("a<b", x * 2.0), figures.Series("flat", [1, 1, 1, 1], dash="dot")]
    fig = figures.lines(x, series, LIGHT, x_title="x", y_title="y", marks=[figures.Mark(4, "here")])
    np.testing.assert_array_equal(array(fig.data[0].x), x)
    np.testing.assert_array_equal(array(fig.data[0].y), x * 2.0)
    assert drawn(fig.data[0].name) == "a<b"
    assert fig.layout.yaxis.range[0] == 0
    with pytest.raises(ValueError, match="places"):
        figures.lines(x, [figures.Series("short", [1])], LIGHT)


def test_log_lines_leave_out_what_has_no_logarithm() -> None:
    fig = figures.lines([1, 10, 100], [figures.Series("s", [0.0, 1e-6, 1e3])], LIGHT, log_x=True, log_y=True)
    assert np.isnan(array(fig.data[0].y)[0])
    assert (fig.layout.xaxis.type, fig.layout.yaxis.type) == ("log", "log")
    assert "10⁻⁶" in fig.layout.yaxis.ticktext
    assert figures.lines([1], [figures.Series("none", [np.nan])], LIGHT, log_y=True).layout.yaxis.range[0] == -1


def test_end_names_do_not_overlap() -> None:
    fig = figures.lines([0, 1], [figures.Series(str(i), [0, 10 + i * 1e-3]) for i in range(4)], LIGHT, height=260)
    pixels = (260 - fig.layout.margin.t - fig.layout.margin.b) / (fig.layout.yaxis.range[1] - fig.layout.yaxis.range[0])
    heights = sorted(note.y * pixels + note.yshift for note in fig.layout.annotations)
    assert min(np.diff(heights)) > 15


def test_variance_stands_beside_its_expectation() -> None:
    dims = [4, 16, 64]
    words = {"raw_name": "q·k", "scaled_name": "÷√d"}
    fig = figures.variance_of_dots(dims, [4.1, 15.8, 66], [1.0, 0.99, 1.03], LIGHT, **words)
    by_name = {trace.name: array(trace.y) for trace in fig.data}
    np.testing.assert_array_equal(by_name["d"], dims)
    np.testing.assert_array_equal(by_name["1"], [1, 1, 1])
    np.testing.assert_array_equal(by_name["q·k"], [4.1, 15.8, 66])
    modes = {trace.name: trace.mode for trace in fig.data}
    assert (modes["q·k"], modes["d"]) == ("markers", "lines"), "a curve through the points would cover the theory"
    pair = figures.with_and_without(dims, [3, 2, 1], [3, 3, 3], LIGHT, **words)
    assert [trace.line.color for trace in pair.data] == [trace.line.color for trace in fig.data[:2]]


def all_figures(palette: Palette) -> dict[str, go.Figure]:
    return {
        "bars": figures.bars(["a", "b"], [0.4, 0.1], palette, highlight=0),
        "lines": figures.lines([1, 2], [figures.Series("a", [1, 2]), figures.Series("b", [2, 1])], palette),
        "strip": figures.value_strip([figures.Strip("q", [1.0, -1.0], palette.query)], palette),
        "costs": figures.token_costs(["a", "b"], [np.nan, 2.0], palette, mean=2.0, mean_text="mean"),
        "scaling": figures.variance_of_dots([4, 8], [4, 8], [1, 1], palette, raw_name="r", scaled_name="s"),
    }


@pytest.mark.parametrize("name", list(all_figures(LIGHT)))
def test_light_and_dark_share_data_but_not_colours(name: str) -> None:
    light, dark = all_figures(LIGHT)[name], all_figures(DARK)[name]
    assert light.layout.paper_bgcolor == LIGHT.paper
    assert dark.layout.paper_bgcolor == DARK.paper
    assert light.layout.font.family == dark.layout.font.family == style.SANS
    dark_json = str(dark.to_json())
    for colour in (LIGHT.paper, LIGHT.ink, LIGHT.accent, LIGHT.muted, LIGHT.line):
        assert colour not in dark_json
    for first, second in zip(light.data, dark.data, strict=True):
        for field in ("x", "y", "z", "base"):
            if field in first and first[field] is not None:
                np.testing.assert_array_equal(array(first[field]), array(second[field]))


def test_the_kit_needs_no_streamlit() -> None:
    for path in Path(figures.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names = [name for name in names if name != "model.graphemes"]  # the signs of characters, as in labels
            assert not any(name.split(".")[0] in ("streamlit", "torch", "model") for name in names), path.name


def test_pandas_is_whole_before_the_first_figure() -> None:
    """Two first visitors at once: one imported pandas, and the figure of the other found half of it."""
    code = "import sys; import pages.kit.figures; assert hasattr(sys.modules.get('pandas'), 'Series')"
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
