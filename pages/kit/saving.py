"""Saves figures: a click on a button of a caption downloads what the caption speaks of, as a picture or as numbers.

All of it happens in the browser, of what is drawn there. The server is asked only for numbers that are not drawn, which
a figure has beside it (see `show.exact_numbers`).
"""

import streamlit as st

from pages.kit.components.mounting import register
from pages.kit.prose import Prose

_component = register("saving", "saving_rows.js", "saving_paint.js", "saving.js")


def attend(say: Prose) -> None:
    """Listen for clicks on the captions of this page."""
    words = {kind: say.plain(f"save_{kind}") for kind in ("png", "csv", "failed")}
    with st.container(key="saving_part"):
        _component(data={"words": words}, key="saving")
