"""How a tensor of a checkpoint holds parameters of ours: as it is, transposed, or several in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from model.config import TransformerConfig

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """`shape`: what the file's tensor must have, given the shapes of our parameters (each its own, in our order);
    `parts`: our parameters, taken out of that tensor."""

    shape: Callable[[Sequence[Shape], TransformerConfig], Shape]
    parts: Callable[[Tensor, TransformerConfig], Sequence[Tensor]]


def _qkv_sizes(config: TransformerConfig) -> list[int]:
    return [heads * config.d_head for heads in (config.n_heads, config.n_kv_heads, config.n_kv_heads)]


def _rows(shapes: Sequence[Shape], _: TransformerConfig) -> Shape:
    return (sum(shape[0] for shape in shapes), *shapes[0][1:])


def _by_head(x: Tensor, config: TransformerConfig) -> list[Tensor]:
    heads = x.unflatten(0, (config.n_heads, 3, config.d_head))
    return [heads[:, part].flatten(0, 1) for part in range(3)]


def _first_real_position(config: TransformerConfig) -> int:
    return 1 + (config.pad_id or 0)


def _neighbours_to_halves(x: Tensor, heads: int) -> Tensor:
    """Rows of each head from RoPE pairs (2i, 2i + 1) to pairs (i, i + d_head / 2)."""
    pairs: Tensor = x.unflatten(0, (heads, -1, 2))  # (heads, d_head / 2, 2, …)
    return pairs.transpose(1, 2).flatten(0, 2)


AS_IS = Layout(lambda shapes, _: shapes[0], lambda x, _: [x])

# Matrices as (in, out), the way GPT-2's Conv1D multiplies.
TRANSPOSED = Layout(lambda shapes, _: shapes[0][::-1], lambda x, _: [x.t()])

# Queries, keys and values side by side in one Conv1D (in, 3 · out), or in its bias.
QKV_COLUMNS = Layout(
    lambda shapes, config: _rows(shapes, config)[::-1],
    lambda x, config: [part.t() if part.dim() == 2 else part for part in x.split(_qkv_sizes(config), -1)],
)

# Queries, keys and values below each other in one matrix (3 · out, in), or in its bias.
QKV_ROWS = Layout(_rows, lambda x, config: x.split(_qkv_sizes(config), 0))

# The same, but query, key and value of one head after those of the other (GPT-NeoX).
QKV_BY_HEAD = Layout(_rows, _by_head)

# RoBERTa counts positions from the padding id + 1; the rows before are never read.
POSITIONS_AFTER_PADDING = Layout(
    lambda shapes, config: (shapes[0][0] + _first_real_position(config), *shapes[0][1:]),
    lambda x, config: [x[_first_real_position(config) :]],
)

# A GGUF file of the architecture "llama" pairs neighbouring features for RoPE; we pair the two halves of a head.
NEIGHBOUR_QUERIES = Layout(lambda shapes, _: shapes[0], lambda x, config: [_neighbours_to_halves(x, config.n_heads)])
NEIGHBOUR_KEYS = Layout(lambda shapes, _: shapes[0], lambda x, config: [_neighbours_to_halves(x, config.n_kv_heads)])
