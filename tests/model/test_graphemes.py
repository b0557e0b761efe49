"""Signs for what cannot be seen, and what must stay as it is."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.graphemes import boundaries, visible

FAMILY = "👩\u200d👩\u200d👧\u200d👦"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" a b ", "·a·b·"),
        ("\t\r\n\n", "⇥⟨CR⟩↵↵"),
        ("\0\a\x1b\x7f", "⟨NUL⟩⟨BEL⟩⟨ESC⟩⟨DEL⟩"),
        ("\x85", "⟨U+0085⟩"),
        ("\u00a0\u3000\u2003", "⍽⟨U+3000⟩⟨U+2003⟩"),
        ("zero\u200bwidth\u200djoin\ufeffbom", "zero⟨ZWSP⟩width⟨ZWJ⟩join⟨BOM⟩bom"),
        ("\u202eabc\u2066\u200f", "⟨RLO⟩abc⟨LRI⟩⟨RLM⟩"),
        ("soft\u00adhyphen", "soft⟨SHY⟩hyphen"),
        ("\ue000\U0010ffff\ud800", "⟨U+E000⟩⟨U+10FFFF⟩⟨U+D800⟩"),
        ("\u3164\u2800", "⟨U+3164⟩⟨U+2800⟩"),
        ("\u0301x", "◌\u0301x"),
        (" \u0301", "·◌\u0301"),
        ("\u200d", "⟨ZWJ⟩"),
        ("\ufe0f", "⟨VS16⟩"),
        ("a\u200c\u0301", "a⟨ZWNJ⟩◌\u0301"),
        ("\U000e0067", "⟨U+E0067⟩"),
        ("a\U000e0067", "a⟨U+E0067⟩"),
    ],
)
def test_signs(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        FAMILY,
        "🇫🇷🇨🇳",
        "👍🏽",
        "❤\ufe0f",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "e\u0301n\u0303",
        "क्षि",
        "क्\u200dष",
        "ไทย",
        "각",
        "\u1100\u1161\u11a8",
        "مرحبا",
        "\u0600١",  # a sign that spans the digits after it: a format character with a shape
        "🫨",  # Unicode 15, newer than Python's own tables
        "<b>&amp;$x$</b>",
    ],
)
def test_what_has_a_shape_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize("text", [FAMILY, "🇫🇷", "👍🏽", "❤\ufe0f", "e\u0301", "क्षि", "각", "\r\n"])
def test_one_cluster(text: str) -> None:
    assert boundaries(text) == [len(text)]
    assert boundaries("a" + text + "a") == [1, 1 + len(text), 2 + len(text)]


@given(st.text(st.characters()))
def test_nothing_invisible_is_left(text: str) -> None:
    shown = visible(text)
    assert bool(shown) == bool(text)
    left = {c for c in shown if unicodedata.category(c) in {"Cc", "Cs", "Co", "Zs", "Zl", "Zp"}}
    assert left == set()
    assert visible(shown.replace("\u200d", "")).replace("\u200d", "") == shown.replace("\u200d", "")


@given(st.text())
def test_boundaries_ascend_to_the_end(text: str) -> None:
    ends = boundaries(text)
    assert ends == sorted(set(ends))
    assert ends[-1:] == ([len(text)] if text else [])
