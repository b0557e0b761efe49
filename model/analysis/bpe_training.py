"""A byte-level BPE learned from any text, one merge at a time.

Source: byte-pair encoding, Sennrich et al. 2016, arXiv:1508.07909; on bytes, Radford et al. 2019 (GPT-2).
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from model.byte_level import BYTE_OF, labels, spelled
from model.tokenizer import Tokenizer

N_BYTES = 256
MIN_COUNT = 2  # a pair that occurs once saves nothing
_SPELLING = {byte: char for char, byte in BYTE_OF.items()}


@dataclass(frozen=True)
class LearnedMerge:
    """The pair `left`, `right` was the most frequent one, with `count` places in the text; it became token `id`."""

    left: bytes
    right: bytes
    count: int
    id: int

    @property
    def labels(self) -> list[str]:
        """Visible names of the two parts, side by side."""
        return labels((self.left, self.right))


class BpeTraining:
    """Learns merges from a text: again and again the most frequent pair of neighbours becomes a new token.

    Words are cut as GPT-2 cuts them, and pairs are counted within words. Of equally frequent pairs, the one whose
    left part (then right part) has the lowest id goes first, as in the `tokenizers` library, whose merges these are.
    `vocab_size` is what there is to reach; training ends before that when no pair occurs twice.
    """

    def __init__(self, text: str, vocab_size: int) -> None:
        """Prepare to learn.

        Raises:
            ValueError: if the vocabulary has no room for the 256 bytes.
        """
        if vocab_size < N_BYTES:
            raise ValueError(f"A vocabulary of {vocab_size} does not hold the {N_BYTES} bytes.")
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self.text, self.vocab_size = text, vocab_size
        self.merges: list[LearnedMerge] = []
        cutter = pre_tokenizers.ByteLevel(add_prefix_space=False)
        words = Counter(word for word, _ in cutter.pre_tokenize_str(text)) if text else Counter[str]()
        self._tokens = sorted(BYTE_OF)  # spelling of each id: the library orders the bytes by their spelling
        self._ids = {token: i for i, token in enumerate(self._tokens)}
        self._words = [[self._ids[char] for char in word] for word in words]
        self._times = list(words.values())
        self._counts: Counter[tuple[int, int]] = Counter()
        self._where: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        for index, word in enumerate(self._words):
            for pair in zip(word, word[1:], strict=False):
                self._counts[pair] += self._times[index]
                self._where[pair].add(index)
        self.n_tokens_at = [sum(len(w) * n for w, n in zip(self._words, self._times, strict=True))]
        self.done = False
        self._turn = threading.Lock()  # a run of the page that was broken off may still be at its last merge
        self._check()

    @property
    def n_tokens(self) -> int:
        """How many tokens the text takes with the merges so far."""
        return self.n_tokens_at[-1]

    @property
    def size(self) -> int:
        """Tokens in the vocabulary so far."""
        return len(self._tokens)

    def advance(self) -> LearnedMerge | None:
        """Learn one merge; None when there is nothing left to learn."""
        with self._turn:
            return None if self.done else self._learn()

    def _learn(self) -> LearnedMerge:
        pair, count = min(self._counts.items(), key=lambda item: (-item[1], item[0]))
        left, right = pair
        spelling = self._tokens[left] + self._tokens[right]
        new = self._ids.setdefault(spelling, len(self._tokens))
        if new == len(self._tokens):
            self._tokens.append(spelling)
        saved = 0
        for index in sorted(self._where.pop(pair)):
            saved += self._merge(index, pair, new)
        del self._counts[pair]
        self.n_tokens_at.append(self.n_tokens - saved)
        merge = LearnedMerge(spelled(self._tokens[left]), spelled(self._tokens[right]), count, new)
        self.merges.append(merge)
        self._check()
        return merge

    def _merge(self, index: int, pair: tuple[int, int], new: int) -> int:
        """Merge a pair in one of the words, from left to right; returns the tokens that this saves in the text."""
        word, times = self._words[index], self._times[index]
        for old in zip(word, word[1:], strict=False):
            self._counts[old] -= times
        merged: list[int] = []
        at = 0
        while at < len(word):
            if tuple(word[at : at + 2]) == pair:
                merged.append(new)
                at += 2
            else:
                merged.append(word[at])
                at += 1
        for neighbours in zip(merged, merged[1:], strict=False):
            self._counts[neighbours] += times
            self._where[neighbours].add(index)
        self._words[index] = merged
        return (len(word) - len(merged)) * times

    def _check(self) -> None:
        enough = max(self._counts.values(), default=0) >= MIN_COUNT
        self.done = self.size >= self.vocab_size or not enough

    def tokenizer(self, n_merges: int | None = None) -> Tokenizer:
        """The tokenizer that the first `n_merges` merges make (None: all so far).

        Raises:
            ValueError: if so many were not learned.
        """
        n = len(self.merges) if n_merges is None else n_merges
        if not 0 <= n <= len(self.merges):
            raise ValueError(f"{len(self.merges)} merges were learned, not {n}.")
        pairs = [(_spelling(merge.left), _spelling(merge.right)) for merge in self.merges[:n]]
        vocab = {token: i for i, token in enumerate(self._tokens[:N_BYTES])}
        for merge, (left, right) in zip(self.merges, pairs, strict=False):
            vocab[left + right] = merge.id
        library = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=pairs))
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.decoder = decoders.ByteLevel()
        return Tokenizer(library.to_str())


def _spelling(data: bytes) -> str:
    return "".join(_SPELLING[byte] for byte in data)
