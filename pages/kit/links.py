"""HTML with links that change the page inside the running session.

A plain link in `st.html` loads the app anew: a new session, and what the reader generated is gone. Here a click is
reported to Python, which switches the page; opening a link in a new tab still uses its address.
"""

import streamlit as st

_JS = """
export default function ({ parentElement, data, setTriggerValue }) {
  const box = parentElement.querySelector(".links");
  if (box.shown !== data) {
    box.innerHTML = data;
    box.shown = data;
  }
  box.onclick = (event) => {
    const link = event.target.closest("a[data-page]");
    if (!link || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    setTriggerValue("page", link.dataset.page);
  };
}
"""

_component = st.components.v2.component("atlas_links", html='<div class="links"></div>', js=_JS)


def linked_html(fragment: str, key: str) -> str | None:
    """Draw `fragment` (all text in it escaped) and return the `data-page` of the link clicked just now, else None."""
    result = _component(data=fragment, key=key, on_page_change=lambda: None)
    clicked = result.page
    return str(clicked) if clicked else None
