"""What the components send to the browser, what they refuse, and what they take back from it."""

from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from model.tokenizer import Piece
from pages.kit.components import CHIP_WORDS, LINE_WORDS, MATRIX_WORDS, Panel, Picked, Shade
from pages.kit.components.chips import encode as encode_chips
from pages.kit.components.lines import encode as encode_lines
from pages.kit.components.matrices import encode as encode_matrices
from pages.kit.components.mounting import read_pick
from pages.kit.components.packing import pack
from pages.kit.palette import DARK, LIGHT
from tests.pages.component_io import pick, sent, unpack
from tests.pages.reading import AWKWARD

WORDS = {name: f"the {name}" for name in (*MATRIX_WORDS, *LINE_WORDS, *CHIP_WORDS)}
HIDDEN = ~np.tril(np.ones((3, 3), dtype=bool))
VALUES = np.arange(9, dtype=np.float32).reshape(3, 3) / 9
LABELS = ["The", "·the", "·the"]


def piece(start: int, *ids: int, text: str = "a", label: str | None = None, special: bool = False) -> Piece:
    data = text.encode("utf-8", "surrogatepass")
    return Piece(start, start + len(ids), text, text if label is None else label, ids, data, special)


def matrices(*panels: Panel, **changes: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
    given: dict[str, Any] = {"labels_q": LABELS, "labels_k": LABELS, "query": 1, "key_index": 0, "words": WORDS}
    return encode_matrices(list(panels), **given | changes)


def lines(weights: Any = VALUES, **changes: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
    given: dict[str, Any] = {"labels_q": LABELS, "labels_k": LABELS, "query": None, "key_index": None, "words": WORDS}
    return encode_lines(weights, **given | changes)


# --------------------------------------------------------------------------------------------------------- packing


@pytest.mark.parametrize("text", [*AWKWARD, "", "a", "ab", "abc"])
def test_packed_is_unpacked(text: str) -> None:
    """Texts of all lengths: the numbers behind them always start at a multiple of four."""
    arrays = [np.array([[1.5, np.nan], [-0.0, 3e38]], dtype=np.float32), np.ones((1, 3), dtype=np.float32)]
    header, unpacked = unpack(pack({"text": text}, arrays))
    assert header["text"] == text
    for before, after in zip(arrays, unpacked, strict=True):
        assert before.tobytes() == after.tobytes()
        assert before.shape == after.shape


def test_numbers_take_four_bytes_each() -> None:
    size = 256
    panels = [Panel(str(i), np.zeros((size, size)), 1.0) for i in range(4)]
    labels = ["·token"] * size
    data = pack(*matrices(*panels, labels_q=labels, labels_k=labels))
    assert len(data) < 4 * 4 * size**2 + 50 * size


# -------------------------------------------------------------------------------------------------------- matrices


def test_masked_cells_are_nan_and_all_others_stay() -> None:
    scores = np.where(HIDDEN, -np.inf, VALUES)
    _, (sent_values,) = matrices(Panel("masked", scores, 1.0, masked=HIDDEN))
    assert np.array_equal(np.isnan(sent_values), HIDDEN)
    assert np.array_equal(sent_values[~HIDDEN], VALUES[~HIDDEN])
    assert np.isneginf(scores[0, 1]), "what the page gave is left as it was"


def test_a_cell_of_value_zero_is_not_masked() -> None:
    _, (sent_values,) = matrices(Panel("zeros", np.zeros((3, 3)), 1.0, masked=HIDDEN))
    assert sent_values[1, 0] == 0
    assert np.isnan(sent_values[0, 1])


def test_repeated_tokens_stay_apart() -> None:
    header, (sent_values,) = matrices(Panel("p", VALUES, 1.0), labels_q=["·the"] * 3, labels_k=["·the"] * 3)
    assert header["labels_q"] == ["·the"] * 3
    assert sent_values.shape == (3, 3)


def test_a_matrix_need_not_be_square() -> None:
    header, (sent_values,) = matrices(Panel("cross", VALUES[:2], 1.0), labels_q=LABELS[:2], query=1, key_index=2)
    assert sent_values.shape == (2, 3)
    assert (header["query"], header["key"]) == (1, 2)


@pytest.mark.parametrize(
    ("panels", "changes", "complaint"),
    [
        ([], {}, "0 panels"),
        ([Panel("p", VALUES, 1.0)] * 5, {}, "5 panels"),
        ([Panel("p", VALUES[:2], 1.0)], {}, "shape"),
        ([Panel("p", VALUES, 1.0, masked=HIDDEN[:2])], {}, "mask has shape"),
        ([Panel("p", np.where(HIDDEN, np.inf, VALUES), 1.0)], {}, "not finite"),
        ([Panel("p", VALUES * np.nan, 1.0, masked=HIDDEN)], {}, "not finite"),
        ([Panel("p", VALUES, 0.0)], {}, "end above 0"),
        ([Panel("p", VALUES, float("nan"))], {}, "end above 0"),
        ([Panel("p", VALUES, 1.0, scale="rainbow")], {}, "no scale"),  # type: ignore[arg-type]
        ([Panel("p", VALUES, 1.0, log_from=0.0)], {}, "logarithmic"),
        ([Panel("p", VALUES, 1.0, log_from=2.0)], {}, "logarithmic"),
        ([Panel("p", VALUES, 1.0, scale="diverging", log_from=0.1)], {}, "logarithmic"),
        ([Panel("p", VALUES, 1.0)], {"query": 3}, "query 3 of 3"),
        ([Panel("p", VALUES, 1.0)], {"key_index": -1}, "key -1 of 3"),
        ([Panel("p", np.zeros((0, 3)), 1.0)], {"labels_q": []}, "no tokens"),
        ([Panel("p", VALUES, 1.0)], {"words": {"label": "l", "help": "h", "query": "q"}}, "key, masked are missing"),
    ],
)
def test_matrices_refuse(panels: list[Panel], changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        matrices(*panels, **changes)


# ----------------------------------------------------------------------------------------------------------- lines


def test_lines_send_the_weights_with_the_mask() -> None:
    header, (weights,) = lines(masked=HIDDEN, threshold=0.25, high=0.5)
    assert np.array_equal(np.isnan(weights), HIDDEN)
    assert (header["threshold"], header["high"]) == (0.25, 0.5)


def test_lines_without_a_mask_keep_both_halves() -> None:
    _, (weights,) = lines()
    assert np.array_equal(weights, VALUES)


@pytest.mark.parametrize(
    ("weights", "changes", "complaint"),
    [
        (VALUES - 0.5, {}, "negative"),
        (VALUES[:, :2], {}, "shape"),
        (np.where(HIDDEN, np.nan, VALUES), {}, "not finite"),
        (VALUES, {"high": 0}, "end above 0"),
        (VALUES, {"query": 7}, "query 7 of 3"),
        (VALUES, {"words": {}}, "are missing"),
        (VALUES[:, :0], {"labels_k": []}, "no tokens"),
    ],
)
def test_lines_refuse(weights: np.ndarray, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        lines(weights, **changes)


# ----------------------------------------------------------------------------------------------------------- chips


def test_chips_carry_ids_bytes_and_the_spaces_that_dots_stand_for() -> None:
    pieces = [piece(0, 5, text="  the", label="··the"), piece(1, 7, 8, 9, text="猫"), piece(4, 2, special=True)]
    first, second, third = encode_chips(pieces, 2, None, words=WORDS)["pieces"]
    assert (first["spaces"], first["bytes"], first["ids"]) == (2, "20 20 74 68 65", [5])
    assert (second["start"], second["ids"], second["bytes"], second["spaces"]) == (1, [7, 8, 9], "E7 8C AB", 0)
    assert (first["special"], third["special"]) == (False, True)


def test_a_dot_of_the_text_is_not_taken_for_a_space() -> None:
    (only,) = encode_chips([piece(0, 5, text="·x", label="·x")], 0, 0, words=WORDS)["pieces"]
    assert only["spaces"] == 0


def test_chips_of_no_tokens() -> None:
    assert encode_chips([], None, None, words=WORDS, ask_next=True)["n_tokens"] == 0


@pytest.mark.parametrize(
    ("pieces", "changes", "complaint"),
    [
        ([piece(1, 5)], {}, "a piece from 1"),
        ([piece(0, 5), piece(2, 5)], {}, "a piece from 2"),
        ([piece(0)], {}, "0 ids"),
        ([piece(0, 5)], {"query": 1}, "query 1 of 1"),
        ([piece(0, 5)], {"shade": Shade("loss", [], 1.0)}, "0 shades"),
        ([piece(0, 5)], {"shade": Shade("loss", [1.0], 0.0)}, "end above 0"),
        ([piece(0, 5)], {"shade": Shade("loss", [float("inf")], 1.0)}, "not finite"),
        ([piece(0, 5)], {"words": {"label": "l"}}, "are missing"),
    ],
)
def test_chips_refuse(pieces: list[Piece], changes: dict[str, Any], complaint: str) -> None:
    given: dict[str, Any] = {"query": None, "key_index": None, "words": WORDS}
    with pytest.raises(ValueError, match=complaint):
        encode_chips(pieces, **given | changes)


# ----------------------------------------------------------------------------------------------------------- picks


@pytest.mark.parametrize(
    ("value", "picked"),
    [
        ({"query": 2, "key": 0, "number": 1}, Picked(2, 0)),
        ({"query": 2, "key": None}, Picked(2, None)),
        ({"query": 3, "key": 0}, None),
        ({"query": 0, "key": -1}, None),
        ({"query": 1.0, "key": 0}, None),
        ({"query": True, "key": 0}, None),
        ({"query": "1", "key": 0}, None),
        ({"query": None, "key": None}, None),
        ({}, None),
        ([1, 2], None),
        ("2", None),
        (None, None),
    ],
)
def test_only_positions_that_exist_are_picks(value: Any, picked: Picked | None) -> None:
    assert read_pick(value, (3, 3)) == picked


def _page() -> None:
    import numpy as np
    import streamlit as st

    from model.tokenizer import Piece
    from pages.kit import components

    words = {name: name for name in (*components.MATRIX_WORDS, *components.LINE_WORDS, *components.CHIP_WORDS)}
    labels = ["</s>", "·the", "·the"]
    values = np.full((3, 3), 0.25)

    def choose(picked: components.Picked) -> None:
        st.session_state["heard"] = [*st.session_state.get("heard", []), tuple(picked)]

    panels = [components.Panel("p", values, 1.0), components.Panel("d", -values, 1.0, scale="diverging")]
    pieces = [Piece(i, i + 1, label, label, (i,), label.encode(), False) for i, label in enumerate(labels)]
    returned = {
        "matrices": components.matrices(panels, labels, labels, 0, 0, key="matrices", words=words, on_change=choose),
        "lines": components.lines(values, labels, labels, 0, 0, key="lines", words=words, on_change=choose),
        "chips": components.chips(pieces, 0, None, key="chips", words=words, on_change=choose),
    }
    st.session_state["returned"] = {name: picked for name, picked in returned.items() if picked}


def test_components_reach_the_page_with_both_palettes() -> None:
    page = AppTest.from_function(_page, default_timeout=30).run()
    assert not page.exception
    header, arrays = sent(page, "matrices")
    assert [panel["title"] for panel in header["panels"]] == ["p", "d"]
    assert header["labels_q"] == ["</s>", "·the", "·the"]
    assert [array.shape for array in arrays] == [(3, 3), (3, 3)]
    for key in ("matrices", "lines", "chips"):
        palettes = sent(page, key)[0]["palettes"]
        assert palettes["light"]["query"] == LIGHT.query
        assert palettes["dark"]["sequential"] == list(DARK.sequential)


@pytest.mark.parametrize("key", ["matrices", "lines", "chips"])
def test_a_pick_is_heard_once_and_returned_for_one_run(key: str) -> None:
    page = AppTest.from_function(_page, default_timeout=30).run()
    assert page.session_state["returned"] == {}
    pick(page, key, query=2, key=1)
    assert not page.exception
    assert page.session_state["heard"] == [(2, 1)]
    assert page.session_state["returned"] == {key: Picked(2, 1)}
    assert sent(page, key)[0]["last_pick"] == 1, "the browser learns that its pick arrived"
    page.run()
    assert page.session_state["heard"] == [(2, 1)]
    assert page.session_state["returned"] == {}


def test_a_pick_out_of_range_is_ignored() -> None:
    page = AppTest.from_function(_page, default_timeout=30).run()
    pick(page, "matrices", query=3, key=0)
    assert not page.exception
    assert "heard" not in page.session_state
