"""How a Transformer learns the order: sinusoidal, learned, RoPE and ALiBi positions.

Tables and angles are fp32 at any model dtype: bf16 rounds position 257 to 256.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from model.config import TransformerConfig


def positions_from_mask(attention_mask: Tensor) -> Tensor:
    """Each token's position, counted row by row over the real tokens alone.

    `attention_mask` is `(B, T)`, true for real tokens. Padding on either side so changes nothing: the first
    real token of a row is at 0. Padded slots get the nearest valid position; nothing ever reads them.
    """
    return (attention_mask.long().cumsum(-1) - 1).clamp_min(0)


def sinusoidal_table(
    length: int, d_model: int, device: torch.device | None = None, *, theta: float = 10_000.0
) -> Tensor:
    """`(length, d_model)` sines (even columns) and cosines (odd columns) of Vaswani et al. 2017, section 3.5.

    Column pair i has the angular frequency theta^(-2i / d_model); every model here has the paper's 10,000.
    """
    frequency = torch.exp(
        torch.arange(0, d_model, 2, device=device, dtype=torch.float32) * (-math.log(theta) / d_model)
    )
    angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * frequency  # (length, d_model / 2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)


def rope_frequencies(d_head: int, theta: float = 10_000.0, device: torch.device | None = None) -> Tensor:
    """`(d_head / 2,)` angular frequencies, radians per position: theta^(-2i / d_head) (Su et al. 2021)."""
    return 1.0 / theta ** (torch.arange(0, d_head, 2, device=device, dtype=torch.float32) / d_head)


def llama3_divisors(
    d_head: int, theta: float, factor: float, low: float, high: float, trained: float
) -> tuple[float, ...]:
    """What Llama 3 divides the frequency of each pair by, to read texts `factor` times as long as in training.

    Pairs that turn less than `low` times within the `trained` positions are slowed down by the whole `factor`,
    those that turn more than `high` times not at all, and 1 / divisor is linear in the turns between the two
    (Llama Team 2024, section 3.4.2, and the published config).
    """
    turns = trained * rope_frequencies(d_head, theta, torch.device("cpu")).double() / (2 * math.pi)
    share = ((turns - low) / (high - low)).clamp(0, 1)
    return tuple((1 / ((1 - share) / factor + share)).tolist())


def rope_rotation(
    positions: Tensor, d_head: int, theta: float = 10_000.0, divisors: tuple[float, ...] = ()
) -> tuple[Tensor, Tensor]:
    """Cosine and signed sine of every pair's angle, ready for `rotate`.

    Positions `(B, T)` to two tensors `(B, T, 1, 2, d_head / 2)`: the cosine for both features of a pair, and
    minus the sine for the first, the sine for the second. `d_head` counts the features that are turned;
    `divisors`, one a pair, slow the frequencies down.
    """
    frequencies = rope_frequencies(d_head, theta, positions.device)
    if divisors:
        frequencies = frequencies / torch.tensor(divisors, device=positions.device)
    angle = positions[..., None].float() * frequencies  # (B, T, d_head / 2)
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((cos, cos), dim=-2).unsqueeze(2), torch.stack((-sin, sin), dim=-2).unsqueeze(2)


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turn every pair of features of `x`, `(B, T, heads, d_head)`, by its angle.

    Half-split: feature i is paired with feature i + d_head / 2, as in the Llama checkpoints of Hugging Face
    (the paper pairs neighbours 2i and 2i + 1; the two differ by a fixed permutation of the features).
    """
    cos, signed_sin = rotation
    pairs = x.float().view(*x.shape[:-1], 2, -1)  # (B, T, heads, 2, d_head / 2)
    return (pairs * cos).addcmul_(pairs.flip(-2), signed_sin).view(x.shape).to(x.dtype)


def rotate_part(x: Tensor, rotation: tuple[Tensor, Tensor], d_rotary: int) -> Tensor:
    """`rotate` for the first `d_rotary` features of each head; the others stay as they are (GPT-J, GPT-NeoX)."""
    return torch.cat((rotate(x[..., :d_rotary], rotation), x[..., d_rotary:]), dim=-1)


def alibi_slopes(n_heads: int, device: torch.device | None = None) -> Tensor:
    """`(n_heads,)` slopes of Press et al. 2022: a geometric series from 2^(-8/n) for n heads.

    For a head count that is no power of two: the series of the next lower power of two, then every second
    slope of the series of the next higher one, as in the authors' code.
    """

    def series(n: int) -> list[float]:
        return [2 ** (-8 * (i + 1) / n) for i in range(n)]

    lower = 2 ** int(math.log2(n_heads))
    slopes = series(lower) + series(2 * lower)[0::2][: n_heads - lower]
    return torch.tensor(slopes, dtype=torch.float32, device=device)


def alibi_bias(query_positions: Tensor, key_positions: Tensor, slopes: Tensor) -> Tensor:
    """What ALiBi adds to the scaled scores: minus slope times distance.

    Positions `(B, T)` and `(B, S)`, slopes `(H,)`, to `(B, H, T, S)`, fp32. With a cache the queries are the
    last positions, so the bias has the last rows, not the first.
    """
    distance = (query_positions[:, :, None] - key_positions[:, None, :]).abs().float()  # (B, T, S)
    return -slopes[:, None, None] * distance[:, None]


class PositionEmbedding(nn.Module):
    """A vector per position to the token embeddings: a learned table, or the sinusoidal one."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.d_model = config.d_model
        self.max_positions = config.max_positions
        learned = config.positions == "learned"
        self.weight = nn.Parameter(torch.empty(config.max_positions, config.d_model)) if learned else None

    def forward(self, positions: Tensor) -> Tensor:
        """Positions `(B, T)` to vectors `(B, T, d_model)`; fp32 for the sinusoidal table.

        Raises:
            ValueError: for a position past a learned table's end.
        """
        if self.weight is None:
            length = int(positions.max()) + 1 if positions.numel() else 0
            return sinusoidal_table(length, self.d_model, positions.device)[positions]
        if positions.numel() and int(positions.max()) >= self.max_positions:
            raise ValueError(f"The text is longer than the {self.max_positions} positions that this model has learned.")
        return self.weight[positions]
