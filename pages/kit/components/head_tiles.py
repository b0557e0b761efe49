"""All heads of a model as small pictures of one shared scale, in one canvas; a click, a tap or the keys pick a head."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pages.kit.components.matrices import component
from pages.kit.components.mounting import Picked, mount
from pages.kit.components.packing import position, wording
from pages.kit.figures.tiles import EMPTY, Tiles

WORDS = ("label", "help", "layer", "head", "axes", "axes_sideways")
# Pixels from tile to tile: the least (where there is less room, the figure scrolls), the most, and all rows together.
_LEAST, _MOST, _TALLEST = 27, 100, 700


def head_tiles(
    tiles: Tiles,
    layer: int,
    head: int,
    *,
    key: str,
    words: Mapping[str, str],
    left_out: bool = False,
    on_change: Callable[[int, int], None],
) -> None:
    """Draw every head's tile, the one of (`layer`, `head`) framed; `on_change` is called with the head that was picked.

    Layers run down and heads across; a model with many more layers than heads is laid on its side, so that it still
    fits a screen. Masked cells are hatched. words: the translated words of `WORDS`; "axes" and "axes_sideways" say
    what runs where. left_out: whether the first key is, which then is dotted.

    Raises:
        ValueError: if there is no such layer or head, or a word is missing.
    """
    header, levels = encode(tiles, layer, head, words=words, left_out=left_out)
    rows, columns = len(header["labels_q"]), len(header["labels_k"])

    def picked(new: Picked) -> None:
        down = header["query"] if new.query is None else new.query
        across = header["key"] if new.key is None else new.key
        on_change(*((across, down) if header["tiles"]["sideways"] else (down, across)))

    mount(component, key, header, [], (rows, columns), picked, levels)


def encode(
    tiles: Tiles, layer: int, head: int, *, words: Mapping[str, str], left_out: bool = False
) -> tuple[dict[str, Any], bytes]:
    """What `head_tiles` sends: settings and words; and a byte for each cell of a tile (1 where it is visible), then the
    levels of the visible cells, tile by tile, row by row: the mask is the same in all of them.

    Raises: as `head_tiles`.
    """
    n_layers, n_heads, down, across = tiles.levels.shape
    sideways = n_layers > 1.5 * n_heads
    levels = tiles.levels.swapaxes(0, 1) if sideways else tiles.levels
    rows, columns = levels.shape[:2]
    place = position(layer, n_layers, "layer"), position(head, n_heads, "head")
    said = wording(words, WORDS)
    names = ("head", "layer") if sideways else ("layer", "head")
    visible = levels[0, 0] != EMPTY
    most = min(_MOST, _TALLEST // rows)
    panel = {"title": "", "subtitle": said["axes_sideways" if sideways else "axes"], "note": ""}
    header = {
        "labels_q": [str(number) for number in range(rows)],
        "labels_k": [str(number) for number in range(columns)],
        "query": place[1] if sideways else place[0],
        "key": place[0] if sideways else place[1],
        "panels": [panel],
        "words": {**said, "query": said[names[0]], "key": said[names[1]]},
        "side": most * max(rows, columns),
        "tokens": False,
        "tiles": {
            "down": down,
            "across": across,
            "sideways": sideways,
            "least": min(_LEAST, most),
            "most": most,
            "left_out": left_out and not visible[:, 0].any(),
        },
    }
    return header, visible.astype(np.uint8).tobytes() + levels[:, :, visible].tobytes()
