"""RoPE on one query and one key of a run: every pair turned, and the score that only the distance decides.

Su et al. 2021 (arXiv:2104.09864). Feature i turns together with feature i + d_head / 2 (`model.positions.rotate`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from model.positions import rope_frequencies, rope_rotation, rotate
from model.trace import Trace

SHIFTS = (0, 1, 10, 100, 1000)
DISTANCES = 128  # how far apart the two are moved


@dataclass(frozen=True)
class RopeScore:
    """One query and one key, `(d_head,)` each, before and after they were turned to their places.

    `own`: the run's model has RoPE with this `theta`, so `turned_q` and `turned_k` are what it recorded; otherwise
    they are worked out. `score` is q·k/√d of the turned ones, `parts` `(d_head / 2,)` what each pair gives to it, and
    `plain` the score that they would have without being turned.
    `by_distance` `(DISTANCES,)`: the score were the key 0, 1, 2, … places before the query. `by_shift`: for each of
    `SHIFTS`, the score with both moved on so far, as the model computes (fp32) and in double precision.
    """

    own: bool
    theta: float
    query: int
    key: int
    q: Tensor
    k: Tensor
    turned_q: Tensor
    turned_k: Tensor
    plain: float
    parts: Tensor
    by_distance: Tensor
    by_shift: tuple[tuple[float, float], ...]

    @property
    def score(self) -> float:
        """q·k/√d of the turned vectors."""
        return float(self.parts.sum())

    @property
    def frequencies(self) -> Tensor:
        """`(d_head / 2,)` radians per position."""
        return rope_frequencies(len(self.q), self.theta)

    def pair(self, index: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Pair number `index` of q, k and both turned, `(2,)` each."""
        half = len(self.q) // 2
        q, k, turned_q, turned_k = (v[[index, index + half]] for v in (self.q, self.k, self.turned_q, self.turned_k))
        return q, k, turned_q, turned_k

    @property
    def most_changed(self) -> int:
        """The pair whose part of the score turning changes most: the one to look at first."""
        before = (self.q * self.k).view(2, -1).sum(0) / len(self.q) ** 0.5
        return int((self.parts - before).abs().argmax())


def turned(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """One vector `(d_head,)` turned to each of the positions `(N,)`, by the model's own functions: `(N, d_head)`."""
    many = x.float().expand(1, len(positions), 1, len(x))
    return rotate(many, rope_rotation(positions[None], len(x), theta))[0, :, 0]


def turned_double(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """The same in double precision, as complex numbers: `(N, d_head / 2)`."""
    pairs = torch.complex(*x.double().view(2, -1))
    frequencies = theta ** (-torch.arange(0, len(x), 2, dtype=torch.float64) / len(x))
    angle = positions.double()[:, None] * frequencies
    return pairs * torch.polar(torch.ones_like(angle), angle)


def rope_score(run: Trace, layer: int, head: int, query: int, key: int, theta: float | None = None) -> RopeScore:
    """RoPE on the query of one token and the key of another, in one head of a run.

    `theta`: another base than the model's own.

    Raises:
        ValueError: if the head has an odd number of features, which cannot be paired.
    """
    config, name = run.config, f"blocks.{layer}.attn"
    if config.d_head % 2:
        raise ValueError(f"The heads have {config.d_head} features; RoPE turns pairs.")
    base = config.rope_theta if theta is None else theta
    own = config.positions == "rope" and base == config.rope_theta
    kv_head, root = head // config.queries_per_kv, config.d_head**0.5
    q, k = run[f"{name}.hook_q"][query, head].float(), run[f"{name}.hook_k"][key, kv_head].float()
    if own:
        turned_q = run[f"{name}.hook_rot_q"][query, head].float()
        turned_k = run[f"{name}.hook_rot_k"][key, kv_head].float()
    else:
        turned_q = turned(q, torch.tensor([query]), base)[0]
        turned_k = turned(k, torch.tensor([key]), base)[0]
    shifts = torch.tensor(SHIFTS)
    single = (turned(q, query + shifts, base) * turned(k, key + shifts, base)).sum(-1) / root
    exact = turned_double(q, query + shifts, base) * turned_double(k, key + shifts, base).conj()
    far = torch.arange(DISTANCES)
    by_distance = turned(q, far, base) @ k / root  # the key stays at 0, where nothing is turned
    return RopeScore(
        own=own,
        theta=base,
        query=query,
        key=key,
        q=q,
        k=k,
        turned_q=turned_q,
        turned_k=turned_k,
        plain=float(q @ k) / root,
        parts=(turned_q * turned_k).view(2, -1).sum(0) / root,
        by_distance=by_distance,
        by_shift=tuple(zip(single.tolist(), (exact.real.sum(-1) / root).tolist(), strict=True)),
    )
