"""Bring a model of the catalogue to this machine: whole, checked, and once for all who ask at the same time."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

from model.zoo.catalog import CATALOG
from model.zoo.checkpoint import prepare
from model.zoo.files import CheckpointError
from model.zoo.sources import Cancelled, FetchCancelled, SourceError, UnreachableError
from model.zoo.store import becoming, locked, models_folder

__all__ = ["FETCH_FAULTS", "FetchCancelled", "FetchError", "fetch"]


class FetchError(CheckpointError):
    """A model that could not be brought here.

    `fault` is "no_room", "not_stored" (the folder cannot be written), "offline" (no source is in reach) or "sources".
    """

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault


FETCH_FAULTS = ("no_room", "not_stored", "offline", "sources")


def fetch(
    name: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
    cancelled: Cancelled = lambda: False,
) -> Path:
    """The folder of a model of the catalogue, downloaded if it is not there yet. The first source that answers wins.

    A folder appears complete or not at all; one that was cut off begins anew. Whoever asks for a model that somebody
    else is fetching waits for it.

    Args:
        progress: called with bytes so far and the catalogue's bytes of the whole.
        cancelled: asked many times a second; true stops the download.

    Raises:
        CheckpointError: if there is no such model.
        FetchError: if no source gave it, with each one's reason, or there is no place for it.
        FetchCancelled: if it was stopped.
    """
    entry = CATALOG.get(name)
    if entry is None:
        raise CheckpointError(f"There is no model {name!r:.80} to fetch. Known are {', '.join(CATALOG)}.")
    if entry.ready:
        return entry.folder
    reasons, offline = [], True

    def waiting() -> None:
        if cancelled():
            raise FetchCancelled

    try:
        with locked(entry.id, waiting):
            if CATALOG[name].ready:  # somebody else has brought it meanwhile
                return entry.folder
            if shutil.disk_usage(models_folder()).free < 3 * entry.nbytes:
                raise OSError(errno.ENOSPC, "")
            for source in entry.sources:
                try:
                    with becoming(entry.folder) as part:
                        source.get(part, lambda done: progress(min(done, entry.nbytes), entry.nbytes), cancelled)
                        for extra in (".download", ".tmp", ".cache"):
                            shutil.rmtree(part / extra, ignore_errors=True)
                    prepare(entry.folder)
                    return entry.folder
                except SourceError as error:
                    reasons.append(f"{source.name}: {error}")
                    offline = offline and isinstance(error, UnreachableError)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            needed = f"{3 * entry.nbytes / 1e6:,.0f} MB"
            raise FetchError("no_room", f"There is no room for {name}: it needs about {needed}.") from None
        raise FetchError("not_stored", f"{name} cannot be stored in {models_folder()}: {error}.") from None
    raise FetchError(
        "offline" if offline else "sources",
        f"{name} could not be fetched; the bundled models work without a network. ({'; '.join(reasons)}.)",
    )
