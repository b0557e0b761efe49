"""Puts a component on the page and reads what the reader picked in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from pages.kit.components.packing import pack
from pages.kit.palette import DARK, LIGHT

_FOLDER = Path(__file__).parent
# Both go along, so that a switch of the theme needs no answer from the server.
_PALETTES = {"light": asdict(LIGHT), "dark": asdict(DARK)}


class Picked(NamedTuple):
    """Token positions that the reader picked; None where none is chosen yet."""

    query: int | None
    key: int | None


def register(name: str, *files: str) -> Callable[..., Any]:
    """The component `name`, of <name>.css and of `files`, one after the other, after what all components share.

    A script of components v2 cannot import its neighbour, so they are joined here.
    """
    return st.components.v2.component(
        f"atlas_{name}",
        css="\n".join(_read(file) for file in ("common.css", *files, f"{name}.css") if file.endswith(".css")),
        js="\n".join(_read(file) for file in ("common.js", *files) if file.endswith(".js")),
    )


def mount(
    component: Callable[..., Any],
    key: str,
    header: Mapping[str, Any],
    arrays: Sequence[NDArray[np.float32]],
    counts: tuple[int, int],
    on_change: Callable[[Picked], None] | None,
    rest: bytes = b"",
) -> Picked | None:
    """Show `component` under `key` and return what was picked since the last run, or None.

    counts: number of query and key positions; a pick outside of them is ignored (the browser's word is not proof).
    on_change: called with the pick before the script runs.
    """
    # The number of the last pick that arrived here goes back with the data. Until the browser sees its own number
    # again it keeps the marks where the reader put them, whatever older answers say.
    last = f"{key}:last_pick"

    def changed() -> None:
        sent = (st.session_state.get(key) or {}).get("picked")
        if isinstance(sent, dict) and isinstance(sent.get("number"), int | float):
            st.session_state[last] = sent["number"]
        picked = read_pick(sent, counts)
        if picked is not None and on_change is not None:
            on_change(picked)

    data = pack({**header, "palettes": _PALETTES, "last_pick": st.session_state.get(last, 0)}, arrays, rest)
    return read_pick(component(key=key, data=data, on_picked_change=changed).get("picked"), counts)


def read_pick(sent: Any, counts: tuple[int, int]) -> Picked | None:
    """What the browser sent, if it is a pick within `counts` positions of queries and keys; None otherwise."""
    if not isinstance(sent, dict):
        return None
    picked = Picked(sent.get("query"), sent.get("key"))
    for value, count in zip(picked, counts, strict=True):
        if value is not None and (type(value) is not int or not 0 <= value < count):
            return None
    return None if picked == (None, None) else picked


def _read(file: str) -> str:
    return (_FOLDER / file).read_text(encoding="utf-8")
