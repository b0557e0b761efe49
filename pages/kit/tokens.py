"""The token strip: the text as the model sees it, one chip a token; a click makes it the query."""

import html

import streamlit as st

from pages.kit import selection
from pages.kit.page import Page


def strip(page: Page, *, query: int | None = None, key_index: int | None = None) -> None:
    """Draw the strip of the page's run. `query` and `key_index` are the positions to mark."""
    chips = "".join(f'<span title="{i}">{html.escape(label)}</span> ' for i, label in enumerate(page.run.labels))
    st.html(f'<p class="atlas-strip">{chips}</p>')


def choose(query: int) -> None:
    """Make a token the query of the whole app."""
    selection.update(query=query, key=None)
