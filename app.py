"""The door: page settings, navigation, sidebar, the chosen page."""

from pathlib import Path

import streamlit as st

from pages.kit import browser, errors, navigation, selection, sidebar
from pages.kit.prose import Prose

st.set_page_config(page_title="Transformer Atlas", page_icon="◐", layout="wide", initial_sidebar_state=288)
st.html(Path(__file__).parent / "pages" / "kit" / "style.css")
with navigation.shell(), errors.guarded(Prose("common"), "start_failed"):
    sel = selection.sync()
    known = navigation.pages(sel.lang)
    name, chosen = navigation.register(known)
    st.set_page_config(page_title=f"{chosen.title} · Transformer Atlas")
    sidebar.draw(known, name)
    with errors.guarded(Prose(name, sel.lang)):
        chosen.run()
    browser.attend(name)
    navigation.onward(known, name, sel.lang)
