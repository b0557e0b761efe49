"""A reader without a browser: the messages that a browser exchanges with the server, and what they bring."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import TracebackType
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.sync.client import ClientConnection, connect

_ENDED = (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)


@dataclass(frozen=True)
class Slider:
    """A slider as the server described it: its widget's id, and the part of the page that it draws again."""

    id: str
    fragment: str


@dataclass
class Visitor:
    """One visit to one page. `answer` is the HTML and Markdown of the last answer, in the order of its arrival."""

    url: str
    page: str
    query: str
    answer: list[str] = field(default_factory=list)
    sliders: dict[str, Slider] = field(default_factory=dict)
    _line: ClientConnection | None = None
    _states: dict[str, WidgetState] = field(default_factory=dict)

    @classmethod
    def at(cls, url: str, page: str, **selection: object) -> Visitor:
        """Visit `page` of the server at `url` (http) with these choices in the address."""
        return cls(url, page, urlencode(selection))

    def __enter__(self) -> Visitor:
        address = self.url.replace("http", "ws", 1) + "/_stcore/stream"
        self._line = connect(address, subprotocols=["streamlit"], max_size=None)  # type: ignore[list-item]
        self.look()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line is not None:
            self._line.close()

    def look(self) -> float:
        """Have all of the page drawn; seconds until it was there."""
        return self._ask("")

    def move(self, key: str, value: float) -> float:
        """Move the slider whose key ends in `key`; seconds until what it changes was there."""
        slider = next(one for name, one in self.sliders.items() if f"-{key}" in name)
        state = WidgetState(id=slider.id)
        state.double_array_value.data.append(value)
        self._states[slider.id] = state
        return self._ask(slider.fragment)

    def _ask(self, fragment: str) -> float:
        assert self._line is not None
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_name, state.fragment_id = self.query, self.page, fragment
        state.context_info.locale, state.context_info.color_scheme = "en-US", "light"
        state.widget_states.widgets.extend(self._states.values())
        self.answer = []
        begun = time.perf_counter()
        self._line.send(message.SerializeToString())
        while True:
            answer = ForwardMsg.FromString(self._line.recv(timeout=120))  # type: ignore[arg-type]
            kind = answer.WhichOneof("type")
            if kind == "script_finished" and answer.script_finished in _ENDED:
                return time.perf_counter() - begun
            if kind == "delta":
                self._take(answer)
            elif kind == "page_info_changed":
                self.query = answer.page_info_changed.query_string

    def _take(self, answer: ForwardMsg) -> None:
        delta = answer.delta
        if delta.WhichOneof("type") != "new_element":
            return
        element, kind = delta.new_element, delta.new_element.WhichOneof("type")
        if kind in ("html", "markdown"):
            self.answer.append(getattr(element, kind).body)
        elif kind == "exception":
            raise RuntimeError(f"{self.page}: {element.exception.message}")
        elif kind == "slider":
            self.sliders[element.slider.id] = Slider(element.slider.id, delta.fragment_id)
