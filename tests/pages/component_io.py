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
    numbers = np.frombuffer(data, dtype="<f4", offset=4 + length)
    arrays = []
    for shape in header["arrays"]:
        size = int(np.prod(shape))
        arrays.append(numbers[:size].reshape(shape))
        numbers = numbers[size:]
    assert numbers.size == 0
    return header, arrays


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
