"""Characters, their UTF-8 bytes, and the tokens that take them, aligned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from model.byte_level import characters
from model.graphemes import visible
from model.tokenizer import Piece, Tokenizer


@dataclass(frozen=True)
class ByteRun:
    """A piece of text with its bytes: tokens from position `start` on.

    `characters` are (visible name, bytes) and `tokens` (id, bytes) pairs; the bytes of each add up to those of
    `data`. Where the share of each token is not known (a token of a kind that writes it by its neighbours), one
    entry with all `ids` stands for all.
    """

    start: int
    characters: tuple[tuple[str, int], ...]
    data: bytes
    tokens: tuple[tuple[tuple[int, ...], int], ...]


def byte_runs(tokenizer: Tokenizer, pieces: Sequence[Piece]) -> list[ByteRun]:
    """The bytes of the pieces of a text; special tokens and tokens without any byte are left out."""
    return [_of(tokenizer, piece) for piece in pieces if piece.data and not piece.special]


def _of(tokenizer: Tokenizer, piece: Piece) -> ByteRun:
    size = len(piece.data)
    found = tuple((visible(char.text), char.end - char.start) for char in characters(piece.data))
    sizes = [len(tokenizer.token_bytes(i)) for i in piece.ids]
    tokens: tuple[tuple[tuple[int, ...], int], ...] = ((piece.ids, size),)
    if sum(sizes) == size and all(sizes):
        tokens = tuple(((i,), n) for i, n in zip(piece.ids, sizes, strict=True))
    return ByteRun(piece.start, found, piece.data, tokens)


@dataclass(frozen=True)
class Measure:
    """Sizes of a text, special tokens aside; `joined`: whether its tokens' own bytes, joined and decoded, are it."""

    n_characters: int
    n_bytes: int
    n_tokens: int
    joined: bool


def measure(tokenizer: Tokenizer, pieces: Sequence[Piece], text: str, typed: str | None = None) -> Measure:
    """Measure the pieces of a run whose text, as its tokens give it back, is `text`.

    `typed` is what somebody typed to get them: `joined` then also says whether they give that back, special tokens
    aside. A tokenizer that makes all letters small does not.
    """
    own = [piece for piece in pieces if not piece.special]
    data = b"".join(piece.data for piece in pieces)
    joined = "".join(tokenizer.token_strings([i for piece in pieces for i in piece.ids]))
    same = joined == text == data.decode("utf-8", errors="replace")
    if typed is not None:
        typed = typed.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        same = same and tokenizer.decode([i for piece in own for i in piece.ids]) == typed
    return Measure(
        sum(len(piece.text) for piece in own),
        sum(len(piece.data) for piece in own),
        sum(len(piece.ids) for piece in own),
        same,
    )
