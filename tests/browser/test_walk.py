"""A reader's ways through the app, in a real browser on the real server."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from pages.kit.palette import DARK, LIGHT
from pages.kit.prose import Prose
from pages.kit.sitemap import PAGES, START
from tests.browser.conftest import WAIT_MS, Server, Visits, settled, start_server
from tests.cases import TEXTS
from tests.conftest import REPOSITORY

PATHS = {name: "/" if name == START else f"/{name}" for name in PAGES}
expect.set_options(timeout=WAIT_MS)
WRITTEN = {"English": "en", "中文": "zh"}
HUMAN_MS = 90  # between pressing a button and letting go


def link(page: Page, name: str, lang: str = "en") -> Locator:
    return page.locator(".st-key-navigation").get_by_role("link", name=Prose("common", lang).plain(f"page_{name}"))


def go(page: Page, name: str) -> None:
    link(page, name).click()
    expect(page.locator("h1")).to_have_text([Prose(name).plain("title")])
    settled(page)


def address(page: Page) -> tuple[str, dict[str, str]]:
    parts = urlsplit(page.url)
    return parts.path, {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}


def radio(page: Page, control: str) -> Locator:
    return page.locator(f'[class*="st-key-choose_{control}"] [role=radio][aria-checked=true]')


def chosen(page: Page, control: str) -> str:
    return radio(page, control).inner_text()


def choose(page: Page, control: str, value: str) -> None:
    page.locator(f'[class*="st-key-choose_{control}"]').get_by_role("radio", name=value, exact=True).click()
    # The button shows the choice at once; the address has it when the answer is there.
    expect(page).to_have_url(re.compile(rf"[?&]{control}={WRITTEN.get(value, value)}(&|$)"))
    settled(page)


@pytest.mark.parametrize("name", ["heads", START])
def test_a_deep_link_as_the_very_first_request_of_a_server(
    chromium: str, tmp_path: Path, visit: Visits, name: str
) -> None:
    """A fresh process runs the page's file alone, until somebody has opened the app.

    The start page, which Streamlit serves at /, is also found by its name.
    """
    server = start_server(REPOSITORY / "app.py", tmp_path)
    try:
        page = visit(f"{server.url}/{name}?layer=3&head=2")
        expect(page.locator("h1")).to_have_text([Prose(name).plain("title")])
        expect(link(page, "generation")).to_be_visible()
        settled(page)
        assert address(page) == (f"/{name}", {"layer": "3", "head": "2"})
        assert page.get_by_text("Page not found").count() == 0
        expect(page.locator(".st-key-current_page a")).to_have_text([Prose("common").plain(f"page_{name}")])
        assert page.title() == f"{Prose('common').plain(f'page_{name}')} · Transformer Atlas"
        go(page, "heads")
        assert (chosen(page, "layer"), chosen(page, "head")) == ("3", "2")
        page.close()
    finally:
        server.stop()


def test_the_pages_one_after_another(app: Server, visit: Visits) -> None:
    page = visit(app.url)
    for name in (*PAGES[1:], PAGES[0]):
        go(page, name)
        assert address(page)[0] == PATHS[name]
        assert page.get_by_test_id("stAlertContentError").count() == 0
        expect(page.locator(".st-key-current_page a")).to_have_text([Prose("common").plain(f"page_{name}")])


def test_the_links_at_the_end_tell_the_story_in_order(app: Server, visit: Visits) -> None:
    page = visit(app.url)
    for name in PAGES[1:]:
        page.locator(".st-key-onward").get_by_role("link").last.click()
        expect(page.locator("h1")).to_have_text([Prose(name).plain("title")])
        settled(page)
    assert page.locator(".st-key-onward").get_by_role("link").count() == 1


@pytest.mark.parametrize("name", PAGES)
def test_a_link_and_a_reload_show_the_same(app: Server, visit: Visits, name: str) -> None:
    wanted = {"layer": "2", "head": "5", "token": "3", "temperature": "0.5", "text": "one two <b>three</b> & 猫"}
    query = "layer=2&head=5&token=3&temperature=0.5&text=one+two+%3Cb%3Ethree%3C%2Fb%3E+%26+%E7%8C%AB"
    page = visit(f"{app.url}{PATHS[name]}?{query}")
    for _ in range(2):
        expect(page.locator("textarea").first).to_have_value(wanted["text"])
        settled(page)
        assert address(page) == (PATHS[name], wanted)
        page.reload()
        settled(page)


def test_choices_outlive_page_changes_and_links_carry_them(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/attention?layer=0&head=0")
    choose(page, "layer", "4")
    choose(page, "head", "6")
    go(page, "overview")
    href = link(page, "heads").get_attribute("href")
    assert href is not None
    assert parse_qs(urlsplit(href).query) == {"layer": ["4"], "head": ["6"]}
    go(page, "heads")
    assert (chosen(page, "layer"), chosen(page, "head")) == ("4", "6")


def test_back_and_forward(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/attention?head=1&layer=0")
    choose(page, "layer", "2")
    choose(page, "layer", "5")
    go(page, "heads")
    for path, layer in (("/attention", "5"), ("/attention", "2"), ("/attention", "0")):
        page.go_back()
        expect(radio(page, "layer")).to_have_text([layer])
        settled(page)
        assert address(page) == (path, {"layer": layer, "head": "1"})
    page.go_forward()
    expect(radio(page, "layer")).to_have_text(["2"])


@pytest.mark.parametrize("pause", [HUMAN_MS, 2 * HUMAN_MS])
def test_a_text_typed_and_a_link_clicked_at_once(app: Server, visit: Visits, pause: int) -> None:
    """The text is handed over when the box loses the focus: with the very click that leaves the page."""
    page = visit(app.url)
    page.locator("textarea").first.fill("我今天很开心")
    link(page, "heads").click(delay=pause)
    expect(page.locator("h1")).to_have_text([Prose("heads").plain("title")])
    expect(page.locator(".atlas-count")).to_have_text([re.compile("^4 tokens")])
    expect(page.locator("textarea").first).to_have_value("我今天很开心")
    settled(page)
    assert address(page) == ("/heads", {"text": "我今天很开心"})


def test_a_text_typed_and_a_link_tapped(app: Server, visit: Visits) -> None:
    """A tap presses, releases and clicks in one moment, the one in which the box loses the focus."""
    page = visit(f"{app.url}/next_token?temperature=0.7&top_k=40", touch=True, width=1280)
    for name, text in (("overview", "three four five"), ("next_token", "six seven"), ("heads", "我今天很开心")):
        box = page.locator("textarea").first
        box.click()
        box.fill(text)
        link(page, name).tap()
        expect(page.locator("h1")).to_have_text([Prose(name).plain("title")])
        settled(page)
        assert address(page)[1] == {"text": text, "temperature": "0.7", "top_k": "40"}


LOSE_NEXT = """() => {
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function () { WebSocket.prototype.send = send; };
}"""


def test_a_click_that_got_lost_is_made_again(app: Server, visit: Visits) -> None:
    """Streamlit loses a page when another request is right behind it; here the network swallows the click."""
    page = visit(app.url)
    page.evaluate(LOSE_NEXT)
    go(page, "heads")
    assert address(page)[0] == "/heads"


def test_clicks_faster_than_the_answers(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/attention")
    for layer in ("1", "3", "0", "5"):
        page.locator('[class*="st-key-choose_layer"]').get_by_role("radio", name=layer, exact=True).click()
    expect(page.locator(".atlas-caption").first).to_contain_text(["layer 5"])
    settled(page)
    assert chosen(page, "layer") == "5"
    assert address(page)[1]["layer"] == "5"


def test_the_keyboard_reaches_text_language_and_pages(app: Server, visit: Visits) -> None:
    page = visit(app.url)
    page.locator("textarea").first.focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("one two")
    page.keyboard.press("ControlOrMeta+Enter")
    expect(page.locator(".atlas-count")).to_have_text(["2 tokens"])
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.innerText.trim()"))
        if page.evaluate("document.activeElement.pathname ?? ''") == "/heads":
            break
    assert "English" in reached
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text([Prose("heads").plain("title")])


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("text", ["The little cat sat on the mat because it was", "word" * 60 + " cat" * 200])
def test_nothing_scrolls_sideways_on_a_phone(app: Server, visit: Visits, name: str, text: str) -> None:
    page = visit(f"{app.url}{PATHS[name]}?text={text}", width=390, height=844, touch=True)
    expect(page.locator("h1")).to_have_text([Prose(name).plain("title")])
    expect(page.locator(".st-key-onward")).to_be_visible()
    settled(page)
    for element in ("document.documentElement", "document.querySelector('[data-testid=stMain]')"):
        wide, shown = page.evaluate(f"[{element}.scrollWidth, {element}.clientWidth]")
        assert wide <= shown, element


def test_a_page_chosen_on_a_phone_comes_into_view(app: Server, visit: Visits) -> None:
    page = visit(app.url, width=390, height=844, touch=True)
    expect(page.locator("h1")).to_have_text([Prose(START).plain("title")])
    page.get_by_test_id("stExpandSidebarButton").click()
    link(page, "heads").click()
    expect(page.locator("h1")).to_have_text([Prose("heads").plain("title")])
    expect(page.get_by_test_id("stExpandSidebarButton")).to_be_visible()
    expect(page.locator("h1")).to_be_in_viewport()


def colour(code: str) -> str:
    red, green, blue = (int(code[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


def test_the_list_of_models_to_fetch_opens(app: Server, visit: Visits) -> None:
    page = visit(app.url)
    page.locator(".st-key-more_models button").first.click()
    expect(page.locator(".st-key-models_to_get").get_by_role("button").first).to_be_visible()
    settled(page)
    page.keyboard.press("Escape")
    expect(page.locator(".st-key-models_to_get")).to_have_count(0)


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_follow_the_browser(app: Server, visit: Visits, dark: bool) -> None:
    page = visit(f"{app.url}/attention", dark=dark)
    palette = DARK if dark else LIGHT
    expect(page.locator(".stApp")).to_have_css("background-color", colour(palette.paper))
    expect(page.locator(".atlas-caption").first).to_have_css("color", colour(palette.muted))
    expect(page.locator(".st-key-current_page a p")).to_have_css("color", colour(palette.accent))


def test_a_switch_of_the_theme_recolours_the_figures(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/attention")
    caption = page.locator(".atlas-caption").first
    expect(caption).to_have_css("color", colour(LIGHT.muted))
    expect(page.locator(".st-key-onward")).to_be_visible()
    settled(page)
    page.get_by_test_id("stMainMenuButton").click()
    page.get_by_test_id("stMainMenuItem-theme-Dark").click()
    expect(page.locator(".stApp")).to_have_css("background-color", colour(DARK.paper))
    expect(caption).to_have_css("color", colour(DARK.muted))


def test_chinese_readers_get_chinese_and_may_change(app: Server, visit: Visits) -> None:
    page = visit(app.url, locale="zh-CN")
    expect(page.locator("h1")).to_have_text([Prose(START, "zh").plain("title")])
    link(page, "heads", "zh").click()
    expect(page.locator("h1")).to_have_text([Prose("heads", "zh").plain("title")])
    choose(page, "lang", "English")
    expect(page.locator("h1")).to_have_text([Prose("heads").plain("title")])
    assert address(page)[1]["lang"] == "en"
    page.reload()
    expect(page.locator("h1")).to_have_text([Prose("heads").plain("title")])


MARKDOWN = """
import streamlit as st
from pages.kit.prose import code, escape
from tests.cases import TEXTS

for name, text in TEXTS:
    with st.container(key=f"escaped_{name}"):
        st.markdown(f"{escape(text[:500])}.")
    with st.container(key=f"code_{name}"):
        st.markdown(f"{code(text[:500])}.")
    with st.container(key=f"label_{name}"):
        st.checkbox(f"{escape(text[:500])}.")
"""


def test_text_in_prose_is_drawn_as_it_stands(serve: Callable[[str], Server], visit: Visits) -> None:
    from pages.kit.prose import visible

    page = visit(serve(MARKDOWN).url)
    for name, text in TEXTS:
        wanted = " ".join(f"{visible(text[:500])}.".replace("\u2060", "").split())
        for form in ("escaped", "code", "label"):
            box = page.locator(f".st-key-{form}_{name}")
            box.wait_for()
            shown = " ".join((box.text_content() or "").replace("\u2060", "").split())
            assert shown.replace(" .", ".") == wanted.replace(" .", "."), (form, name)
            assert box.locator(".katex, a, strong, em, h1, img, del").count() == 0, (form, name)
