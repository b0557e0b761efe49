"""Text to token ids and back, and each token as people read it. Wraps the `tokenizers` library."""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import tokenizers

from model.graphemes import boundaries, visible

KINDS = {"BPE": "BPE", "WordPiece": "WordPiece", "Unigram": "Unigram", "WordLevel": "word level"}


@dataclass(frozen=True)
class Piece:
    """A run of tokens that together are whole characters, as a reader sees them.

    Tokens `start` … `end` - 1 with their `ids`; `text` as it is, `label` with whitespace visible, `data` its
    bytes. Most pieces are one token; a Chinese character or an emoji may take several.
    """

    start: int
    end: int
    text: str
    label: str
    ids: tuple[int, ...]
    data: bytes
    special: bool


@dataclass(frozen=True)
class MergeStep:
    """One step of a byte-pair merge: `pair` became one part, by the rule of that `rank` (0: learned first).

    `parts` are the bytes of all parts after the step. The first step has no pair: single bytes.
    """

    pair: tuple[bytes, bytes] | None
    rank: int | None
    parts: tuple[bytes, ...]


class StreamDecoder:
    """Decodes tokens as they come, holding back the bytes of an incomplete character.

    All that `push` and the final `flush` return, joined, is what decoding all ids at once gives.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._ids: list[int] = []
        self._given = ""

    def push(self, token: int) -> str:
        """The text that this token completes."""
        if self._tokenizer.byte_level:
            return self._decoder.decode(self._tokenizer.token_bytes(token))
        # Other kinds decode a token by its neighbours (spaces, continuation marks): decode all, give the rest.
        self._ids.append(token)
        text = self._tokenizer.decode(self._ids)
        new = text[len(self._given) :] if text.startswith(self._given) else ""
        self._given += new
        return new

    def flush(self) -> str:
        """What is left at the end: a cut character, as replacement characters."""
        if self._tokenizer.byte_level:
            return self._decoder.decode(b"", final=True)
        rest = self._tokenizer.decode(self._ids)[len(self._given) :]
        self._ids, self._given = [], ""
        return rest


class Tokenizer:
    """A trained tokenizer. Encoding and decoding change nothing in it, so threads may share one."""

    def __init__(self, definition: str) -> None:
        """From the JSON text of a tokenizer.json.

        Raises:
            ValueError: if it is none.
        """
        try:
            self._data = json.loads(definition)
            # A flag inside the library decides whether special tokens are recognised in text: one copy for each.
            self._parsing = tokenizers.Tokenizer.from_str(definition)
            self._literal = tokenizers.Tokenizer.from_str(definition)
        except Exception as error:  # the library raises bare Exception
            raise ValueError(f"This is not a tokenizer.json that can be read: {error}") from None
        self._literal.encode_special_tokens = True

    @classmethod
    def from_file(cls, path: str | Path) -> Tokenizer:
        """From a tokenizer.json.

        Raises:
            ValueError: if the file is missing or not a tokenizer.
        """
        try:
            return cls(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"The tokenizer {Path(path).name} cannot be read: {error}") from None

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return int(self._parsing.get_vocab_size())

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids of tokens that stand for no text, like `<|endoftext|>`."""
        return frozenset(i for i, token in self._parsing.get_added_tokens_decoder().items() if token.special)

    @cached_property
    def byte_level(self) -> bool:
        """Whether tokens are runs of bytes (GPT-2's byte-level BPE)."""
        decoder = self._data.get("decoder") or {}
        parts = decoder.get("decoders", [decoder])
        return any(part.get("type") == "ByteLevel" for part in parts)

    @property
    def kind(self) -> str:
        """The kind of tokenizer, in words: "byte-level BPE", "WordPiece", "Unigram" …"""
        name = KINDS.get(self._data["model"].get("type", "BPE"), "unknown")
        return f"byte-level {name}" if self.byte_level else name

    def encode(self, text: str, parse_special: bool = False) -> list[int]:
        """Token ids of a text. `<|endoftext|>` and its like are plain text unless `parse_special`.

        Lone surrogates, which are no characters, become U+FFFD.
        """
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        coder = self._parsing if parse_special else self._literal
        return list(coder.encode(text).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, special tokens included; bytes that are no character become U+FFFD."""
        if self.byte_level:
            return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")
        return str(self._parsing.decode(list(ids), skip_special_tokens=False))

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token stands for.

        Raises:
            ValueError: for an id that is not in the vocabulary.
        """
        text = self._parsing.id_to_token(int(token))
        if text is None:
            raise ValueError(f"There is no token {token}: ids go from 0 to {self.vocab_size - 1}.")
        if not self.byte_level or token in self._added:
            return str(text).encode("utf-8")
        return bytes(_byte_of()[c] for c in text)

    @cached_property
    def _added(self) -> frozenset[int]:
        return frozenset(self._parsing.get_added_tokens_decoder())

    def token_strings(self, ids: Sequence[int]) -> list[str]:
        """The text that each token completes ("" while a character is incomplete); joined, `decode(ids)`."""
        stream = self.stream()
        texts = [stream.push(i) for i in ids]
        if texts:
            texts[-1] += stream.flush()
        return texts

    def stream(self) -> StreamDecoder:
        """A decoder for tokens that come one by one."""
        return StreamDecoder(self)

    def pieces(self, ids: Sequence[int]) -> list[Piece]:
        """The tokens grouped into characters as people see them (extended grapheme clusters, UAX #29).

        Each piece is the shortest run of tokens that begins and ends where a character does, and a special
        token is always a piece of its own. Their texts, joined, are `decode(ids)`.
        """
        pieces: list[Piece] = []
        at = 0
        while at < len(ids):
            if ids[at] in self.special_ids:
                pieces.append(self._piece(ids, at, at + 1, self.decode(ids[at : at + 1])))
                at += 1
                continue
            end = next((i for i in range(at, len(ids)) if ids[i] in self.special_ids), len(ids))
            pieces += self._plain_pieces(ids, at, end)
            at = end
        return pieces

    def _plain_pieces(self, ids: Sequence[int], start: int, end: int) -> list[Piece]:
        texts = self.token_strings(ids[start:end])
        cuts = boundaries("".join(texts))
        pieces, piece_start, text = [], start, ""
        length = 0
        complete = self._complete_after(ids[start:end])
        for i, part in enumerate(texts):
            text += part
            length += len(part)
            last = start + i + 1 == end
            if last or (complete[i] and length in cuts and text):
                pieces.append(self._piece(ids, piece_start, start + i + 1, text))
                piece_start, text = start + i + 1, ""
        return pieces

    def _complete_after(self, ids: Sequence[int]) -> list[bool]:
        """Whether no character is cut after each token."""
        if not self.byte_level:
            return [True] * len(ids)
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        states = []
        for i in ids:
            decoder.decode(self.token_bytes(i))
            states.append(not decoder.getstate()[0])
        return states

    def _piece(self, ids: Sequence[int], start: int, end: int, text: str) -> Piece:
        run = tuple(int(i) for i in ids[start:end])
        data = b"".join(map(self.token_bytes, run)) if self.byte_level else text.encode("utf-8")
        special = run[0] in self.special_ids
        return Piece(start, end, text, text if special else visible(text) or "⟨⟩", run, data, special)

    def labels(self, ids: Sequence[int]) -> list[str]:
        """A visible name for every token, never empty.

        Whitespace and control characters are drawn as signs; of a character that several tokens make up, each
        token is named "猫 1/3" and so on; bytes that are no character at all are ⟨0xE7⟩.
        """
        names: list[str] = []
        for piece in self.pieces(ids):
            n = piece.end - piece.start
            if n == 1:
                names.append(self._byte_names(piece) if "\ufffd" in piece.text else piece.label)
            elif "\ufffd" in piece.text and b"\xef\xbf\xbd" not in piece.data:
                names += [_hex(self.token_bytes(i)) for i in piece.ids]
            else:
                names += [f"{piece.label} {i + 1}/{n}" for i in range(n)]
        return names

    def _byte_names(self, piece: Piece) -> str:
        return piece.label if b"\xef\xbf\xbd" in piece.data else _hex(piece.data)

    def merges(self, text: str) -> list[MergeStep]:
        """The byte-pair merges that make a text's tokens, one a step, as the tokenizer does them.

        `text` is cut into words first, as the tokenizer cuts it; the steps of the words follow each other, and
        the last step's parts are the tokens.

        Raises:
            ValueError: if this is not a byte-level BPE tokenizer.
        """
        if self.kind != "byte-level BPE":
            raise ValueError(f"Merges can be replayed for a byte-level BPE tokenizer; this one is {self.kind}.")
        words = [word for word, _ in self._literal.pre_tokenizer.pre_tokenize_str(text)] if text else []
        parts: list[list[str]] = [list(word) for word in words]
        steps = [MergeStep(None, None, self._as_bytes(parts))]
        for word in parts:
            while (best := self._best_pair(word)) is not None:
                rank, left, right = best
                merged: list[str] = []
                for part in word:
                    if merged and (merged[-1], part) == (left, right):
                        merged[-1] += part
                    else:
                        merged.append(part)
                word[:] = merged
                pair = self._as_bytes([[left, right]])
                steps.append(MergeStep((pair[0], pair[1]), rank, self._as_bytes(parts)))
        return steps

    def _best_pair(self, word: list[str]) -> tuple[int, str, str] | None:
        ranked = [(self._ranks[p], *p) for p in zip(word, word[1:], strict=False) if p in self._ranks]
        return min(ranked, default=None)

    @cached_property
    def _ranks(self) -> dict[tuple[str, str], int]:
        merges = self._data["model"]["merges"]
        pairs = (tuple(m.split(" ", 1)) if isinstance(m, str) else tuple(m) for m in merges)
        return {(left, right): rank for rank, (left, right) in enumerate(pairs)}

    @staticmethod
    def _as_bytes(words: Sequence[Sequence[str]]) -> tuple[bytes, ...]:
        return tuple(bytes(_byte_of()[c] for c in part) for word in words for part in word)


@lru_cache(maxsize=1)
def _byte_of() -> dict[str, int]:
    """GPT-2's alphabet: printable Latin-1 bytes are themselves, the other 68 follow from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(others)}


def _hex(data: bytes) -> str:
    return "⟨0x" + data.hex().upper() + "⟩"
