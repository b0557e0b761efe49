"""The page on flash attention in a real browser: step, play, pick a row, measure and stop."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.components import leaning_apart, watch_labels
from tests.browser.conftest import WAIT_MS, Server, Visits, settled

expect.set_options(timeout=WAIT_MS)
STEPS = 16  # ten tokens in tiles of 2 × 2: 15 of them, and the division


def walk(page: Page) -> Locator:
    return page.locator(".atlas.flash")


def drawn(app: Server, visit: Visits, asked: str = "", **options: object) -> Page:
    page = visit(f"{app.url}/flash?{asked}", **options)
    expect(walk(page)).to_have_attribute("data-step", re.compile(r"\d"))
    settled(page)
    return page


def at(page: Page, step: int) -> None:
    expect(walk(page)).to_have_attribute("data-step", str(step))


def asked_for(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def picture(page: Page) -> str:
    drawn_: str = walk(page).locator("canvas").evaluate("(canvas) => canvas.toDataURL()")
    return drawn_


def test_steps_are_shown_at_once_and_reach_the_address(app: Server, visit: Visits) -> None:
    page = drawn(app, visit, "tile=0")
    at(page, 0)
    expect(walk(page).locator(".back")).to_be_disabled()
    before = picture(page)
    shown = page.evaluate(
        """() => {
            const root = document.querySelector(".atlas.flash") ?? [...document.querySelectorAll("*")]
                .map((one) => one.shadowRoot?.querySelector(".atlas.flash")).find(Boolean);
            root.querySelector(".next").click();
            return [root.dataset.step, root.querySelector(".said").textContent];
        }"""
    )
    assert shown == ["1", "Tile 2 of 15 · queries 2–3 · keys 0–1"], "without an answer from the server"
    assert picture(page) != before
    expect(page).to_have_url(re.compile(r"[?&]tile=1(&|$)"))
    walk(page).locator(".last").click()
    expect(walk(page).locator(".said")).to_have_text(["All tiles are done: each row is divided by its sum"])
    expect(walk(page).locator(".next")).to_be_disabled()
    expect(page).to_have_url(re.compile(rf"[?&]tile={STEPS - 1}(&|$)"))
    walk(page).locator(".back").click()
    at(page, STEPS - 2)
    walk(page).locator("input").focus()
    page.keyboard.press("Home")
    at(page, 0)
    expect(page).to_have_url(re.compile("[?&]tile=0(&|$)"))
    settled(page)
    page.reload()
    settled(page)
    at(page, 0)
    assert picture(page) == before


def test_it_plays_to_the_end_and_can_be_held(app: Server, visit: Visits) -> None:
    page = drawn(app, visit, "tile=0")
    play = walk(page).locator(".play")
    walk(page).evaluate(
        """(root) => {
            window.seen = [];
            new MutationObserver(() => window.seen.push(root.dataset.step)).observe(
                root, { attributes: true, attributeFilter: ["data-step"] });
        }"""
    )
    play.click()
    expect(walk(page)).to_have_attribute("data-playing", "true")
    expect(play).to_have_attribute("aria-label", "Stop")
    at(page, 3)
    play.click()
    expect(walk(page)).to_have_attribute("data-playing", "false")
    held = walk(page).get_attribute("data-step")
    page.wait_for_timeout(1200)
    assert walk(page).get_attribute("data-step") == held
    expect(page).to_have_url(re.compile(rf"[?&]tile={held}(&|$)"))
    play.click()
    at(page, STEPS - 1)
    expect(walk(page)).to_have_attribute("data-playing", "false")
    expect(page).to_have_url(re.compile(rf"[?&]tile={STEPS - 1}(&|$)"))
    seen = [int(step) for step in page.evaluate("window.seen")]
    assert sorted(set(seen)) == list(range(1, STEPS)), "every tile was shown"
    assert seen == sorted(seen), "and none came back"
    play.click()  # from the end it begins anew
    at(page, 1)


def test_another_walk_stops_what_is_being_played(app: Server, visit: Visits) -> None:
    page = drawn(app, visit, "tile=0")
    walk(page).locator(".play").click()
    at(page, 1)
    page.locator('[class*="st-key-choose_order"]').get_by_role("radio", name="by columns").click()
    expect(page).to_have_url(re.compile("order=columns"))
    settled(page)
    expect(walk(page)).to_have_attribute("data-playing", "false")


def row_at(page: Page, row: int, column: int) -> tuple[float, float]:
    """A cell's middle. Ten tokens have cells of 30 pixels; the first row is where the labels end."""
    walk(page).locator("canvas").scroll_into_view_if_needed()
    box = walk(page).locator("canvas").bounding_box()
    assert box is not None
    top = box["height"] - 4 - 10 * 30
    gutter = page.evaluate(
        """() => { const root = document.querySelector(".atlas.flash") ?? [...document.querySelectorAll("*")]
            .map((one) => one.shadowRoot?.querySelector(".atlas.flash")).find(Boolean);
            return Number(root.dataset.gutter); }"""
    )
    return box["x"] + gutter + (column + 0.5) * 30, box["y"] + top + (row + 0.5) * 30


def test_a_row_is_picked_followed_and_let_go(app: Server, visit: Visits) -> None:
    page = drawn(app, visit, "tile=4&layer=1&head=0")
    own = walk(page).get_attribute("data-query")
    page.mouse.click(*row_at(page, 7, 0))
    expect(walk(page)).to_have_attribute("data-query", "7")
    expect(walk(page).locator(".who")).to_have_text(["·because"])
    expect(page).to_have_url(re.compile(r"[?&]token=7(&|$)"))
    settled(page)
    assert asked_for(page)["tile"] == "4"
    walk(page).locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    at(page, 5)
    page.keyboard.press("ArrowUp")
    expect(walk(page)).to_have_attribute("data-query", "6")
    expect(page).to_have_url(re.compile(r"[?&]token=6(&|$)"))
    settled(page)
    page.mouse.click(*row_at(page, 6, 0))
    expect(page).not_to_have_url(re.compile(r"[?&]token="))
    page.keyboard.press("ArrowLeft")
    expect(walk(page)).to_have_attribute("data-query", str(own))


def test_pointing_at_a_cell_tells_what_is_there(app: Server, visit: Visits) -> None:
    page = drawn(app, visit, "tile=2&layer=1&head=0&order=rows")
    tip = page.locator(".flash .tip.shown")
    cells = {
        (2, 0): "used and thrown away",
        (3, 2): "score",
        (2, 3): "masked",
        (9, 0): "still to come",
        (0, 9): "skipped",
    }
    for (row, column), words in cells.items():
        page.mouse.move(*row_at(page, row, column))
        expect(tip).to_contain_text([words])
    page.mouse.move(4, 4)
    expect(tip).to_have_count(0)


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_labels_of_columns_do_not_run_into_each_other(app: Server, visit: Visits, width: int, lang: str) -> None:
    page = drawn(app, visit, f"tile=0&lang={lang}", width=width, height=900)
    n = {"en": 10, "zh": 11}[lang]
    watch_labels(page)
    walk(page).locator(".next").click()
    first = {"en": ["The", "·little", "·cat", "·sat"], "zh": ["那", "只", "小", "猫"]}
    assert leaning_apart(page, n)[:4] == first[lang]


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_phone_nothing_is_cut_off(app: Server, visit: Visits, dark: bool) -> None:
    page = drawn(app, visit, width=390, height=844, touch=True, dark=dark)
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= 390
    box = walk(page).locator("canvas").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390
    before = walk(page).get_attribute("data-step")
    walk(page).locator(".next").tap()
    expect(walk(page)).not_to_have_attribute("data-step", str(before))


def test_measuring_shows_as_it_goes_and_stops(app: Server, visit: Visits) -> None:
    page = drawn(app, visit, "longest=4096")
    page.locator(".st-key-race_start button").click()
    expect(page.locator(".st-key-race_progress")).to_contain_text(["of 12 measured"])
    page.locator(".st-key-race_stop button").click()
    expect(page.get_by_text(re.compile(r"Stopped after \d+ of 12"))).to_be_visible()
    figure = page.locator(".st-key-race_peak .js-plotly-plot")
    expect(figure).to_have_count(1)  # what stood further down stays until the end of the run that draws it higher up
    expect(figure).to_be_visible()
