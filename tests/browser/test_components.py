"""Matrices in a real browser: hover, click, tap, keys; short and long texts; light, dark and narrow."""

import math
import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from pages.kit.figures import style
from pages.kit.palette import DARK, LIGHT, Palette
from tests.browser.components import (
    Cells,
    answered,
    chosen,
    leaning_apart,
    opened,
    pointed,
    tip,
    tip_rows,
    watch_labels,
)
from tests.browser.conftest import Server, Visits
from tests.pages.component_io import MARKUP

Serve = Callable[[str], Server]


def matrices(serve: Serve, visit: Visits, asked: str = "", **options: object) -> tuple[Page, Cells]:
    words = dict(word.partition("=")[::2] for word in asked.split())
    page = opened(serve, visit, "matrices", asked=words, **options)
    return page, Cells(page)


# ----------------------------------------------------------------------------------------------------------- mouse


def test_hovering_a_cell_marks_it_and_shows_every_panels_value(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit)
    cells.hover(1, 4, 2)
    pointed(page, 4, 2)
    value = (4 * 6 + 2) / 36
    assert tip_rows(page) == {
        "Frage 4": "·the",
        "Antwort 2": "·sat",
        "first": f"{value:.4f}",
        "second": f"{value - 0.5:.2f}",
        "third": f"{value:.3f}",
    }
    cells.hover(0, 0, 0)
    pointed(page, 0, 0)
    assert tip_rows(page)["second"] == "−0.50"
    page.mouse.move(2, 2)
    pointed(page, None, None)
    expect(tip(page)).to_have_count(0)


def test_the_same_cell_is_framed_in_every_panel(serve: Serve, visit: Visits) -> None:
    """Where the pointer is makes no difference to what is drawn, but for the pointer's own panel being any."""
    page, cells = matrices(serve, visit)
    drawn = []
    for panel in range(3):
        cells.hover(panel, 3, 1)
        pointed(page, 3, 1)
        drawn.append(cells.marks.evaluate("(canvas) => canvas.toDataURL()"))
        page.mouse.move(2, 2)
        pointed(page, None, None)
    assert drawn[0] == drawn[1] == drawn[2]
    assert drawn[0] != cells.marks.evaluate("(canvas) => canvas.toDataURL()")


def test_hovering_a_token_marks_its_row_or_column(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit)
    cells.hover(2, -1, 3)
    pointed(page, None, 3)
    assert tip_rows(page) == {"Antwort 3": "·on"}
    _, y = cells.at(0, 5, 0)
    labels = page.locator(".matrices .rows").bounding_box()
    assert labels is not None
    page.mouse.move(labels["x"] + labels["width"] / 2, y)
    pointed(page, 5, None)
    assert tip_rows(page) == {"Frage 5": "·mat"}


def test_a_click_marks_at_once_and_reaches_python(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit, "slow=1")
    cells.click(2, 5, 1)
    chosen(page, 5, 1)
    assert page.get_by_text("chosen 5 1").count() == 0, "marked before Python has answered"
    answered(page, "chosen 5 1, returned 5 1")
    cells.click(0, -1, 4)
    answered(page, "chosen 5 4, returned 5 4")


def test_an_older_answer_does_not_take_the_marks_back(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit, "slow=0.4")
    page.locator(".atlas").evaluate(
        """(root) => {
            window.marked = [];
            new MutationObserver(() => window.marked.push(root.dataset.query)).observe(
                root, { attributes: true, attributeFilter: ["data-query"] });
        }"""
    )
    for row in (1, 2, 3):
        cells.click(0, row, 0)
        page.wait_for_timeout(250)  # so that answers to earlier clicks arrive between later ones
    answered(page, "chosen 3 0")
    marked = page.evaluate("window.marked.map(Number)")
    assert marked == sorted(marked)
    chosen(page, 3, 0)


# ------------------------------------------------------------------------------------------------------------ keys


def test_arrow_keys_pick_and_focus_stays(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit)
    root = page.locator(".atlas").element_handle()
    cells.marks.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    chosen(page, 2, 1)
    answered(page, "chosen 2 1")
    assert tip_rows(page)["first"] == f"{13 / 36:.4f}"
    expect(cells.marks).to_be_focused()
    assert root.evaluate("(before) => before.isConnected"), "drawn in place, not anew"
    page.keyboard.press("End")
    page.keyboard.press("ArrowUp")
    answered(page, "chosen 1 5")
    page.keyboard.press("ArrowRight")
    chosen(page, 1, 5)
    page.keyboard.press("Escape")
    expect(tip(page)).to_have_count(0)


def test_keys_that_pick_do_not_scroll_the_page(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit, "n=24", height=400)
    cells.marks.focus()
    main = page.get_by_test_id("stMain")
    before = main.evaluate("(e) => e.scrollTop")
    page.keyboard.press("ArrowDown")
    chosen(page, 1, 0)
    assert main.evaluate("(e) => e.scrollTop") == before


def test_screen_readers_hear_the_pick(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit)
    cells.marks.focus()
    page.keyboard.press("ArrowDown")
    spoken = page.locator(".atlas [aria-live]")
    expect(spoken).to_have_text([f"Frage 1 ·cat, Antwort 0 The, first {6 / 36:.4f}, second −0.33, third {6 / 36:.3f}"])
    expect(cells.marks).to_have_attribute("aria-label", "attention")


@pytest.mark.parametrize("show", ["matrices", "lines", "chips"])
def test_no_accessibility_rule_is_broken(serve: Serve, visit: Visits, show: str) -> None:
    page = opened(serve, visit, show, asked={"labels": "markup", "shade": 1})
    found = Axe().run(page, context=".st-key-it").response
    assert found["passes"], "the component was looked at"
    assert [(v["id"], [node["html"] for node in v["nodes"]]) for v in found["violations"]] == []


# ---------------------------------------------------------------------------------------------------------- tokens


def test_the_same_token_again_is_a_row_of_its_own(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit, "labels=same n=4")
    for query in range(4):
        for key in range(4):
            cells.hover(0, query, key)
            pointed(page, query, key)
            assert tip_rows(page)["first"] == f"{(4 * query + key) / 16:.4f}"
    assert len({frozenset(cells.colours(0, query, query)) for query in range(4)}) == 4


@pytest.mark.parametrize("n", [12, 17, 20, 21, 23, 24, 28, 32, 40])  # cells of 9.5 to 33 pixels, and narrower ones
@pytest.mark.parametrize("width", [1280, 390])
def test_chinese_labels_of_columns_do_not_run_into_each_other(serve: Serve, visit: Visits, n: int, width: int) -> None:
    page, cells = matrices(serve, visit, f"labels=chinese n={n} panels=1", width=width, height=1000)
    watch_labels(page)
    cells.hover(0, 0, 0)  # which is chosen already
    pointed(page, 0, 0)
    cell = float(cells.marks.get_attribute("data-cell") or 0)
    leaning_apart(page, -(-n // (1 if cell >= 9.5 else math.ceil(12 / cell))))


def test_markup_is_text(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit, "labels=markup")
    for position, text in enumerate(MARKUP):
        cells.hover(0, position, position)
        pointed(page, position, position)
        rows = tip_rows(page)
        assert (rows[f"Frage {position}"], rows[f"Antwort {position}"]) == (text, text)
    assert page.locator(".atlas b, .atlas s, .atlas img").count() == 0


@pytest.mark.parametrize(("n", "scale"), [(2, 1), (2, 3), (33, 1.5), (256, 1), (256, 2)])
def test_every_corner_is_found_at_any_length(serve: Serve, visit: Visits, n: int, scale: float) -> None:
    page, cells = matrices(serve, visit, f"n={n}", width=1280, height=2400, scale=scale)
    for query, key in ((n - 1, 0), (n - 1, n - 1), (0, n - 1), (n // 2, n // 2)):
        cells.click(1, query, key)
        chosen(page, query, key)
        answered(page, f"chosen {query} {key}")
    ratios = page.locator(".matrices canvas").evaluate_all("(all) => all.map((c) => c.width / c.clientWidth)")
    assert all(abs(ratio - scale) < 0.05 for ratio in ratios[:2]), "one canvas pixel is one pixel of the screen"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_small_cells_come_with_an_enlarged_neighbourhood(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit, "n=128", height=2000)
    cells.hover(0, 64, 64)
    expect(tip(page).locator("canvas")).to_be_visible()


# --------------------------------------------------------------------------------------------------------- colours


@pytest.mark.parametrize(("dark", "palette"), [(False, LIGHT), (True, DARK)], ids=["light", "dark"])
def test_colours_are_those_of_the_scale_and_masked_is_not_zero(
    serve: Serve, visit: Visits, dark: bool, palette: Palette
) -> None:
    _, cells = matrices(serve, visit, "causal=1", dark=dark)
    assert cells.colours(0, 0, 0) == {palette.sequential[0]}
    assert cells.colours(1, 0, 0) == {palette.diverging[0]}
    assert cells.colours(1, 3, 0) == {palette.diverging[1]}
    assert _near(cells.colours(0, 5, 5), style.at(palette.sequential, 35 / 36))
    hatched = cells.colours(0, 0, 5)
    assert len(hatched) >= 2
    assert palette.paper in hatched


@pytest.mark.parametrize(("dark", "palette"), [(False, LIGHT), (True, DARK)], ids=["light", "dark"])
def test_the_frame_of_the_chosen_cell_is_seen_on_any_colour(
    serve: Serve, visit: Visits, dark: bool, palette: Palette
) -> None:
    """Ink alone vanishes on a colour near it, as that of a weight near 1 in the dark."""
    page, cells = matrices(serve, visit, dark=dark, scale=2)
    for place in (0, 5):
        cells.click(0, place, place)
        chosen(page, place, place)
        page.mouse.move(2, 2)
        edge = cells.edge_colours(0, place, place)
        assert {palette.ink, palette.paper} <= edge
    for colour in (palette.sequential[0], palette.sequential[-1]):
        assert max(style.contrast(colour, ring) for ring in (palette.ink, palette.paper)) > 3


def test_masked_cells_say_so(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit, "causal=1")
    cells.hover(1, 0, 5)
    pointed(page, 0, 5)
    assert tip_rows(page)["first"] == "verdeckt"
    assert tip_rows(page)["second"] == f"{5 / 36 - 0.5:.2f}".replace("-", "−")


def test_what_is_left_out_looks_other_than_what_is_masked_and_is_called_so(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit, "causal=1 left_out=1")
    dotted, hatched = cells.colours(0, 5, 0), cells.colours(0, 0, 5)
    assert len(dotted) >= 2
    assert LIGHT.paper in dotted
    assert dotted != hatched
    cells.hover(1, 3, 0)
    pointed(page, 3, 0)
    assert tip_rows(page)["first"] == "weggelassen"
    cells.hover(1, 0, 5)
    pointed(page, 0, 5)
    assert tip_rows(page)["first"] == "verdeckt"


def test_a_switch_of_the_theme_is_followed_at_once(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit)
    assert cells.colours(0, 0, 0) == {LIGHT.sequential[0]}
    page.emulate_media(color_scheme="dark")
    expect(page.locator(".atlas")).to_have_css("color", f"rgb{style.rgb(DARK.ink)}")
    assert cells.colours(0, 0, 0) == {DARK.sequential[0]}


def _near(found: set[str], wanted: str) -> bool:
    """One colour, and that within a step of the scale's 256."""
    (colour,) = found
    return all(abs(a - b) <= 4 for a, b in zip(style.rgb(colour), style.rgb(wanted), strict=True))


# ---------------------------------------------------------------------------------------------------- narrow, touch


def test_on_a_phone_the_panels_scroll_in_their_frame(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit, "n=12", width=390, height=800, touch=True, scale=2)
    frame = page.locator(".matrices .frame")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert frame.evaluate("(e) => e.scrollWidth > e.clientWidth")
    labels = page.locator(".matrices .rows")
    before = labels.bounding_box()
    frame.evaluate("(e) => { e.scrollLeft = 200; }")
    assert labels.bounding_box() == before, "the row labels stay"
    page.touchscreen.tap(*cells.at(1, 2, 4))
    answered(page, "chosen 2 4")
    assert frame.evaluate("(e) => e.scrollLeft") == 200, "a run does not scroll back"


def test_a_tap_picks_and_explains(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit, width=390, height=800, touch=True, scale=2)
    page.touchscreen.tap(*cells.at(0, 3, 2))
    chosen(page, 3, 2)
    answered(page, "chosen 3 2")
    assert tip_rows(page)["Frage 3"] == "·on"
    box = tip(page).bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    page.get_by_test_id("stHeading").tap()
    expect(tip(page)).to_have_count(0)


def test_keys_bring_a_cell_out_of_sight_back(serve: Serve, visit: Visits) -> None:
    page, cells = matrices(serve, visit, "n=40 panels=1", width=390, height=800)
    cells.marks.focus()
    page.keyboard.press("End")
    chosen(page, 0, 39)
    expect(tip(page)).to_be_visible()
    x, _ = cells.at(0, 0, 39)
    assert 0 < x < 390


def test_titles_and_notes_are_written_around_the_panels(serve: Serve, visit: Visits) -> None:
    page, _ = matrices(serve, visit)
    expect(page.locator(".matrices .title")).to_have_text(["first", "second", "third"])
    expect(page.locator(".matrices .below")).to_have_text(["note", "", ""])
    left = page.locator(".matrices .title").evaluate_all("(all) => all.map((e) => e.getBoundingClientRect().left)")
    assert left == sorted(left)
    assert re.search(r"source sans", page.locator(".atlas").evaluate("(e) => getComputedStyle(e).fontFamily"), re.I)
