"""Training text: corpora on disk, what is held out of them, and their tokens, cached as flat binary files."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

SEPARATOR = "<|endoftext|>"


class Codec(Protocol):
    """What training needs of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """Text to token ids; special tokens in the text are plain text."""

    def decode(self, ids: Sequence[int]) -> str:
        """Token ids to text."""


@dataclass(frozen=True)
class Corpus:
    """One kind of text in a file, UTF-8 compressed with xz.

    Documents end with a line that holds only `<|endoftext|>`. `first` and `stop` choose a range of the file's
    documents; with `lines_per_document`, the file has one sentence a line instead, and that many, drawn without
    order, make a document. The last `held_out` documents of the range are never trained on. `weight` is this
    corpus' share of the training tokens, relative to the others'.
    """

    name: str
    file: str
    weight: float
    held_out: int = 0
    first: int = 0
    stop: int | None = None
    lines_per_document: int = 0

    def documents(self, folder: Path) -> tuple[list[str], list[str]]:
        """The documents to train on and the held-out ones, without surrounding white space.

        Raises:
            ValueError: if the file is missing, is no xz file, or has too few documents.
        """
        try:
            with lzma.open(folder / self.file, "rt", encoding="utf-8") as file:
                text = file.read()
        except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
            raise ValueError(f"{self.file} cannot be read from the corpora's folder: {error}") from None
        if self.lines_per_document:
            lines = text.splitlines()
            order = np.random.default_rng(0).permutation(len(lines))  # the file may be sorted, by length say
            size = self.lines_per_document
            parts = ["\n".join(lines[i] for i in order[at : at + size]) for at in range(0, len(order), size)]
        else:
            parts = text.split(f"{SEPARATOR}\n")
        found = [part.strip() for part in parts if part.strip()][self.first : self.stop]
        kept = len(found) - self.held_out
        if kept < 0 or (kept == 0 and self.weight):
            raise ValueError(f"{self.file} has {len(found)} documents for {self.name}; {self.held_out} are held out.")
        return found[:kept], found[kept:]


@dataclass(frozen=True)
class TokenFile:
    """A corpus as ids: `tokens` `(N,)` uint16, memory-mapped, and `starts` `(documents + 1,)`, where each begins."""

    tokens: NDArray[np.uint16]
    starts: NDArray[np.int64]


def tokenise(corpus: Corpus, folder: Path, cache: Path, codec: Codec, separator: int, fingerprint: str) -> TokenFile:
    """The corpus' training documents as ids, each behind one separator id.

    Tokenised once: `cache` keeps `<name>.bin` (uint16), `<name>.starts.bin` (int64) and `<name>.json`, which
    says what they were made from; they are made again when the text, the tokenizer (`fingerprint`) or the
    held-out documents change.

    Raises:
        ValueError: for an id that 16 bits cannot hold, or as `Corpus.documents` does.
    """
    cache.mkdir(parents=True, exist_ok=True)
    note = cache / f"{corpus.name}.json"
    tokens, starts = cache / f"{corpus.name}.bin", cache / f"{corpus.name}.starts.bin"
    source = {
        "file": _digest(folder / corpus.file),
        "tokenizer": fingerprint,
        "range": [corpus.first, corpus.stop, corpus.held_out, corpus.lines_per_document, separator],
    }
    if not note.is_file() or json.loads(note.read_text(encoding="utf-8")).get("source") != source:
        training, held_out = corpus.documents(folder)
        documents = [[separator, *codec.encode(text)] for text in training]
        ids = np.fromiter((i for document in documents for i in document), dtype=np.int64)
        if ids.max() > np.iinfo(np.uint16).max:
            raise ValueError("The tokens are kept in 16 bits; this tokenizer's vocabulary is too large for that.")
        bounds = np.cumsum([0] + [len(document) for document in documents])
        note.unlink(missing_ok=True)
        _write(tokens, ids.astype(np.uint16).tobytes())
        _write(starts, bounds.astype(np.int64).tobytes())
        said = {
            "source": source,
            "documents": len(documents),
            "tokens": len(ids),
            "held_out": [hashlib.sha256(text.encode()).hexdigest()[:16] for text in held_out],
        }
        _write(note, json.dumps(said, indent=1).encode())
    return TokenFile(np.memmap(tokens, np.uint16, "r"), np.fromfile(starts, np.int64))


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read from the corpora's folder: {error.strerror}.") from None


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(data)
    part.replace(path)


class Stream:
    """A corpus as one endless sequence of ids: epoch after epoch, its documents shuffled anew in each.

    What stands at a position depends on the position and the seed alone, so one integer resumes it exactly.
    """

    def __init__(self, file: TokenFile, seed: Sequence[int]) -> None:
        self._file, self._seed = file, tuple(seed)
        self._lengths = np.diff(file.starts)
        self._epoch = -1
        self._order: NDArray[np.int64] = np.empty(0, np.int64)
        self._ends: NDArray[np.int64] = np.empty(0, np.int64)

    def read(self, position: int, count: int) -> NDArray[np.int64]:
        """`count` ids from `position` on, `(count,)`."""
        parts: list[NDArray[np.int64]] = []
        while count:
            epoch, offset = divmod(position, len(self._file.tokens))
            if epoch != self._epoch:
                self._order = np.random.default_rng((*self._seed, epoch)).permutation(len(self._lengths))
                self._ends, self._epoch = np.cumsum(self._lengths[self._order]), epoch
            at = int(np.searchsorted(self._ends, offset, side="right"))
            left = int(self._ends[at]) - offset  # of this document
            stop = int(self._file.starts[self._order[at] + 1])
            part = self._file.tokens[stop - left : stop][:count].astype(np.int64)
            parts.append(part)
            position, count = position + len(part), count - len(part)
        return np.concatenate(parts)


class Mixture:
    """Rows of ids from several streams, in the proportion of their weights.

    `positions`, how many tokens each stream has given, is the whole state. Each row comes from the stream that
    is furthest behind its share, so the mix is exact at every step, not only on average.
    """

    def __init__(self, streams: Iterable[Stream], weights: Sequence[float]) -> None:
        self.streams = list(streams)
        self.shares = np.asarray(weights, dtype=np.float64) / sum(weights)
        self.positions = [0] * len(self.streams)

    def batch(self, rows: int, length: int) -> NDArray[np.int64]:
        """The next `rows` rows, `(rows, length + 1)`: inputs and, shifted by one, labels. Moves the positions."""
        out = np.empty((rows, length + 1), np.int64)
        for row in out:
            behind = self.shares * (sum(self.positions) + length) - self.positions
            which = int(np.argmax(behind))
            row[:] = self.streams[which].read(self.positions[which], length + 1)
            self.positions[which] += length
        return out
