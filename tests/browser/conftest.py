"""A real server on a free port and a real Chromium, for every browser test.

`app` is the running app, `serve(source)` runs any other Streamlit script, `visit(url, …)` opens a page and, when the
test ends, checks that the browser's console has no error. `settled(page)` waits until Streamlit has drawn a run.

While a page is drawn again, an element can stand there twice, old and new. So tests expect a list of texts: that waits
until there is just one of it, where a text alone fails at once on two.
"""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 60
WAIT_MS = 30_000
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_RUNNING = "[data-testid=stApp][data-test-connection-state=CONNECTED][data-test-script-state=notRunning]"


@dataclass
class Server:
    """A Streamlit process. `log` is what it has written."""

    url: str
    process: subprocess.Popen[bytes]
    log_path: Path

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_server(script: Path, folder: Path, *options: str) -> Server:
    """Run a Streamlit script with the project's own configuration; returns as soon as it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log_path = folder / f"server-{port}.log"
    command = [sys.executable, "-m", "streamlit", "run", str(script), f"--server.port={port}"]
    command += ["--server.address=127.0.0.1", "--server.headless=true", *options]
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    server = Server(f"http://127.0.0.1:{port}", process, log_path)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{server.url}/_stcore/health", timeout=2):
                return server
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    server.stop()
    raise RuntimeError(f"Streamlit did not start:\n{server.log[-2000:]}")


@pytest.fixture(scope="session")
def app(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app, shared by all tests that read it. For a fresh process: `start_server`."""
    server = start_server(REPOSITORY / "app.py", tmp_path_factory.mktemp("app"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def serve(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """`serve(source)` runs a script; the same source again gives the same server."""
    folder = tmp_path_factory.mktemp("scripts")
    running: dict[str, Server] = {}

    def start(source: str) -> Server:
        if source not in running:
            script = folder / f"script{len(running)}.py"
            script.write_text(source, encoding="utf-8")
            running[source] = start_server(script, folder)
        return running[source]

    yield start
    for server in running.values():
        server.stop()


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """Chromium, one for all tests; every `visit` has a context of its own."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, headless=True, args=ARGUMENTS)
        yield started
        started.close()


@dataclass
class Visits:
    """Opens pages and collects what their consoles complain about."""

    browser: Browser
    errors: list[str] = field(default_factory=list)
    contexts: list[Any] = field(default_factory=list)

    def __call__(
        self,
        url: str,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        touch: bool = False,
        scale: float = 1,
        locale: str = "en-US",
        at_rest: bool = True,
    ) -> Page:
        """Open `url` and wait for its first run. `scale`: device pixels per CSS pixel.

        A page that works on by itself has no rest until all is done: without `at_rest` that is not waited for.
        """
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            has_touch=touch,
            is_mobile=touch,
            device_scale_factor=scale,
            locale=locale,
        )
        context.set_default_timeout(WAIT_MS)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(url)
        if at_rest:
            settled(page)
        return page

    def _note(self, message: ConsoleMessage) -> None:
        # Streamlit asks for its health below a deep link's path first, and finds it at the root.
        missing = re.search(r"/_stcore/(health|host-config)$", message.location.get("url", ""))
        if message.type == "error" and not (missing and "404" in message.text):
            self.errors.append(message.text)


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visits]:
    """`visit(url, width=…, dark=…, touch=…)` opens a page; at the end no console may have an error."""
    visits = Visits(browser)
    yield visits
    for context in visits.contexts:
        context.close()
    assert visits.errors == []


def settled(page: Page) -> None:
    """Wait until the page is connected, no script runs and its fonts are there: text moves when one arrives.

    What a figure draws afterwards needs its own wait.
    """
    page.wait_for_selector(_RUNNING, state="attached")
    page.evaluate("document.fonts.ready.then(() => true)")
