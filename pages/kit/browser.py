"""The two things that only the browser can do: notice a switch of its theme, and fold the sidebar on a phone.

Streamlit recolours its own parts when the reader switches between light and dark, but not our figures: they need
another run. And on a phone, where the sidebar lies over the page, a page that was chosen in it stays hidden.
"""

import streamlit as st

_JS = """
export default function ({ data, setTriggerValue }) {
  const app = document.querySelector(".stApp");
  let told = data.theme;
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

  const fold = document.querySelector("[data-testid=stSidebarCollapseButton] button[aria-expanded=true]");
  const before = app.dataset.atlasPage; // this script starts anew with every page, the app's element stays
  app.dataset.atlasPage = data.page;
  if (before !== undefined && before !== data.page && innerWidth <= 768) fold?.click();
  return () => observer.disconnect();
}
"""

_component = st.components.v2.component("atlas_browser", html="<span></span>", js=_JS)


def attend(page: str) -> None:
    """Run again as soon as the browser's theme is not the one of this run; show `page` when it was just chosen."""
    data = {"theme": st.context.theme.type or "light", "page": page}
    with st.container(key="browser_part"):
        _component(data=data, key="browser", on_switched_change=lambda: None)
