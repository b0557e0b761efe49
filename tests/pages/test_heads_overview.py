"""The picture of all heads: every tile its pattern, masked cells told from zeros, the chosen head where it is."""

from typing import Any

import numpy as np
import pytest

from pages.kit import figures
from pages.kit.components.head_tiles import encode
from pages.kit.components.packing import pack
from pages.kit.figures.tiles import EMPTY, FIRST_LEVEL, TOP_LEVEL, Tiles
from tests.pages.component_io import unpack_tiles
from tests.pages.reading import patterns, tile_patterns

WORDS = {
    "label": "all heads",
    "help": "keys",
    "layer": "layer",
    "head": "head",
    "axes": "down",
    "axes_sideways": "side",
}


def sent(tiles: Tiles, layer: int = 0, head: int = 0) -> tuple[dict[str, Any], np.ndarray]:
    """What reaches the browser, read as it reads it: the header, and the levels by row and column of the figure."""
    header, levels = encode(tiles, layer, head, words=WORDS)
    return unpack_tiles(pack(header, [], levels))


@pytest.mark.parametrize(("layers", "heads"), [(6, 8), (12, 12), (30, 9), (1, 1)])
def test_every_tile_shows_its_pattern(layers: int, heads: int) -> None:
    weights, hidden = patterns(layers, heads, 24)
    header, levels = sent(tile_patterns(iter(weights), masked=hidden))
    sideways = layers > 1.5 * heads
    assert header["tiles"]["sideways"] == sideways
    assert (len(header["labels_q"]), len(header["labels_k"])) == ((heads, layers) if sideways else (layers, heads))
    by_layer = levels.swapaxes(0, 1) if sideways else levels
    shown = (by_layer[:, :, ~hidden] - float(FIRST_LEVEL)) / (TOP_LEVEL - FIRST_LEVEL)
    np.testing.assert_allclose(shown, weights[:, :, ~hidden], atol=0.502 / (TOP_LEVEL - FIRST_LEVEL))
    assert np.all(by_layer[:, :, hidden] == EMPTY)


def test_masked_differs_from_zero_and_only_what_is_visible_is_sent() -> None:
    weights, hidden = np.zeros((1, 1, 3, 3), dtype=np.float32), ~np.tril(np.ones((3, 3), dtype=bool))
    _, masked = sent(tile_patterns(weights, masked=hidden))
    np.testing.assert_array_equal(masked[0, 0], np.where(hidden, EMPTY, FIRST_LEVEL))
    assert np.all(sent(tile_patterns(weights))[1] == FIRST_LEVEL)
    assert len(encode(tile_patterns(weights, masked=hidden), 0, 0, words=WORDS)[1]) == 9 + 6
    _, none = sent(tile_patterns(weights, masked=np.ones((3, 3), dtype=bool)))
    assert np.all(none == EMPTY)


@pytest.mark.parametrize(("shape", "place", "words"), [((6, 8), (3, 2), "down"), ((30, 9), (2, 3), "side")])
def test_the_chosen_head_is_framed_where_it_is(shape: tuple[int, int], place: tuple[int, int], words: str) -> None:
    weights, hidden = patterns(*shape, 4)
    tiles = tile_patterns(weights, masked=hidden)
    header, _ = sent(tiles, layer=3, head=2)
    assert (header["query"], header["key"]) == place
    names = ("head", "layer") if words == "side" else ("layer", "head")
    assert (header["words"]["query"], header["words"]["key"]) == names
    assert header["panels"][0]["subtitle"] == words
    with pytest.raises(ValueError, match="layer"):
        sent(tiles, layer=shape[0])
    with pytest.raises(ValueError, match="words for axes"):
        encode(tiles, 0, 0, words={name: word for name, word in WORDS.items() if name != "axes"})


def test_pooling_keeps_the_strongest_cell_and_says_so() -> None:
    weights, hidden = patterns(2, 3, 200)
    weights[1, 2, 150, 30] = 1.0
    tiles = tile_patterns(weights, masked=hidden, limit=48)
    assert tiles.block == 5
    assert tiles.levels.shape == (2, 3, 40, 40)
    assert tiles.levels[1, 2, 30, 6] == TOP_LEVEL
    assert tiles.levels[0, 0, 0, 1] == EMPTY
    assert tiles.levels[0, 0, 0, 0] != EMPTY, "a block with one visible cell is not masked"
    assert tile_patterns(weights[:, :, :48, :48]).block == 1


def test_log_scale_lifts_small_weights() -> None:
    weights = np.array([[[[1e-5, 1e-4], [1e-2, 1.0]]]])
    levels = tile_patterns(weights, scale="log", floor=1e-4).levels[0, 0]
    np.testing.assert_array_equal(levels, [[FIRST_LEVEL, FIRST_LEVEL], [128, TOP_LEVEL]])


def test_cross_attention_tiles_may_be_oblong() -> None:
    weights = np.random.default_rng(0).random((2, 2, 5, 9)).astype(np.float32)
    tiles = tile_patterns(weights)
    assert (tiles.queries, tiles.keys) == (5, 9)
    np.testing.assert_array_equal(sent(tiles)[1], tiles.levels)


@pytest.mark.parametrize(
    "bad",
    [
        {"patterns": []},
        {"patterns": [np.zeros((2, 3, 3)), np.zeros((2, 4, 4))]},
        {"patterns": [np.zeros((3, 3))]},
        {"patterns": [np.zeros((2, 3, 3))], "masked": np.zeros((4, 4), dtype=bool)},
        {"patterns": [np.zeros((2, 3, 3))], "scale": "square"},
    ],
)
def test_wrong_tiles_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"shape|layer|scale"):
        tile_patterns(**bad)


@pytest.mark.parametrize("side", [7, 100])
def test_a_threshold_may_come_after_pooling(side: int) -> None:
    """The largest weight of a block is at least the threshold just when any of the block is."""
    weights = np.random.default_rng(0).random((2, 3, side, side)).astype(np.float32)
    weights[0, 0, 0, 0] = 0.3
    before = tile_patterns([np.where(layer >= np.float32(0.3), layer, 0) for layer in weights], scale="log")
    after = figures.shaded(figures.pool_patterns(weights), scale="log", threshold=0.3)
    np.testing.assert_array_equal(before.levels, after.levels)
    assert figures.shaded(figures.pool_patterns(weights), threshold=1.5).levels.max() == FIRST_LEVEL
