"""Networks that read a text into one state: torch's own RNN, LSTM and GRU, and beside them one layer of attention.

All read the same tokens and have about the same number of parameters. What is measured on them: see the modules
`recurrence_reach`, `recurrence_rounds`, `recurrence_time` and `recall_task`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn

from model.analysis.costs import parameter_count
from model.config import TransformerConfig
from model.hooks import edit, observe
from model.transformer import Transformer

Cell = Literal["rnn", "lstm", "gru"]
Kind = Literal["rnn", "lstm", "gru", "attention"]
CELLS: tuple[Cell, ...] = get_args(Cell)
KINDS: tuple[Kind, ...] = get_args(Kind)
HEADS = 2
MAX_WIDTH = 256
MAX_POSITIONS = 4_096
_MODULES = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
_BLOCKS = {"rnn": 1, "lstm": 4, "gru": 3}  # matrices of one size that a cell has: its gates and its candidate


@dataclass(frozen=True)
class Build:
    """What all four networks are built from.

    Every token has a vector of `hidden` numbers, which is also the width of the LSTM's state and of attention's
    stream; RNN and GRU get the width, attention the number of feed-forward neurons, that comes nearest to the LSTM's
    number of parameters. `gate_bias` is added to what keeps the state: the LSTM's forget gate and the GRU's update gate
    (Jozefowicz et al. 2015). `gain` multiplies the recurrent weights of the RNN.

    Raises:
        ValueError: for sizes that cannot be built.
    """

    hidden: int = 32
    vocabulary: int = 17
    gate_bias: float = 0.0
    gain: float = 1.0

    def __post_init__(self) -> None:
        if not 4 <= self.hidden <= MAX_WIDTH or self.hidden % (2 * HEADS):
            raise ValueError(f"The width is {self.hidden}; it must be a multiple of {2 * HEADS} up to {MAX_WIDTH}.")
        if self.vocabulary < 2:
            raise ValueError("There must be at least two tokens, to exchange one for the other.")


class Network(nn.Module, ABC):
    """Token ids in; a state after each of them, and a guess from the last. `width`: numbers in a state."""

    kind: Kind
    width: int

    @property
    def parameter_count(self) -> int:
        """How many numbers are learned."""
        return sum(parameter.numel() for parameter in self.parameters())

    @abstractmethod
    def states(self, ids: Tensor) -> Tensor:
        """The vector after each token: ids `(B, T)` to `(B, T, width)`."""

    @abstractmethod
    def forward(self, ids: Tensor) -> Tensor:
        """Logits `(B, vocabulary)` after the last of ids `(B, T)`."""

    @abstractmethod
    def inputs_and_logits(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """The token vectors `(B, T, hidden)` as a leaf whose gradient can be asked for, and `forward` of them."""


class Recurrent(Network):
    """Embedding, one of torch's recurrent cells, and a linear read-out of its last state."""

    def __init__(self, kind: Cell, build: Build, generator: torch.Generator) -> None:
        super().__init__()
        self.kind, self.width = kind, matched_width(kind, build)
        self.embed = nn.Embedding(build.vocabulary, build.hidden)
        self.cell: nn.RNNBase = _MODULES[kind](build.hidden, self.width, batch_first=True)
        self.out = nn.Linear(self.width, build.vocabulary)
        with torch.no_grad():  # the ranges that torch itself draws from, but not from its global generator
            nn.init.normal_(self.embed.weight, generator=generator)
            for part in (self.cell, self.out):
                for parameter in part.parameters():
                    end = 1 / math.sqrt(self.width)
                    nn.init.uniform_(parameter, -end, end, generator=generator)
            if kind == "rnn":
                self.cell.weight_hh_l0.mul_(build.gain)
            else:  # torch's order of gates: input, forget, … for the LSTM; reset, update, … for the GRU
                self.cell.bias_ih_l0[self.width : 2 * self.width] += build.gate_bias

    def states(self, ids: Tensor) -> Tensor:
        """See `Network`. An LSTM's state is what it hands out; beside it it keeps its cell, another vector."""
        return cast(Tensor, self.cell(self.embed(ids))[0])

    def forward(self, ids: Tensor) -> Tensor:
        """See `Network`."""
        return cast(Tensor, self.out(self.states(ids)[:, -1]))

    def inputs_and_logits(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """See `Network`."""
        x = self.embed(ids).detach().requires_grad_()
        return x, self.out(self.cell(x)[0][:, -1])


class OneLayer(Network):
    """Our own Transformer with a single block: causal self-attention and a feed-forward network."""

    def __init__(self, build: Build, generator: torch.Generator) -> None:
        super().__init__()
        self.kind, self.width = "attention", build.hidden
        self.transformer = Transformer(attention_config(build))
        self.transformer.reset_parameters(generator)

    def states(self, ids: Tensor) -> Tensor:
        """See `Network`: the stream as it leaves the block."""
        seen: dict[str, Tensor] = {}
        with observe(seen.__setitem__):
            self.transformer(ids, last_only=True)
        return seen["blocks.0.hook_resid_post"]

    def forward(self, ids: Tensor) -> Tensor:
        """See `Network`."""
        return cast(Tensor, self.transformer(ids, last_only=True)[:, -1])

    def inputs_and_logits(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """See `Network`."""
        leaves: list[Tensor] = []

        def leaf(x: Tensor, name: str) -> Tensor:
            leaves.append(x.detach().requires_grad_())
            return leaves[-1]

        with edit({"hook_embed": leaf}):
            logits = self(ids)
        return leaves[0], logits


def build_network(kind: Kind, build: Build, seed: int = 0) -> Network:
    """One network with fresh weights; the same seed gives the same weights.

    Raises:
        ValueError: for a kind that there is not.
    """
    if kind not in KINDS:
        raise ValueError(f"The kind is {kind!r}; it must be one of {', '.join(KINDS)}.")
    generator = torch.Generator().manual_seed(seed)
    return OneLayer(build, generator) if kind == "attention" else Recurrent(kind, build, generator)


def cell_parameters(kind: Cell, width: int, build: Build) -> int:
    """Parameters of embedding, cell and read-out with a state of `width` numbers.

    Each gate (and the candidate) of a cell has a matrix for the token, one for the state, and two biases, of which
    torch keeps the second for the sake of cuDNN.
    """
    cell = _BLOCKS[kind] * width * (build.hidden + width + 2)
    return build.vocabulary * build.hidden + cell + (width + 1) * build.vocabulary


def matched_width(kind: Cell, build: Build) -> int:
    """The width of the state with which a cell comes nearest to the LSTM's number of parameters."""
    target = cell_parameters("lstm", build.hidden, build)
    return min(range(1, 4 * build.hidden), key=lambda width: abs(cell_parameters(kind, width, build) - target))


@lru_cache(maxsize=64)
def attention_config(build: Build) -> TransformerConfig:
    """One block of attention, with as many feed-forward neurons as bring it nearest to the LSTM's parameters."""
    one = TransformerConfig(
        vocab_size=build.vocabulary,
        d_model=build.hidden,
        n_layers=1,
        n_heads=HEADS,
        n_kv_heads=HEADS,
        d_head=build.hidden // HEADS,
        d_ff=1,
        max_positions=MAX_POSITIONS,
        norm="layernorm",
        activation="gelu_erf",
        tied_embeddings=False,
    )
    count = parameter_count(one)
    per_neuron = parameter_count(one.replace(d_ff=2)) - count
    missing = cell_parameters("lstm", build.hidden, build) - count
    return one.replace(d_ff=1 + max(0, round(missing / per_neuron)))


def random_texts(vocabulary: int, texts: int, length: int, seed: int = 0) -> Tensor:
    """`(texts, length)` random ids."""
    return torch.randint(0, vocabulary, (texts, length), generator=torch.Generator().manual_seed(seed))


def renumbered(ids: tuple[int, ...]) -> tuple[int, ...]:
    """The tokens of a text as 0, 1, 2, … in the order in which they first appear; the same token stays the same."""
    numbers = {one: number for number, one in enumerate(dict.fromkeys(ids))}
    return tuple(numbers[one] for one in ids)
