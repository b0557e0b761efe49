"""What the app has to tell the reader about the last choice: said until the next one, then gone."""

from typing import Any

import streamlit as st

from pages.kit import numbers
from pages.kit.prose import COMMON, Prose, sections
from pages.kit.sitemap import PAGES

_KEY = "atlas_notices"
_LABELS = {"token": "query", "half": "norm_of", "mix": "mix_which"}  # of controls that are not called by their field
_NUMBERS = ("asked", "used", "count")


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


def worded(values: dict[str, Any], lang: str) -> dict[str, Any]:
    """The values as readers know them: a field of the selection by the label of its control, numbers as printed."""
    told = {name: numbers.plain(values[name]) for name in _NUMBERS if name in values}
    if "name" in values:
        told["name"] = label(values["name"], lang)
    if "fault" in values:
        told["why"] = Prose(COMMON, lang).plain(f"fault_{values['fault']}")
    return values | told


def label(field: str, lang: str) -> str:
    """What the control of a field of the selection is called; the field's own name if it has none.

    It is the section `choose_<field>`, `which_<field>` or `<field>` of common.md or of the page that has the control.
    """
    for section in (f"choose_{field}", f"which_{field}", _LABELS.get(field, field)):
        for page in (COMMON, *PAGES):
            text = sections(page, lang).get(section)
            if text is not None:
                return text
    return field
