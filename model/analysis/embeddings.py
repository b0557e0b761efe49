"""The embedding table: a word's vector, how alike two are, and which rows come nearest."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from model.tokenizer import Tokenizer
from model.transformer import Transformer

_CHUNK = 8_192  # rows that are brought to single precision at once
_ID = re.compile(r"#(\d{1,9})")


@dataclass(frozen=True)
class Word:
    """A word as the table knows it.

    `text` as it was asked for, its tokens' `ids` and visible `labels`, and `vector` `(d_model,)`: the row of its
    token, or the mean of its tokens' rows.
    """

    text: str
    ids: tuple[int, ...]
    labels: tuple[str, ...]
    vector: Tensor


@dataclass(frozen=True)
class Neighbour:
    """A token and the cosine of its row with a word's vector."""

    id: int
    label: str
    cosine: float


@dataclass(frozen=True)
class Neighbours:
    """The `nearest` tokens of a word, first the nearest; `mean` and `spread` (standard deviation) of the cosine with
    all `count` tokens that were compared. The word's own tokens are left out of all of it."""

    nearest: tuple[Neighbour, ...]
    mean: float
    spread: float
    count: int


@dataclass(frozen=True)
class Pair:
    """Two words. `one_hot` and `distance`: Euclidean distances of their one-hot vectors and of their embeddings, all
    brought to length 1; `cosine` and `raw_distance`: of the embeddings as they are."""

    one_hot: float
    distance: float
    cosine: float
    raw_distance: float


class EmbeddingTable:
    """The rows of a model's token embedding, by word. Keeps no copy of them: only each row's length."""

    def __init__(self, transformer: Transformer, tokenizer: Tokenizer) -> None:
        self._transformer = transformer
        self._tokenizer = tokenizer
        self.vocab_size, self.width = transformer.config.vocab_size, transformer.config.d_model
        self._lengths = torch.cat([rows.norm(dim=1).cpu() for _, rows in self._chunks()])
        # Models round their vocabulary up: rows without a token were never trained.
        known = [i < tokenizer.vocab_size and tokenizer.token(i) is not None for i in range(self.vocab_size)]
        self._known = torch.tensor(known)

    def _chunks(self) -> Iterator[tuple[int, Tensor]]:
        for start in range(0, self.vocab_size, _CHUNK):
            yield start, self._rows(range(start, min(start + _CHUNK, self.vocab_size)))

    def _rows(self, ids: Sequence[int]) -> Tensor:
        with torch.no_grad():
            rows: Tensor = self._transformer.embed(torch.tensor(ids, device=self._transformer.device))
        return rows.float()

    def rows(self, ids: tuple[int, ...]) -> Tensor:
        """Rows of the table, `(len(ids), d_model)`, fp32 on the CPU."""
        return self._rows(ids).cpu()

    def token(self, token: int) -> Word:
        """The word that is one token.

        Raises:
            ValueError: if the model has no such token.
        """
        if not 0 <= token < self.vocab_size:
            raise ValueError(f"There is no token {token}: the model has {self.vocab_size}.")
        return self._word(self._tokenizer.label(token), (token,))

    def word(self, text: str) -> Word | None:
        """The word that `text` is; None if it is no token at all, and for `#` with an id that the model lacks.

        It is read as it stands inside a sentence: with a space before it, unless that makes it more tokens (as in
        Chinese) or it begins with white space. `#394` is the token with that id.
        """
        if match := _ID.fullmatch(text):
            token = int(match[1])
            return self.token(token) if token < self.vocab_size and self._known[token] else None
        bare = self._tokenizer.encode(text, add_special=False)
        spaced = bare if text[:1].isspace() else self._tokenizer.encode(f" {text}", add_special=False)
        ids = spaced if text and len(spaced) <= len(bare) else bare
        return self._word(text, tuple(ids)) if ids else None

    def _word(self, text: str, ids: tuple[int, ...]) -> Word:
        return Word(text, ids, tuple(self._tokenizer.labels(ids)), self.rows(ids).mean(0))

    def directions(self, words: Sequence[Word]) -> Tensor:
        """The words' vectors, each brought to length 1, `(len(words), d_model)`."""
        return unit(torch.stack([word.vector for word in words]))

    def cosines(self, vector: Tensor) -> Tensor:
        """The cosine of every row with a vector, `(vocab_size,)`; 0 where one of them is 0."""
        products = torch.cat([(rows @ vector.to(rows)).cpu() for _, rows in self._chunks()])
        lengths = self._lengths * vector.norm()
        return torch.where(lengths > 0, products / lengths.clamp_min(torch.finfo(torch.float32).tiny), 0.0)

    def neighbours(self, word: Word, count: int = 10) -> Neighbours:
        """The tokens whose rows point most nearly the same way; equal cosines by id."""
        scores, compared = self.cosines(word.vector), self._compared(word)
        ids = compared.nonzero()[:, 0]
        order = scores[ids].argsort(descending=True, stable=True)[:count]
        nearest = tuple(Neighbour(int(i), self._tokenizer.label(int(i)), float(scores[i])) for i in ids[order])
        spread, mean = torch.std_mean(scores[ids], correction=0)
        return Neighbours(nearest, float(mean), float(spread), len(ids))

    def nearer(self, word: Word, other: Word) -> int:
        """How many tokens are nearer to `word` than `other` is; tokens of the two themselves do not count."""
        scores, compared = self.cosines(word.vector), self._compared(word)
        compared[list(other.ids)] = False
        return int((scores[compared] > _cosine(word.vector, other.vector)).sum())

    def _compared(self, word: Word) -> Tensor:
        compared = self._known.clone()
        compared[list(word.ids)] = False
        return compared

    @cached_property
    def mean_cosine(self) -> float:
        """The mean cosine of two different tokens, over all pairs: of the squared length of the rows' sum (each brought
        to length 1) all but the diagonal."""
        total, count = torch.zeros(self.width, dtype=torch.float64), 0
        for start, rows in self._chunks():
            kept = rows.cpu().double()[self._known[start : start + len(rows)]]
            lengths = kept.norm(dim=1, keepdim=True)
            total += (kept / lengths.clamp_min(torch.finfo(torch.float32).tiny)).sum(0)
            count += int((lengths > 0).sum())
        return float((total @ total - count) / (count * (count - 1))) if count > 1 else 0.0

    def pair(self, one: Word, other: Word) -> Pair:
        """Compare two words."""
        hot = [torch.zeros(self.vocab_size, dtype=torch.float64) for _ in range(2)]
        for vector, word in zip(hot, (one, other), strict=True):
            for token in word.ids:
                vector[token] += 1
        return Pair(
            _unit_distance(hot[0], hot[1]),
            _unit_distance(one.vector, other.vector),
            _cosine(one.vector, other.vector),
            float((one.vector - other.vector).norm()),
        )


def unit(vectors: Tensor) -> Tensor:
    """Vectors `(…, d)` brought to length 1; a zero vector stays."""
    return torch.nn.functional.normalize(vectors, dim=-1)


def _cosine(one: Tensor, other: Tensor) -> float:
    return float(unit(one.double()) @ unit(other.double()))


def _unit_distance(one: Tensor, other: Tensor) -> float:
    return float((unit(one.double()) - unit(other.double())).norm())


def triangle(first: float, second: float, third: float) -> Tensor:
    """Three points in the plane, `(3, 2)`, with the distances A–B, A–C and B–C; A and B lie level, C above them.

    Distances of any three vectors have such points, exactly. A and B in one place leave C straight above.
    """
    if first <= 0:
        return torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, second]])
    x = (first**2 + second**2 - third**2) / (2 * first)
    return torch.tensor([[0.0, 0.0], [first, 0.0], [x, math.sqrt(max(second**2 - x**2, 0.0))]])
