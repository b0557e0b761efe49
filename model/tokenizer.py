"""Text to token ids and back, and each token as people read it. Wraps the `tokenizers` library."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import tokenizers

from model import byte_level
from model.graphemes import boundaries, visible
from model.merges import MergeRules, MergeStep, merge_steps

_KINDS = {"BPE": "BPE", "WordPiece": "WordPiece", "Unigram": "Unigram", "WordLevel": "word level"}


@dataclass(frozen=True)
class Piece:
    """A run of tokens that together are whole characters, as a reader sees them.

    Tokens `start` … `end` - 1 with their `ids`; `text` as it is, `label` with whitespace visible, `data` its
    bytes. Most pieces are one token; a Chinese character or an emoji may take several. `special`: the one token
    is a special one, such as the end of text.
    """

    start: int
    end: int
    text: str
    label: str
    ids: tuple[int, ...]
    data: bytes
    special: bool


class StreamDecoder:
    """Decodes tokens as they come, holding back the bytes of an incomplete character.

    All that `push` and the final `flush` return, joined, is what decoding all ids at once gives, whatever the ids.
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
        # Other kinds write a token by its neighbours (spaces between words): decode all, give what is new.
        self._ids.append(token)
        return "" if token in self._tokenizer.byte_tokens else self._rest()

    def flush(self) -> str:
        """What is left at the end: a cut character, as U+FFFD. The decoder can then be used for another text."""
        if self._tokenizer.byte_level:
            return self._decoder.decode(b"", final=True)
        rest = self._rest()
        self._ids, self._given = [], ""
        return rest

    def _rest(self) -> str:
        text = self._tokenizer.decode(self._ids)
        rest = text[len(self._given) :]
        self._given = text
        return rest


class Tokenizer:
    """A trained tokenizer. Encoding and decoding change nothing in it, so threads may share one.

    An id without a token (models round their vocabulary up) stands for no text, and its label is ⟨#50300⟩.
    """

    def __init__(self, definition: str) -> None:
        """From the JSON text of a tokenizer.json. Its truncation and padding are left out: a text is never cut here.

        Raises:
            ValueError: if it is none.
        """
        self.definition = definition
        try:
            self._data = json.loads(definition)
            # A flag inside the library decides whether special tokens are recognised in text: one copy for each.
            self._parsing = tokenizers.Tokenizer.from_str(definition)
            self._literal = tokenizers.Tokenizer.from_str(definition)
        except Exception as error:  # the library raises bare Exception
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"This is not a tokenizer.json that can be read: {reason}") from None
        self._literal.encode_special_tokens = True
        for coder in (self._parsing, self._literal):
            coder.no_truncation()
            coder.no_padding()
        added = self._parsing.get_added_tokens_decoder()
        self._added = frozenset(added)
        self.special_ids = frozenset(i for i, token in added.items() if token.special)
        ids = set(self._parsing.get_vocab().values())
        self.vocab_size = 1 + max(ids, default=-1)
        # Without special tokens, which no text becomes: people add some to a model that it has no embeddings for.
        self.text_vocab_size = 1 + max(ids - self.special_ids, default=-1)
        decoder = self._data.get("decoder") or {}
        decoders = {part.get("type") for part in decoder.get("decoders", [decoder])}
        self.byte_level = "ByteLevel" in decoders
        self.byte_tokens = self._bytes_as_tokens() if "ByteFallback" in decoders else {}

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """From a tokenizer.json.

        Raises:
            ValueError: if the file is missing or not a tokenizer.
        """
        try:
            return cls(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"The tokenizer {Path(path).name} cannot be read: {error}") from None

    def _bytes_as_tokens(self) -> dict[int, int]:
        """Tokens that stand for a single byte (`<0xE7>`) in a vocabulary of words, and their byte."""
        ids = {byte: self._parsing.token_to_id(f"<0x{byte:02X}>") for byte in range(256)}
        return {token: byte for byte, token in ids.items() if token is not None}

    @property
    def kind(self) -> str:
        """The kind of tokenizer, in words: "byte-level BPE", "BPE", "WordPiece", "Unigram" or "word level"."""
        name = _KINDS.get(self._data["model"].get("type", "BPE"), "unknown")
        return f"byte-level {name}" if self.byte_level else name

    def encode(self, text: str, parse_special: bool = False, add_special: bool = True) -> list[int]:
        """Token ids of a text.

        `<|endoftext|>` and its like in the text are plain text unless `parse_special`. `add_special` lets a tokenizer
        that frames texts do so (BERT's [CLS] and [SEP]). Lone surrogates, which are no characters, become U+FFFD.
        """
        coder = self._parsing if parse_special else self._literal
        return list(coder.encode(_scalars(text), add_special_tokens=add_special).ids)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where in the text the characters begin and end that each token of `encode(text, add_special=False)` is of.

        Tokens that share a character have the same place, so tokens of several tokenizers meet in the text.
        """
        return [(int(a), int(b)) for a, b in self._literal.encode(_scalars(text), add_special_tokens=False).offsets]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, special tokens included; bytes that are no character become U+FFFD.

        Raises:
            ValueError: for a negative id.
        """
        if self.byte_level:
            return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")
        return str(self._parsing.decode([_checked(i) for i in ids], skip_special_tokens=False))

    def token(self, token: int) -> str | None:
        """The vocabulary's own spelling of a token ("Ġthe", "##ing"), or None for an id without one.

        Raises:
            ValueError: for a negative id.
        """
        spelling: str | None = self._parsing.id_to_token(_checked(token))
        return spelling

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token stands for; where that depends on its neighbours, the UTF-8 of its spelling.

        Raises:
            ValueError: for a negative id.
        """
        spelling = self.token(token)
        if spelling is None:
            return b""
        if token in self.byte_tokens:
            return bytes([self.byte_tokens[token]])
        if not self.byte_level or token in self._added:
            return spelling.encode("utf-8")
        return byte_level.spelled(spelling)

    def stream(self) -> StreamDecoder:
        """A decoder for tokens that come one by one."""
        return StreamDecoder(self)

    def token_strings(self, ids: Sequence[int]) -> list[str]:
        """The text that each token completes ("" while a character is incomplete); joined, `decode(ids)`."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        texts = [decoder.decode(part) for part in self._parts(ids)]
        if texts:
            texts[-1] += decoder.decode(b"", final=True)
        return texts

    def _parts(self, ids: Sequence[int]) -> list[bytes]:
        """The bytes of each token where it stands; joined and decoded, they are `decode(ids)`."""
        if self.byte_level:
            return [self.token_bytes(i) for i in ids]
        text, parts, done, at = self.decode(ids), list[bytes](), 0, 0
        while at < len(ids):
            end = at + 1
            while ids[at] in self.byte_tokens and end < len(ids) and ids[end] in self.byte_tokens:
                end += 1
            prefix = self.decode(ids[:end]) if end < len(ids) else text
            while not text.startswith(prefix):  # an incomplete character, or a space that goes before what follows
                prefix = prefix[:-1]
            reached = max(done, len(prefix))
            new = text[done:reached]
            raw = [self.token_bytes(i) for i in ids[at:end]]
            if ids[at] not in self.byte_tokens:
                parts.append(new.encode("utf-8"))
            elif b"".join(raw) == new.encode("utf-8"):
                parts += raw
            else:  # one wrong byte makes the library give up the run: U+FFFD for every byte of it
                cuts = [*range(end - at), len(new)]
                parts += [new[low:high].encode("utf-8") for low, high in zip(cuts, cuts[1:], strict=False)]
            done, at = reached, end
        return parts

    def pieces(self, ids: Sequence[int]) -> list[Piece]:
        """The tokens grouped into characters as people see them (extended grapheme clusters, UAX #29).

        Each piece is the shortest run of tokens that begins and ends where a character does, and a special token is
        always a piece of its own. Their texts, joined, are `decode(ids)`.
        """
        ids = [int(i) for i in ids]
        parts = self._parts(ids)
        pieces: list[Piece] = []
        at = 0
        while at < len(ids):
            end = at + 1
            if ids[at] not in self.special_ids:
                while end < len(ids) and ids[end] not in self.special_ids:
                    end += 1
            pieces += self._grouped(ids, parts, at, end)
            at = end
        return pieces

    def _grouped(self, ids: Sequence[int], parts: Sequence[bytes], start: int, end: int) -> list[Piece]:
        data = b"".join(parts[start:end])
        found = byte_level.characters(data)
        text = "".join(char.text for char in found)
        special = ids[start] in self.special_ids
        ends = [len(text)] if special else boundaries(text)
        cuts = {0: 0} | {found[offset - 1].end: offset for offset in ends if offset}  # places in bytes, in text
        pieces, first, low, high = [], start, 0, 0
        for place in range(start, end):
            high += len(parts[place])
            if high in cuts:
                own = data[low:high]
                name = byte_level.labels([own])[0] or self.label(ids[first])
                run = tuple(ids[first : place + 1])
                pieces.append(Piece(first, place + 1, text[cuts[low] : cuts[high]], name, run, own, special))
                first, low = place + 1, high
        return pieces

    def label(self, token: int) -> str:
        """A visible name for a token on its own, as for a candidate that is not in the text; never empty.

        Raises:
            ValueError: for a negative id.
        """
        return self.labels([token])[0]

    def labels(self, ids: Sequence[int]) -> list[str]:
        """A visible name for every token of a text, never empty.

        Whitespace and control characters are drawn as signs (`model.graphemes.visible`); a part of a character is
        named after it with the place of its bytes ("猫 1/3"); a byte that belongs to no character is ⟨0xE7⟩. Kinds
        whose spelling is read as text keep it ("##ing").
        """
        if self.byte_level:
            names = byte_level.labels(self._parts(ids))
            return [name or f"⟨#{i}⟩" for name, i in zip(names, ids, strict=True)]
        raw = [self.token_bytes(i) for i in ids]
        spelled = [visible((self.token(i) or f"⟨#{i}⟩").replace("▁", " ")) for i in ids]
        names = byte_level.labels(raw)
        return [names[k] if i in self.byte_tokens else spelled[k] or f"⟨#{i}⟩" for k, i in enumerate(ids)]

    def merges(self, text: str) -> list[MergeStep]:
        """The byte-pair merges that make a text's tokens, one a step, as the tokenizer does them.

        `text` is cut into words first, as the tokenizer cuts it; the steps of the words follow each other, and the last
        step's parts are the tokens. Every step holds all parts: meant for words and short sentences.

        Raises:
            ValueError: if this is no byte-level BPE tokenizer, or the text holds a token that no merge makes.
        """
        if self.kind != "byte-level BPE":
            raise ValueError(f"Merges can be replayed for a byte-level BPE tokenizer; this one is {self.kind}.")
        return merge_steps(_scalars(text), self._literal, self._rules)

    @cached_property
    def _rules(self) -> MergeRules:
        return MergeRules.of(self._data["model"])


def _checked(token: int) -> int:
    if token < 0:
        raise ValueError(f"There is no token {token}: ids begin at 0.")
    return int(token)


def _scalars(text: str) -> str:
    """A lone surrogate has no UTF-8 form, and the library refuses it; two that belong together are a character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
