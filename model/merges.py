"""The byte-pair merges that build tokens, replayed one at a time.

Source: byte-pair encoding of words, Sennrich et al. 2016, arXiv:1508.07909; on bytes, Radford et al. 2019 (GPT-2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tokenizers

from model import byte_level


@dataclass(frozen=True)
class MergeStep:
    """One step on the way from bytes to tokens: the two neighbours `pair` became the part number `at`, by the rule
    of that `rank` (0: learned first).

    `parts` are the bytes of all parts after the step. The first step has no pair: single bytes. Neither has a word
    that the vocabulary holds as a whole and that no rule builds (some tokenizers look there first).
    """

    parts: tuple[bytes, ...]
    pair: tuple[bytes, bytes] | None = None
    rank: int | None = None
    at: int | None = None

    @property
    def labels(self) -> list[str]:
        """A visible name for each part."""
        return byte_level.labels(self.parts)


@dataclass(frozen=True)
class MergeRules:
    """The rank of every pair that is merged (0: learned first); `whole_words`: a word that is in the vocabulary is
    taken as it is."""

    ranks: Mapping[tuple[str, str], int]
    whole_words: bool

    @classmethod
    def of(cls, model: Mapping[str, Any]) -> MergeRules:
        """From the "model" part of a tokenizer.json, where a pair is a list or, in older files, a string."""
        pairs = (tuple(pair.split(" ", 1)) if isinstance(pair, str) else tuple(pair) for pair in model["merges"])
        return cls({(left, right): rank for rank, (left, right) in enumerate(pairs)}, bool(model.get("ignore_merges")))


def merge_steps(text: str, coder: tokenizers.Tokenizer, rules: MergeRules) -> list[MergeStep]:
    """The steps for a text, word after word; see `Tokenizer.merges`.

    Raises:
        ValueError: if the coder makes other tokens of the text than the merges do.
    """
    words = _words(text, coder)
    steps = [MergeStep(_parts(words))]
    offset = 0
    for word in words:
        whole = "".join(word)
        for pair, rank, at in _replay(word, rules.ranks):
            spelled = (byte_level.spelled(pair[0]), byte_level.spelled(pair[1]))
            steps.append(MergeStep(_parts(words), spelled, rank, offset + at))
        if len(word) > 1 and rules.whole_words and coder.token_to_id(whole) is not None:
            word[:] = [whole]
            steps.append(MergeStep(_parts(words), at=offset))
        offset += len(word)
    ids = [coder.token_to_id(part) for word in words for part in word]
    if ids != coder.encode(text, add_special_tokens=False).ids:
        raise ValueError("The text holds a token that was added to the vocabulary whole: no merge makes it.")
    return steps


def _words(text: str, coder: tokenizers.Tokenizer) -> list[list[str]]:
    """The words of a text, each a list of single bytes in the vocabulary's spelling."""
    if coder.normalizer is not None:
        text = coder.normalizer.normalize_str(text)
    words = [word for word, _ in coder.pre_tokenizer.pre_tokenize_str(text)] if text else []
    return [[char for char in word if coder.token_to_id(char) is not None] for word in words]


def _replay(word: list[str], ranks: Mapping[tuple[str, str], int]) -> Iterator[tuple[tuple[str, str], int, int]]:
    """Merge the parts of a word in place, until no rule applies; yields each time pair, rank and place.

    The rule learned first wins; of places where it applies, the leftmost.
    """
    while True:
        pairs = list(zip(word, word[1:], strict=False))
        places = [(ranks[pair], at) for at, pair in enumerate(pairs) if pair in ranks]
        if not places:
            return
        rank, at = min(places)
        word[at : at + 2] = ["".join(pairs[at])]
        yield pairs[at], rank, at


def _parts(words: Sequence[Sequence[str]]) -> tuple[bytes, ...]:
    return tuple(byte_level.spelled(part) for word in words for part in word)
