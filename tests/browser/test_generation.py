"""The generation page in a real browser: texts grow before the reader's eyes, stop at once, and can be taken up."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import WAIT_MS, Server, Visits, settled

expect.set_options(timeout=WAIT_MS)

LONG = "/generation?length=200&samples=3&temperature=3&seed=4"  # so hot that no text ends by itself
SHORT = "/generation?length=12&samples=1&seed=2"


def chips(page: Page, row: int) -> Locator:
    return page.locator(".continuations .body").nth(row).locator(".chip")


def counts(page: Page) -> list[int]:
    rows = page.locator(".continuations .body")
    return [rows.nth(i).locator(".chip").count() for i in range(rows.count())]


def when_written(page: Page) -> None:
    expect(page.locator(".st-key-rewind")).to_be_visible()
    settled(page)


def test_texts_grow_and_stop_at_once(app: Server, visit: Visits) -> None:
    page = visit(app.url + LONG, at_rest=False)
    expect(page.locator(".continuations .writing").first).to_be_visible()
    page.evaluate("document.querySelector('h1').dataset.mine = 'still here'")
    seen: set[int] = set()
    while len(seen) < 4:  # the texts are shown while they grow
        assert page.locator(".continuations .writing").count(), f"all was written after {seen}"
        seen.add(sum(counts(page)))
    page.locator(".st-key-stop button").click()
    expect(page.locator(".st-key-go_on button")).to_have_text("Go on")
    settled(page)
    stopped = counts(page)
    assert max(stopped) < 200
    assert page.evaluate("document.querySelector('h1').dataset.mine") == "still here", "the page is not drawn anew"
    page.wait_for_timeout(600)
    assert counts(page) == stopped
    page.locator(".st-key-go_on button").click()
    expect(chips(page, 1)).not_to_have_count(stopped[1])  # a hot one: the greedy text may have ended


def test_a_click_on_a_link_while_it_writes_changes_the_page(app: Server, visit: Visits) -> None:
    page = visit(app.url + LONG, at_rest=False)
    expect(page.locator(".continuations .writing").first).to_be_visible()
    page.get_by_role("link", name="Heads").click()
    expect(page.locator("h1")).to_have_text("What do the heads look for?")


def test_another_text_is_written_to_its_end_too(app: Server, visit: Visits) -> None:
    page = visit(app.url + SHORT)
    when_written(page)
    box = page.locator("textarea")
    for number, text in enumerate(("The dog was", "我今天")):
        box.fill(text)
        box.press("Control+Enter")
        expect(page.locator(".chips .chip").first).to_contain_text(("The", "我今天")[number])
        expect(chips(page, 0)).to_have_count(12)
        when_written(page)


def test_a_text_that_is_changed_while_it_is_written(app: Server, visit: Visits) -> None:
    page = visit(app.url + LONG, at_rest=False)
    expect(page.locator(".continuations .writing").first).to_be_visible()
    box = page.locator("textarea")
    box.fill("The dog was")
    box.press("Control+Enter")
    expect(page.locator(".chips .chip").nth(1)).to_contain_text("·dog")
    page.wait_for_timeout(300)
    settled(page)
    expect(chips(page, 0).nth(20)).to_be_visible()


def test_a_chip_tells_what_it_is_and_leads_on(app: Server, visit: Visits) -> None:
    page = visit(app.url + SHORT)
    when_written(page)
    chip = chips(page, 1).nth(3)
    chip.hover()
    tip = page.locator(".continuations .tip.shown")
    expect(tip).to_contain_text("token 4")
    expect(tip).to_contain_text("first choices")
    chip.click()
    expect(page.get_by_role("heading", name="Token 4 of “Seed 2”")).to_be_visible()
    expect(chip).to_have_class(re.compile("chosen"))
    page.mouse.move(5, 5)
    expect(tip).to_have_count(0)
    page.locator(".st-key-rewind button").click()
    expect(page.locator(".st-key-rewound")).to_contain_text("up to token 4 of Seed 2")
    settled(page)
    assert re.search(r"[?&]ids=\d+(-\d+)+(&|$)", page.url)
    assert page.locator(".chips .chip:not(.next)").count() > 4
    page.locator(".st-key-branches button").first.click()
    expect(page.locator(".continuations .title").nth(2)).to_have_text("Branch of Seed 2 at token 4")
    expect(chips(page, 2)).to_have_count(12)


def test_the_keyboard_reaches_every_chip(app: Server, visit: Visits) -> None:
    page = visit(app.url + SHORT)
    when_written(page)
    chips(page, 0).first.focus()
    for key in ("End", "ArrowLeft", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("heading", name="Token 10 of “Greedy”")).to_be_visible()
    expect(chips(page, 0).nth(9)).to_be_focused()
    expect(chips(page, 0).nth(9)).to_have_attribute("aria-selected", "true")


def test_on_a_phone_the_texts_stand_below_each_other(app: Server, visit: Visits) -> None:
    page = visit(app.url + SHORT, width=390, height=844, touch=True)
    when_written(page)
    boxes = [page.locator(".continuations .card").nth(i).bounding_box() for i in range(2)]
    assert boxes[0]["x"] == boxes[1]["x"]
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"]
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= 390
    chips(page, 1).nth(5).tap()
    expect(page.get_by_role("heading", name="Token 6 of “Seed 2”")).to_be_visible()


def test_a_slider_moves_the_ledger(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/next_token")
    settled(page)
    value = page.locator(".st-key-controls_sampling strong").first
    expect(value).to_have_text("1.00")
    final = page.locator(".atlas-ledger tbody tr").first.locator("td.number").last
    before = final.inner_text()
    page.locator('[class*="st-key-choose_temperature"] input[type=range]').focus()
    page.keyboard.press("Home")
    expect(value).to_have_text("0.00")
    expect(final).to_have_text("1.000")
    assert before != "1.000"
    expect(page.locator('[data-control="top_p"]')).to_contain_text("at temperature 0")
    expect(page.locator(".st-key-draw .bartext")).to_have_count(1)


def test_on_a_phone_the_ledger_keeps_token_and_final_probability_in_sight(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/next_token?top_p=0.9&penalty=1.2", width=390, height=844, touch=True)
    frame = page.locator(".atlas-table:has(.atlas-ledger)")
    expect(frame).to_be_visible()
    settled(page)
    assert frame.evaluate("(e) => e.scrollWidth > e.clientWidth")
    row = page.locator(".atlas-ledger tbody tr").nth(1)
    for scrolled in (0, 60, 10_000):
        frame.evaluate("(e, left) => { e.scrollLeft = left; }", scrolled)
        token, final = (row.locator(part).bounding_box() for part in (".token", ".final"))
        assert token["x"] >= 0
        assert final["x"] >= token["x"] + token["width"]
        assert final["x"] + final["width"] <= 390
