"""Draws again when the reader switches between light and dark: Streamlit recolours its own parts, not our figures."""

import streamlit as st

_JS = """
export default function ({ data, setTriggerValue }) {
  const app = document.querySelector(".stApp");
  let told = data;
  const look = () => {
    const shown = getComputedStyle(app).colorScheme;
    if ((shown === "light" || shown === "dark") && shown !== told) {
      told = shown;
      setTriggerValue("switched", shown);
    }
  };
  look();
  const observer = new MutationObserver(look);
  observer.observe(app, { attributes: true, attributeFilter: ["class", "style"] });
  return () => observer.disconnect();
}
"""

_component = st.components.v2.component("atlas_theme", html="<span></span>", js=_JS)


def watch() -> None:
    """Run again as soon as the browser's theme is not the one that this run was drawn in."""
    with st.container(key="theme_watch"):
        _component(data=st.context.theme.type or "light", key="theme", on_switched_change=lambda: None)
