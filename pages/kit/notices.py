"""What the app has to tell the reader about the last choice: said until the next one, then gone."""

from typing import Any

import streamlit as st

_KEY = "atlas_notices"


def add(section: str, **values: Any) -> None:
    """Say `section` of common.md, with these values, at the top of the page."""
    notice = (section, values)
    noted = st.session_state.setdefault(_KEY, [])
    if notice not in noted:
        noted.append(notice)


def clear() -> None:
    """Forget what was said: the reader has chosen anew."""
    st.session_state[_KEY] = []


def pending() -> list[tuple[str, dict[str, Any]]]:
    """Section and values of each notice."""
    return list(st.session_state.get(_KEY, []))
