"""Traces are made once, shared by readers who ask at the same time, and kept within a bound of bytes."""

import gc
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch
from streamlit.runtime.scriptrunner import RerunData, RerunException

from model.language import LanguageModel
from model.masks import MaskRule
from model.trace import Trace
from pages.kit import loading
from pages.kit.choices import Selection
from pages.kit.loading import ModelCache, TraceCache, run_ids
from pages.kit.prose import COMMON, LANGUAGES, Prose
from pages.kit.shared_cache import SharedCache


class Counting:
    """A model that counts its passes and can be held up."""

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self.passes: list[tuple[int, ...]] = []
        self.go = threading.Event()
        self.go.set()
        self.name, self.config, self.device, self.dtype = lm.name, lm.config, lm.device, lm.dtype

    def trace(
        self,
        ids: Sequence[int],
        *,
        source: Sequence[int] | None = None,
        rule: MaskRule | None = None,
        padding: int = 0,
    ) -> object:
        self.passes.append(tuple(ids))
        assert self.go.wait(30)
        if 0 in ids:
            raise ValueError("no")
        return self.lm.trace(ids, source=source, rule=rule, padding=padding)


@pytest.fixture
def lm(storyteller: LanguageModel) -> Counting:
    return Counting(storyteller)


def test_the_same_run_is_made_once(lm: Counting) -> None:
    cache = TraceCache()
    first = cache.get(lm, (5, 6, 7))
    assert cache.get(lm, [5, 6, 7]) is first
    assert lm.passes == [(5, 6, 7)]
    assert torch.equal(first.logits, lm.lm.trace([5, 6, 7]).logits)


def test_what_makes_a_run_different_makes_another(lm: Counting) -> None:
    cache = TraceCache()
    runs = [
        cache.get(lm, (5, 6, 7)),
        cache.get(lm, (5, 6)),
        cache.get(lm, (5, 6, 7), MaskRule(causal=False)),
        cache.get(lm, (5, 6, 7), None, 1),
        cache.get(Counting(lm.lm), (5, 6, 7)),
    ]
    assert len({id(run) for run in runs}) == len(runs)


def test_another_source_is_another_run() -> None:
    translator, cache = loading.model("translator"), TraceCache()
    runs = [cache.get(translator, (0, 5), source=source) for source in ((7, 0), (8, 0), (7, 0))]
    assert runs[0] is runs[2]
    assert runs[0] is not runs[1]
    assert runs[1].source == [8, 0]


def test_the_oldest_leave_when_the_bytes_are_used_up(lm: Counting) -> None:
    size = TraceCache().get(lm, (1, 2, 3)).nbytes
    cache = TraceCache(limit=3 * size)
    for start in range(1, 6):
        cache.get(lm, (start, 2, 3))
        cache.get(lm, (1, 2, 3))  # used again and again, so it stays
        assert cache.nbytes <= 3 * size
    assert lm.passes.count((1, 2, 3)) == 2, "once for its size, once for the cache"
    made = len(lm.passes)
    for start in (1, 5, 4):
        cache.get(lm, (start, 2, 3))
    assert len(lm.passes) == made
    cache.get(lm, (2, 2, 3))
    assert len(lm.passes) == made + 1


def test_two_runs_are_kept_even_if_each_is_larger_than_the_bound(lm: Counting) -> None:
    cache = TraceCache(limit=1)
    size = cache.get(lm, (1, 2, 3)).nbytes
    for start in (2, 3, 4):
        cache.get(lm, (start, 2, 3))
        assert cache.nbytes == 2 * size
    made = len(lm.passes)
    cache.get(lm, (3, 2, 3))
    assert len(lm.passes) == made


def test_the_bound_itself_keeps_the_last_value_only_where_no_room_is_asked_for(lm: Counting) -> None:
    cache: SharedCache[int, Trace] = SharedCache(limit=1)
    for start in (1, 2):
        run = cache.get_or_make(start, lambda start=start: lm.trace((start, 2, 3)))
        assert cache.nbytes == run.nbytes


def test_readers_who_ask_at_once_share_one_pass(lm: Counting) -> None:
    cache = TraceCache()
    lm.go.clear()
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(cache.get(lm, (9, 8)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    lm.go.set()
    for thread in threads:
        thread.join(30)
    assert lm.passes == [(9, 8)]
    assert len(found) == 8
    assert all(run is found[0] for run in found)


def test_a_failed_run_fails_for_all_who_wait_and_is_tried_again(lm: Counting) -> None:
    cache = TraceCache()
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            cache.get(lm, (0, 1))
    assert len(lm.passes) == 2
    assert cache.nbytes == 0


def test_many_threads_and_texts(lm: Counting) -> None:
    cache = TraceCache(limit=4 * TraceCache().get(lm, (1, 2, 3)).nbytes)
    wrong: list[object] = []

    def read(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for start in torch.randint(1, 9, (30,), generator=generator).tolist():
            if cache.get(lm, (start, 2, 3)).tokens != [start, 2, 3]:
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)
    assert cache.nbytes <= cache.limit


def test_rewound_tokens_run_instead_of_the_text(storyteller: LanguageModel) -> None:
    assert run_ids(Selection(text="The cat")) == tuple(storyteller.tokenizer.encode("The cat"))
    assert run_ids(Selection(text="The cat", ids=(5, 6))) == (5, 6)


def test_a_broken_off_run_leaves_the_making_to_one_who_waits(lm: Counting) -> None:
    cache: SharedCache[str, Trace] = SharedCache(10**9)
    begun, go, made = threading.Event(), threading.Event(), []

    def broken_off() -> Trace:
        begun.set()
        assert go.wait(30)
        raise RerunException(RerunData(query_string="text=of+reader+A"))

    def make() -> Trace:
        made.append(1)
        return lm.trace((1, 2))

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(cache.get_or_make, "key", broken_off)
        assert begun.wait(30)
        others = [pool.submit(cache.get_or_make, "key", make) for _ in range(3)]
        go.set()
        found = [other.result(30) for other in others]
    assert isinstance(first.exception(), RerunException)
    assert made == [1]
    assert all(run is found[0] for run in found)


def test_a_click_while_a_model_is_loaded_breaks_off_one_readers_run_alone(
    storyteller: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, loads, shown = threading.Event(), threading.Event(), [], []
    clicked = threading.local()

    def load(*of: str) -> LanguageModel:
        loads.append(of)
        begun.set()
        assert go.wait(30)
        return storyteller

    @contextmanager
    def spinner(text: str) -> Iterator[None]:
        shown.append(text)
        yield
        if getattr(clicked, "now", False):  # what Streamlit's own does in a thread with a run that is to begin anew
            raise RerunException(RerunData(query_string="text=of+reader+A"))

    monkeypatch.setattr(loading, "load", load)
    monkeypatch.setattr(loading.st, "spinner", spinner)
    cache = ModelCache()

    def read(clicks: bool) -> LanguageModel:
        clicked.now = clicks
        return cache.get("story_teller", "int8")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(read, True)
        assert begun.wait(30)
        other = pool.submit(read, False)
        go.set()
        assert other.result(30) is storyteller
    assert isinstance(first.exception(), RerunException)
    assert loads == [("story_teller", "auto", "int8")]
    assert set(shown) == {r"story\_teller · INT8 …"}
    n = len(shown)
    assert cache.get("story_teller", "int8") is storyteller
    assert len(shown) == n, "nobody waits for a model that is in memory"


def test_a_waiting_reader_sees_the_words_of_the_choices() -> None:
    assert loading._shown("gpt2", "float32", "auto") == "gpt2 …"
    assert loading._shown("gpt2", "bfloat16", "cpu") == "gpt2 · bf16 · CPU …"
    for name in ("bfloat16", "int8"):
        assert len({Prose(COMMON, lang).label(f"weights_{name}") for lang in LANGUAGES}) == 1


def test_all_are_told_of_a_model_that_leaves_even_when_one_of_them_fails(
    lm: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []

    def fails(models: Sequence[LanguageModel]) -> None:
        raise ValueError("no")

    def first(models: Sequence[LanguageModel]) -> None:
        told.append(("first", *models))

    def second(models: Sequence[LanguageModel]) -> None:
        told.append(("second", *models))

    traces = TraceCache()
    traces.get(lm, (1, 2))
    monkeypatch.setattr(loading, "_told", {})
    monkeypatch.setattr(loading, "_leaving", {})
    monkeypatch.setattr(loading, "_traces", lambda: traces)
    for let_go in (fails, first, second, first):  # all of one module
        loading.when_models_leave(let_go)
    with pytest.raises(ValueError, match="no"):
        loading._settle([lm])
    assert told == [("first", lm), ("second", lm)]
    assert traces.sizes() == {}
    assert gc.get_freeze_count() > 0


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_that_is_still_going_when_its_model_leaves_is_not_kept(lm: Counting, fails: bool) -> None:
    cache = TraceCache()
    ids, other = ((0, 1) if fails else (1, 2)), Counting(lm.lm)
    kept = cache.get(other, ids[1:])
    lm.go.clear()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(cache.get, lm, ids)
        while not lm.passes:
            assert not first.done()
        cache.forget(lm)
        again = pool.submit(cache.get, lm, ids)  # by now another entry, which the first must leave alone
        while len(lm.passes) < 2:
            assert not again.done()
        cache.forget(lm)
        lm.go.set()
        ended = [one.exception(30) for one in (first, again)]
    assert [type(error) for error in ended] == ([ValueError] * 2 if fails else [type(None)] * 2)
    assert [key[1] for key in cache.sizes()] == [id(other)]
    assert cache.get(other, ids[1:]) is kept
    assert cache.nbytes == kept.nbytes


def test_what_was_dropped_while_it_was_made_may_leave_an_empty_cache(lm: Counting) -> None:
    cache = TraceCache(limit=1)
    lm.go.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cache.get, lm, (1, 2))
        while not lm.passes:
            assert not first.done()
        cache.forget(lm)
        lm.go.set()
        assert first.result(30).tokens == [1, 2]
    assert cache.sizes() == {}
