"""The one state of the app: what the reader chose. It lives in the session and is mirrored in the address.

The session's state is the truth. The address is read when a visit begins and when the reader goes back or forward
in the browser's history; otherwise it is only written, so that a link opens the same view. What the reader did not
choose is not in the address, and the pages choose it by what they measure.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.kit import loading, notices
from pages.kit.address import from_parameters, to_parameters
from pages.kit.choices import RANGES, SCALES, Selection
from pages.kit.repairs import repaired

__all__ = [
    "RANGES",
    "SCALES",
    "Selection",
    "correct",
    "current",
    "sync",
    "to_parameters",
    "turn_to",
    "update",
    "widget",
]

_KEY = "atlas_selection"


@dataclass
class _Widget:
    """A widget that shows a value of the selection."""

    key: str
    page: str  # the hash of the page that it was drawn on
    shown: Any
    changes: Callable[[Any], Mapping[str, Any]]


@dataclass
class _State:
    """All that this module keeps for a visitor, in one object.

    Streamlit may break off a run wherever it reads or writes `st.session_state`, to begin the next one. So the object
    is fetched first, and what belongs together is then written to it without another such access.
    """

    selection: Selection | None = None
    address: dict[str, str] = field(default_factory=dict)
    widgets: dict[str, _Widget] = field(default_factory=dict)
    serial: int = 0


def _state() -> _State:
    if _KEY not in st.session_state:
        st.session_state[_KEY] = _State()
    state: _State = st.session_state[_KEY]
    return state


def current() -> Selection:
    """The selection of this visitor, every value within what the model and the text have."""
    return _state().selection or sync()


def update(**changes: Any) -> None:
    """Change the selection and the address; outside of a widget's callback, `st.rerun()` has to follow.

    A new text or model, or a change of `chat`, forgets a rewound generation, and keeps query and key only where the
    tokens up to them are the same. Values out of range are brought into it, and the reader is told.
    """
    before = current()
    _store(_changed(before, changes))


def turn_to(ids: tuple[int, ...] | None) -> None:
    """Let every page show the text `ids` (None: the one that was typed), with none of its tokens chosen."""
    update(ids=ids, query=None, key=None)


def correct(**changes: Any) -> None:
    """As `update`, where a page alone can see what does not fit: what the reader is told of the last choice stays."""
    _store(replace(current(), **changes))


def widget(name: str, value: Any, changes: Callable[[Any], Mapping[str, Any]] | None = None) -> str:
    """The key for a widget that shows `value` and changes the selection; call it right before the widget.

    `changes` turns the widget's new value into keyword arguments for `update`; without it, the value is that of
    the field `name`. The change is read at the start of the next run. A callback would do the same, but one that is
    broken off by the next click is lost with that click (type a text, then click a link at once).

    Where the selection changed by other means than this widget, the key is a new one and so is the widget: what the
    browser still says of the old one, not having heard yet, cannot be taken for a choice of the reader.
    """
    state = _state()
    known = state.widgets.get(name)
    key = known.key if known else f"choose_{name}"
    if known and st.session_state.get(key, value) != value:
        state.serial += 1
        key = f"choose_{name}_{state.serial}"
    context = get_script_run_ctx()
    page = context.page_script_hash if context else ""
    # The same key on another page is another widget, and has no value yet. Elsewhere the value is not set again: that
    # would overwrite what the reader is just typing.
    if known is None or known.page != page or st.session_state.get(key) != value:
        st.session_state[key] = value
    state.widgets[name] = _Widget(key, page, value, changes or (lambda new: {name: new}))
    return key


def sync() -> Selection:
    """Take in what the reader did since the last run, then write the address. The shell calls this at each start."""
    state = _state()
    address = st.query_params.to_dict()
    changes = _changes(state)
    context = get_script_run_ctx()
    # A click that overtakes the answer to the one before brings the old address along, so an address that differs
    # means nothing by itself.
    back_or_forward = context is not None and context.is_history_navigation and address != state.address
    if state.selection is None or back_or_forward:
        notices.clear()
        selection = repaired(from_parameters(address))
    else:
        selection = _changed(state.selection, changes) if changes else state.selection
    _store(selection)
    return selection


def changed_since(drawn: Selection) -> set[str]:
    """The fields that differ from a selection of before, with what the widgets say that was not taken in yet."""
    state = _state()
    changes = _changes(state)
    now = vars(state.selection or drawn) | changes
    return {name for name, value in now.items() if value != getattr(drawn, name)}


def _changes(state: _State) -> dict[str, Any]:
    """What the reader changed in widgets since they were drawn."""
    now = [(one, st.session_state.get(one.key, one.shown)) for one in state.widgets.values()]
    changes: dict[str, Any] = {}
    for one, value in now:
        # None is no reader's choice: it stands for "nothing" where an answer to the browser was broken off.
        if value is not None and value != one.shown:
            changes |= one.changes(value)
    return changes


def _changed(before: Selection, changes: Mapping[str, Any]) -> Selection:
    notices.clear()
    if {"text", "model", "chat"} & set(changes):
        changes = {"ids": None} | dict(changes)
    # Of another text or translation these are no mistake of the reader's.
    if {"text", "translation_beam"} & set(changes) or changes.get("ids", before.ids) != before.ids:
        changes = {"written": None, "read": None} | dict(changes)
    if not {"text", "model", "ids", "chat"} & set(changes):
        return repaired(replace(before, **changes))
    # Places of the old text are no mistake of the reader's, so they are not repaired but kept or forgotten.
    left: dict[str, Any] = dict.fromkeys({"query", "key", "rows"} - set(changes))
    after = repaired(replace(before, **changes, **left))
    return replace(after, **_same_places(before, after, left))


def _store(selection: Selection) -> None:
    state = _state()
    state.selection, state.address = selection, to_parameters(selection)
    if st.query_params.to_dict() != state.address:
        st.query_params.from_dict(state.address)


def _same_places(before: Selection, after: Selection, names: Iterable[str]) -> dict[str, Any]:
    """Of the token positions that were chosen, those up to which the new text has the same tokens."""
    if before.model != after.model:
        return {}
    old, new = loading.run_ids(before), loading.run_ids(after)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    places: dict[str, Any] = {}
    for name in names:
        chosen = getattr(before, name)
        if isinstance(chosen, tuple):
            places[name] = tuple(place for place in chosen if place < same) or None
        elif chosen is not None and chosen < same:
            places[name] = chosen
    return places
