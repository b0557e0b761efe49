"""What is around every page: state, navigation, sidebar, and the way onward."""

import streamlit as st

from pages.kit import browser, errors, navigation, saving, selection, sidebar
from pages.kit.prose import COMMON, Prose


def run() -> None:
    """Draw the shell and, in it, the page that the address names."""
    with navigation.shell(), errors.guarded(Prose(COMMON), "start_failed"):
        sel = selection.sync()
        known = navigation.pages(sel.lang)
        name, chosen = navigation.register(known)
        st.set_page_config(page_title=f"{chosen.title} · Transformer Atlas")
        navigation.arrive(name)
        sidebar.draw(known, name)
        with errors.guarded(Prose(name, sel.lang)):
            chosen.run()
        browser.attend(name)
        saving.attend(Prose(COMMON, sel.lang))
        navigation.onward(known, name, sel.lang)
