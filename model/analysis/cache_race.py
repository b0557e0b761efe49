"""Writing with and without the cache, side by side: the same tokens, the same arithmetic, other amounts of work."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from statistics import median

import torch
from torch import Tensor

from model.cache import KVCache
from model.transformer import Transformer

SMOOTHED = 9  # tokens around each that a running median looks at
PENDING_BYTES = 8 * 2**20  # of logits that wait for the other lane to be compared with


class Lane:
    """One way of writing. `milliseconds` per token: pass and choice; `tokens_read`: put through the model so far."""

    def __init__(self, transformer: Transformer, prompt: Sequence[int], n: int, *, cached: bool) -> None:
        self.cached = cached
        self.milliseconds: list[float] = []
        self.tokens_read = 0
        self._transformer = transformer
        self._prompt = tuple(prompt)
        self.cache: KVCache | None = None
        if cached:
            room = len(prompt) + n
            self.cache = KVCache(transformer.config, room=room, dtype=transformer.dtype, device=transformer.device)

    @property
    def written(self) -> int:
        """Tokens written."""
        return len(self.milliseconds)

    @property
    def seconds(self) -> float:
        """Time spent so far."""
        return sum(self.milliseconds) / 1000

    @property
    def tokens_per_second(self) -> float | None:
        """Of all that was written, reading the prompt included; None before the first token."""
        return self.written / self.seconds if self.written else None

    @property
    def typical(self) -> list[float]:
        """Milliseconds around each token: the median of it and its neighbours, which leaves single delays out."""
        reach = SMOOTHED // 2
        return [median(self.milliseconds[max(0, i - reach) : i + reach + 1]) for i in range(self.written)]

    def thirds(self, n: int) -> tuple[float, float]:
        """Median milliseconds of the first and of the last third of the first `n` tokens written.

        Raises:
            ValueError: if so many were not written.
        """
        if not 0 < n <= self.written:
            raise ValueError(f"{self.written} tokens were written, not {n}.")
        third = max(1, n // 3)
        return median(self.milliseconds[:third]), median(self.milliseconds[n - third : n])

    def advance(self, text: Sequence[int]) -> tuple[int, Tensor]:
        """Write the token that follows prompt and `text`, greedily; returns it and the logits `(vocabulary,)`."""
        begun = time.perf_counter()
        ids = (*self._prompt, *text[: self.written])
        new = ids[-1:] if self.cached and self.written else ids
        x = torch.tensor([new], device=self._transformer.device)
        with torch.no_grad():
            logits: Tensor = self._transformer(x, cache=self.cache, last_only=True)[0, -1]
        token = int(logits.argmax())  # waits for an accelerator
        self.milliseconds.append((time.perf_counter() - begun) * 1000)
        self.tokens_read += len(new)
        return token, logits


class Race:
    """Both lanes write `n` tokens behind `prompt`; whoever has spent less time is next.

    The first lane that gets to a place decides its token, and the other one writes on from the same text, so that
    what is compared is comparable. An end-of-text token does not end it.

    Attributes:
        cached, uncached: the two lanes.
        text: the tokens written, by the lane that is ahead.
        agreed: how many times both lanes, at the same place, chose the same token.
        compared: places where all logits of both lanes were compared (every one, unless that took too much memory).
        largest_difference: between any two of those logits.

    Raises:
        ValueError: for a model that is no decoder, an empty prompt, or tokens that do not fit into the context.
    """

    def __init__(self, transformer: Transformer, prompt: Sequence[int], n: int) -> None:
        config = transformer.config
        if config.kind != "decoder":
            raise ValueError("Only a decoder writes token by token.")
        if not prompt or n < 1 or len(prompt) + n > config.max_positions:
            raise ValueError(
                f"{len(prompt)} tokens and {n} more do not fit: at least one of each, "
                f"and {config.max_positions} in all."
            )
        self.prompt, self.n = tuple(prompt), n
        self._turn = threading.Lock()  # a run of the page that was broken off may still be at its last token
        self.cached = Lane(transformer, prompt, n, cached=True)
        self.uncached = Lane(transformer, prompt, n, cached=False)
        self.text: list[int] = []
        self.agreed = self.compared = 0
        self.largest_difference = 0.0
        self.stride = max(1, -(-4 * config.vocab_size * n // PENDING_BYTES))
        self._pending: dict[int, Tensor] = {}

    @property
    def done(self) -> bool:
        """Whether both have written everything."""
        return min(self.cached.written, self.uncached.written) >= self.n

    @property
    def ratio(self) -> float | None:
        """Time without the cache over time with it, for the same number of tokens; None before the first."""
        both = min(self.cached.written, self.uncached.written)
        if not both:
            return None
        return sum(self.uncached.milliseconds[:both]) / sum(self.cached.milliseconds[:both])

    def advance(self) -> None:
        """One token more in one lane; nothing when all is written."""
        with self._turn:
            if not self.done:
                self._write()

    def _write(self) -> None:
        lanes = [lane for lane in (self.cached, self.uncached) if lane.written < self.n]
        lane = min(lanes, key=lambda one: one.seconds)
        place = lane.written
        token, logits = lane.advance(self.text)
        if place == len(self.text):
            self.text.append(token)
        else:
            self.agreed += token == self.text[place]
        if place % self.stride == 0:
            other = self._pending.pop(place, None)
            if other is None:
                self._pending[place] = logits.float()
            else:
                self.compared += 1
                difference = float((logits.float() - other).abs().max())
                self.largest_difference = max(self.largest_difference, difference)
