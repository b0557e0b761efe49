"""The converted copies of GGUF files: where each lies, what it is a copy of, and away with those of no use any more."""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from model.zoo.store import locked, models_folder

_CONVERSION = 3  # counts up when conversions of before can no longer be used
_ORIGIN = "origin.json"
_PART = ".part-"


class _BusyError(Exception):
    """Somebody is just making this copy."""


def converted_folder(path: Path) -> Path:
    """Where the converted copy of a GGUF file lies; another file of the same name has another place."""
    return _copies() / hashlib.sha256(repr(_described(path)).encode()).hexdigest()[:24]


def note_origin(path: Path, folder: Path) -> None:
    """Write into a copy's folder what it is a copy of."""
    (folder / _ORIGIN).write_text(json.dumps({"path": str(path.resolve())}), encoding="utf-8")


def remove_stale() -> None:
    """Remove copies whose file has changed or is gone, copies of older versions, and what a killed conversion left.

    What cannot be removed stays, and so does what somebody is just making.
    """
    with suppress(OSError):
        for folder in list(_copies().iterdir()):
            if folder.name.startswith(_PART) or not _is_current(folder):
                with suppress(OSError, _BusyError), locked(folder.name.removeprefix(_PART), _give_up):
                    shutil.rmtree(folder, ignore_errors=True)


def _copies() -> Path:
    return models_folder() / ".converted"


def _described(path: Path) -> tuple[Any, ...]:
    about = path.stat()
    return str(path.resolve()), about.st_size, about.st_mtime_ns, _CONVERSION


def _is_current(folder: Path) -> bool:
    """Whether a copy is that of a file as it is now."""
    try:
        origin = json.loads((folder / _ORIGIN).read_text(encoding="utf-8"))["path"]
        return converted_folder(Path(origin)) == folder
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _give_up() -> None:
    raise _BusyError
