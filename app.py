"""The door: page settings, then the shell with the chosen page."""

from pathlib import Path

import streamlit as st

st.set_page_config(page_title="Transformer Atlas", page_icon="◐", layout="wide", initial_sidebar_state=288)
st.html(Path(__file__).parent / "pages" / "kit" / "style.css")
with st.spinner("Transformer Atlas"):  # the first visitor of a server waits for torch here
    from pages.kit import shell
shell.run()
