"""Widgets whose value outlives a page change. Streamlit forgets a widget that is not drawn."""

from typing import Any

import streamlit as st

_KEY = "atlas_kept"


def kept(key: str, default: Any) -> str:
    """The key for a widget that opens on the value it had last; call it right before the widget.

    A value that was never changed follows `default`, which may be another one in another language.
    """
    values: dict[str, tuple[Any, Any]] = st.session_state.setdefault(_KEY, {})
    value, before = values.get(key, (default, default))
    value = st.session_state.get(key, value)
    if value == before:
        value = default
    if st.session_state.get(key) != value:
        st.session_state[key] = value
    values[key] = (value, default)
    return key
