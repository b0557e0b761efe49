"""A page whose own part alone is drawn again: what is around it still keeps up with what the reader chooses."""

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

from tests.browser.conftest import WAIT_MS, Server, Visits, settled

expect.set_options(timeout=WAIT_MS)


def linked(page: Page) -> dict[str, list[str]]:
    """What the address of the sidebar's link to the heads carries."""
    href = page.locator(".st-key-navigation").get_by_role("link", name="Heads").get_attribute("href")
    return parse_qs(urlsplit(href or "").query)


def test_a_slider_draws_the_part_again_and_links_follow_when_somebody_turns_to_them(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/next_token")
    ledger, before = page.locator(".atlas-ledger"), page.locator(".atlas-ledger").inner_text()
    page.get_by_role("slider").first.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"temperature=1\.05"))
    expect(ledger).not_to_have_text([before], use_inner_text=True)
    settled(page)
    assert linked(page) == {}, "the sidebar was not drawn again"
    page.locator(".st-key-navigation").get_by_role("link", name="Heads").hover()
    assert linked(page) == {"temperature": ["1.05"]}
    page.locator(".st-key-navigation").get_by_role("link", name="Heads").click()
    expect(page).to_have_url(re.compile(r"/heads\?temperature=1\.05$"))
    page.go_back()
    expect(page.locator(".st-key-controls_sampling")).to_contain_text(["1.05"])


def test_what_the_part_changes_around_it_is_drawn_too(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/next_token?seed=4")
    expect(page.locator(".atlas-count")).to_contain_text(["10"])
    page.locator(".st-key-write button").click()
    expect(page.locator(".atlas-count")).to_contain_text(["11"])
    expect(page.locator(".st-key-back_to_text button")).to_be_visible()
    settled(page)
    page.get_by_role("slider").first.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"temperature=1\.05"))
    page.locator("textarea").first.fill("one two three four")
    page.get_by_role("slider").first.press("ArrowRight")  # leaves the box: both changes meet
    expect(page.locator(".atlas-count")).to_contain_text(["4"])
    expect(page).to_have_url(re.compile(r"(?=.*temperature=1\.1\b)(?=.*text=one)"))
    settled(page)
    assert page.locator("[data-testid=stAlert]").count() == 0
