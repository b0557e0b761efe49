"""Figures in a real browser: a click or a tap on a tile picks that head, and text is drawn as it stands."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import WAIT_MS, Server, Visits
from tests.pages.reading import AWKWARD

_HEADS = """
import numpy as np
import streamlit as st
from pages.kit import figures
from pages.kit.components import head_tiles

st.set_page_config(layout="wide")
shape = {shape}
hidden = ~np.tril(np.ones((10, 10), dtype=bool))
patterns = np.random.default_rng(0).random((*shape, 10, 10), dtype=np.float32)
state = st.session_state.setdefault("chosen", (0, 1))

def pick(*chosen):
    st.session_state.chosen = chosen

layer, head = st.session_state.chosen
words = dict.fromkeys(("label", "help", "layer", "head", "axes", "axes_sideways"), "word")
tiles = figures.shaded(figures.pool_patterns(patterns, masked=hidden))
head_tiles(tiles, layer, head, key="heads", words=words, on_change=pick)
st.write(f"chosen {{layer}}.{{head}}")
"""

_BARS = f"""
import streamlit as st
from pages.kit import figures, show
from pages.kit.palette import LIGHT

texts = {[text for text in AWKWARD if text.isprintable() and len(text) <= 18]!r}
show.figure(figures.bars(texts, [1 / (2 + i) for i in range(len(texts))], LIGHT), "bars", alt="bars")
"""


def _bring(page: Page, row: int, column: int) -> dict[str, float]:
    """Scroll a tile into sight; where its middle is on the screen."""
    page.wait_for_selector(".matrices .marks[data-panels]")
    place: dict[str, float] = page.evaluate(
        """([row, column]) => {
            const view = [...document.querySelectorAll("*")].find((node) => node.atlasView).atlasView;
            const { marks, frame } = view, cell = Number(marks.dataset.cell);
            const [[left, top]] = JSON.parse(marks.dataset.panels);
            frame.scrollLeft = (column - 4) * cell;
            const box = marks.getBoundingClientRect();
            return { x: box.left + left + (column + 0.5) * cell, y: box.top + top + (row + 0.5) * cell };
        }""",
        [row, column],
    )
    return place


@pytest.mark.parametrize("touch", [False, True], ids=["mouse", "touch"])
@pytest.mark.parametrize("shape", [(6, 8), (30, 9)], ids=["6x8", "30x9"])
def test_a_tile_picks_its_head(
    serve: Callable[[str], Server], visit: Visits, shape: tuple[int, int], touch: bool
) -> None:
    page = visit(serve(_HEADS.format(shape=shape)).url, width=390 if touch else 1280, touch=touch)
    # The second tile again after another one: choosing must not depend on what was chosen before.
    for layer, head in [(2, 1), (5, 7), (2, 1), (0, 0)]:
        at = _bring(page, *((head, layer) if shape == (30, 9) else (layer, head)))
        if touch:
            page.touchscreen.tap(at["x"] + 4, at["y"] - 4)
        else:
            page.mouse.click(at["x"] + 4, at["y"] - 4)
        expect(page.get_by_text(f"chosen {layer}.{head}")).to_be_visible(timeout=WAIT_MS)


def test_every_tile_is_painted_from_its_own_levels_on_a_canvas_that_no_browser_refuses(
    serve: Callable[[str], Server], visit: Visits
) -> None:
    page = visit(serve(_HEADS.format(shape=(30, 9))).url)
    page.wait_for_selector(".matrices .marks[data-panels]")
    first, brightness, highest = page.evaluate(
        """() => {
            const view = [...document.querySelectorAll("*")].find((node) => node.atlasView).atlasView;
            const heights = [], Own = OffscreenCanvas;
            window.OffscreenCanvas = class extends Own {
                constructor(width, height) { super(width, height); heights.push(height); }
            };
            view.redraw();
            const cell = Number(view.marks.dataset.cell), [[left, top]] = JSON.parse(view.marks.dataset.panels);
            const pen = view.cells.getContext("2d"), first = [], brightness = [];
            for (let row = 0; row < 9; row++) {
                for (let column = 0; column < 30; column++) {
                    first.push(view.levels[(row * 30 + column) * 100]);
                    const [x, y] = [left + column * cell, top + row * cell].map((at) => Math.round(at + 0.08 * cell));
                    brightness.push(pen.getImageData(x, y, 1, 1).data.slice(0, 3).reduce((sum, part) => sum + part));
                }
            }
            return [first, brightness, Math.max(...heights)];
        }"""
    )
    assert len(set(first)) > 100
    assert np.corrcoef(np.argsort(np.argsort(first)), brightness)[0, 1] < -0.95
    assert highest <= 30 * 10, "a row of tiles at a time"


def test_a_chart_that_changes_does_not_blink(serve: Callable[[str], Server], visit: Visits) -> None:
    """Streamlit hides it, by its style, until it has measured its place, which is the one that it had."""
    page = visit(serve(_BARS).url)
    page.wait_for_selector(".ytick text")
    chart = page.locator(".js-plotly-plot")
    chart.evaluate("(chart) => { chart.style.visibility = 'hidden'; }")
    assert chart.evaluate("(chart) => getComputedStyle(chart).visibility") == "visible"


def test_awkward_labels_are_drawn_as_they_stand(serve: Callable[[str], Server], visit: Visits) -> None:
    page = visit(serve(_BARS).url)
    page.wait_for_selector(".ytick text")
    expected: list[Any] = [text for text in AWKWARD if text.isprintable() and len(text) <= 18]
    assert [tick.text_content() for tick in page.query_selector_all(".ytick text")] == expected
    assert (
        page.evaluate("document.querySelectorAll('.js-plotly-plot :is(a, script, image, foreignObject)').length") == 0
    )
