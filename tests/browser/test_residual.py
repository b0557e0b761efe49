"""The page on the residual stream in a real browser: controls redraw the figures, and nothing is cut off on a phone."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import WAIT_MS, Server, Visits, settled

expect.set_options(timeout=WAIT_MS)

PATH = "/residual?layer=2&half=attention"


def when_drawn(page: Page) -> None:
    """Wait until the last figure is there: the stacks are measured while the page is being drawn."""
    expect(page.locator(".st-key-depth_gradients .main-svg").first).to_be_visible()
    settled(page)


def choose(page: Page, control: str, name: str) -> None:
    before = page.url
    page.locator(f'[class*="st-key-choose_{control}"]').get_by_role("radio", name=name, exact=True).click()
    expect(page).not_to_have_url(before)
    settled(page)


def steps(page: Page, kind: str) -> Locator:
    return page.locator(f".st-key-section_{kind} .atlas-arithmetic")


def test_a_layer_and_a_token_move_the_figures(app: Server, visit: Visits) -> None:
    page = visit(app.url + PATH)
    when_drawn(page)
    mark = page.locator(".st-key-stream_lengths .annotation-text", has_text="layer")
    expect(mark).to_have_text(["layer 2"])
    marked = page.locator(".st-key-sums_table tbody th", has_text="▸")
    expect(marked).to_have_text([re.compile(r"layer\s2$")])
    before = steps(page, "rmsnorm").inner_text()
    choose(page, "layer", "4")
    expect(mark).to_have_text(["layer 4"])
    expect(marked).to_have_text([re.compile(r"layer\s4$")])
    expect(steps(page, "rmsnorm")).not_to_have_text([before])
    page.locator(".chips .chip").nth(2).click()
    expect(page.get_by_role("heading", name="How long the vector of ·cat is")).to_be_visible()


def test_the_norm_follows_the_number(app: Server, visit: Visits) -> None:
    page = visit(app.url + PATH)
    when_drawn(page)
    box = page.locator('[class*="st-key-choose_number"] input')
    box.fill("7")
    box.press("Enter")
    for kind in ("layernorm", "rmsnorm"):
        expect(steps(page, kind)).to_contain_text(["x[7]"])
    expect(page).to_have_url(re.compile(r"[?&]number=7(&|$)"))


def test_untrained_stacks_are_measured_anew_and_the_page_stays(app: Server, visit: Visits) -> None:
    page = visit(app.url + PATH)
    when_drawn(page)
    page.evaluate("document.querySelector('h1').dataset.mine = 'still here'")
    deepest = page.locator(".st-key-section_depth .atlas-numbers tbody th", has_text="▸")
    before = deepest.inner_text()
    choose(page, "depth", "6")
    expect(deepest).not_to_have_text([before])
    expect(deepest).to_have_text([re.compile(r"\b6\b")])
    choose(page, "placement", "post-norm")
    expect(page.locator(".st-key-section_depth")).to_contain_text(["post-norm"])
    assert page.locator("[data-testid=stAlert]").count() == 0
    assert page.evaluate("document.querySelector('h1').dataset.mine") == "still here"


@pytest.mark.parametrize(("locale", "dark"), [("en-US", False), ("zh-CN", True)])
def test_nothing_is_cut_off_on_a_phone(app: Server, visit: Visits, locale: str, dark: bool) -> None:
    page = visit(app.url + PATH, width=390, height=844, touch=True, locale=locale, dark=dark)
    when_drawn(page)
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= 390
    boxes = [page.locator(f".st-key-section_{kind}").bounding_box() for kind in ("lengths", "shares")]
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"], "columns stand below each other"
    frame = page.locator(".st-key-sums_table .atlas-table")
    assert frame.evaluate("(e) => e.scrollWidth > e.clientWidth"), "six columns are wider than a phone"
    frame.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("(e) => e.scrollLeft > 0", arg=frame.element_handle())
