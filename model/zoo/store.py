"""Where fetched and converted models lie, and how a folder comes to be there: whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from filelock import FileLock, Timeout

ENVIRONMENT = "ATLAS_MODELS"


def models_folder() -> Path:
    """The operator's folder of models: $ATLAS_MODELS, or ~/.cache/transformer-atlas/models. It may not exist yet."""
    return Path(os.environ.get(ENVIRONMENT) or Path.home() / ".cache" / "transformer-atlas" / "models")


@contextmanager
def locked(name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of that name in the models folder, for all threads and processes of this machine.

    `waiting` is called many times a second while somebody else holds it, and may raise to give up.

    Raises:
        OSError: if the folder cannot be written.
    """
    locks = models_folder() / ".locks"
    locks.mkdir(parents=True, exist_ok=True)
    lock = FileLock(locks / f"{name}.lock")
    while not lock.is_locked:
        try:
            lock.acquire(timeout=0.1)
        except Timeout:
            waiting()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def becoming(target: Path) -> Iterator[Path]:
    """A fresh folder that becomes `target` in one step when the block ends, and vanishes when it fails.

    What lies at `target` then is kept under another name, unless it is an empty folder.

    What an earlier attempt left behind when it was killed is removed first, so hold the target's lock.

    Raises:
        OSError: if the folder cannot be written.
    """
    part = target.with_name(f".part-{target.name}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        yield part
        _make_way(target)
        part.replace(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _make_way(target: Path) -> None:
    with suppress(OSError):
        target.rmdir()
    if os.path.lexists(target):
        names = (target.with_name(f"{target.name}.unfinished-{n}") for n in count(1))
        target.rename(next(name for name in names if not os.path.lexists(name)))
