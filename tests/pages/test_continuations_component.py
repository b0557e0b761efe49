"""What the component of continuations sends, and what it refuses."""

from dataclasses import replace

import pytest

from pages.kit.components.continuations import WORDS, Chip, Row, encode
from tests.pages.reading import AWKWARD

WORDING = dict.fromkeys(WORDS, "word")
CHIP = Chip("·the", 1, 263, 0.25, "3", "0.31", (("·a", "0.400"), ("</s>", "0.100")))


def test_all_that_a_chip_tells_is_sent() -> None:
    row = Row("Greedy", "2 tokens", [CHIP, replace(CHIP, special=True, by_reader=True, joined=True)], writing=True)
    sent = encode([row], (0, 1), words=WORDING, ask=4)
    assert (sent["row"], sent["place"], sent["ask"]) == (0, 1, 4)
    (shown,) = sent["rows"]
    assert (shown["title"], shown["note"], shown["writing"]) == ("Greedy", "2 tokens", True)
    first, second = shown["chips"]
    assert first == {
        "label": "·the",
        "spaces": 1,
        "id": 263,
        "p": 0.25,
        "rank": "3",
        "final": "0.31",
        "instead": (("·a", "0.400"), ("</s>", "0.100")),
        "special": False,
        "by_reader": False,
        "joined": False,
    }
    assert second == first | {"special": True, "by_reader": True, "joined": True}


@pytest.mark.parametrize("label", AWKWARD)
def test_labels_go_as_they_are(label: str) -> None:
    sent = encode([Row(label, label, [replace(CHIP, label=label)])], None, words=WORDING)
    assert sent["rows"][0]["title"] == sent["rows"][0]["chips"][0]["label"] == label
    assert sent["row"] is sent["place"] is None


@pytest.mark.parametrize("picked", [(1, 0), (0, 1), (-1, 0), (0, -1)])
def test_what_is_picked_exists(picked: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="there is no token"):
        encode([Row("", "", [CHIP])], picked, words=WORDING)


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_a_probability_is_one(p: float) -> None:
    with pytest.raises(ValueError, match="a probability of"):
        encode([Row("", "", [replace(CHIP, probability=p)])], None, words=WORDING)


@pytest.mark.parametrize("word", WORDS)
def test_every_word_is_needed(word: str) -> None:
    with pytest.raises(ValueError, match=word):
        encode([], None, words={name: "word" for name in WORDS if name != word})
