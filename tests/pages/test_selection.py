"""The selection: one state, mirrored in the address, repaired where it does not fit."""

import re
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.sampling import SamplingSettings
from pages.kit import address, choices, notices, repairs
from pages.kit.address import from_parameters, to_parameters
from pages.kit.choices import DEFAULT_TEXT, RANGES, Selection
from pages.kit.limits import MAX_LINK_CHARACTERS, MAX_TOKENS
from pages.kit.prose import COMMON, LANGUAGES, Prose, sections
from pages.kit.sitemap import PAGES
from tests.pages.visit import remarks, selection, turn_to, visit, well


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Outside of a visit there is no session to note things in."""
    found: list[str] = []
    monkeypatch.setattr(notices, "add", lambda section, **_: found.append(section))
    return found


def test_what_is_not_chosen_is_not_in_the_address() -> None:
    assert to_parameters(Selection()) == {}
    assert from_parameters({}) == Selection()


CHOSEN = Selection(
    text="a&b=c #?%\n  猫 <b>",
    ids=(394, 554),
    layer=0,
    head=3,
    query=4,
    key=0,
    lang="zh",
    temperature=0.0,
    top_k=7,
    top_p=0.35,
    min_p=0.05,
    penalty=1.15,
    seed=12,
)


def test_every_choice_comes_back_from_the_address() -> None:
    parameters = to_parameters(CHOSEN)
    assert from_parameters(parameters) == CHOSEN
    assert parameters["ids"] == "394-554"
    assert parameters["token"] == "4"
    assert "query" not in parameters


@given(
    st.fixed_dictionaries(
        {},
        optional={
            f.name: st.text(max_size=30) | st.integers().map(str) | st.floats().map(str) for f in fields(Selection)
        }
        | {"token": st.text(max_size=9), "ids": st.text("0123456789-", max_size=40)},
    )
)
def test_any_address_is_read_and_written_again(parameters: dict[str, str]) -> None:
    read = from_parameters(parameters)
    assert from_parameters(to_parameters(read)) == read


@pytest.mark.parametrize("preferred", ["en", "zh"])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [*DEFAULT_TEXT.values(), "mine", ""])
def test_a_link_shows_the_same_to_readers_of_any_language(
    monkeypatch: pytest.MonkeyPatch, preferred: str, lang: str, text: str
) -> None:
    """The language of the interface may differ, the text that is looked at may not."""
    monkeypatch.setattr(address, "preferred_language", lambda: preferred)
    link = to_parameters(Selection(lang=lang, text=text, layer=3))
    for other in ("en", "zh"):
        monkeypatch.setattr(address, "preferred_language", lambda other=other: other)
        assert from_parameters(link).text == text


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("field", [f.name for f in fields(Selection)])
def test_every_choice_has_a_name_for_readers(field: str, lang: str) -> None:
    name = notices.label(field, lang)
    assert name in {text for page in (COMMON, *PAGES) for text in sections(page, lang).values()}
    assert len(name) <= 30
    assert not set(name) & set("_{}\n")


def test_long_texts_stay_out_of_the_address() -> None:
    assert "text" in to_parameters(Selection(text="x" * MAX_LINK_CHARACTERS))
    assert "text" not in to_parameters(Selection(text="x" * (MAX_LINK_CHARACTERS + 1)))


def test_sampling_settings_are_those_of_the_model_room() -> None:
    assert CHOSEN.sampling == SamplingSettings(0.0, 7, 0.35, 0.05, 1.15, 12)
    for name, (low, high) in RANGES.items():
        for value in (low, high):
            _ = replace(Selection(), **{name: value}).sampling  # raises where the range is too wide


@pytest.mark.parametrize(
    ("given_", "used", "section"),
    [
        ({"layer": 11}, {"layer": 5}, "clamped_layer"),
        ({"layer": -1}, {"layer": 0}, "clamped_layer"),
        ({"head": 8}, {"head": 7}, "clamped_head"),
        ({"query": 10}, {"query": 9}, "clamped_query"),
        ({"key": 99}, {"key": 9}, "clamped_key"),
        ({"ids": (1, 2), "query": 5}, {"ids": (1, 2), "query": 1}, "clamped_query"),
        ({"rows": (9, 3, 3)}, {"rows": (9, 3)}, None),
        ({"rows": (3, 10)}, {"rows": (3,)}, "unknown_rows"),
        ({"rows": (10,)}, {"rows": None}, "unknown_rows"),
        ({"ids": ()}, {"ids": None}, "unknown_ids"),
        ({"ids": (8192,)}, {"ids": None}, "unknown_ids"),
        ({"ids": (-1,)}, {"ids": None}, "unknown_ids"),
        ({"ids": (7,) * (MAX_TOKENS + 1)}, {"ids": (7,) * MAX_TOKENS}, "too_many_ids"),
        ({"temperature": 1e9}, {"temperature": RANGES["temperature"][1]}, "clamped_number"),
        ({"top_k": -3}, {"top_k": 0}, "clamped_number"),
        ({"top_p": 1.5}, {"top_p": 1.0}, "clamped_number"),
        ({"seed": -1}, {"seed": 0}, "clamped_number"),
        ({"scale": "cubic"}, {"scale": "linear"}, "unreadable"),
        ({"mask": "all"}, {"mask": None}, "unreadable"),
        ({"mask": "window", "scale": "log"}, {}, None),
        ({"translation_beam": 3}, {"translation_beam": 4}, "unreadable"),
        ({"number": -1}, {"number": 0}, "clamped_number"),
        ({"number": 10**6}, {"number": 255}, "clamped_number"),
        ({"model": "/etc/passwd"}, {"model": choices.DEFAULT_MODEL}, "unknown_model"),
        ({"model": "translator"}, {"model": choices.DEFAULT_MODEL}, "unknown_model"),  # not for pages about one model
        ({}, {}, None),
    ],
)
def test_what_does_not_fit_is_brought_into_range(
    said: list[str], given_: dict, used: dict, section: str | None
) -> None:
    asked = replace(Selection(), **given_)
    assert repairs.repaired(asked) == replace(asked, **used)
    assert said == ([section] if section else [])


class TestVisits:
    """The same in the running app."""

    @pytest.fixture(autouse=True)
    def said(self) -> None:
        """Here notices are real."""

    def test_repairs_are_said_until_the_next_choice(self) -> None:
        app = well(visit("heads", layer="11", temperature="nan", ids="1-x", lang="tlh"))
        said = remarks(app)
        assert "no layer 11" in said
        assert "You see layer 5" in said
        for name in ("Temperature", "Token ids", "Language"):
            assert f"“{name}”" in said
        assert app.query_params == {"layer": "5"}
        app.run()
        assert remarks(app) == said
        app.sidebar.text_area[0].set_value("another text").run()
        assert remarks(app) == ""

    @pytest.mark.parametrize(
        ("lang", "says"),
        [("en", ["“Temperature” cannot be 1,000,000,000. You see 3.", "“top-k” cannot be −7. You see 0."]),
         ("zh", ["“温度”不能是 1,000,000,000，现在用的是 3。", "“top-k”不能是 −7，现在用的是 0。"])],
    )  # fmt: skip
    def test_what_is_out_of_range_is_said_in_the_readers_words(self, lang: str, says: list[str]) -> None:
        said = remarks(well(visit("next_token", temperature="1e9", top_k="-7", lang=lang)))
        for sentence in says:
            assert sentence in said
        assert "_" not in said

    def test_nought_is_written_one_way(self) -> None:
        app = well(visit("next_token", temperature="-0"))
        assert app.query_params["temperature"] == "0"

    def test_a_long_text_is_counted_with_commas(self) -> None:
        app = well(visit(text="a " * 1_990))
        assert re.search(rf"{MAX_TOKENS} of \d,\d{{3}} tokens", "".join(e.proto.body for e in app.sidebar.get("html")))

    def test_markup_in_the_address_stays_text(self) -> None:
        app = well(visit(model="<img src=x onerror=alert(1)>"))
        assert "&lt;img src=x" in remarks(app)
        assert "<img" not in remarks(app)

    def test_every_page_keeps_every_choice(self) -> None:
        app = visit(layer="4", head="1", token="3", key="2", temperature="0.5", top_p="0.9", text="one two three four")
        before = selection(app)
        for page in (*PAGES, *reversed(PAGES)):
            turn_to(app, page)
            assert selection(well(app)) == before
            assert app.query_params["head"] == "1"

    def test_a_new_text_keeps_query_and_key_where_the_tokens_up_to_them_are_the_same(self) -> None:
        app = visit(text="The little cat sat", token="2", key="1")
        app.sidebar.text_area[0].set_value("The little cat ran away").run()
        assert (selection(app).query, selection(app).key) == (2, 1)
        app.sidebar.text_area[0].set_value("The little dog ran away").run()
        assert (selection(app).query, selection(app).key) == (None, 1)
        app.sidebar.text_area[0].set_value("A little dog ran away").run()
        assert (selection(app).query, selection(app).key) == (None, None)
        app = visit(text="The little cat sat", token="3", rows="0-1-3")
        app.sidebar.text_area[0].set_value("The little").run()
        assert (selection(app).query, selection(app).rows) == (None, (0, 1))
        assert remarks(app) == "", "a new text is no mistake of the reader"

    def test_a_rewound_generation_is_shown_until_the_text_changes(self) -> None:
        app = well(visit(text="The", ids="394-554-1043"))
        assert "3 tokens" in "".join(e.proto.body for e in app.sidebar.get("html"))
        assert app.sidebar.text_area[0].value == "The little cat"
        app.sidebar.button(key="back_to_text").click().run()
        assert (selection(well(app)).ids, selection(app).text) == (None, "The")
        assert "ids" not in app.query_params
        assert app.sidebar.text_area[0].value == "The"
        again = visit(text="The", ids="394-554-1043")
        again.sidebar.text_area[0].set_value("The little cats").run()
        assert (selection(again).ids, selection(again).text) == (None, "The little cats")

    def test_a_control_that_reports_nothing_changes_nothing(self) -> None:
        """Streamlit does so for buttons in a row whose answer was broken off, though one of them is always chosen."""
        app = visit("attention", layer="2", head="3")
        before = selection(app)
        control = next(one for one in app.main.segmented_control if "scaling" in one.key)
        control.set_value(None).run()
        assert selection(well(app)) == before
        assert app.query_params == {"layer": "2", "head": "3"}

    def test_what_the_browser_says_of_an_older_answer_is_no_choice(self) -> None:
        """With each click the browser sends the values of all widgets, also those that the last answer was to change.

        Streamlit would take them for new ones: a text and, at once, a click on a link would bring the old text back.
        """
        app = visit()
        app.sidebar.text_area[0].set_value("mine")
        typed = app._tree.get_widget_states()
        app._run(typed)
        assert app.sidebar.pills[0].value is None
        app._run(typed)  # the next click; the browser has not heard yet that no example is chosen any more
        assert selection(app).text == "mine"

        app = visit()
        app.sidebar.pills[0].set_value("pattern")
        clicked = app._tree.get_widget_states()
        app._run(clicked)
        app._run(clicked)  # not heard yet: the text of the example
        assert selection(app).text == Prose("common").plain("example_pattern_text")
        assert app.sidebar.text_area[0].value == selection(app).text
