"""Any text goes into a figure as it stands."""

import re

import pytest

from model.graphemes import visible
from pages.kit.figures import style
from tests.cases import TEXTS
from tests.pages.reading import AWKWARD, drawn


@pytest.mark.parametrize("text", [*AWKWARD, *(text for _, text in TEXTS)])
def test_literal_text_survives_plotly(text: str) -> None:
    safe = style.literal(text)
    assert not set(safe) & set("<>\"'$%"), "markup, MathJax or a template could start here"
    assert re.fullmatch(r"(?:[^&]|&#\d+;)*", safe, re.DOTALL), "an entity that plotly would decode differently"
    assert drawn(safe) == style.visible(text)
    safe.encode()  # an unpaired surrogate would stop the page here


@pytest.mark.parametrize("text", ["plain", "·the", "猫 1/3", "👩‍👩‍👧‍👦", "naïve", "❤️", "  two  "])
def test_visible_leaves_ordinary_text_alone(text: str) -> None:
    assert style.visible(text) == text


def test_controls_become_visible() -> None:
    assert style.visible("a\x00\x1b\n\t\u202e\ud800\u200d") == "a⟨NUL⟩⟨ESC⟩↵⇥⟨RLO⟩⟨U+D800⟩\u200d"
    assert style.visible("\u200d") == "⟨ZWJ⟩", "a joiner with nothing to join is not invisible"
    assert style.visible(style.visible("\x07\u200b")) == style.visible("\x07\u200b")


def test_a_character_without_a_shape_has_one_name_in_figures_and_in_labels() -> None:
    chars = [*map(chr, range(32)), *"\x7f\u200b\u200d\u202e\u2028\u2029\ufeff\ue000\ud800"]
    assert [style.visible(char) for char in chars] == [visible(char) for char in chars]


@pytest.mark.parametrize("text", AWKWARD)
@pytest.mark.parametrize("width", [4, 12, 18])
def test_short_fits(text: str, width: int) -> None:
    cut = style.short(text, width)
    assert style.columns(cut) <= width
    assert len(cut) <= 4 * width + 1
    assert cut == style.visible(text) or (cut.endswith("…") and style.visible(text).startswith(cut[:-1]))
    assert cut, "never without a name"


def test_wide_characters_count_two() -> None:
    assert style.columns("猫 a") == 4
    assert style.columns("e\u0301") == 1
    assert style.columns("👩‍👩‍👧‍👦") == style.columns("👍🏽") == 2, "one picture, however many code points"
    assert style.short("👩‍👩‍👧‍👦 10/22", 12) == "👩‍👩‍👧‍👦 10/22"
    assert style.short("猫猫猫猫", 6) == "猫猫…"
