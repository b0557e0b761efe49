"""Models, loaded once for everybody, and traces, kept within a bound of bytes."""

import gc
import os
import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import streamlit as st

from model.devices import devices, set_threads
from model.language import LanguageModel
from model.loading import load
from model.masks import MaskRule
from model.trace import Trace
from pages.kit import limits
from pages.kit.prose import COMMON, Prose, escape
from pages.kit.shared_cache import SharedCache

if TYPE_CHECKING:
    from streamlit.runtime.caching.cache_utils import CachedFunc

    from pages.kit.choices import Selection

TRACE_BYTES = 128 * 2**20
ROOM_FOR = 2.25  # long runs of a large model: the page on attention compares two, others add some short ones
MODEL_BYTES = int(os.environ.get("ATLAS_MODEL_MEMORY", 4_000)) * 10**6  # the operator's limit is in MB
Cached = TypeVar("Cached", bound="CachedFunc[..., Any]")
# Called when models leave the memory. By name: page files are run anew each time, and what they have is in here once.
_leaving: dict[str, Callable[[], None]] = {}
_told: dict[str, Callable[[Sequence[LanguageModel]], None]] = {}


class ModelCache(SharedCache[tuple[str, str, str], LanguageModel]):
    """The models used last, as many as fit in `limit` bytes, and always the last one. Each is loaded at most once.

    Keys are (name, weights, device): a folder may have any name.
    """

    def __init__(self, limit: int = MODEL_BYTES) -> None:
        super().__init__(limit)

    def size(self, value: LanguageModel) -> int:
        """With the copies that a model makes when it writes."""
        return value.nbytes_at_most

    def get(self, name: str, weights: str = "float32", device: str = "auto") -> LanguageModel:
        """The model called `name` in a format and on a device, loaded now if it is not in memory."""
        key = (name, weights, device)
        if key in self:
            return self.get_or_make(key, lambda: _load(name, weights, device), _settle)
        # Around the waiting and not within the loading: when a spinner ends, Streamlit may break off this reader's run,
        # which concerns nobody else who waits for the model.
        with st.spinner(_shown(name, weights, device)):
            return self.get_or_make(key, lambda: _load(name, weights, device), _settle)


def _shown(name: str, weights: str, device: str) -> str:
    """What stands at the spinner, as Markdown: the words of the reader's choices, which all languages share."""
    words = [escape(name)]
    if weights != "float32":
        words.append(Prose(COMMON).label(f"weights_{weights}"))
    if device != "auto":
        words.append(escape(device.upper()))
    return f"{' · '.join(words)} …"


def _load(name: str, weights: str, device: str) -> LanguageModel:
    set_threads(1)  # readers at once use the cores
    lm = load(name, device, weights)
    lm.try_out()  # torch is set up in it, which would else be shown as the time of the reader's run
    return lm


def when_models_leave(let_go: Callable[[Sequence[LanguageModel]], None]) -> None:
    """Have `let_go` called with the models that have just left the memory."""
    _told[f"{let_go.__module__}.{let_go.__qualname__}"] = let_go


def leaves_with_a_model(cached: Cached) -> Cached:
    """For a `st.cache_resource` that holds on to models, their tokenizers or runs: it is emptied when a model leaves.

    Nothing is lost but time. Without it a table of the model's size would outlive the model.
    """
    # Streamlit gives it the names of its function, which its type does not tell.
    _leaving[f"{cached.__module__}.{cached.__qualname__}"] = cached.clear  # type: ignore[attr-defined]
    return cached


def _settle(dropped: Sequence[LanguageModel]) -> None:
    """A model was loaded, and these have left the memory for it: let go of all that holds them."""
    steps: list[Callable[[], object]] = []
    if dropped:
        steps += [limits.forget_excerpts, *_leaving.values()]
        steps += [partial(let_go, dropped) for let_go in list(_told.values())]
        steps += [partial(_traces().forget, old) for old in dropped]
        steps += [gc.unfreeze]
    # Streamlit collects after every script run. What is loaded now stays: take it out of the collector's way, or
    # each of those runs walks through all of torch.
    steps += [gc.collect, gc.freeze]
    with ExitStack() as stack:  # which calls them all, the last one first, and raises an error when it is through
        for step in reversed(steps):
            stack.callback(step)


@st.cache_resource(show_spinner=False)
def models() -> ModelCache:
    """The models in memory, one cache for all readers."""
    return ModelCache()


def model(name: str, weights: str = "float32", device: str | None = None) -> LanguageModel:
    """The model called `name`, with its weights in a format (see `model.load`), on a device (None: the fastest).

    Raises:
        ValueError: if it cannot be loaded, in one sentence.
    """
    return models().get(name, weights, "auto" if device in (None, devices()[0]) else str(device))


def chosen(selection: "Selection") -> LanguageModel:
    """The model of a selection.

    Raises:
        ValueError: as `model` does.
    """
    return model(selection.model, selection.weights, selection.device)


class TraceCache(SharedCache[tuple[Hashable, ...], Trace]):
    """The traces used last, as many as fit in `limit` bytes. Readers who ask for the same one at once share it."""

    def __init__(self, limit: int = TRACE_BYTES, at_once: int = 2) -> None:
        super().__init__(limit, ROOM_FOR)
        self._workers = threading.BoundedSemaphore(at_once)

    def get(
        self,
        lm: LanguageModel,
        ids: Sequence[int],
        rule: MaskRule | None = None,
        padding: int = 0,
        source: Sequence[int] | None = None,
    ) -> Trace:
        """The trace of these ids, made now if it is not kept. Edits never get here: they have no key."""
        read = None if source is None else tuple(source)

        def make() -> Trace:
            with self._workers:
                return lm.trace(ids, source=read, rule=rule, padding=padding)

        key = (lm.name, id(lm), str(lm.device), str(lm.dtype), tuple(ids), rule, padding, read)
        return self.get_or_make(key, make)

    def forget(self, lm: LanguageModel) -> None:
        """Let go of the runs of a model that has left the memory: each of them holds it."""
        self.drop(lambda key: key[1] == id(lm))


@st.cache_resource(show_spinner=False)
def _traces() -> TraceCache:
    return TraceCache()


def run_ids(selection: "Selection") -> tuple[int, ...]:
    """The token ids that the run of this selection has."""
    return selection.ids or limits.excerpt(chosen(selection), selection.text, selection.chat).ids


def trace(selection: "Selection", rule: MaskRule | None = None, padding: int = 0) -> Trace:
    """The run of a selection: of its `ids` where they are set, else of its text.

    `rule` replaces the model's own mask; the first `padding` tokens are hidden.
    """
    return _traces().get(chosen(selection), run_ids(selection), rule, padding)


def run(lm: LanguageModel, ids: Sequence[int], source: Sequence[int] | None = None) -> Trace:
    """The run of any model over token ids, for pages that show several models; an encoder-decoder has a `source`."""
    return _traces().get(lm, ids, source=source)
