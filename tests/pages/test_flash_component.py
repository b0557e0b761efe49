"""What the component of flash attention sends, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest

from pages.kit.components.flash import WORDS, Step, encode
from tests.pages.reading import AWKWARD

WORDING = dict.fromkeys(WORDS, "word")
INF = np.inf
OUTS = [[1, 2, 3], [4, 5, 6]]
STEPS = [
    Step((0, 2, 0, 2), [[1, -INF], [3, 4]], [[1, 0], [0.5, 1]], [1, 4], [0, 0], [1, 1.5], [1, 1.5], OUTS),
    Step((2, 3, 0, 2), [[5, 6]], [[0.25, 1]], [6], [0], [1.25], [1.25], [[7, 8, 9]]),
]  # fmt: skip
OUT = np.arange(9.0).reshape(3, 3)
LABELS = ["a", "b", "b"]


def encoded(steps=STEPS, out=OUT, labels=LABELS, step=0, query=None, words=WORDING):
    return encode(steps, [(0, 2, 2, 3)], out, labels, step, query, id="it", words=words)


def test_tiles_go_one_after_the_other_and_masked_is_nan() -> None:
    header, (scores, weights, rows, outs, final) = encoded(step=2, query=1)
    assert header["places"] == [[0, 2, 0, 2], [2, 3, 0, 2]]
    assert header["skipped"] == [[0, 2, 2, 3]]
    assert (header["step"], header["query"], header["d"]) == (2, 1, 3)
    np.testing.assert_array_equal(scores, np.array([1, np.nan, 3, 4, 5, 6], dtype=np.float32))
    assert weights.tolist() == [1, 0, 0.5, 1, 0.25, 1]
    assert rows.reshape(-1, 4).tolist() == [[1, 0, 1, 1], [4, 0, 1.5, 1.5], [6, 0, 1.25, 1.25]]
    assert outs.tolist() == list(range(1, 10))
    assert final.tolist() == OUT.tolist()
    assert (header["scores_high"], header["out_high"], header["final_high"], header["total_high"]) == (6, 9, 8, 1.5)
    assert {array.dtype for array in (scores, weights, rows, outs, final)} == {np.dtype("float32")}


@pytest.mark.parametrize("label", AWKWARD)
def test_labels_go_as_they_are(label: str) -> None:
    assert encoded(labels=[label] * 3)[0]["labels"] == [label] * 3


def test_a_tile_of_zeros_has_a_scale_too() -> None:
    flat = [replace(STEPS[1], place=(0, 1, 0, 2), scores=[[0, 0]], out=[[0, 0, 0]], total=[0])]
    header, _ = encode(flat, [], [[0, 0, 0]], ["a"], 0, None, id="", words=WORDING)
    assert (header["scores_high"], header["out_high"], header["final_high"], header["total_high"]) == (1, 1, 1, 1)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"steps": []}, "no tile"),
        ({"labels": []}, "no tile"),
        ({"labels": ["a", "b"]}, "for 2 tokens"),
        ({"out": OUT.ravel()}, "for 3 tokens"),
        ({"step": 3}, "step 3 of 3"),
        ({"step": -1}, "step -1"),
        ({"query": 3}, "query 3 of 3"),
        ({"steps": [replace(STEPS[0], place=(0, 2, 0, 3))]}, "other shapes"),
        ({"steps": [replace(STEPS[0], total=[1])]}, "other shapes"),
        ({"steps": [replace(STEPS[0], out=[[1, 2, 3]])]}, "other shapes"),
        ({"words": {"label": "x"}}, "are missing"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        encoded(**changes)
