"""How context moves a token's vector: the same word in two texts, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import regex
import torch
from torch import Tensor

from model.analysis.embeddings import unit
from model.trace import Trace

# Letters of scripts that put spaces between words; in the others a word may begin and end anywhere.
_SPACED = regex.compile(
    r"[\p{L}\p{N}\p{M}--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]", regex.V1
)


def find_word(run: Trace, word: str) -> tuple[int, ...]:
    """The positions of the tokens that hold the last occurrence of a word in a run's text; none without one.

    As written if that occurs, else in other capitals. A word is not found inside another ("art" in "start").
    """
    wanted = word.strip()
    if not wanted:
        return ()
    for flags in (0, regex.IGNORECASE):
        spans = [match.span() for match in regex.finditer(regex.escape(wanted), run.text, flags)]
        spans = [span for span in spans if not _inside(run.text, *span)]
        if spans:
            return _tokens(run, *spans[-1])
    return ()


def _inside(text: str, start: int, end: int) -> bool:
    """Whether a letter before or after goes on with the word."""
    edges = ((start - 1, start), (end - 1, end))
    return any(a >= 0 and b < len(text) and _SPACED.match(text[a]) and _SPACED.match(text[b]) for a, b in edges)


def _tokens(run: Trace, start: int, end: int) -> tuple[int, ...]:
    found, at = [], 0
    for position, text in enumerate(run.token_strings):
        # A token that completes no character belongs to the next that does.
        if (at < end and at + len(text) > start) if text else start <= at < end:
            found.append(position)
        at += len(text)
    return tuple(found)


def layer_vectors(run: Trace) -> Tensor:
    """Every token's vector on its way, `(n_layers + 1, T, d_model)`, fp32 on the CPU: its row of the embedding table,
    then the stream as it goes on after each block (in a post-norm model: after its norm)."""
    layers, post = run.config.n_layers, run.config.norm_place == "post"
    steps = [run["hook_embed"]]
    for layer in range(layers):
        if not post:
            steps.append(run[f"blocks.{layer}.hook_resid_post"])
        elif layer + 1 < layers:
            steps.append(run[f"blocks.{layer + 1}.hook_resid_pre"])
        else:
            with torch.no_grad():
                steps.append(run.module(f"blocks.{layer}.ln2")(run[f"blocks.{layer}.hook_resid_post"][None])[0])
    return torch.stack([step.float().cpu() for step in steps])


def word_vectors(run: Trace, positions: tuple[int, ...]) -> Tensor:
    """A word's vector at every step of `layer_vectors`: the mean over its tokens, `(n_layers + 1, d_model)`."""
    return layer_vectors(run)[:, list(positions)].mean(1)


def other_words(one: Trace, other: Trace) -> Tensor:
    """The mean cosine of different tokens of two runs, at each step of `layer_vectors`; NaN where there are none."""
    first, second = (unit(layer_vectors(run).double()) for run in (one, other))
    differ = torch.tensor(one.tokens)[:, None] != torch.tensor(other.tokens)[None]
    return torch.stack([(a @ b.T)[differ].mean() for a, b in zip(first, second, strict=True)])


@dataclass(frozen=True)
class Meeting:
    """Two vectors: their dot product, their lengths, and the cosine that comes of them."""

    dot: float
    first: float
    second: float

    @property
    def cosine(self) -> float:
        """dot ÷ (first · second); 0 where one of the vectors is 0."""
        return self.dot / (self.first * self.second) if self.first and self.second else 0.0


@dataclass(frozen=True)
class Comparison:
    """A word in two runs: its vectors `first` and `second` after every step, `(n_layers + 1, d_model)`, and how they
    meet at each."""

    first: Tensor
    second: Tensor
    meetings: tuple[Meeting, ...]

    @property
    def cosines(self) -> list[float]:
        """The cosine at each step."""
        return [one.cosine for one in self.meetings]


def compare(one: Trace, positions: tuple[int, ...], other: Trace, others: tuple[int, ...]) -> Comparison:
    """The word at `positions` of one run against the one at `others` of another."""
    first, second = word_vectors(one, positions), word_vectors(other, others)
    met = [
        Meeting(float(a @ b), float(a.norm()), float(b.norm()))
        for a, b in zip(first.double(), second.double(), strict=True)
    ]
    return Comparison(first, second, tuple(met))
