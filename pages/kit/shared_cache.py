"""A cache for all readers: what many ask for at once is made once, and what was used last stays."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from typing import Any, Generic, Protocol, TypeVar


class Sized(Protocol):
    """What knows its bytes."""

    @property
    def nbytes(self) -> int: ...


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value", bound=Sized)


class _Entry(Generic[Value]):
    """A value that is made or being made; `nbytes` is None until it is measured."""

    def __init__(self) -> None:
        self.future: Future[Value] = Future()
        self.nbytes: int | None = None


class SharedCache(Generic[Key, Value]):
    """The values used last, as many as fit in `limit` bytes, and always the last one. Each is made at most once.

    `room_for` times the largest value fits in any case, for a page that goes back and forth between some of them.
    """

    def __init__(self, limit: int, room_for: float = 0.0) -> None:
        self.limit, self.room_for = limit, room_for
        self._entries: OrderedDict[Key, _Entry[Value]] = OrderedDict()
        self._lock = threading.Lock()

    def size(self, value: Value) -> int:
        """Bytes that a value counts."""
        return value.nbytes

    def sizes(self) -> dict[Key, int]:
        """Bytes of each finished value, the one used last at the end."""
        with self._lock:
            return self._sizes()

    def __contains__(self, key: Key) -> bool:
        """Whether the value is made: `get_or_make` then waits for nothing."""
        with self._lock:
            return key in self._sizes()

    def holds(self, value: Value) -> bool:
        """Whether this very value is kept."""
        with self._lock:
            return any(self._entries[key].future.result() is value for key in self._sizes())

    @property
    def nbytes(self) -> int:
        """Bytes of all finished values."""
        return sum(self.sizes().values())

    def get_or_make(
        self, key: Key, make: Callable[[], Value], then: Callable[[list[Value]], Any] = lambda dropped: None
    ) -> Value:
        """The value of `key`: the kept one, or the one that another thread is just making, or what `make` returns.

        `then` is called after a value was made, with those that had to leave for it. An error of `make` is raised for
        all who wait, and nothing is kept. What is no `Exception` (a reader's run that is broken off, say) concerns its
        own thread alone: of those who wait, one makes the value instead.
        """
        while True:
            with self._lock:
                entry = self._entries.get(key)
                known = entry is not None
                if entry is None:
                    entry = self._entries[key] = _Entry()
                self._entries.move_to_end(key)
            if not known:
                return self._make(key, entry, make, then)
            try:
                return entry.future.result()
            except CancelledError:
                continue

    def _make(
        self, key: Key, entry: _Entry[Value], make: Callable[[], Value], then: Callable[[list[Value]], Any]
    ) -> Value:
        try:
            value = make()
            nbytes = self.size(value)
        except BaseException as error:
            with self._lock:
                if self._entries.get(key) is entry:
                    del self._entries[key]
            if isinstance(error, Exception):
                entry.future.set_exception(error)
            else:
                entry.future.cancel()
            raise
        with self._lock:
            entry.nbytes = nbytes
            entry.future.set_result(value)
            kept = self._entries.get(key) is entry  # else it was dropped meanwhile
            dropped = self._drop_oldest() if kept else []
        then(dropped)
        return value

    def drop(self, which: Callable[[Key], bool]) -> None:
        """Let go of the values of these keys. One that is being made goes to those who wait for it, and is not kept."""
        with self._lock:
            for key in [key for key in self._entries if which(key)]:
                del self._entries[key]

    def _sizes(self) -> dict[Key, int]:
        return {key: entry.nbytes for key, entry in self._entries.items() if entry.nbytes is not None}

    def _drop_oldest(self) -> list[Value]:
        sizes = self._sizes()
        total, dropped = sum(sizes.values()), []
        limit = max(self.limit, self.room_for * max(sizes.values()))
        for key in list(sizes)[:-1]:
            if total <= limit:
                break
            total -= sizes[key]
            dropped.append(self._entries.pop(key).future.result())
        return dropped
