"""What the component of the tree sends, and what it refuses."""

from dataclasses import replace

import pytest

from pages.kit.components.tree import WORDS, Leaf, Twig, encode
from tests.pages.reading import AWKWARD

WORDING = dict.fromkeys(WORDS, "word")
TWIG = Twig(3, None, "·the", 1, 0.25, "text", "−1.39", "−1.39")


def test_all_that_a_twig_tells_is_sent() -> None:
    twigs = [TWIG, replace(TWIG, serial=5, parent=0, kind="dropped", special=True), replace(TWIG, serial=4, parent=0)]
    leaves = [Leaf(1, "−2.00", "dropped"), Leaf(2, "Greedy: ln p −3.00", "text", "Greedy"), Leaf(0, "Seed 2", "text")]
    sent = encode("…was", twigs, leaves, 5, words=WORDING, writing=True)
    assert (sent["root"], sent["here"], sent["writing"], sent["words"]) == ("…was", 5, True, WORDING)
    assert sent["twigs"][0] == {
        "s": 3,
        "parent": 0,
        "column": 1,
        "row": 0,
        "label": "·the",
        "spaces": 1,
        "p": 0.25,
        "kind": "text",
        "total": "−1.39",
        "mean": "−1.39",
        "special": False,
    }
    assert [(twig["parent"], twig["column"]) for twig in sent["twigs"]] == [(0, 1), (1, 2), (1, 2)]
    assert [(leaf["parent"], leaf["column"]) for leaf in sent["leaves"]] == [(2, 3), (3, 3), (1, 2)]
    assert sent["leaves"][1]["row"] == sent["twigs"][2]["row"], "what a text is worth stands behind it"
    assert sent["leaves"][1]["short"] == "Greedy"
    places = [(part["row"], part["column"]) for part in (*sent["twigs"], *sent["leaves"])]
    assert len(set(places)) == len(places)
    assert sent["rows"] == 1 + max(row for row, _ in places)


def test_before_anything_is_written_there_is_the_root() -> None:
    sent = encode("was", [], [], None, words=WORDING)
    assert (sent["twigs"], sent["leaves"], sent["rows"], sent["here"]) == ([], [], 1, None)


@pytest.mark.parametrize("label", AWKWARD)
def test_labels_go_as_they_are(label: str) -> None:
    sent = encode(label, [replace(TWIG, label=label)], [Leaf(0, label, "kept")], None, words=WORDING)
    assert sent["root"] == sent["twigs"][0]["label"] == sent["leaves"][0]["text"] == label


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"probability": -0.1}, "a probability of"),
        ({"probability": float("nan")}, "a probability of"),
        ({"kind": "lost"}, "kind 'lost'"),
        ({"parent": 0}, "parent of twig 0"),
        ({"parent": -1}, "parent of twig 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(changes: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        encode("", [replace(TWIG, **changes)], [], None, words=WORDING)


def test_a_leaf_is_at_a_twig_and_every_word_is_needed() -> None:
    with pytest.raises(ValueError, match="there is no twig 1"):
        encode("", [TWIG], [Leaf(1, "", "kept")], None, words=WORDING)
    for word in WORDS:
        with pytest.raises(ValueError, match=word):
            encode("", [], [], None, words={name: "word" for name in WORDS if name != word})
