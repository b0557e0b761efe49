"""What a page under AppTest sent to a component of ours, and how to pick in one.

AppTest knows components v2 only as unknown elements: it keeps their protobuf message and draws nothing.
"""

import json
import struct
from typing import Any

import numpy as np
from streamlit.proto.BidiComponent_pb2 import BidiComponent
from streamlit.testing.v1 import AppTest

# Tokens that would change the page if they were taken for markup.
MARKUP = ["</s>", "<b>x</b>", "a<b<c", "&amp;", "$x^2$", "<img src=x onerror=alert(1)>"]


def message(page: AppTest, key: str) -> BidiComponent:
    """The protobuf message of the component with this key."""
    found = [element.proto for element in page.get("bidi_component") if element.proto.id.endswith(f"-{key}")]
    assert len(found) == 1, f"{len(found)} components with the key {key!r}"
    proto: BidiComponent = found[0]
    return proto


def unpack(data: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Header and arrays of `pages.kit.components.packing.pack`, read as common.js reads them."""
    (length,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + length])
    numbers = data[4 + length :]
    arrays = []
    for shape in header["arrays"]:
        size = 4 * int(np.prod(shape))
        arrays.append(np.frombuffer(numbers[:size], dtype="<f4").reshape(shape))
        numbers = numbers[size:]
    assert not numbers
    return header, arrays


def unpack_tiles(data: bytes) -> tuple[dict[str, Any], np.ndarray]:
    """Header and levels (rows, columns, down, across) of all heads' tiles, read as matrices_tiles.js reads them."""
    (length,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + length])
    down, across = header["tiles"]["down"], header["tiles"]["across"]
    levels = np.frombuffer(data, dtype=np.uint8, offset=4 + length)
    visible = levels[: down * across].reshape(down, across).astype(bool)
    tiles = np.zeros((len(header["labels_q"]), len(header["labels_k"]), down, across), dtype=np.uint8)
    tiles[:, :, visible] = levels[down * across :].reshape(*tiles.shape[:2], -1)
    return header, tiles


def sent(page: AppTest, key: str) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Header and arrays that the component with this key was given in the last run."""
    return unpack(message(page, key).bytes)


def pick(page: AppTest, component: str, *, query: Any, key: Any, number: int = 1) -> AppTest:
    """Run the page again as if the reader had picked these positions in the component with that key."""
    states = page._tree.get_widget_states()
    trigger = states.widgets.add()
    trigger.id = f"$$STREAMLIT_INTERNAL_KEY_{message(page, component).id}__events"
    value = {"query": query, "key": key, "number": number}
    trigger.json_trigger_value = json.dumps([{"event": "picked", "value": value}])
    return page._run(states)
