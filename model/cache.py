"""The key/value cache: what lets a decoder read each token once.

The cache owns its length, its positions and what of it is valid, and hands out only filled slots: an unused
slot is never read, not even through a mask (NaN times 0 is NaN).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from model.config import TransformerConfig

_GROUP = 32  # features at most that share one scale and offset in a quantised cache
_SMALLEST = 8  # below this, scales and offsets would take more room than they save


class CacheFullError(ValueError):
    """The new tokens do not fit into the cache; nothing has been written."""


class Plan(NamedTuple):
    """One forward pass over a cache, decided before anything is written.

    `positions` `(B, T)` of the new tokens; `key_positions` and `key_valid` `(B, S)` of the slots that they
    will read, `first` … `first + S`; `plain` when no slot among them is padding.
    """

    positions: Tensor
    key_positions: Tensor
    key_valid: Tensor
    first: int
    plain: bool


@dataclass
class _Quantised:
    """Values as integers of `bits` bits, one scale and one offset per group of features and token.

    Groups keep a few outlying features from spoiling all others: the error of a value is at most half a step
    of its own group, (max - min) / (2^bits - 1) / 2.
    """

    codes: Tensor  # (B, H, room, D) uint8; (B, H, room, D / 2) for 4 bits
    step: Tensor  # (B, H, room, groups) fp32
    low: Tensor  # (B, H, room, groups) fp32


def quantise(x: Tensor, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """`(..., D)` to codes `(..., D)` (two to a byte for 4 bits), steps and lows `(..., groups)`.

    Asymmetric rounding per group of features: 32, or if D does not divide so the largest number below by which it does
    (24 for 48, 20 for 80).

    Raises:
        ValueError: if `bits` is not 4 or 8, or D has no group of at least 8 features or, for 4 bits, is odd.
    """
    if bits not in (4, 8):
        raise ValueError(f"A cache of {bits} bits is not known; choose 8 or 4.")
    d = x.shape[-1]
    group = next(size for size in range(min(_GROUP, d), 0, -1) if d % size == 0)
    if group < min(_SMALLEST, d):
        raise ValueError(
            f"Heads of {d} features do not divide into groups of {_SMALLEST} to {_GROUP}, so their cache cannot be "
            "quantised: leave bits out."
        )
    if bits == 4 and d % 2:
        raise ValueError(f"4 bits take two features to a byte, and heads of {d} features are odd: choose 8 bits.")
    grouped = x.float().unflatten(-1, (-1, group))
    low, high = grouped.amin(-1), grouped.amax(-1)
    step = (high - low) / (2**bits - 1)
    # A constant group has step 0: any divisor gives code 0, which reads back as its low.
    codes = ((grouped - low[..., None]) / step.masked_fill(step == 0, 1.0)[..., None]).round()
    codes = codes.clamp(0, 2**bits - 1).to(torch.uint8).flatten(-2)
    if bits == 4:
        codes = codes[..., 0::2] | (codes[..., 1::2] << 4)
    return codes, step, low


def dequantise(codes: Tensor, step: Tensor, low: Tensor, bits: int) -> Tensor:
    """The inverse of `quantise`, up to half a step: fp32 `(..., D)`."""
    if bits == 4:
        codes = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)
    grouped = codes.float().unflatten(-1, (step.shape[-1], -1))
    values: Tensor = (grouped * step[..., None] + low[..., None]).flatten(-2)
    return values


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """As `torch.zeros`, but slots that are never written cost neither time nor memory.

    torch writes the zeros; what NumPy allocates the system hands out as zeros, page by page, when it is touched. A
    context of 8,192 tokens of which a text uses 50 would else take hundreds of megabytes.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    n_bytes = math.prod(shape) * dtype.itemsize
    return torch.from_numpy(np.zeros(n_bytes, np.uint8)).view(dtype).view(shape)


class KVCache:
    """Keys and values of all layers, `room` slots each, for `batch` rows.

    Policies: without a `window`, going past the room raises `CacheFullError`. With one, every query reads the
    last `window` tokens (itself included), and slots that nobody can reach any more are reused, so the text
    may be of any length. `bits` 8 or 4 stores integers; every token is quantised once, when it arrives.

    Memory, bytes: 2 · layers · batch · kv heads · room · d_head · bytes per value (`nbytes` is measured).
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        room: int,
        batch: int = 1,
        window: int | None = None,
        bits: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if room < 1 or batch < 1:
            raise ValueError(f"A cache needs at least one slot and one row, not {room} and {batch}.")
        if window is not None and not 1 <= window <= room:
            raise ValueError(f"The window ({window}) must be between 1 and the cache's room ({room}).")
        self.room, self.batch, self.window, self.bits, self.dtype = room, batch, window, bits, dtype
        self.length = 0  # slots in use
        self._seen = torch.zeros(batch, dtype=torch.long, device=device)  # real tokens so far, by row
        self._n_seen = 0  # the same while `_plain`, without asking the device
        self._plain = True  # no padding so far
        self._alike = 0  # slots, the first, that hold the same in all rows
        self._positions = torch.zeros(batch, room, dtype=torch.long, device=device)
        self._valid = torch.zeros(batch, room, dtype=torch.bool, device=device)
        self.cross: dict[int, tuple[Tensor, Tensor]] = {}  # an encoder's keys and values, by layer
        self.encoder_mask: Tensor | None = None
        shape = (config.n_layers, batch, config.n_kv_heads, room, config.d_head)
        if bits is None:
            self._dense = [_zeros(shape, dtype, torch.device(device)) for _ in "kv"]
            self._quantised: list[_Quantised] = []
        else:
            self._dense = []
            sample = quantise(torch.zeros((*shape[:-2], 1, shape[-1]), device=device), bits)
            self._quantised = [_Quantised(*(part.repeat_interleave(room, dim=-2) for part in sample)) for _ in "kv"]

    @property
    def nbytes(self) -> int:
        """Bytes allocated for keys and values (positions and validity, a few bytes a slot, not counted)."""
        return sum(t.nbytes for t in self._storage())

    def _storage(self) -> list[Tensor]:
        return self._dense or [t for q in self._quantised for t in (q.codes, q.step, q.low)]

    @property
    def max_chunk(self) -> int:
        """The most tokens that one pass may add now."""
        return self.room - (self.length if self.window is None else min(self.length, self.window - 1))

    def plan(self, new: int, attention_mask: Tensor | None = None) -> Plan:
        """Decide where `new` tokens go; `attention_mask` `(B, new)` is false for padding.

        Raises:
            CacheFullError: if they do not fit; nothing is changed.
        """
        if new > self.max_chunk:
            raise CacheFullError(
                f"{new} more tokens do not fit: the cache holds {self.length} of {self.room}. "
                "Shorten the text, make the cache larger, or give it a window."
            )
        if self.length + new > self.room:
            self._compact()
        start, end = self.length, self.length + new
        device = self._positions.device
        plain = self._plain and (attention_mask is None or bool(attention_mask.all()))
        if plain:
            positions = torch.arange(self._n_seen, self._n_seen + new, device=device).expand(self.batch, new)
            valid: Tensor | bool = True
        else:
            if attention_mask is None:
                attention_mask = torch.ones(self.batch, new, dtype=torch.bool, device=device)
            valid = attention_mask.bool()
            positions = (self._seen[:, None] + valid.long().cumsum(-1) - 1).clamp_min(0)
        # Slots at or after `length` are nobody's until commit(), so writing them early is no change.
        self._positions[:, start:end] = positions
        self._valid[:, start:end] = valid
        # Without padding a window is a slice; with it, rows differ and the mask does it.
        first = max(0, end - new - self.window + 1) if plain and self.window is not None else 0
        return Plan(positions, self._positions[:, first:end], self._valid[:, first:end], first, plain)

    @property
    def dense_and_plain(self) -> bool:
        """Whether numbers are kept as they come, without window and integers, and no padding so far."""
        return self._plain and self.window is None and self.bits is None

    def next_slot(self) -> tuple[list[tuple[Tensor, Tensor]], list[tuple[Tensor, Tensor]]]:
        """Where a layer's next key and value go, `(H_kv, D)`, and all that is then read, `(1, H_kv, S, D)`, by layer.

        For one row of a cache that is `dense_and_plain`: what `plan` and `append` do, once for all layers. Fill the
        slots, then `advance`.

        Raises:
            CacheFullError: if there is no slot left; nothing is changed.
        """
        if self.length >= self.room:
            raise CacheFullError(f"1 more token does not fit: the cache holds {self.length} of {self.room}.")
        slots = [store.select(3, self.length).select(1, 0).unbind(0) for store in self._dense]
        read = [store.narrow(3, 0, self.length + 1).unbind(0) for store in self._dense]
        return list(zip(*slots, strict=True)), list(zip(*read, strict=True))

    def advance(self) -> None:
        """The slots of `next_slot` are filled: they now belong to the cache."""
        self._positions[:, self.length] = self._n_seen
        self._valid[:, self.length] = True
        self._seen += 1
        self._n_seen += 1
        self.length += 1

    def append(self, layer: int, k: Tensor, v: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Store new keys and values `(B, H_kv, T, D)` of a layer; return those of slots `first` to the end."""
        end = self.length + k.shape[2]
        out = []
        for i, new in enumerate((k, v)):
            if self.bits is None:
                store = self._dense[i][layer]
                store[:, :, self.length : end] = new
                out.append(store[:, :, first:end])
            else:
                q = self._quantised[i]
                parts = [part[layer] for part in (q.codes, q.step, q.low)]
                for part, value in zip(parts, quantise(new, self.bits), strict=True):
                    part[:, :, self.length : end] = value
                codes, step, low = (part[:, :, first:end] for part in parts)
                out.append(dequantise(codes, step, low, self.bits).to(new.dtype))
        return out[0], out[1]

    def stored(self, layer: int) -> tuple[Tensor, Tensor]:
        """The filled slots of a layer, keys and values `(B, H_kv, length, D)`; integers as they read back, fp32."""
        if self.bits is None:
            k, v = (store[layer][:, :, : self.length] for store in self._dense)
            return k, v
        filled = [[part[layer][:, :, : self.length] for part in (q.codes, q.step, q.low)] for q in self._quantised]
        k, v = (dequantise(codes, step, low, self.bits) for codes, step, low in filled)
        return k, v

    def commit(self, plan: Plan) -> None:
        """The pass went through: its tokens now belong to the cache."""
        new = plan.positions.shape[1]
        added = self._valid[:, self.length : self.length + new].sum(-1)
        self.length += new
        self._plain = plan.plain
        self._n_seen += new
        self._seen = self._seen + added

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these rows, in this order; a row may be left out or taken several times, as in beam search."""
        if list(rows) == list(range(self.batch)):
            return
        index = torch.tensor(list(rows), device=self._valid.device)
        if len(rows) == self.batch:
            self._rearrange(rows)
        else:
            self.batch = len(rows)
            self._dense = [self._selected(t, index) for t in self._dense]
            for q in self._quantised:
                q.codes, q.step, q.low = (self._selected(t, index) for t in (q.codes, q.step, q.low))
        if len(set(rows)) == 1:
            self._alike = self.length
        self._seen, self._positions, self._valid = (t[index] for t in (self._seen, self._positions, self._valid))
        self.cross = {layer: (k[index], v[index]) for layer, (k, v) in self.cross.items()}
        self.encoder_mask = None if self.encoder_mask is None else self.encoder_mask[index]

    def _rearrange(self, rows: Sequence[int]) -> None:
        """As many rows as before: those that change are written anew, where not all are alike (a beam's prompt)."""
        moved = [place for place, row in enumerate(rows) if place != row]
        source = torch.tensor([rows[place] for place in moved], device=self._valid.device)
        for t in self._storage():
            apart = t[:, :, :, self._alike : self.length]
            apart[:, moved] = apart.index_select(1, source)

    def _selected(self, store: Tensor, index: Tensor) -> Tensor:
        """These rows of a store. Free slots, most of them at first, are neither copied nor written."""
        rows = _zeros((store.shape[0], len(index), *store.shape[2:]), store.dtype, store.device)
        rows[:, :, :, : self.length] = store[:, :, :, : self.length].index_select(1, index)
        return rows

    def _compact(self) -> None:
        """Move each row's last `window - 1` real tokens to the front: all that a later query can still reach."""
        assert self.window is not None
        keep = self.window - 1
        slots = torch.arange(self.room, device=self._valid.device).expand(self.batch, -1)
        used = self._valid & (slots < self.length)
        # Real tokens by age, padding before them: the last `keep` are the wanted ones, in order.
        order = torch.where(used, slots, slots - self.room).sort(-1).indices[:, self.room - keep :]
        valid = used.gather(1, order)
        for t in self._storage():
            index = order[None, :, None, :, None].expand(*t.shape[:3], keep, t.shape[-1])
            # A row with fewer real tokens gets zeros: what was never written must not come into use.
            t[:, :, :, :keep] = t.gather(3, index).masked_fill(~valid[None, :, None, :, None], 0)
        self._positions[:, :keep] = self._positions.gather(1, order)
        self._valid[:, :keep] = valid
        self.length, self._alike = keep, 0
