"""What of an early token reaches the last one: its gradient, and its trace in the last state.

Hochreiter 1991 and Bengio, Simard & Frasconi 1994 found why it fades: a gradient that goes back over k steps is
multiplied by k Jacobian matrices. Pascanu et al. 2013 tell when it fades and when it explodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from model.analysis.recurrence import Build, Kind, Network, Recurrent, build_network

SEEDS, TEXTS = 8, 4
ROUNDING = 2.0**-24  # of 1 in float32: half the distance to the next number


@dataclass(frozen=True)
class Reach:
    """How much of the loss's gradient arrives at each token, over all runs.

    `relative[k]`: the length of the gradient at the token k steps before the last one, divided by that at the last
    one; the geometric mean over `runs` runs, and exactly 0 where it was 0 in any of them.
    """

    kind: Kind
    relative: tuple[float, ...]
    runs: int

    @property
    def first_zero(self) -> int | None:
        """How many steps back the gradient is exactly 0 in any of the runs for the first time; None: nowhere."""
        return next((steps for steps, value in enumerate(self.relative) if value == 0), None)

    @property
    def factor(self) -> float | None:
        """By how much it changes with every step back, on average from the last but one token to the farthest that is
        not 0; None where there are not two such tokens.
        """
        end = (self.first_zero or len(self.relative)) - 1
        return (self.relative[end] / self.relative[1]) ** (1 / (end - 1)) if end > 1 else None


def gradient_reach(kind: Kind, build: Build, ids: Sequence[int] | None, length: int, *, seed: int = 0) -> Reach:
    """Backward from the loss on the last token, through networks with fresh weights.

    Texts are random and have `length` tokens, or are the first `length` tokens of `ids`. The loss is cross-entropy of
    a random answer; `SEEDS` networks with `TEXTS` texts each (a given text: once each), in float32
    as in training. Gradients are autograd's, with respect to the token's vector.
    """
    rows = []
    for number in range(SEEDS):
        network, texts, answers = one_run(kind, build, ids, length, seed * SEEDS + number)
        # In double precision: of a small gradient the squares would be 0 long before it is 0 itself.
        rows.append(input_gradients(network, texts, answers).double().norm(dim=-1))
    lengths = torch.cat(rows)  # (runs, T)
    relative = _geometric_mean(lengths / lengths[:, -1:])
    return Reach(kind, tuple(relative.flip(0).tolist()), len(lengths))


def one_run(
    kind: Kind, build: Build, ids: Sequence[int] | None, length: int, seed: int
) -> tuple[Network, Tensor, Tensor]:
    """A network, texts `(B, T)` and answers `(B,)`, all from one seed."""
    generator = torch.Generator().manual_seed(seed)
    if ids is None:
        texts = torch.randint(0, build.vocabulary, (TEXTS, length), generator=generator)
    else:
        texts = torch.tensor([ids[:length]])
    answers = torch.randint(0, build.vocabulary, (len(texts),), generator=generator)
    return build_network(kind, build, seed), texts, answers


def input_gradients(network: Network, texts: Tensor, answers: Tensor) -> Tensor:
    """The gradient of each text's own loss with respect to each of its token vectors `(B, T, hidden)`."""
    with torch.enable_grad():
        x, logits = network.inputs_and_logits(texts)
        loss = F.cross_entropy(logits, answers, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x)
    return gradient


@dataclass(frozen=True)
class Survival:
    """What is left of the first token in the last state, by length of the text.

    `ratios[i]`: how far the last state moves when the first of `lengths[i]` tokens is exchanged for another, divided
    by how far it moves when the last one is; the geometric mean over `runs` runs. Computed in double precision, so
    that the network's own doing shows and not the rounding, down to about 10⁻¹⁵.
    """

    kind: Kind
    lengths: tuple[int, ...]
    ratios: tuple[float, ...]
    runs: int

    @property
    def lost_at(self) -> int | None:
        """The shortest measured length at which the ratio, added to 1, is lost in float32; None: there is none."""
        return next((n for n, ratio in zip(self.lengths, self.ratios, strict=True) if ratio < ROUNDING), None)


def measured_lengths(longest: int) -> tuple[int, ...]:
    """1, 2, 3, 4, 6, 8, 12, … and `longest` itself."""
    steps = sorted({n for power in range(12) for n in (2**power, 3 * 2**power)})
    return (*(n for n in steps if n < longest), longest)


def survival(kind: Kind, build: Build, ids: Sequence[int] | None, longest: int, *, seed: int = 0) -> Survival:
    """Exchange the first token, then the last one, and compare how far the last state moves.

    Texts, networks and runs as in `gradient_reach`; every length reads the beginning of the same texts.
    """
    lengths, rows = measured_lengths(longest), []
    for number in range(SEEDS):
        network, texts, _ = one_run(kind, build, ids, longest, seed * SEEDS + number)
        network.double()
        other = torch.randint(1, build.vocabulary, (len(texts), 2), generator=torch.Generator().manual_seed(number))
        rows.append([_moved(network, texts[:, :n], other) for n in lengths])
    ratios = torch.cat([torch.stack(row) for row in rows], dim=1)  # (lengths, runs)
    return Survival(kind, lengths, tuple(_geometric_mean(ratios.T).tolist()), ratios.shape[1])


@torch.no_grad()
def _moved(network: Network, texts: Tensor, other: Tensor) -> Tensor:
    """For each text `(B, T)`: movement for the first token's sake over movement for the last one's `(B,)`.

    `other` `(B, 2)`: how many tokens further in the vocabulary the ones that take their places are.
    """
    vocabulary = _vocabulary(network)
    first, last = texts.clone(), texts.clone()
    last[:, -1] = (last[:, -1] + other[:, 1]) % vocabulary
    # With one token both are the same exchange.
    first[:, 0] = last[:, 0] if texts.shape[1] == 1 else (first[:, 0] + other[:, 0]) % vocabulary
    # One pass each: in one batch their rows would be rounded differently, and that is no trace of the first token.
    plain, without_first, without_last = (network.states(one)[:, -1] for one in (texts, first, last))
    ratios: Tensor = (without_first - plain).norm(dim=-1) / (without_last - plain).norm(dim=-1)
    return ratios


def _vocabulary(network: Network) -> int:
    return next(p.shape[0] for name, p in network.named_parameters() if name.endswith("embed.weight"))


def _geometric_mean(values: Tensor) -> Tensor:
    """Over the rows of `(runs, n)`; the logarithm of 0 makes 0 of all."""
    return values.log().mean(0).exp()


@dataclass(frozen=True)
class StepFactor:
    """What one step back multiplies a gradient by, read off the cells of the same runs.

    Of an RNN, h = tanh(W h' + U x + b): `slope`, the root mean square of tanh's slope 1 − h², and `radius`, the largest
    absolute eigenvalue of W; their product estimates the factor. Of an LSTM and a GRU: `gate`, the mean of the gate
    that keeps the old state, and `widest`, that of the number of the state whose gate is open widest (geometric mean
    over the steps): what travels far travels there.
    """

    slope: float = math.nan
    radius: float = math.nan
    gate: float = math.nan
    widest: float = math.nan


def step_factor(kind: Kind, build: Build, ids: Sequence[int] | None, length: int, *, seed: int = 0) -> StepFactor:
    """Mean over the networks of `gradient_reach`.

    Raises:
        ValueError: for attention, which has no steps.
    """
    if kind == "attention":
        raise ValueError("Attention has no steps to multiply over.")
    found: list[Sequence[float]] = []
    for number in range(SEEDS):
        network, texts, _ = one_run(kind, build, ids, length, seed * SEEDS + number)
        assert isinstance(network, Recurrent)
        with torch.no_grad():
            if kind == "rnn":
                slopes = 1 - network.states(texts).square()
                radius = torch.linalg.eigvals(network.cell.weight_hh_l0).abs().max()
                found.append((float(slopes.square().mean().sqrt()), float(radius)))
            else:
                gates = keeping_gates(network, texts)
                found.append((float(gates.mean()), float(gates.log().mean((0, 1)).exp().max())))
    first, second = torch.tensor(found, dtype=torch.float64).mean(0).tolist()
    return StepFactor(slope=first, radius=second) if kind == "rnn" else StepFactor(gate=first, widest=second)


def keeping_gates(network: Recurrent, texts: Tensor) -> Tensor:
    """How much of the old state each step keeps `(B, T, width)`, 0 to 1: forget gate of an LSTM, update gate of a GRU.

    LSTM: c = f ⊙ c' + i ⊙ g (Gers et al. 2000); GRU in torch's form: h = z ⊙ h' + (1 − z) ⊙ n (Cho et al. 2014).
    """
    part = slice(network.width, 2 * network.width)
    weights = {name: parameter[part] for name, parameter in network.cell.named_parameters()}
    x, states = network.embed(texts), network.states(texts)
    before = F.pad(states[:, :-1], (0, 0, 1, 0))  # the state that each step found; the first one: zeros
    from_token = F.linear(x, weights["weight_ih_l0"], weights["bias_ih_l0"])
    from_state = F.linear(before, weights["weight_hh_l0"], weights["bias_hh_l0"])
    return torch.sigmoid(from_token + from_state)
