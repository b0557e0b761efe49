"""One text as several models read it: the part that fits, and the tokens that stand for the same character."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import regex

from model.language import LanguageModel
from model.trace import Trace

_WORD = regex.compile(r"\p{Han}|[\p{L}--\p{Han}][\p{L}\p{M}--\p{Han}]*", regex.V1)


@dataclass(frozen=True)
class Passage:
    """What one model reads of a text.

    `ids` are its tokens, those that the tokenizer puts around it included; `spans` says for each of them where its
    characters begin and end in `text`, None for those around it. `n_tokens` counts the text's own tokens before the
    cut.
    """

    text: str
    ids: tuple[int, ...]
    spans: tuple[tuple[int, int] | None, ...]
    n_tokens: int

    @property
    def n_read(self) -> int:
        """How many of the text's own tokens are read."""
        return sum(span is not None for span in self.spans)

    @property
    def cut(self) -> bool:
        """Whether tokens at the end are left out."""
        return self.n_read < self.n_tokens

    def character(self, position: int) -> int | None:
        """The first character of a token that is no white space (of white space: the first); None around the text."""
        span = self.spans[position]
        if span is None:
            return None
        return next((place for place in range(*span) if not self.text[place].isspace()), span[0])

    def position(self, character: int) -> int | None:
        """The first token that a character of the text is in; None where none is, or what is read ends before it."""
        own = [(place, span) for place, span in enumerate(self.spans) if span is not None]
        inside = [place for place, (start, end) in own if start <= character < end]
        return inside[0] if inside else None


def passage(lm: LanguageModel, text: str, limit: int) -> Passage:
    """The first tokens of a text, at most `limit` with those that the tokenizer puts around it.

    The end that a tokenizer sets (an encoder's [SEP], a translator's end of the source) stands behind the cut, too.
    """
    tokenizer = lm.tokenizer
    own, spans, framed = tokenizer.encode(text, add_special=False), tokenizer.spans(text), tokenizer.encode(text)
    around = len(framed) - len(own)
    before = next((n for n in range(around + 1) if framed[n : n + len(own)] == own), 0)
    room = max(0, min(limit, lm.config.max_positions) - around)
    first, last = framed[:before], framed[before + len(own) :]
    kept: list[tuple[int, int] | None] = list(spans[:room])
    return Passage(
        text,
        (*first, *own[:room], *last),
        (*[None] * len(first), *kept, *[None] * len(last)),
        len(own),
    )


def passage_of_run(lm: LanguageModel, run: Trace, text: str) -> Passage:
    """Where the tokens of a run are in `text`, which it read from the beginning.

    The run may have it in other tokens than the tokenizer would choose (a text that was generated), or with others
    around it (a chat template): then the tokens' own texts tell.
    """
    own = passage(lm, text, len(run.tokens))
    if own.ids == tuple(run.tokens):
        return own
    begin = run.text.find(text)
    spans: list[tuple[int, int] | None] = []
    at = -begin
    for part in run.token_strings:
        inside = begin >= 0 and 0 <= at < len(text)
        spans.append((at, min(len(text), at + max(1, len(part)))) if inside else None)
        at += len(part)
    return Passage(text, tuple(run.tokens), tuple(spans), own.n_tokens)


def token_for(lm: LanguageModel, ids: Sequence[int], position: int, word: str) -> int:
    """The token that puts `word` (of a longer word: its beginning) where another one stands.

    It has a space in front where that one has, so that one token stands for one token.

    Raises:
        ValueError: for a word of white space only.
        IndexError: for a position that there is not.
    """
    if not word.strip():
        raise ValueError("There is no word to put in: type at least one letter.")
    space = " " if lm.tokenizer.token_strings(ids)[position].startswith(" ") else ""
    found = lm.tokenizer.encode(space + word.strip(), add_special=False)
    texts = lm.tokenizer.token_strings(found)
    return next((token for token, text in zip(found, texts, strict=True) if text.strip()), found[0])


def english_share(text: str) -> float | None:
    """How many of a text's words are written in English letters (A to Z), as a share of 1; None without a word.

    A Chinese character counts as a word.
    """
    words = _WORD.findall(text)
    return sum(word.isascii() for word in words) / len(words) if words else None
