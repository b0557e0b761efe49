"""Models, loaded once for everybody, and traces, kept within a bound of bytes."""

import gc
import os
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

import streamlit as st

from model.language import LanguageModel, load, set_threads
from model.masks import MaskRule
from model.trace import Trace
from pages.kit import limits

if TYPE_CHECKING:
    from pages.kit.choices import Selection

TRACE_BYTES = 128 * 2**20
MODEL_BYTES = int(os.environ.get("ATLAS_MODEL_MEMORY", 4_000)) * 10**6  # the operator's limit is in MB


class ModelCache:
    """The models used last, as many as fit in `limit` bytes, and always the last one. Each is loaded at most once."""

    def __init__(self, limit: int = MODEL_BYTES) -> None:
        self.limit = limit
        self._models: OrderedDict[str, Future[LanguageModel]] = OrderedDict()
        self._lock = threading.Lock()

    def sizes(self) -> dict[str, int]:
        """Bytes of each model that is in memory, the one used last at the end."""
        with self._lock:
            return self._sizes()

    def _sizes(self) -> dict[str, int]:
        ready = {name: f for name, f in self._models.items() if f.done() and f.exception() is None}
        return {name: future.result().nbytes for name, future in ready.items()}

    def get(self, name: str) -> LanguageModel:
        """The model called `name`, loaded now if it is not in memory."""
        with self._lock:
            known = self._models.get(name)
            if known is not None:
                self._models.move_to_end(name)
            else:
                future = self._models[name] = Future[LanguageModel]()
        if known is not None:
            return known.result()
        try:
            with st.spinner(f"{name} …"):
                set_threads(1)  # readers at once use the cores
                lm = load(name)
                lm.trace([0])  # the very first pass sets torch up, which would be shown as the time of the reader's run
        except BaseException as error:
            with self._lock:
                del self._models[name]
            future.set_exception(error)
            raise
        future.set_result(lm)
        with self._lock:
            dropped = self._drop_oldest()
        if dropped:
            limits.forget_excerpts()
            for old in dropped:
                _traces().forget(old)
            gc.unfreeze()
        # Streamlit collects after every script run. What is loaded now stays: take it out of the collector's way, or
        # each of those runs walks through all of torch.
        gc.collect()
        gc.freeze()
        return lm

    def _drop_oldest(self) -> list[LanguageModel]:
        dropped = []
        for name in list(self._sizes())[:-1]:
            if sum(self._sizes().values()) <= self.limit:
                break
            dropped.append(self._models.pop(name).result())
        return dropped


@st.cache_resource(show_spinner=False)
def models() -> ModelCache:
    """The models in memory, one cache for all readers."""
    return ModelCache()


def model(name: str) -> LanguageModel:
    """The model called `name`.

    Raises:
        ValueError: if it cannot be loaded, in one sentence.
    """
    return models().get(name)


class TraceCache:
    """The traces used last, as many as fit in `limit` bytes. Readers who ask for the same one at once share it."""

    def __init__(self, limit: int = TRACE_BYTES, at_once: int = 2) -> None:
        self.limit = limit
        self._traces: OrderedDict[tuple[Hashable, ...], Future[Trace]] = OrderedDict()
        self._sizes: dict[tuple[Hashable, ...], int] = {}
        self._lock = threading.Lock()
        self._workers = threading.BoundedSemaphore(at_once)

    @property
    def nbytes(self) -> int:
        """Bytes held by finished traces."""
        with self._lock:
            return sum(self._sizes.values())

    def get(self, lm: LanguageModel, ids: Sequence[int], rule: MaskRule | None = None, padding: int = 0) -> Trace:
        """The trace of these ids, made now if it is not kept. Edits never get here: they have no key."""
        key = (lm.name, id(lm), str(lm.device), str(lm.dtype), tuple(ids), rule, padding)
        with self._lock:
            kept = self._traces.get(key)
            if kept is not None:
                self._traces.move_to_end(key)
            else:
                future = self._traces[key] = Future[Trace]()
        if kept is not None:
            return kept.result()
        try:
            with self._workers:
                trace = lm.trace(ids, rule=rule, padding=padding)
        except BaseException as error:
            with self._lock:
                del self._traces[key]
            future.set_exception(error)
            raise
        future.set_result(trace)
        with self._lock:
            self._sizes[key] = trace.nbytes
            self._drop_oldest()
        return trace

    def forget(self, lm: LanguageModel) -> None:
        """Let go of the runs of a model that has left the memory: each of them holds it."""
        with self._lock:
            for key in [key for key in self._traces if key[1] == id(lm) and self._traces[key].done()]:
                del self._traces[key]
                self._sizes.pop(key, None)

    def _drop_oldest(self) -> None:
        for key in list(self._traces)[:-1]:
            if sum(self._sizes.values()) <= self.limit:
                return
            if self._traces[key].done():
                del self._traces[key]
                self._sizes.pop(key, None)


@st.cache_resource(show_spinner=False)
def _traces() -> TraceCache:
    return TraceCache()


def run_ids(selection: "Selection") -> tuple[int, ...]:
    """The token ids that the run of this selection has."""
    return selection.ids or limits.excerpt(model(selection.model), selection.text).ids


def trace(selection: "Selection", rule: MaskRule | None = None, padding: int = 0) -> Trace:
    """The run of a selection: of its `ids` where they are set, else of its text.

    `rule` replaces the model's own mask; the first `padding` tokens are hidden.
    """
    return _traces().get(model(selection.model), run_ids(selection), rule, padding)
