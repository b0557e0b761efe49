"""The server under its readers: how long a slider takes while others read, that nobody sees another's, and memory."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from pages.kit.sitemap import PAGES
from tests.benchmarks.measure import Result, Sample, figure
from tests.benchmarks.visitor import Visitor
from tests.browser.conftest import REPOSITORY, Server, start_server

TEXTS = (
    "The little cat sat on",
    "One day a big dog",
    "She had a red ball and",
    "从前有一个小",
    "def add(a, b): return a",
)
TEMPERATURES = (0.5, 1.2, 0.8, 1.5, 0.65)
MOVES = 15
SLIDER = "choose_temperature"


@contextmanager
def _server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(REPOSITORY / "app.py", Path(folder))
        try:
            yield server
        finally:
            server.stop()


def readers() -> list[Result]:
    """Moving a slider while 1, 5 and 20 read at once, without a pause; every fifth of them has edits of their own."""
    with _server() as server:
        return [_at_once(server.url, n) for n in (1, 5, 20)]


def _at_once(url: str, n: int) -> Result:
    editing = n // 5
    with ExitStack() as stack:
        moving = [
            stack.enter_context(Visitor.at(url, "next_token", text=f"{TEXTS[i % len(TEXTS)]} {i}", seed=i))
            for i in range(n - editing)
        ]
        edited = [
            stack.enter_context(Visitor.at(url, "feed_forward", text=TEXTS[i], layer=3, neuron=i, off=f"3.{i}"))
            for i in range(editing)
        ]
        alone = [_moves(one) for one in moving]
        pages = [_page(one) for one in edited]
        done = threading.Event()
        with ThreadPoolExecutor(n) as pool:
            looking = [pool.submit(_look_until, one, page, done) for one, page in zip(edited, pages, strict=True)]
            futures = [pool.submit(_race, one, told) for one, told in zip(moving, alone, strict=True)]
            try:
                times = [seconds for future in futures for seconds in future.result()]
            finally:
                done.set()
            for look in looking:
                look.result()
    sample = Sample(tuple(times))
    what = "slider with one reader" if n == 1 else f"slider with {n} readers at once"
    target = 1500.0 if n == 20 else None
    value = sample.share(0.95)
    return figure("readers", f"{what}, 95 % within", sample, "ms", target=target, scale=1e3, value=value)


def _moves(one: Visitor) -> dict[float, list[str]]:
    """What each temperature shows to a reader who is alone."""
    told = {}
    for temperature in TEMPERATURES:
        one.move(SLIDER, temperature)
        told[temperature] = one.answer
    if len(set(map(str, told.values()))) < len(told):
        raise AssertionError("Two temperatures show the same: the comparison would mean nothing.")
    return told


def _race(one: Visitor, told: dict[float, list[str]]) -> list[float]:
    seconds = []
    for i in range(MOVES):
        temperature = TEMPERATURES[i % len(TEMPERATURES)]
        seconds.append(one.move(SLIDER, temperature))
        if one.answer != told[temperature]:
            raise AssertionError("A reader was shown something else than when alone.")
    return seconds


def _page(one: Visitor) -> list[str]:
    one.look()
    return one.answer


def _look_until(one: Visitor, told: list[str], done: threading.Event) -> None:
    while not done.is_set():
        one.look()
        if one.answer != told:
            raise AssertionError("A reader with edits was shown something else than when alone.")


def memory() -> list[Result]:
    """Memory of the server when every page was read once, and with them every bundled model; target 700 MB."""
    with _server() as server:
        for page in PAGES:
            with Visitor.at(server.url, page):
                pass
        process = psutil.Process(server.process.pid)
        held = sum(one.memory_info().rss for one in (process, *process.children(recursive=True)))
    return [figure("memory", "memory of the server, all pages read", Sample((held / 1e6,)), "MB", target=700)]
