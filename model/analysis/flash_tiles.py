"""Flash attention, tile by tile, in plain torch: the whole matrix of scores is never there (Dao et al. 2022, 2023).

The matrix is cut into tiles of some queries and some keys. Of the tiles that a row has been through, three things are
remembered: the largest score, the sum of the weights relative to it, and the weighted sum of the values. When a larger
score turns up, the sums shrink by one factor; so tiles may come in any order (Milakov & Gimelshein 2018). The backward
pass computes each tile's weights again from the row's logarithm of the sum, instead of having kept them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from model.kernels import Visible, repeat_kv

# By rows: a block of queries meets all keys before the next (2023). By columns: a block of keys, all queries (2022).
ORDERS = ("rows", "columns", "shuffled")


class Place(NamedTuple):
    """A tile: queries `first_query` … `last_query` - 1, keys `first_key` … `last_key` - 1."""

    first_query: int
    last_query: int
    first_key: int
    last_key: int

    @property
    def queries(self) -> slice:
        """Its rows."""
        return slice(self.first_query, self.last_query)

    @property
    def keys(self) -> slice:
        """Its columns."""
        return slice(self.first_key, self.last_key)


@dataclass(frozen=True)
class Tile:
    """One step, of R queries and C keys; axes before these are the batch's and the heads'.

    `scores` `(…, R, C)`: scaled, minus infinity where masked. `weights` = e^(scores - largest), with `largest`
    `(…, R)` the row's largest score up to now. `factor` `(…, R)` = e^(largest before - largest): what the sums shrank
    by, 0 where there was nothing before. `added` `(…, R)`: sum of this tile's weights. `total` `(…, R)` and `out`
    `(…, R, D)`: sums of weights, and of values times weights, up to now, not yet divided by each other.
    """

    place: Place
    scores: Tensor
    weights: Tensor
    largest: Tensor
    factor: Tensor
    added: Tensor
    total: Tensor
    out: Tensor


class Running:
    """What is remembered of every row: a few numbers a row, however many keys there are."""

    def __init__(self, q: Tensor, dtype: torch.dtype) -> None:
        rows = q.shape[:-1]
        self.largest = torch.full(rows, -torch.inf, dtype=q.dtype, device=q.device)
        self.total = torch.zeros(rows, dtype=q.dtype, device=q.device)
        self.out = torch.zeros_like(q)
        self.dtype = dtype

    def take_in(self, place: Place, scores: Tensor, v: Tensor) -> Tile:
        """Add a tile to its rows: scores `(…, R, C)`, values `(…, C, D)`."""
        rows = place.queries
        before, total = self.largest[..., rows], self.total[..., rows]
        out = self.out[..., rows, :]

        largest = torch.maximum(before, scores.amax(-1))
        base = largest.masked_fill(largest == -torch.inf, 0.0)  # nothing seen yet
        factor = (before - base).exp()
        weights = (scores - base[..., None]).exp()
        added = weights.sum(-1)
        total = total * factor + added
        out = out * factor[..., None] + rounded(weights, self.dtype) @ v

        self.largest[..., rows], self.total[..., rows] = largest, total
        self.out[..., rows, :] = out
        return Tile(place, scores, weights, largest, factor, added, total, out)


class FlashAttention:
    """One layer's attention, tile by tile: iterate over it, then read `out` and `log_sum_exp`.

    Args:
        q: `(B, H, T, D)`. k, v: `(B, H_kv, S, D)`; query heads g·r … g·r + r - 1 use key/value head g.
        visible: what the queries may read, as the kernels take it.
        block_q, block_k: rows and columns of a tile; the last ones may be smaller.
        order: one of `ORDERS`, or the tiles as (row of tiles, column of tiles), each once.
        dtype: what the inputs of both matrix products are rounded to, as on a GPU; sums stay as they are.

    Attributes:
        taken: the tiles to go through, in order. skipped: those in which nothing is visible.

    Raises:
        ValueError: for a block of no rows, or an order that does not have every tile once.
    """

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        visible: Visible,
        *,
        block_q: int,
        block_k: int,
        order: str | Sequence[tuple[int, int]] = "rows",
        dtype: torch.dtype | None = None,
    ) -> None:
        work = torch.promote_types(q.dtype, torch.float32)
        self.dtype = dtype or work
        self.group = q.shape[1] // k.shape[1]
        self.q, self.k, self.v = (rounded(x.to(work), self.dtype) for x in (q, k, v))
        self.k, self.v = (repeat_kv(x, q.shape[1]) for x in (self.k, self.v))
        self.visible = visible
        self.scale: float = q.shape[-1] ** -0.5
        self.running = Running(self.q, self.dtype)
        self.taken: list[Place] = []
        self.skipped: list[Place] = []
        for place in _places(q.shape[2], k.shape[2], block_q, block_k, order):
            (self.taken if self._anything_visible(place) else self.skipped).append(place)

    def __iter__(self) -> Iterator[Tile]:
        """From the start: each tile of `taken`, and what is kept after it."""
        self.running = Running(self.q, self.dtype)
        for place in self.taken:
            v = self.v[..., place.keys, :]
            yield self.running.take_in(place, self.scores(place), v)

    @property
    def out(self) -> Tensor:
        """`(B, H, T, D)`: the sums divided by each other; 0 for a query that may read no key."""
        return self._divided().to(self.dtype)

    @property
    def log_sum_exp(self) -> Tensor:
        """`(B, H, T)`: largest score + ln(sum of weights). All of the softmax that the backward pass needs."""
        return self.running.largest + self.running.total.log()

    def scores(self, place: Place) -> Tensor:
        """One tile of the matrix: `(B, H, R, C)`, masked minus infinity."""
        q, k = self.q[..., place.queries, :], self.k[..., place.keys, :]
        scores = q @ k.transpose(-1, -2) * self.scale
        if self.visible.bias is not None:
            bias = self.visible.bias[..., place.queries, place.keys]
            scores = scores + bias
        hidden = self._hidden(place)
        return scores if hidden is None else scores.masked_fill(hidden, -torch.inf)

    def backward(self, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of q, k and v from that of the output, `(B, H, T, D)`. Call it after going through the tiles.

        Of the forward pass only inputs, output and `log_sum_exp` are used: each tile's weights are worked out again.
        """
        out, lse = self._divided(), self.log_sum_exp
        lse = lse.masked_fill(lse == -torch.inf, 0.0)  # rows without any key: their weights are e^(-inf - 0) = 0
        g = gradient.to(out.dtype)
        d_q, d_k, d_v = torch.zeros_like(self.q), torch.zeros_like(self.k), torch.zeros_like(self.v)
        pulled = (g * out).sum(-1)  # (B, H, T): what softmax takes off every score's gradient of the row
        for place in self.taken:
            rows, keys = place.queries, place.keys
            weights = (self.scores(place) - lse[..., rows, None]).exp()  # shares of the row, recomputed
            d_v[..., keys, :] += weights.transpose(-1, -2) @ g[..., rows, :]
            d_weights = g[..., rows, :] @ self.v[..., keys, :].transpose(-1, -2)
            d_scores = weights * (d_weights - pulled[..., rows, None]) * self.scale
            d_q[..., rows, :] += d_scores @ self.k[..., keys, :]
            d_k[..., keys, :] += d_scores.transpose(-1, -2) @ self.q[..., rows, :]
        shared = (self.k.shape[1] // self.group, self.group)  # a shared key has the gradients of all its query heads
        return d_q, d_k.unflatten(1, shared).sum(2), d_v.unflatten(1, shared).sum(2)

    def _divided(self) -> Tensor:
        total = self.running.total[..., None]
        return self.running.out / total.masked_fill(total == 0, 1.0)

    def _hidden(self, place: Place) -> Tensor | None:
        """Which cells of a tile are masked, if any."""
        if self.visible.causal:
            if place.last_key <= place.first_query + 1:
                return None  # wholly in the past
            queries = torch.arange(place.first_query, place.last_query, device=self.q.device)
            keys = torch.arange(place.first_key, place.last_key, device=self.q.device)
            return keys > queries[:, None]
        if self.visible.mask is not None:
            return ~self.visible.mask[..., place.queries, place.keys]
        return None

    def _anything_visible(self, place: Place) -> bool:
        if self.visible.causal:
            return place.first_key < place.last_query  # else wholly above the diagonal
        hidden = self._hidden(place)
        return hidden is None or not bool(hidden.all())


def rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x` rounded to `dtype`, in the dtype that it had."""
    return x if x.dtype == dtype else x.to(dtype).to(x.dtype)


def _places(
    n_queries: int, n_keys: int, block_q: int, block_k: int, order: str | Sequence[tuple[int, int]]
) -> list[Place]:
    if block_q < 1 or block_k < 1:
        raise ValueError(f"A tile of {block_q} × {block_k} holds nothing; each side must be at least 1.")
    down, across = math.ceil(n_queries / block_q), math.ceil(n_keys / block_k)
    tiles = [(i, j) for i in range(down) for j in range(across)]
    if order == "columns":
        tiles.sort(key=lambda tile: tile[::-1])
    elif order == "shuffled":
        random.Random(0).shuffle(tiles)
    elif not isinstance(order, str):
        if sorted(order) != tiles:
            raise ValueError(f"The order must have each of the {down} × {across} tiles once.")
        tiles = list(order)
    elif order != "rows":
        raise ValueError(f"The order is {order!r}; it must be one of {', '.join(ORDERS)}.")
    return [
        Place(i * block_q, min((i + 1) * block_q, n_queries), j * block_k, min((j + 1) * block_k, n_keys))
        for i, j in tiles
    ]
