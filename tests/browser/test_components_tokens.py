"""Lines and token chips in a real browser."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from pages.kit.figures import style
from pages.kit.palette import DARK, LIGHT
from tests.browser.components import answered, chosen, opened, pointed, tip, tip_rows
from tests.browser.conftest import Server, Visits
from tests.pages.component_io import MARKUP

Serve = Callable[[str], Server]


def token(page: Page, side: str, index: int) -> tuple[float, float]:
    """Where a token of the lines is, in pixels of the window."""
    where = page.locator(".lines canvas").evaluate(
        "(e) => ({ ...e.dataset, top: e.parentElement.parentElement.scrollTop, box: e.getBoundingClientRect() })"
    )
    x = float(where["left"]) - 20 if side == "query" else float(where["right"]) + 20
    y = (index + 0.5) * float(where["row"]) + float(where["inset"]) - where["top"]
    return where["box"]["x"] + x, where["box"]["y"] + y


def inked(page: Page) -> float:
    """The share of the space between the columns that lines take."""
    share: float = page.locator(".lines canvas").evaluate(
        """(canvas) => {
            const { left, right } = canvas.dataset, width = Math.floor(right - left - 20);
            const { data } = canvas.getContext("2d").getImageData(+left + 10, 0, width, canvas.height);
            let drawn = 0;
            for (let i = 3; i < data.length; i += 4) drawn += data[i] > 0;
            return (4 * drawn) / data.length;
        }"""
    )
    return share


# ----------------------------------------------------------------------------------------------------------- lines


def test_hovering_a_token_shows_only_its_lines(serve: Serve, visit: Visits) -> None:
    page = opened(serve, visit, "lines", asked={})
    everything = inked(page)
    page.mouse.move(*token(page, "query", 5))
    pointed(page, 5, None)
    assert 0 < inked(page) < everything
    assert tip_rows(page) == {"Frage 5": "·mat", "Antwort 0": "The", "Gewicht": f"{30 / 36:.3f}"}
    page.mouse.move(*token(page, "key", 3))
    pointed(page, None, 3)
    assert 0 < inked(page) < everything
    page.mouse.move(2, 2)
    pointed(page, None, None)
    assert inked(page) == everything


def test_masked_pairs_have_no_line_and_are_called_so(serve: Serve, visit: Visits) -> None:
    both = opened(serve, visit, "lines", asked={})
    both.mouse.move(*token(both, "query", 1))
    pointed(both, 1, None)
    causal = opened(serve, visit, "lines", asked={"causal": 1})
    causal.mouse.move(*token(causal, "query", 1))
    pointed(causal, 1, None)
    assert inked(causal) < inked(both), "a model that looks both ways has lines to later tokens"
    causal.mouse.move(*token(causal, "key", 4))
    assert tip_rows(causal)["Gewicht"] == "verdeckt"
    left = opened(serve, visit, "lines", asked={"causal": 1, "left_out": 1})
    left.mouse.move(*token(left, "key", 0))
    assert tip_rows(left)["Gewicht"] == "weggelassen"


def test_weights_below_the_threshold_are_not_drawn(serve: Serve, visit: Visits) -> None:
    assert inked(opened(serve, visit, "lines", asked={"threshold": 2})) == 0
    some = inked(opened(serve, visit, "lines", asked={"threshold": 0.9}))
    assert 0 < some < inked(opened(serve, visit, "lines", asked={}))


def test_a_click_on_either_column_reaches_python(serve: Serve, visit: Visits) -> None:
    page = opened(serve, visit, "lines", asked={})
    page.mouse.click(*token(page, "query", 4))
    chosen(page, 4, 0)
    answered(page, "chosen 4 0, returned 4 0")
    page.mouse.click(*token(page, "key", 2))
    answered(page, "chosen 4 2, returned 4 2")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    answered(page, "chosen 5 1")
    expect(page.locator(".lines canvas")).to_be_focused()


def test_long_texts_scroll_in_the_frame_and_are_picked_there(serve: Serve, visit: Visits) -> None:
    page = opened(serve, visit, "lines", asked={"n": 256, "threshold": 0.9})
    frame = page.locator(".lines .frame")
    frame.evaluate("(e) => { e.scrollTop = 200 * 24; }")
    page.mouse.click(*token(page, "query", 210))
    answered(page, "chosen 210 0")
    assert frame.evaluate("(e) => e.scrollTop") == 200 * 24
    assert frame.evaluate("(e) => e.clientHeight") <= 560
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    answered(page, "chosen 209 0")


@pytest.mark.parametrize("show", ["lines", "chips"])
def test_nothing_scrolls_sideways_on_a_phone(serve: Serve, visit: Visits, show: str) -> None:
    page = opened(serve, visit, show, asked={"n": 40}, width=390, height=800, touch=True, scale=2)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    box = page.locator(f".atlas.{show}").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390


def test_a_tap_on_a_token_picks_it(serve: Serve, visit: Visits) -> None:
    page = opened(serve, visit, "lines", asked={}, width=390, height=800, touch=True, scale=2)
    page.touchscreen.tap(*token(page, "key", 4))
    answered(page, "chosen 0 4")
    assert tip_rows(page)["Antwort 4"] == "·the"


# ----------------------------------------------------------------------------------------------------------- chips


def chip(page: Page, index: int) -> Locator:
    return page.locator(".chips .chip").nth(index)


def test_chips_show_text_and_ids(serve: Serve, visit: Visits) -> None:
    page = opened(serve, visit, "chips", asked={"labels": "markup"})
    texts = page.locator(".chips .chip .text").all_text_contents()
    assert texts == [*MARKUP, "猫", "?"]
    assert chip(page, 6).locator(".id").all_text_contents() == ["7", "8", "9"]
    assert page.locator(".chips b, .chips s, .chips img").count() == 0
    expect(chip(page, 0)).to_have_class("chip special is-query is-key")
    expect(chip(page, 7)).to_contain_text(["weiter"])


def test_the_tooltip_of_a_chip_has_its_ids_and_bytes(serve: Serve, visit: Visits) -> None:
    page = opened(serve, visit, "chips", asked={})
    chip(page, 6).hover()
    assert tip_rows(page) == {"Stelle 6–8": "猫", "Nummer": "7 8 9", "Bytes": "E7 8C AB"}
    expect(tip(page)).to_contain_text(["Umschalt: Antwort"])
    chip(page, 1).hover()
    assert tip_rows(page)["Bytes"] == "20 63 61 74"


def test_a_click_picks_the_query_and_with_shift_the_key(serve: Serve, visit: Visits) -> None:
    page = opened(serve, visit, "chips", asked={})
    places = page.locator(".chips .chip").evaluate_all("(all) => all.map((e) => e.offsetLeft)")
    chip(page, 4).locator(".text").click()
    chosen(page, 4, 0)
    answered(page, "chosen 4 0, returned 4 0")
    chip(page, 2).locator(".text").click(modifiers=["Shift"])
    answered(page, "chosen 4 2, returned 4 2")
    expect(chip(page, 4)).to_have_attribute("aria-selected", "true")
    expect(chip(page, 4)).to_have_css("border-top-color", f"rgb{style.rgb(LIGHT.query)}")
    expect(chip(page, 2)).to_have_css("border-top-color", f"rgb{style.rgb(LIGHT.key)}")
    after = page.locator(".chips .chip").evaluate_all("(all) => all.map((e) => e.offsetLeft)")
    assert after == places, "the bold form of a picked chip moves nothing"


def test_a_chip_of_several_tokens_stands_for_its_last(serve: Serve, visit: Visits) -> None:
    page = opened(serve, visit, "chips", asked={})
    chip(page, 6).locator(".text").click()
    answered(page, "chosen 8 0")
    chip(page, 6).locator(".id").nth(1).click()
    answered(page, "chosen 7 0")
    expect(chip(page, 6).locator(".id.query")).to_have_text(["8"])


def test_keys_move_and_pick(serve: Serve, visit: Visits) -> None:
    page = opened(serve, visit, "chips", asked={})
    chip(page, 0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(chip(page, 2)).to_be_focused()
    assert tip_rows(page)["Stelle 2"] == "·sat"
    page.keyboard.press("Enter")
    answered(page, "chosen 2 0")
    expect(chip(page, 2)).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("Shift+Enter")
    answered(page, "chosen 2 8")
    assert page.locator(".chips [tabindex='0']").count() == 1, "the strip is one stop of the tab key"


def test_a_long_press_picks_the_key(serve: Serve, visit: Visits) -> None:
    page = opened(serve, visit, "chips", asked={}, width=390, height=800, touch=True)
    chip(page, 3).tap()
    answered(page, "chosen 3 0")
    box = chip(page, 5).bounding_box()
    assert box is not None
    finger = page.context.new_cdp_session(page)
    place = {"x": box["x"] + 12, "y": box["y"] + 12}
    finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [place]})
    chosen(page, 3, 5)
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    answered(page, "chosen 3 5")


@pytest.mark.parametrize(("dark", "palette"), [(False, LIGHT), (True, DARK)], ids=["light", "dark"])
def test_shaded_chips_follow_the_scale_and_stay_readable(serve: Serve, visit: Visits, dark: bool, palette: Any) -> None:
    page = opened(serve, visit, "chips", asked={"shade": 1}, dark=dark)
    expect(chip(page, 0)).to_have_css("background-color", f"rgb{style.rgb(palette.sequential[0])}")
    expect(chip(page, 1)).to_have_css("background-color", f"rgb{style.rgb(palette.sequential[-1])}")
    expect(chip(page, 2)).to_have_css("background-color", f"rgb{style.rgb(palette.panel)}")
    ink = chip(page, 1).locator(".id").evaluate("(e) => getComputedStyle(e).color.match(/\\d+/g).map(Number)")
    hexed = "#" + "".join(f"{value:02X}" for value in ink[:3])
    assert style.contrast(hexed, palette.sequential[-1]) >= 4.5
    chip(page, 1).hover()
    assert tip_rows(page)["loss, nats"] == "4.00"


def test_many_chips_wrap_and_scroll_in_their_strip(serve: Serve, visit: Visits) -> None:
    page = opened(serve, visit, "chips", asked={"n": 256})
    strip = page.locator(".chips .strip")
    assert strip.evaluate("(e) => e.offsetHeight") <= 212
    assert strip.evaluate("(e) => e.scrollHeight > 300 && e.scrollWidth <= e.clientWidth")
    chip(page, 250).locator(".text").click()
    answered(page, "chosen 250 0")
    expect(chip(page, 250)).to_be_in_viewport()
