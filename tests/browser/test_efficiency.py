"""The pages on efficiency in a real browser: the race runs before the reader's eyes, stops at once, and goes on."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import WAIT_MS, Server, Visits, settled

expect.set_options(timeout=WAIT_MS)

LONG = "/kv_cache?race=200&text=" + "The+little+cat+sat+on+the+mat.+" * 27  # seconds of writing
SHORT = "/kv_cache?race=8"


def lanes(page: Page) -> list[int]:
    """Tokens written by each lane."""
    notes = page.locator(".atlas-lane header span").all_inner_texts()
    return [int(note.split()[0]) for note in notes]


def stop(page: Page) -> Locator:
    return page.locator(".st-key-race_stop button")


def test_the_race_is_drawn_as_it_goes_and_stops_at_once(app: Server, visit: Visits) -> None:
    page = visit(app.url + LONG, at_rest=False)
    expect(stop(page)).to_be_visible()
    page.evaluate("document.querySelector('h1').dataset.mine = 'still here'")
    seen: set[tuple[int, ...]] = set()
    while len(seen) < 4:  # both lanes are shown while they grow
        assert stop(page).count(), f"the race was over after {seen}"
        seen.add(tuple(lanes(page)))
    stop(page).click()
    expect(page.locator(".st-key-race_on button")).to_be_visible()
    settled(page)
    stopped = lanes(page)
    assert stopped[0] > stopped[1], "with the cache it is ahead in the same time"
    assert stopped[1] < 200
    assert page.evaluate("document.querySelector('h1').dataset.mine") == "still here", "the page is not drawn anew"
    page.wait_for_timeout(600)
    assert lanes(page) == stopped
    expect(page.get_by_text("What happened")).to_be_visible()
    page.locator(".st-key-race_on button").click()
    expect(page.locator(".atlas-lane header span").last).not_to_have_text([f"{stopped[1]} of 200 tokens"])


def test_a_click_on_a_link_while_it_races_changes_the_page(app: Server, visit: Visits) -> None:
    page = visit(app.url + LONG, at_rest=False)
    expect(stop(page)).to_be_visible()
    page.get_by_role("link", name="Heads").click()
    expect(page.locator("h1")).to_have_text(["What do the heads look for?"])


def test_a_choice_while_it_races_is_heard(app: Server, visit: Visits) -> None:
    page = visit(app.url + LONG, at_rest=False)
    expect(stop(page)).to_be_visible()
    page.locator('[class*="st-key-choose_kv_head"]').first.get_by_role("radio", name="3", exact=True).click()
    expect(page.locator(".st-key-section_grid")).to_contain_text(["head 3"])
    expect(page).to_have_url(re.compile(r"[?&]head=6(&|$)"))


def test_a_race_ends_with_what_it_has_shown(app: Server, visit: Visits) -> None:
    page = visit(app.url + SHORT)
    expect(page.get_by_text("What happened")).to_be_visible()
    settled(page)
    assert lanes(page) == [8, 8]
    expect(page.locator(".st-key-race_times .scatterlayer .trace")).to_have_count(4)
    expect(page.locator(".st-key-race_grid .hm image")).to_have_count(2)
    page.locator(".st-key-race_again button").click()
    expect(page.get_by_text("What happened")).to_be_visible()


def test_a_size_is_typed_and_everything_follows(app: Server, visit: Visits) -> None:
    page = visit(app.url + "/cost?plan=llama2_7b&machine=a100")
    table = page.locator(".atlas-shares")
    expect(table).to_contain_text(["6,738,415,616"])
    box = page.locator('[class*="st-key-choose_plan_layers"] input')
    box.fill("64")
    box.press("Enter")
    expect(table).to_contain_text([f"{6_738_415_616 + 32 * (4 * 4096**2 + 3 * 4096 * 11_008 + 2 * 4096):,}"])
    expect(page).to_have_url(re.compile(r"[?&]plan_layers=64(&|$)"))
    page.locator(".st-key-plan_back button").click()
    expect(table).to_contain_text(["6,738,415,616"])
    expect(box).to_have_count(1)  # while a page is being drawn, what stood further down stays until its end
    expect(box).to_have_value("32")
