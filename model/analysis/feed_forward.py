"""One layer's feed-forward network in a run, neuron by neuron: what goes in, and what the curve makes of it.

Curves: GELU by Hendrycks & Gimpel 2016, arXiv:1606.08415; gated networks by Shazeer 2020, arXiv:2002.05202.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.residual import along
from model.feedforward import FeedForward
from model.trace import Trace


def _gelu_tanh(x: Tensor) -> Tensor:
    return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


# Written out, in the precision of what goes in: what the model computes with its library is checked against these.
FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: x.clamp_min(0),
    "gelu_erf": lambda x: x / 2 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": _gelu_tanh,
    "silu": lambda x: x / (1 + torch.exp(-x)),
}
_CURVE_OF = {"swiglu": "silu", "geglu": "gelu_tanh"}


def curve_of(activation: str) -> str:
    """The curve in a network of this kind (a value of `TransformerConfig.activation`): a key of `FORMULAS`."""
    return _CURVE_OF.get(activation, activation)


def on_curve(name: str, x: float) -> float:
    """One value of a curve."""
    return float(FORMULAS[name](torch.tensor(x, dtype=torch.float64)))


def draw_curves(low: float, high: float, count: int = 161) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """`count` places from `low` to `high`, and every curve at them; fp64."""
    x = torch.linspace(low, high, count, dtype=torch.float64)
    return x.numpy(), {name: formula(x).numpy() for name, formula in FORMULAS.items()}


def gelu_gap() -> float:
    """The largest distance of GELU's two forms from each other, between −6 and 6."""
    x = torch.linspace(-6, 6, 12_001, dtype=torch.float64)
    return float((FORMULAS["gelu_erf"](x) - FORMULAS["gelu_tanh"](x)).abs().max())


@dataclass(frozen=True)
class FeedForwardRun:
    """A layer's network in a run, T tokens, F neurons. On the CPU in fp64, but for keys, which stay as they are.

    `curve`: its curve, a key of `FORMULAS`. `inputs` `(T, d_model)`: what the network reads, after the norm.
    `keys` `(F, d_model)`: what each input is multiplied with to give `pre` `(T, F)`, the curve's input (plus
    `key_bias`). A gated network has a second product, `linear` `(T, F)`, with `linear_keys`; else both are None.
    `post` `(T, F)` is each neuron's activation: the curve's value, times `linear` where there is one. `rows`
    `(F, d_model)` is what each neuron adds per unit of activation, and `out` `(T, d_model)` all of it, plus `bias`.
    """

    layer: int
    curve: str
    inputs: Tensor
    keys: Tensor
    key_bias: Tensor | None
    linear_keys: Tensor | None
    pre: Tensor
    linear: Tensor | None
    post: Tensor
    rows: Tensor
    bias: Tensor | None
    out: Tensor

    def curved(self) -> Tensor:
        """`(T, F)` the curve's values, by its formula."""
        return FORMULAS[self.curve](self.pre)

    @property
    def curve_difference(self) -> float:
        """The largest distance of an activation of the run from the formula's, over all tokens and neurons."""
        expected = self.curved() if self.linear is None else self.curved() * self.linear
        return float((self.post - expected).abs().max())

    @property
    def sum_difference(self) -> float:
        """The largest distance of a number of the run's output from the sum of what all neurons add (and the bias)."""
        return float((self.summed() - self.out).abs().max())

    @property
    def relative_sum_difference(self) -> float:
        """`sum_difference` as a part of the largest number of the output."""
        return self.sum_difference / (float(self.out.abs().max()) or 1.0)

    def summed(self) -> Tensor:
        """`(T, d_model)` the sum of all neurons' contributions, and the bias."""
        summed: Tensor = self.post @ self.rows
        return summed if self.bias is None else summed + self.bias

    def contributions(self, position: int) -> Tensor:
        """`(F, d_model)` what each neuron adds at a token: its activation times its row."""
        return self.post[position][:, None] * self.rows

    def lengths(self, position: int) -> Tensor:
        """`(F,)` the Euclidean length of each contribution."""
        lengths: Tensor = self.post[position].abs() * self.rows.norm(dim=1)
        return lengths

    def shares(self, position: int) -> Tensor:
        """`(F,)` each contribution's component along the output, as a share; with the bias's they sum to 1."""
        return along(self.contributions(position), self.out[position])

    @property
    def open_shares(self) -> Tensor:
        """`(T,)` the share of neurons whose curve gets a number above 0: what ReLU would let through."""
        return (self.pre > 0).double().mean(1)


def feed_forward_run(run: Trace, layer: int) -> FeedForwardRun:
    """The network of one layer of a run's main stack.

    Raises:
        IndexError: if there is no such layer.
    """
    config = run.config
    if not 0 <= layer < config.n_layers:
        raise IndexError(f"Layer {layer}: this model has {config.n_layers}.")
    at = f"blocks.{layer}"

    def of(name: str) -> Tensor:
        return run[f"{at}.mlp.{name}"].cpu().double()

    network = run.module(f"{at}.mlp")
    assert isinstance(network, FeedForward)
    first = network.W_in if network.W_gate is None else network.W_gate
    bias = network.W_out.bias
    return FeedForwardRun(
        layer,
        curve_of(config.activation),
        _inputs(run, at),
        first.weight.detach(),
        None if first.bias is None else first.bias.detach(),
        network.W_in.weight.detach() if config.gated else None,
        of("hook_pre"),
        of("hook_pre_linear") if config.gated else None,
        of("hook_post"),
        network.W_out.weight.detach().T.cpu().double(),
        None if bias is None else bias.detach().cpu().double(),
        run[f"{at}.hook_mlp_out"].cpu().double(),
    )


def _inputs(run: Trace, at: str) -> Tensor:
    """What the network reads: the stream after the norm before it, which in a post-norm block ends attention's half."""
    cross = f"{at}.hook_resid_mid_cross" in run
    middle = "hook_resid_mid_cross" if cross else "hook_resid_mid"
    last = "ln_cross" if cross else "ln1"
    norm = run.module(f"{at}.{'ln2' if run.config.norm_place == 'pre' else last}")
    with torch.no_grad():
        inputs: Tensor = norm(run[f"{at}.{'hook_resid_pre' if run.config.parallel else middle}"][None])[0]
    return inputs.cpu().double()


@dataclass(frozen=True)
class LayerActivity:
    """How busy one layer's neurons are: `here` and `mean`, the share with a positive input to the curve at one token
    and over all; `half`, the fewest neurons whose contributions' lengths make up half of all lengths at the token.
    """

    here: float
    mean: float
    half: int


def activity(run: Trace, position: int) -> list[LayerActivity]:
    """Of every layer. Raises IndexError if there is no such position."""
    found = []
    for layer in range(run.config.n_layers):
        of = feed_forward_run(run, layer)
        lengths = of.lengths(position).sort(descending=True).values
        half = int((lengths.cumsum(0) < lengths.sum() / 2).sum()) + 1
        shares = of.open_shares
        found.append(LayerActivity(float(shares[position]), float(shares.mean()), half))
    return found
