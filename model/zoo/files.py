"""Files of a checkpoint, which may come from anywhere: bounded, inside their folder, and told of in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_JSON_LIMIT = 128_000_000  # bytes; the largest published tokenizer.json has about 35 million


class CheckpointError(ValueError):
    """A checkpoint that cannot be loaded; the message says why, in one sentence.

    `fault` names the kind of fault, for whoever says it in another language.
    """

    fault = "other"


class FileError(CheckpointError):
    """A file that is missing or cannot be opened."""

    fault = "file"


class OutsideError(CheckpointError):
    """A file that is a link to a place outside its folder."""

    fault = "outside"


class DamagedError(CheckpointError):
    """A file that is cut, contradicts itself, or is of another format than its name says."""

    fault = "damaged"


class ConfigError(CheckpointError):
    """A config that is none, or of a model that cannot be built."""

    fault = "config"


class TensorsError(CheckpointError):
    """Weights that do not fit the config."""

    fault = "tensors"


class KindError(CheckpointError):
    """A file in order, of a kind that is not read here."""

    fault = "kind"


class FormatError(CheckpointError):
    """Weights in a format that is not read here."""

    fault = "format"


class TokenizerError(CheckpointError):
    """A tokenizer that cannot be used."""

    fault = "tokenizer"


FAULTS = ("other", "file", "outside", "damaged", "config", "tensors", "kind", "format", "tokenizer")


def inside(folder: Path, name: str) -> Path:
    """The file of that name in `folder`.

    Raises:
        CheckpointError: if it is not there, is no plain file, or is a link to a place outside.
    """
    path = folder / name
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise OutsideError(f"{shown(name)} of {folder.name} leads out of its folder: put the file itself there.")
        if not path.is_file():
            raise FileError(f"{folder.name} has no {shown(name)}.")
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links, a name that no file can have
        if isinstance(error, CheckpointError):
            raise
        raise FileError(f"{name!r:.80} of {folder.name} cannot be opened.") from None
    return path


def shown(name: str) -> str:
    """A name that a file gives to something, as it can stand in a sentence: on one line, and not endless."""
    return repr(name)[1:-1][:80]


def read_text(path: Path) -> str:
    """The text of a JSON file, unless it is far larger than any of its kind.

    Raises:
        CheckpointError: if it is too large or cannot be read as UTF-8.
    """
    try:
        if path.stat().st_size > _JSON_LIMIT:
            raise DamagedError(f"{path.name} is larger than {_JSON_LIMIT // 10**6} MB; no such file should be.")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path.name} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise DamagedError(f"{path.name} is not a text in UTF-8.") from None


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        CheckpointError: if it is none.
    """
    try:
        data = json.loads(read_text(path))
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path.name} is not JSON: {str(error)[:100]}.") from None
    if not isinstance(data, dict):
        raise DamagedError(f"{path.name} holds no JSON object.")
    return data
