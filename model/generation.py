"""Autoregressive generation: read the prompt once, then one token at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from model.cache import KVCache
from model.decode import OneToken
from model.hooks import listening
from model.masks import MaskRule
from model.sampling import Draw, Ledger, SamplingSettings, draw, ledger, random_numbers
from model.tokenizer import StreamDecoder, Tokenizer
from model.transformer import Transformer


@dataclass(frozen=True)
class Step:
    """One generated token.

    `index` counts from 0; `text` is what it adds to the stream ("" while a character is incomplete, and for
    the end-of-text token); `ids` are prompt and text so far, this token included; `ledger` and `draw` tell
    how it was chosen; `milliseconds` is the time for the forward pass and the choice.
    """

    index: int
    id: int
    text: str
    ids: tuple[int, ...]
    ledger: Ledger
    draw: Draw
    milliseconds: float

    @property
    def probability(self) -> float:
        """The final probability with which it was drawn, after temperature and filters."""
        return self.draw.probability

    @cached_property
    def _raw(self) -> Tensor:
        return self.ledger.logits.float().log_softmax(-1)

    @cached_property
    def logprob(self) -> float:
        """The model's own log-probability, nats, before temperature and filters."""
        return float(self._raw[self.id])

    @cached_property
    def rank(self) -> int:
        """How many tokens the model itself held more probable (0: its first choice)."""
        return int((self._raw > self._raw[self.id]).sum())

    @cached_property
    def alternatives(self) -> list[tuple[int, float]]:
        """The model's five most probable tokens and their probabilities, before temperature and filters."""
        top = self._raw.topk(min(5, self._raw.numel()))
        return [(int(i), float(p)) for i, p in zip(top.indices, top.values.exp(), strict=True)]


def generate(
    transformer: Transformer,
    tokenizer: Tokenizer,
    prompt: Sequence[int],
    *,
    max_new_tokens: int,
    sampling: SamplingSettings,
    use_cache: bool = True,
    window: int | None = None,
    bits: int | None = None,
    source: Sequence[int] | None = None,
) -> Iterator[Step]:
    """Continue `prompt`, one `Step` a token, until a token that ends the text or `max_new_tokens`.

    What does not fit is said by the call itself; the work begins with the first `next`, and ends when the caller
    stops iterating. The same prompt, settings and seed give the same tokens, with or without the cache, and so does a
    prompt that holds the first of them already: each place in the text has its random number. (Only a draw within a
    millionth of an edge of its bar may fall to either side, since products of one row and of many are rounded alike but
    not equally.) With a `window` every token reads only that many, the cache slides, and the text may grow without end
    (unless positions are learned: their table ends); `bits` quantises the cache. `source` is what an encoder-decoder
    translates: with a cache the encoder reads it once.

    Raises:
        ValueError: for an encoder, an encoder-decoder without a source, an empty prompt, prompt and new tokens that
            exceed the model's context, or `bits` without a cache.
    """
    ids = [int(i) for i in prompt]
    limit = transformer.config.max_positions
    if transformer.config.kind == "encoder":
        raise ValueError("An encoder does not continue a text: that takes a decoder.")
    if (source is None) == (transformer.config.kind == "encoder_decoder"):
        raise ValueError("A source is for an encoder-decoder, which does not continue a text without one.")
    if not ids:
        raise ValueError("There is nothing to continue: give the model at least one token.")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens is {max_new_tokens}; it must not be negative.")
    if bits is not None and not use_cache:
        raise ValueError("Without a cache there is nothing to quantise: leave bits out, or use the cache.")
    endless = window is not None and transformer.config.positions != "learned"
    if not endless and len(ids) + max_new_tokens > limit:
        raise ValueError(
            f"The text has {len(ids)} tokens and the model reads at most {limit}: "
            f"ask for at most {max(0, limit - len(ids))} new tokens, or shorten the text."
        )
    rule = MaskRule(window=window)
    cache = None
    if use_cache:
        room = len(ids) + max_new_tokens if window is None else max(2 * window, 64)
        cache = KVCache(
            transformer.config, room=room, window=window, bits=bits, dtype=transformer.dtype, device=transformer.device
        )
    read = None if source is None else torch.tensor([list(source)], device=transformer.device)
    return _steps(transformer, tokenizer.stream(), ids, max_new_tokens, sampling, cache, rule, read)


def _steps(
    transformer: Transformer,
    stream: StreamDecoder,
    ids: list[int],
    max_new_tokens: int,
    sampling: SamplingSettings,
    cache: KVCache | None,
    rule: MaskRule,
    source: Tensor | None,
) -> Iterator[Step]:
    generator = random_numbers(sampling.seed, len(ids))
    one = OneToken.of(transformer, cache)
    for index in range(max_new_tokens):
        begun = time.perf_counter()
        if one is not None and index > 0 and not listening():
            logits = one(ids[-1])
        else:
            new = ids if cache is None or index == 0 else ids[-1:]
            logits = _last_logits(transformer, new, cache, rule, source)
        entries = ledger(logits, sampling, ids)
        drawn = draw(entries, generator)
        ids.append(drawn.id)
        milliseconds = (time.perf_counter() - begun) * 1000
        ended = drawn.id in transformer.config.eos_ids
        text = "" if ended else stream.push(drawn.id)
        if ended or index + 1 == max_new_tokens:
            text += stream.flush()
        yield Step(index, drawn.id, text, tuple(ids), entries, drawn, milliseconds)
        if ended:
            return


def _last_logits(
    transformer: Transformer, ids: Sequence[int], cache: KVCache | None, rule: MaskRule, source: Tensor | None
) -> Tensor:
    """The last token's logits `(vocabulary,)`, the new ids fed in pieces that the cache can take."""
    x = torch.tensor([list(ids)], device=transformer.device)
    with torch.no_grad():
        while cache is not None and x.shape[1] > cache.max_chunk:
            piece = cache.max_chunk
            transformer(x[:, :piece], cache=cache, last_only=True, rule=rule, encoder_ids=source)
            x = x[:, piece:]
        logits: Tensor = transformer(x, cache=cache, last_only=True, rule=rule, encoder_ids=source)
    return logits[0, -1]
