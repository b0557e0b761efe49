"""The figures of the page on self-attention: literal text, a bar per token and run, errors for what does not fit."""

import numpy as np
import pytest

from pages.kit import figures
from pages.kit.figures import Step, Term
from pages.kit.figures.style import visible
from pages.kit.palette import LIGHT
from tests.pages.reading import AWKWARD, array, drawn, read, without_colour


@pytest.mark.parametrize("text", AWKWARD)
def test_arithmetic_and_table_draw_text_as_it_stands(text: str) -> None:
    box = read(figures.arithmetic([Term(text, "query")], [Step(text, [Term(text)], masked=True)], LIGHT, note=text))
    plain = read(figures.arithmetic([Term("a", "query")], [Step("a", [Term("a")], masked=True)], LIGHT, note="a"))
    assert box.tags == plain.tags
    assert box.texts[1:] == [visible(text)] * 4
    table = read(figures.number_table([text, text], [(text.replace("\n", ""), [text])], LIGHT, description=text))
    assert {tag for tag, _ in table.tags} == {"style", "div", "table", "thead", "tbody", "tr", "th", "td"}


def test_terms_have_their_colours_and_places() -> None:
    terms = [Term("q", "query"), Term("·"), Term("k", "key"), Term("2", raised=True), Term("9", "result")]
    box = read(figures.arithmetic([], [Step("1", terms)], LIGHT))
    assert [(tag, attrs["class"]) for tag, attrs in box.tags if "class" in attrs][2:] == [
        ("span", "query"), ("span", "key"), ("sup", ""), ("b", "result")
    ]  # fmt: skip
    assert "".join(box.texts[1:]) == "1q·k29"


def test_cost_changes_keep_every_token_and_both_runs() -> None:
    n = len(AWKWARD)
    before, after = np.linspace(0, 5, n), np.linspace(5, 0, n)
    after[3] = np.nan
    marked = np.arange(n) % 2 == 0
    fig = figures.cost_changes(AWKWARD, before, after, LIGHT, before_name="a", after_name="<b>", marked=marked)
    wide, narrow = fig.data
    assert list(wide.x) == list(narrow.x) == list(range(n))
    np.testing.assert_array_equal(array(wide.y), before)
    np.testing.assert_array_equal(array(narrow.y), after)
    assert narrow.width < wide.width
    assert [colour == LIGHT.key for colour in narrow.marker.color] == marked.tolist()
    assert narrow.customdata[3][1] == "–"
    assert drawn(narrow.name) == "<b>"
    assert [without_colour(tick) for tick in fig.layout.xaxis.ticktext] == [figures.style.label(t, 12) for t in AWKWARD]


def test_what_does_not_fit_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 labels"):
        figures.cost_changes(["a", "b"], [1.0], [1.0, 2.0], LIGHT, before_name="a", after_name="b")
    with pytest.raises(ValueError, match="2 numbers for 1 columns"):
        figures.number_table(["name", "one"], [("row", ["1", "2"])], LIGHT)


def test_the_legend_names_what_is_there() -> None:
    legend = read(figures.cost_legend({"before": "causal", "marked": "<none>"}, LIGHT))
    assert legend.texts == ["causal", "<none>"]
    assert sum(tag == "i" for tag, _ in legend.tags) == 2
