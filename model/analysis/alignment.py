"""A translation, token by token, and the source word that each of its tokens looks at.

Cross-attention as word alignment: Bahdanau et al. 2014, arXiv:1409.0473; Vaswani et al. 2017, arXiv:1706.03762.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model.beam import Hypothesis
from model.language import LanguageModel
from model.trace import Trace


@dataclass(frozen=True)
class Written:
    """What a search found: its new tokens `ids`, the one that ends the text included, and the probability of each,
    given what stands before it. `score` is what the search compared by, `seconds` how long it took."""

    ids: tuple[int, ...]
    probabilities: tuple[float, ...]
    ended: bool
    score: float
    seconds: float

    @property
    def own(self) -> tuple[int, ...]:
        """The tokens without the one that ends the text."""
        return self.ids[:-1] if self.ended else self.ids


def write(
    lm: LanguageModel, ids: Sequence[int], beam: int, max_new_tokens: int | None = None, *, alpha: float = 0.6
) -> Written:
    """Translate a source, or continue a text: the best of a search (`beam` 1: greedy). Without a limit it may write
    twice as many tokens as it read, and ten; at least one, and no more than the model's context has room for.

    Raises:
        ValueError: as `lm.search` does.
    """
    *_, last = writing(lm, ids, beam, max_new_tokens, alpha=alpha)
    return last


def writing(
    lm: LanguageModel, ids: Sequence[int], beam: int, max_new_tokens: int | None = None, *, alpha: float = 0.6
) -> Iterator[Written]:
    """The same while it is being written: the best so far after each token.

    Raises:
        ValueError: as `lm.search` does.
    """
    begun = time.perf_counter()
    translates = lm.config.kind == "encoder_decoder"
    room = lm.config.max_positions - (1 if translates else len(ids))
    wanted = 2 * len(ids) + 10 if max_new_tokens is None else max_new_tokens
    for step in lm.search(list(ids), max(1, min(wanted, room)), beam=beam, alpha=alpha, dropped=0):
        best: Hypothesis = step.best
        probabilities = tuple(math.exp(value) for value in best.logprobs)
        yield Written(best.ids, probabilities, best.ended, best.score(alpha), time.perf_counter() - begun)


def cleanly_ended(lm: LanguageModel, written: Written) -> Written:
    """The same up to the first bytes that make no character: so may a text end in which a model has lost itself, or
    that was cut off. As it is, where nothing would be left."""
    n = len(written.ids)
    while n and "\ufffd" in lm.tokenizer.decode(written.ids[:n]):
        n -= 1
    if n in (0, len(written.ids)):
        return written
    return replace(written, ids=written.ids[:n], probabilities=written.probabilities[:n], ended=False)


def read_back(lm: LanguageModel, source: Sequence[int], written: Written) -> tuple[int, ...]:
    """What the decoder had read when it wrote the last token: the start token and all tokens before that one. Row i of
    a run over them wrote token i."""
    return (*lm.target_ids()[:1], *written.ids[:-1])


def head_names(n_layers: int, n_heads: int) -> tuple[str, ...]:
    """ "0.0" for the first head of the first layer, and so on."""
    return tuple(f"{layer}.{head}" for layer in range(n_layers) for head in range(n_heads))


@dataclass(frozen=True)
class Alignment:
    """Which source token each written token looks at.

    `weights` `(written, source)` is a head's cross-attention, or the mean of all heads; `sources` the source token
    with the greatest weight in each row, the end of the source left out unless it is all there is.
    """

    weights: Tensor
    sources: tuple[int, ...]

    def pointing(self, n_written: int) -> int:
        """How many of the first `n_written` rows give their source token more than half of their weight."""
        rows = zip(self.weights[:n_written], self.sources[:n_written], strict=True)
        return sum(float(row[source]) > 0.5 for row, source in rows)


def cross_patterns(run: Trace) -> Tensor:
    """Every head's cross-attention, `(layers, heads, written, source)`, fp32 on the CPU."""
    layers = range(run.config.n_layers)
    return torch.stack([run[f"blocks.{layer}.cross_attn.hook_pattern"].float().cpu() for layer in layers])


def align(run: Trace, layer: int | None = None, head: int | None = None) -> Alignment:
    """The alignment by one head; without a head, by the mean of all.

    Raises:
        IndexError: for a head that the model does not have.
    """
    patterns = cross_patterns(run)
    weights = patterns.mean((0, 1)) if layer is None or head is None else patterns[layer, head]
    return Alignment(weights, _strongest(weights, run))


def _strongest(weights: Tensor, run: Trace) -> tuple[int, ...]:
    ends = run.source[-1] in run.config.eos_ids and len(run.source) > 1
    return tuple(weights[:, :-1].argmax(-1).tolist() if ends else weights.argmax(-1).tolist())


def agreement(run: Trace, n_written: int) -> Tensor:
    """`(layers, heads)`: how clearly each head points at the words that all heads together point at.

    The weight that a head gives to the source token with the greatest mean weight over all heads, averaged over the
    first `n_written` rows (all those of the translation, without the one that ended it).

    Raises:
        ValueError: without a row.
    """
    if not 1 <= n_written <= len(run.tokens):
        raise ValueError(f"There are {len(run.tokens)} rows, so {n_written} of them cannot be averaged.")
    patterns = cross_patterns(run)[:, :, :n_written]
    together = torch.tensor(_strongest(patterns.mean((0, 1)), run))
    index = together[None, None, :, None].expand(*patterns.shape[:3], 1)
    return patterns.gather(-1, index)[..., 0].mean(-1)


def clearest_head(run: Trace, n_written: int) -> tuple[int, int]:
    """Layer and head with the greatest `agreement`."""
    layer, head = divmod(int(agreement(run, n_written).argmax()), run.config.n_heads)
    return layer, head
