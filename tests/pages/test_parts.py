"""What a part of a character is called is explained wherever in a token's name it stands."""

from types import SimpleNamespace

import pytest

from model.byte_level import labels
from pages.kit import parts
from pages.kit.prose import COMMON, Prose

HUI, CHUAN, GOU = (character.encode() for character in "回船狗")


@pytest.mark.parametrize(
    ("tokens", "name", "told"),
    [
        ([HUI[:2], HUI[2:]], "回 3/3", {"label": "回 3/3", "character": "回", "places": "3"}),
        ([HUI[:2], HUI[2:] + "家".encode()], "回 3/3 家", {"label": "回 3/3", "character": "回", "places": "3"}),
        ([HUI[:1], HUI[1:] + b"-"], "回 2–3/3 -", {"label": "回 2–3/3", "character": "回", "places": "2–3"}),
        (
            [CHUAN[:2], CHUAN[2:] + GOU[:1], GOU[1:]],
            "船 3/3 狗 1/3",
            {"label": "船 3/3", "character": "船", "places": "3"},
        ),
        ([b"\xe5\x9b", b"\xe9 is"], "⟨0xE9⟩ ·is", {"label": "⟨0xE9⟩"}),
        ([b"1/3", b" 2/3 of"], "·2/3·of", None),
    ],
)
def test_the_part_is_explained(
    monkeypatch: pytest.MonkeyPatch, tokens: list[bytes], name: str, told: dict[str, str] | None
) -> None:
    said: list[str] = []
    monkeypatch.setattr(parts.st, "caption", said.append)
    say = Prose(COMMON)
    assert labels(tokens)[1] == name
    parts.explain(SimpleNamespace(say=say), [name])
    if told is None:
        assert said == []
    elif "character" in told:
        assert said == [say("part_of_character", of="3", **told)]
    else:
        assert said == [say("byte_of_character", **told)]
