"""Opens the app of components, and finds cells, labels and colours in their canvases."""

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Server, Visits, settled

SCRIPT = (Path(__file__).parent / "components_app.py").read_text(encoding="utf-8")


def opened(serve: Callable[[str], Server], visit: Visits, show: str, *, asked: dict[str, Any], **options: Any) -> Page:
    """The app with one component, drawn. `asked` goes into the address, `options` to `visit`."""
    page = visit(f"{serve(SCRIPT).url}/?{urlencode({'show': show, **asked})}", **options)
    expect(page.locator(f".atlas.{show}[data-query]")).to_be_visible()
    settled(page)
    return page


def chosen(page: Page, query: int | None, key: int | None, component: str = ".atlas") -> None:
    """Wait until the component marks these positions as chosen."""
    for name, value in (("query", query), ("key", key)):
        expect(page.locator(component)).to_have_attribute(f"data-{name}", "" if value is None else str(value))


def pointed(page: Page, query: int | None, key: int | None) -> None:
    """Wait until the component marks these positions as pointed at."""
    for name, value in (("hover-query", query), ("hover-key", key)):
        expect(page.locator(".atlas")).to_have_attribute(f"data-{name}", "" if value is None else str(value))


def answered(page: Page, text: str) -> None:
    """Wait until the script has written `text`: the pick has been to Python and back."""
    expect(page.get_by_test_id("stMain").get_by_text(text)).to_be_visible()


def tip(page: Page) -> Locator:
    return page.locator(".atlas .tip.shown")


def tip_rows(page: Page) -> dict[str, str]:
    """What the tooltip says, by name."""
    expect(tip(page)).to_be_visible()
    names = tip(page).locator("dt").all_text_contents()
    return dict(zip(names, tip(page).locator("dd").all_text_contents(), strict=True))


def watch_labels(page: Page) -> None:
    """Note what is written on canvases from now on."""
    page.evaluate(
        """() => {
            window.written = [];
            const own = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
                const { a, b, e } = this.getTransform();
                const size = parseFloat(this.font.match(/([\\d.]+)px/)[1]);
                window.written.push([text, -Math.atan2(b, a), e / devicePixelRatio, size]);
                return own.call(this, text, ...rest);
            };
        }"""
    )


def leaning_apart(page: Page, n: int) -> list[str]:
    """The `n` leaning labels of columns that were written first, after seeing that none of them touches the next:
    the lines that they stand on are further apart than letters are high."""
    leaning = [one for one in page.evaluate("window.written") if one[1] > 0][:n]
    assert len(leaning) == n
    leaning.sort(key=lambda one: one[2])  # the chosen one is written last
    for (_, angle, x, size), (*_, following, _) in itertools.pairwise(leaning):
        assert (following - x) * math.sin(angle) >= size
    return [text for text, *_ in leaning]


@dataclass(frozen=True)
class Cells:
    """Geometry of the matrices: positions on the screen, and colours."""

    page: Page

    @property
    def marks(self) -> Locator:
        return self.page.locator(".matrices .marks")

    def at(self, panel: int, query: float, key: float) -> tuple[float, float]:
        """The middle of a cell, in pixels of the window. Row −1 is that of the column labels."""
        data = self.marks.evaluate("(e) => ({ ...e.dataset, box: e.getBoundingClientRect().toJSON() })")
        left, top = json.loads(data["panels"])[panel]
        cell = float(data["cell"])
        y = top + (query + 0.5) * cell if query >= 0 else top - 6
        return data["box"]["left"] + left + (key + 0.5) * cell, data["box"]["top"] + y

    def hover(self, panel: int, query: int, key: int) -> None:
        self.page.mouse.move(*self.at(panel, query, key))

    def click(self, panel: int, query: int, key: int) -> None:
        self.page.mouse.click(*self.at(panel, query, key))

    def colours(self, panel: int, query: int, key: int) -> set[str]:
        """The colours inside a cell, without its edges, as `#RRGGBB`."""
        return self._opaque(".cells", panel, query, key, 2)

    def edge_colours(self, panel: int, query: int, key: int) -> set[str]:
        """The colours of the marks on a cell and around it."""
        return self._opaque(".marks", panel, query, key, -4)

    def _opaque(self, canvas: str, panel: int, query: int, key: int, inset: int) -> set[str]:
        found: list[str] = self.page.locator(f".matrices {canvas}").evaluate(
            """(canvas, [panel, query, key, inset]) => {
                const { cell, panels } = canvas.parentElement.querySelector(".marks").dataset;
                const [left, top] = JSON.parse(panels)[panel];
                const ratio = canvas.width / canvas.clientWidth;
                const start = [left + key * cell, top + query * cell].map((v) => Math.round((v + inset) * ratio));
                const size = Math.max(1, Math.floor((cell - 2 * inset) * ratio));
                const { data } = canvas.getContext("2d").getImageData(...start, size, size);
                const hex = (i) => "#" + [0, 1, 2].map((c) => data[i + c].toString(16).padStart(2, "0")).join("");
                const pixels = Array.from({ length: data.length / 4 }, (_, i) => 4 * i);
                return [...new Set(pixels.filter((i) => data[i + 3] === 255).map(hex))];
            }""",
            [panel, query, key, inset],
        )
        return {colour.upper() for colour in found}
