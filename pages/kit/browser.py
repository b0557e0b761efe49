"""What only the browser can do: notice a switch of its theme, fold the sidebar on a phone, hold a click for a moment.

Streamlit recolours its own parts when the reader switches between light and dark, but not our figures: they need
another run. And on a phone, where the sidebar lies over the page, a page that was chosen in it stays hidden.

The text box hands its text over when it loses the focus. With a tap that is in the same moment as the click on what
was tapped; of a text and a page at once Streamlit loses the page, and in the browser the values of its controls. So
a link that is clicked right after the box was left is followed a moment later.

Other requests meet too: a page that writes asks for its next run by itself, and when that comes in right behind the
click, Streamlit runs the old page again, be it that the new one has begun. So a click after which everything has come
to rest on another page than the one it was for is made once more.

Where only a part of a page is drawn again, the links around it still carry the address of before. They get the one of
now as soon as somebody turns to them, to open another tab with it.
"""

import streamlit as st

from pages.kit.sitemap import START

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

  let left = -Infinity;
  const leave = (event) => {
    if (event.target.matches?.("textarea")) left = performance.now();
  };
  const hold = (event) => {
    const link = event.target.closest?.("a[data-testid=stPageLink-NavLink]");
    if (!link) return;
    if (event.isTrusted) insist(app, new URL(link.href).pathname, data.start);
    if (performance.now() - left > MOMENT) return;
    left = -Infinity;
    event.preventDefault();
    event.stopImmediatePropagation();
    setTimeout(() => link.click(), MOMENT);
  };
  const renew = (event) => {
    const link = event.target.closest?.("a[data-testid=stPageLink-NavLink]");
    if (link && link.search !== location.search) link.search = location.search;
  };
  const turned = ["pointerover", "focusin"];
  for (const type of turned) document.addEventListener(type, renew, true);
  document.addEventListener("focusout", leave, true);
  document.addEventListener("click", hold, true);
  return () => {
    observer.disconnect();
    for (const type of turned) document.removeEventListener(type, renew, true);
    document.removeEventListener("focusout", leave, true);
    document.removeEventListener("click", hold, true);
  };
}

/** See to it that the page at `path` is shown in the end. This outlives the script, which starts anew with a page. */
function insist(app, path, start) {
  const wanted = path.split("/").pop() || start;
  clearInterval(window.atlasInsists);
  let still = 0; // looks in a row that found the server at rest
  let times = 3;
  window.atlasInsists = setInterval(() => {
    still = app.dataset.testScriptState === "notRunning" ? still + 1 : 0;
    if (still * LOOK < REST) return;
    still = 0;
    const links = document.querySelectorAll("a[data-testid=stPageLink-NavLink]");
    const link = Array.from(links).find((one) => new URL(one.href).pathname === path);
    if (app.dataset.atlasPage === wanted || times === 0 || !link) return clearInterval(window.atlasInsists);
    times -= 1;
    link.click();
  }, LOOK);
}
addEventListener("popstate", () => clearInterval(window.atlasInsists)); // the reader went back or forward instead

const MOMENT = 120; // milliseconds, as the others
const LOOK = 100;
const REST = 500;
"""

_component = st.components.v2.component("atlas_browser", html="<span></span>", js=_JS)


def attend(page: str) -> None:
    """Run again as soon as the browser's theme is not the one of this run; show `page` when it was just chosen."""
    data = {"theme": st.context.theme.type or "light", "page": page, "start": START}
    with st.container(key="browser_part"):
        _component(data=data, key="browser", on_switched_change=lambda: None)
