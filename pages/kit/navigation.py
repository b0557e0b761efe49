"""The pages as Streamlit knows them, and the links between them."""

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from pages.kit import selection
from pages.kit.prose import Prose, escape
from pages.kit.sitemap import PAGES, SITEMAP, START

_SHELL = "atlas_shell"
_PLACE = "atlas_place"


def pages(lang: str) -> dict[str, StreamlitPage]:
    """Every page by name, titled in a language."""
    say = Prose("common", lang)
    titles = {name: say.plain(f"page_{name}") for name in PAGES}
    known = {name: st.Page(f"pages/{name}.py", title=titles[name]) for name in PAGES if name != START}
    # Streamlit serves the default page at / alone and takes its own path away from others: it gets one to spare.
    start = st.Page(f"pages/{START}.py", title=titles[START], url_path="start", default=True)
    return {name: known.get(name, start) for name in PAGES}


def register(known: dict[str, StreamlitPage]) -> tuple[str, StreamlitPage]:
    """Tell Streamlit the pages; return the one that the address names, with its name. Draws nothing."""
    # The start page is also found where its file says.
    also = st.Page(f"pages/{START}.py", title=known[START].title, url_path=START)
    chosen = st.navigation([*known.values(), also], position="hidden")
    here = ((name, page) for name, page in known.items() if page.url_path == chosen.url_path)
    return next(here, (START, chosen))


def arrive(name: str) -> None:
    """The page `name` is about to be drawn."""
    before, _ = st.session_state.get(_PLACE, (None, False))
    st.session_state[_PLACE] = name, before != name


def arrived() -> bool:
    """Whether the reader has come from another page just now."""
    return bool(st.session_state.get(_PLACE, (None, False))[1])


@contextmanager
def shell() -> Iterator[None]:
    """What runs inside has the shell around it."""
    st.session_state[_SHELL] = True
    try:
        yield
    finally:
        del st.session_state[_SHELL]


def ensure_shell() -> None:
    """Give a page that Streamlit runs alone its shell.

    Until `st.navigation` was called once in its process, Streamlit runs the files in pages/ by themselves: when the
    very first request of a fresh server names a page, there is no navigation and no sidebar. Registering the pages
    and running again brings both, and keeps the address.
    """
    if _SHELL not in st.session_state:
        register(pages("en"))
        st.rerun()


def links(known: dict[str, StreamlitPage], current: str, lang: str) -> None:
    """The navigation: one link a page, under the heading of its section. Links carry the selection."""
    say = Prose("common", lang)
    address = selection.to_parameters(selection.current())
    with st.container(key="navigation", gap=None):
        for section in SITEMAP:
            st.html(f'<p class="atlas-section">{say.html(section.name)}</p>')
            for name in section.pages:
                with st.container(key="current_page" if name == current else f"page_{name}"):
                    st.page_link(known[name], label=escape(known[name].title), query_params=address, width="stretch")


def onward(known: dict[str, StreamlitPage], name: str, lang: str) -> None:
    """Links to the page before and the page after `name`, for the end of a page."""
    say = Prose("common", lang)
    address = selection.to_parameters(selection.current())
    index = PAGES.index(name)
    before, after = PAGES[:index][-1:], PAGES[index + 1 :][:1]
    with st.container(key="onward", horizontal=True, horizontal_alignment="distribute" if before else "right"):
        for there in before:
            label = say.label("previous_page", title=known[there].title)
            st.page_link(known[there], label=label, icon=":material/arrow_back:", query_params=address)
        for there in after:
            label = say.label("next_page", title=known[there].title)
            icon = ":material/arrow_forward:"
            st.page_link(known[there], label=label, icon=icon, icon_position="right", query_params=address)
