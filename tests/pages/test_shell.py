"""The shell: every page takes every text, limits are kept on the server and said, faults stay on their page."""

import logging
import tomllib

import pytest
from streamlit.testing.v1 import AppTest

from model.language import LanguageModel
from pages.kit import limits, loading
from pages.kit.palette import DARK, LIGHT
from pages.kit.prose import Prose
from pages.kit.sitemap import PAGES, SITEMAP
from tests.cases import TEXTS
from tests.conftest import REPOSITORY
from tests.pages.component_io import sent
from tests.pages.visit import WITHOUT_STRIP, remarks, selection, turn_to, visit, well

LONG = dict(TEXTS)["long_text"]


@pytest.fixture(scope="module")
def visits() -> dict[str, AppTest]:
    """One visit a page, that goes through all texts as a reader would."""
    return {}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("name", "text"), TEXTS, ids=[name for name, _ in TEXTS])
def test_every_page_takes_every_text(
    visits: dict[str, AppTest], storyteller: LanguageModel, page: str, name: str, text: str
) -> None:
    if page not in visits:
        visits[page] = well(visit(page))
    app = visits[page]
    app.sidebar.text_area[0].set_value(text).run()
    well(app)
    assert app.title[0].value == Prose(page).plain("title")
    assert app.sidebar.text_area[0].value == text, "the box keeps what was typed"
    if page in WITHOUT_STRIP:
        return
    header, _ = sent(app, "strip")
    data = b"".join(bytes.fromhex(piece["bytes"]) for piece in header["pieces"])
    if name == "empty":
        assert [piece["special"] for piece in header["pieces"]] == [True]
    elif header["n_tokens"] < limits.MAX_TOKENS:
        assert data.decode() == text
    else:
        assert text.encode().startswith(data)
        assert data == storyteller.tokenizer.decode(storyteller.tokenizer.encode(text)[: limits.MAX_TOKENS]).encode()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_is_opened_first_has_the_shell(page: str) -> None:
    """AppTest runs a page's file alone, as a fresh server does; see `ensure_shell`."""
    app = well(visit(page, layer="2"))
    assert app.title[0].value == Prose(page).plain("title")
    assert len(app.sidebar.get("page_link")) == len(PAGES)
    assert selection(app).layer == 2
    assert app.query_params == {"layer": "2"}


@pytest.mark.parametrize("page", PAGES)
def test_headings_leave_no_level_out(page: str) -> None:
    app = well(visit(page))
    assert len(app.title) == 1
    assert app.header
    assert [heading.value for heading in app.subheader] == []


def test_navigation_follows_the_sitemap_and_carries_the_selection() -> None:
    app = visit("heads", layer="3", text="a b")
    links = [link.proto for link in app.sidebar.get("page_link")]
    assert [link.page or PAGES[0] for link in links] == list(PAGES)
    assert {link.query_string for link in links} == {"layer=3&text=a+b"}
    headings = [e.proto.body for e in app.sidebar.get("html") if "atlas-section" in e.proto.body]
    assert [Prose("common").html(section.name) in heading for section, heading in zip(SITEMAP, headings, strict=True)]
    onward = [link.proto.page for link in app.main.get("page_link")][-2:]
    here = PAGES.index("heads")
    assert onward == [PAGES[here - 1], PAGES[here + 1]]


def test_a_long_text_is_cut_for_the_run_only() -> None:
    app = visit()
    app.sidebar.text_area[0].set_value(LONG).run()
    said = remarks(well(app))
    assert len(LONG) > limits.MAX_CHARACTERS
    for part in (f"{len(LONG):,} characters", f"first {limits.MAX_CHARACTERS:,}", f"first {limits.MAX_TOKENS}", "link"):
        assert part in said
    assert selection(app).text == LONG
    assert "text" not in app.query_params
    turn_to(app, "heads")
    assert app.sidebar.text_area[0].value == LONG


def test_the_limits_hold_at_their_edges(storyteller: LanguageModel) -> None:
    at_most = limits.excerpt(storyteller, "a" * limits.MAX_CHARACTERS)
    assert not at_most.characters_cut
    more = limits.excerpt(storyteller, "a" * (limits.MAX_CHARACTERS + 1))
    assert more.characters_cut
    assert more.ids == at_most.ids
    words = " cat" * limits.MAX_TOKENS
    assert len(storyteller.tokenizer.encode(words)) == limits.MAX_TOKENS
    assert not limits.excerpt(storyteller, words).tokens_cut
    cut = limits.excerpt(storyteller, words + " cat")
    assert cut.tokens_cut
    assert (len(cut.ids), cut.n_tokens) == (limits.MAX_TOKENS, limits.MAX_TOKENS + 1)


def test_nothing_typed_runs_the_start_token(storyteller: LanguageModel) -> None:
    app = visit(text="")
    assert "no text yet" in remarks(well(app))
    assert loading.run_ids(selection(app)) == (storyteller.config.bos_id,)
    app.sidebar.text_area[0].set_value(" \n ").run()
    assert "white space" in remarks(well(app))


def test_the_language_is_the_browsers_until_the_reader_chooses() -> None:
    app = visit(locale="zh-CN")
    assert app.title[0].value == Prose("overview", "zh").plain("title")
    assert selection(app).text == Prose("common").plain("example_chinese_text")
    assert app.query_params == {}
    app.sidebar.segmented_control(key="choose_lang").set_value("en").run()
    assert app.title[0].value == Prose("overview").plain("title")
    assert app.query_params["lang"] == "en"
    assert selection(app).text == Prose("common").plain("example_chinese_text"), "what was there stays"
    assert visit(locale="zh-CN", lang="en").title[0].value == Prose("overview").plain("title")
    assert visit(locale="fr").title[0].value == Prose("overview").plain("title")


def test_examples_fill_the_box() -> None:
    app = visit()
    assert app.sidebar.pills[0].value == "english"
    for name in ("chinese", "code", "pattern"):
        app.sidebar.pills[0].set_value(name).run()
        text = Prose("common").plain(f"example_{name}_text")
        assert app.sidebar.text_area[0].value == selection(well(app)).text == text
        assert app.sidebar.pills[0].value == name
    app.sidebar.text_area[0].set_value("mine").run()
    assert app.sidebar.pills[0].value is None
    app.sidebar.pills[0].set_value("pattern").run()
    assert selection(app).text == text


def test_a_fault_is_one_sentence_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = visit("heads", layer="3", lang="zh", text="a b")
    with monkeypatch.context() as broken:
        broken.setattr(loading, "trace", lambda *_: 1 / 0)
        turn_to(app, "attention")
        assert not app.exception
        assert [error.value for error in app.error] == [Prose("attention", "zh")("page_failed")]
        app.sidebar.text_area[0].set_value("typed meanwhile").run()
        assert len(app.error) == 1
    assert any(record.levelno == logging.ERROR and record.exc_info for record in caplog.records)
    assert "ZeroDivisionError" in caplog.text
    turn_to(app, "heads")
    well(app)
    assert (selection(app).layer, selection(app).text) == (3, "typed meanwhile")


def test_a_model_that_cannot_be_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise OSError("no such file")

    monkeypatch.setattr(loading, "model", missing)
    app = visit()
    assert not app.exception
    assert [error.value for error in app.error] == [Prose("common")("start_failed")]


def test_colours_are_the_same_in_styles_and_theme() -> None:
    style = (REPOSITORY / "pages" / "kit" / "style.css").read_text(encoding="utf-8")
    theme = tomllib.loads((REPOSITORY / ".streamlit" / "config.toml").read_text(encoding="utf-8"))["theme"]
    for name in ("paper", "panel", "ink", "muted", "line", "accent", "query", "key", "value"):
        light, dark = getattr(LIGHT, name), getattr(DARK, name)
        assert f"--atlas-{name}: light-dark({light}, {dark});" in style
    names = {"paper": "backgroundColor", "panel": "secondaryBackgroundColor", "ink": "textColor", "line": "borderColor"}
    names |= {"accent": "primaryColor", "query": "blueColor", "key": "orangeColor", "value": "greenColor"}
    for mode, palette in (("light", LIGHT), ("dark", DARK)):
        assert {name: theme[mode][option] for name, option in names.items()} == {
            name: getattr(palette, name) for name in names
        }
