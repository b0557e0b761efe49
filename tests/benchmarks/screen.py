"""The pages room, measured in a real browser: first page, a slider, a page change."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.benchmarks.measure import Result, Sample, figure
from tests.browser.conftest import ARGUMENTS, REPOSITORY, settled, start_server

# Resolves with the milliseconds from an event to the moment when a part of the page has changed and been painted.
_UNTIL_CHANGED = """
([event, selector]) => new Promise(resolve => {
  const text = () => document.querySelector(selector)?.textContent;
  const before = text();
  document.addEventListener(event, () => {
    const begun = performance.now();
    const look = () => {
      const now = text();
      if (now && now !== before) requestAnimationFrame(() => resolve(performance.now() - begun));
      else requestAnimationFrame(look);
    };
    look();
  }, {once: true, capture: true});
})
"""


@contextmanager
def _visit(path: str = "/") -> Iterator[tuple[Page, float]]:
    """The app on a fresh server in a fresh browser, and the seconds from starting it to the first page drawn."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        begun = time.perf_counter()
        server = start_server(REPOSITORY / "app.py", Path(folder))
        try:
            page.goto(server.url + path)
            page.wait_for_selector("h1")
            settled(page)
            yield page, time.perf_counter() - begun
        finally:
            browser.close()
            server.stop()


def _timed(page: Page, event: str, selector: str, act: Callable[[], object]) -> float:
    """Seconds from the `event` that `act` causes until the text under `selector` is another one."""
    handle = page.evaluate_handle(f"args => ({{promise: ({_UNTIL_CHANGED})(args)}})", [event, selector])
    act()
    seconds = float(handle.evaluate("async box => await box.promise")) / 1000
    settled(page)
    return seconds


def start() -> list[Result]:
    """From `streamlit run` to the first page drawn; target 5 s."""
    seconds = []
    for _ in range(3):
        with _visit() as (_, elapsed):
            seconds.append(elapsed)
    sample = Sample(tuple(seconds))
    return [figure("start", "`streamlit run` to the first page", sample, "s", target=5)]


def slider() -> list[Result]:
    """From the key that moves the temperature to the redrawn ledger; target 200 ms."""
    with _visit("/next_token") as (page, _):
        thumb = page.get_by_role("slider").first
        thumb.focus()
        keys = ["ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft"] * 4
        times = [_timed(page, "keydown", "table", partial(page.keyboard.press, key)) for key in keys][2:]
    sample = Sample(tuple(times))
    return [figure("slider", "moving a slider to the redrawn ledger, median", sample, "ms", target=200, scale=1e3)]


def page() -> list[Result]:
    """From the click on another page to its title, with a cached trace; target 400 ms."""
    names = ("Heads", "Next token", "Overview", "Generation", "Self-attention, step by step")
    with _visit() as (tab, _):
        times = []
        for _ in range(3):
            for name in names:
                link = tab.get_by_test_id("stSidebar").get_by_role("link", name=name, exact=True)
                times.append(_timed(tab, "click", "h1", link.click))
    sample = Sample(tuple(times[len(names) :]))
    return [figure("page", "page change with a cached trace, median", sample, "ms", target=400, scale=1e3)]
