"""What each scheme says about two positions, and where models that differ only in it look."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.positions import PositionEmbedding, alibi_bias, alibi_slopes, rope_frequencies, sinusoidal_table
from model.trace import Trace
from model.transformer import Transformer


def dots(table: Tensor) -> Tensor:
    """The dot product of every two rows of a table of positions, `(T, d)` to `(T, T)`."""
    return table @ table.T


def similarity(table: NDArray[np.float32], position: int) -> NDArray[np.float32]:
    """One row of `dots`, of a table `(T, d)` that was handed out as an array: `(T,)`."""
    found: NDArray[np.float32] = dots(torch.from_numpy(table))[position].numpy()
    return found


def row_lengths(table: NDArray[np.float32]) -> NDArray[np.float32]:
    """The Euclidean length of every row, `(T,)`."""
    found: NDArray[np.float32] = torch.from_numpy(table).norm(dim=-1).numpy()
    return found


def table_difference(transformer: Transformer, table: NDArray[np.float32]) -> float:
    """The largest absolute difference between the first rows of a table and what a model adds to its tokens."""
    rows = min(len(table), transformer.config.max_positions)
    return float((position_table(transformer, rows) - torch.from_numpy(table[:rows])).abs().max())


def rope_agreement(length: int, d_head: int, theta: float) -> Tensor:
    """What RoPE leaves of the score of a query and a key that were equal before it turned them, `(length, length)`.

    The mean over all pairs of cos((i - j)·frequency), for pairs of equal length: 1 at distance 0.
    """
    at = torch.arange(length, dtype=torch.float64)
    distance = at[:, None] - at
    return (distance[..., None] * rope_frequencies(d_head, theta).double()).cos().mean(-1).float()


def slopes(n_heads: int) -> list[float]:
    """ALiBi's slope of each head."""
    found: list[float] = alibi_slopes(n_heads).tolist()
    return found


def sinusoids(length: int, d_model: int, theta: float) -> Tensor:
    """The sinusoidal table of any size and base, `(length, d_model)`."""
    return sinusoidal_table(length, d_model, theta=theta)


def alibi_matrix(length: int, n_heads: int, head: int) -> Tensor:
    """What ALiBi adds to one head's scores, `(length, length)`."""
    at = torch.arange(length)[None]
    return alibi_bias(at, at, alibi_slopes(n_heads))[0, head]


def position_table(transformer: Transformer, length: int) -> Tensor:
    """The vectors that a model adds to its first `length` tokens, `(length, d_model)`, as its own module gives them.

    Raises:
        ValueError: if the model adds none, or has not so many.
    """
    if not isinstance(transformer.pos_embed, PositionEmbedding):
        raise ValueError(f"A model with positions {transformer.config.positions!r} adds no vector to its tokens.")
    vectors: Tensor = transformer.pos_embed(torch.arange(length)[None])
    return vectors[0].detach().float()


def scheme_matrix(transformer: Transformer, length: int, head: int = 0) -> Tensor:
    """What a model's scheme says about every two of `length` positions, `(length, length)`.

    Sinusoidal and learned tables: the dot product of the two rows. RoPE: `rope_agreement`. ALiBi: what is added to
    the scores of `head`. Without positions: 0.
    """
    config = transformer.config
    if config.positions == "rope":
        return rope_agreement(length, config.d_head, config.rope_theta)
    if config.positions == "alibi":
        return alibi_matrix(length, config.n_heads, head)
    if config.positions == "none":
        return torch.zeros(length, length)
    return dots(position_table(transformer, length))


def mean_attention(run: Trace) -> Tensor:
    """The mean pattern over all layers and heads, `(T, T)`; its rows sum to 1."""
    layers = [run[f"blocks.{i}.attn.hook_pattern"].mean(0) for i in range(run.config.n_layers)]
    return torch.stack(layers).mean(0)


def wavelengths(size: int, theta: float) -> Tensor:
    """After how many positions each of the `size` / 2 pairs has gone round once: 2π·theta^(2i / size)."""
    return 2 * math.pi / rope_frequencies(size, theta)


def pair_of_wavelength(size: int, theta: float, positions: float) -> int:
    """The pair whose wavelength is nearest to a number of positions, as a ratio."""
    return int((wavelengths(size, theta) / positions).log().abs().argmin())


def sinusoid(position: int, column: int, d: int, theta: float) -> float:
    """One number of the sinusoidal table as the model makes it."""
    return float(sinusoidal_table(position + 1, d, theta=theta)[position, column])


def rope_angles(length: int, d_head: int, theta: float) -> tuple[Tensor, Tensor]:
    """By how many radians each pair is turned at each position, `(length, d_head / 2)`, and the cosines of that."""
    angles = torch.arange(length, dtype=torch.float32)[:, None] * rope_frequencies(d_head, theta)
    return angles, angles.cos()


def alibi_shares(n_heads: int, head: int, length: int) -> Tensor:
    """What one head pays to each of the last `length` tokens if all are alike, `(length,)`, nearest first.

    Softmax of the bias alone: what would be left of the order if queries and keys said nothing.
    """
    bias: Tensor = alibi_matrix(length, n_heads, head)[-1]
    return bias.softmax(-1).flip(0)
