"""The page on the feed-forward network in a browser: what its HTML looks like there, and its switches."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import WAIT_MS, Server, Visits, settled

expect.set_options(timeout=WAIT_MS)
PLACE = "layer=4&neuron=167&token=8&text=The+little+cat+sat+on+the+mat+because+it+was"


def printed(page: Page) -> list[str]:
    """What stands behind the pairs of bars, as it is drawn."""
    texts = page.locator(".st-key-switched_off .annotation-text")
    expect(texts.first).to_be_attached()
    return [texts.nth(i).text_content() or "" for i in range(texts.count())]


def test_switching_a_neuron_moves_the_bars(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/feed_forward?{PLACE}")
    off = printed(page)
    assert all(" → " in pair for pair in off)
    assert any(len(set(pair.split(" → "))) == 2 for pair in off)
    page.get_by_text("Neuron 167 of layer 4 is off").click()
    expect(page).to_have_url(re.compile(r"[?&]off=(&|$)"))
    settled(page)
    expect(page.get_by_text("neurons off: 0")).to_be_visible()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.st-key-switched_off .annotation-text')]"
        ".every((e) => new Set(e.textContent.split(' → ')).size === 1)"
    )
    page.go_back()
    expect(page.get_by_text("neurons off: 1")).to_be_visible()


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (390, True)])
def test_lines_and_grounds_reach_the_screen(app: Server, visit: Visits, width: int, dark: bool) -> None:
    """Streamlit cleans HTML: what it takes away is seen only here."""
    page = visit(f"{app.url}/feed_forward?{PLACE}", width=width, dark=dark)
    peak = page.locator(".atlas-shaded .peak").nth(1)
    expect(peak).to_be_visible()
    ground = peak.evaluate("e => getComputedStyle(e).backgroundColor")
    assert ground != "rgba(0, 0, 0, 0)"
    swatches = page.locator("i", has=page.locator("xpath=..")).evaluate_all(
        "all => all.map((e) => getComputedStyle(e).backgroundImage).filter((b) => b.includes('repeating-linear'))"
    )
    assert len({re.sub(r"rgb\(.*?\)", "", one) for one in swatches}) == 4, "each curve has a dash of its own"
    main = page.locator("[data-testid=stMain]")
    assert main.evaluate("e => e.scrollWidth - e.clientWidth") <= 1
    assert page.locator("[data-testid=stAlert]").count() == 0
