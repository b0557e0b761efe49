"""Tickets: what they stand for is let go when its model leaves the memory, whoever holds them."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable

import pytest

from model.language import LanguageModel
from pages.kit import loading, tickets
from pages.kit.loading import ModelCache
from pages.kit.sitemap import PAGES
from tests.pages.visit import visit, well


class Work:
    """What some page would keep."""


class WholePageError(Exception):
    """The whole page is run again."""


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> ModelCache:
    """A memory with room for one model."""
    cache = ModelCache(limit=1)
    monkeypatch.setattr(loading, "models", lambda: cache)
    return cache


def test_what_is_behind_a_ticket_leaves_with_its_model_and_no_other(models: ModelCache) -> None:
    ticket = tickets.issue(models.get("storyteller"), Work())
    old = weakref.ref(tickets.value(ticket))
    other = tickets.issue(models.get("reader"), Work())
    assert tickets.value(ticket) is None
    assert old() is None
    assert tickets.value(other) is not None
    assert tickets.value(None) is None


def test_a_model_that_has_left_already_gets_an_empty_ticket(models: ModelCache) -> None:
    lm = models.get("storyteller")
    models.get("reader")  # while the run of a reader with the first one goes on
    ticket = tickets.issue(lm, Work())
    assert tickets.value(ticket) is None
    assert ticket.lm is None


def test_a_ticket_that_nobody_has_keeps_nothing(models: ModelCache) -> None:
    work = Work()
    ticket = tickets.issue(models.get("storyteller"), work)
    held = weakref.ref(work)
    del work
    assert held() is tickets.value(ticket) is not None
    del ticket
    gc.collect()
    assert held() is None


def test_readers_are_issued_tickets_while_models_leave(models: ModelCache, storyteller: LanguageModel) -> None:
    lm, over, wrong = models.get("reader"), threading.Event(), []
    many = [tickets.issue(lm, Work()) for _ in range(5_000)]

    def read() -> None:
        try:
            while not over.is_set():
                mine = [tickets.issue(lm, Work()) for _ in range(50)]
                assert all(tickets.value(one) is not None for one in mine)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns all the time
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            tickets.leave([storyteller])
    finally:
        sys.setswitchinterval(interval)
        over.set()
        for thread in threads:
            thread.join(30)
    assert wrong == []
    assert all(tickets.value(one) is not None for one in many)


@pytest.mark.parametrize("page", PAGES)
def test_a_model_that_leaves_is_held_by_no_idle_reader(
    page: str, models: ModelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[weakref.ref[LanguageModel]] = []
    load = loading._load

    def noted(*of: str) -> LanguageModel:
        lm = load(*of)
        loaded.append(weakref.ref(lm))
        return lm

    monkeypatch.setattr(loading, "_load", noted)
    app = well(visit(page, text="One day, a little dog"))
    n = len(loaded)
    models.get("reader")  # somebody else's
    gc.unfreeze()
    gc.collect()
    assert n
    assert [old() for old in loaded[:n]] == [None] * n, "Streamlit keeps what it has of a page until the next run"
    assert app.session_state  # the reader is still there


def test_a_part_whose_model_has_left_runs_the_whole_page_again(
    models: ModelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[Callable[[], None]] = []
    drawn: list[tuple[str, int]] = []

    def draw(lm: LanguageModel, n: int) -> None:
        drawn.append((lm.name, n))

    def fragment(part: Callable[[], None], run_every: float | None) -> Callable[[], None]:
        assert run_every == 0.5
        parts.append(part)
        return part

    def rerun() -> None:
        raise WholePageError

    monkeypatch.setattr(tickets.st, "fragment", fragment)
    monkeypatch.setattr(tickets.st, "rerun", rerun)
    lm = models.get("storyteller")
    tickets.fragment(lm, draw, lm, 7, run_every=0.5)
    (part,) = parts
    part()
    assert drawn == [("storyteller", 7)] * 2
    models.get("reader")
    with pytest.raises(WholePageError):
        part()
    tickets.fragment(lm, draw, lm, 8, run_every=0.5)  # a run that was going on when its model left goes on
    assert drawn[2:] == [("storyteller", 8)]
    with pytest.raises(WholePageError):
        parts[-1]()
    held = weakref.ref(lm)
    del lm
    gc.unfreeze()
    gc.collect()
    assert held() is None
