"""The generation page in a real browser: texts grow before the reader's eyes, stop at once, and can be taken up."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import WAIT_MS, Server, Visits, settled

expect.set_options(timeout=WAIT_MS)

LONG = "/generation?length=200&samples=3&temperature=3&seed=4&beams=0"  # so hot that no text ends by itself
SHORT = "/generation?length=12&samples=1&seed=2&beams=0"
BEAM = "/generation?length=12&samples=1&seed=2&beams=3"


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
    expect(page.locator(".st-key-go_on button")).to_have_text(["Go on"])
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
    expect(page.locator("h1")).to_have_text(["What do the heads look for?"])


def test_another_text_is_written_to_its_end_too(app: Server, visit: Visits) -> None:
    page = visit(app.url + SHORT)
    when_written(page)
    box = page.locator("textarea")
    for number, text in enumerate(("The dog was", "我今天")):
        box.fill(text)
        box.press("Control+Enter")
        expect(page.locator(".chips .chip").first).to_contain_text([("The", "我今天")[number]])
        expect(chips(page, 0)).to_have_count(12)
        when_written(page)


def test_a_text_that_is_changed_while_it_is_written(app: Server, visit: Visits) -> None:
    page = visit(app.url + LONG, at_rest=False)
    expect(page.locator(".continuations .writing").first).to_be_visible()
    box = page.locator("textarea")
    box.fill("The dog was")
    box.press("Control+Enter")
    expect(page.locator(".chips .chip").nth(1)).to_contain_text(["·dog"])
    page.wait_for_timeout(300)
    settled(page)
    expect(chips(page, 0).nth(20)).to_be_visible()


def test_a_chip_tells_what_it_is_and_leads_on(app: Server, visit: Visits) -> None:
    page = visit(app.url + SHORT)
    when_written(page)
    chip = chips(page, 1).nth(3)
    chip.hover()
    tip = page.locator(".continuations .tip.shown")
    expect(tip).to_contain_text(["token 4"])
    expect(tip).to_contain_text(["first choices"])
    chip.click()
    expect(page.get_by_role("heading", name="Token 4 of “Seed 2”")).to_be_visible()
    expect(chip).to_have_class(re.compile("chosen"))
    page.mouse.move(5, 5)
    expect(tip).to_have_count(0)
    page.locator(".st-key-rewind button").click()
    expect(page.locator(".st-key-rewound")).to_contain_text(["up to token 4 of Seed 2"])
    settled(page)
    assert re.search(r"[?&]ids=\d+(-\d+)+(&|$)", page.url)
    assert page.locator(".chips .chip:not(.next)").count() > 4
    page.locator(".st-key-branches button").first.click()
    expect(page.locator(".continuations .title").nth(2)).to_have_text(["Branch of Seed 2 at token 4"])
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


def twig(page: Page, serial: int) -> Locator:
    return page.locator(f'.tree .chip[data-serial="{serial}"]')


def test_a_click_in_the_tree_goes_to_the_text_up_to_there(app: Server, visit: Visits) -> None:
    page = visit(app.url + BEAM, at_rest=False)
    expect(page.locator(".tree .chip.text").nth(3)).to_be_visible()  # it grows while texts are written
    when_written(page)
    expect(page.locator(".tree .chip.dropped").first).to_be_attached()
    middles = page.locator(".tree .chip").evaluate_all(
        "chips => chips.map((e) => e.getBoundingClientRect()).map((b) => `${Math.round(b.left)} ${Math.round(b.top)}`)"
    )
    assert len(set(middles)) == len(middles), "no chip lies on another"
    chip = page.locator('.tree .chip.text[aria-level="4"]').first
    chip.hover()
    expect(page.locator(".tree .tip.shown")).to_contain_text(["ln p up to here"])
    chip.click()
    expect(page.locator(".st-key-rewound")).to_contain_text(["Every page now shows the text up to token 3 of"])
    expect(chip).to_have_class(re.compile("chosen"))
    assert re.search(r"[?&]ids=\d+(-\d+)+(&|$)", page.url)
    twig(page, 0).click()
    expect(page.locator(".st-key-rewound")).to_have_count(0)
    page.wait_for_function("!location.search.includes('ids=')")


def test_the_keyboard_walks_the_tree(app: Server, visit: Visits) -> None:
    page = visit(app.url + BEAM, at_rest=False)
    when_written(page)
    twig(page, 0).focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowUp", "Home", "ArrowRight"):
        page.keyboard.press(key)
    first = page.locator('.tree .chip[aria-level="2"].text').first
    expect(first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".st-key-rewound")).to_contain_text(["up to token 1 of"])
    expect(first).to_have_attribute("aria-selected", "true")


def test_on_a_phone_the_tree_scrolls_in_its_frame_and_there_is_a_plain_way(app: Server, visit: Visits) -> None:
    page = visit(app.url + BEAM, width=390, height=844, touch=True, at_rest=False)
    when_written(page)
    frame = page.locator(".tree .frame")
    assert frame.evaluate("(e) => e.scrollWidth > e.clientWidth")
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= 390
    page.locator(".st-key-go_to_button button").tap()
    expect(page.locator(".st-key-rewound")).to_contain_text(["up to token 1 of Greedy"])


def test_a_slider_moves_the_ledger(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/next_token")
    settled(page)
    value = page.locator(".st-key-controls_sampling strong").first
    expect(value).to_have_text(["1.00"])
    final = page.locator(".atlas-ledger tbody tr").first.locator("td.number").last
    before = final.inner_text()
    page.locator('[class*="st-key-choose_temperature"] input[type=range]').focus()
    page.keyboard.press("Home")
    expect(value).to_have_text(["0.00"])
    expect(final).to_have_text(["1.000"])
    assert before != "1.000"
    expect(page.locator('[data-control="top_p"]')).to_contain_text(["at temperature 0"])
    expect(page.locator(".atlas-draw .part")).to_have_count(1)


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


@pytest.mark.parametrize("dark", [False, True])
def test_no_half_number_stands_beside_a_fixed_column(app: Server, visit: Visits, dark: bool) -> None:
    """What lies beside the fixed columns of the ledger looks the same however far the rest is scrolled."""
    page = visit(f"{app.url}/next_token?penalty=1.2&top_p=0.9", width=390, height=1200, dark=dark)
    frame = page.locator(".atlas-table:has(.atlas-ledger)")
    frame.scroll_into_view_if_needed()
    boxes = [frame.locator(f"tbody tr:last-child .{name}").bounding_box() for name in ("token", "final")]
    whole = frame.bounding_box()
    assert whole
    assert all(boxes)
    edges = [boxes[0]["x"] + boxes[0]["width"], boxes[1]["x"] - 6]
    for left in edges:
        strip = {"x": left, "y": whole["y"], "width": 6, "height": whole["height"]}
        seen = set()
        for far in range(0, 121, 8):
            assert frame.evaluate("(frame, far) => { frame.scrollLeft = far; return frame.scrollLeft; }", far) == far
            seen.add(page.screenshot(clip=strip))
        assert len(seen) == 1
