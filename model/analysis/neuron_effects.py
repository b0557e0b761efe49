"""What a neuron does to the guess: straight through the unembedding, and measured by turning it off.

Direct effects follow the residual stream's linear way to the logits (Elhage et al. 2021, A Mathematical Framework for
Transformer Circuits; for neurons Geva et al. 2022, arXiv:2203.14680).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.analysis.feed_forward import FeedForwardRun, feed_forward_run
from model.config import TransformerConfig
from model.feedforward import FeedForward
from model.language import LanguageModel
from model.norms import Normalization
from model.trace import Trace

RANKINGS = ("effect", "size")
Neuron = tuple[int, int]  # layer, number


@dataclass(frozen=True)
class DirectEffects:
    """What the neurons of one layer do, at one token, to the logits of the next, later layers left aside.

    A neuron adds `activation · row` to the stream. The final norm divides the stream by `scale` and multiplies it with
    its gain γ; a LayerNorm first takes off the mean. With the scale held at this run's own value that is linear, so
    each neuron has its part: `directions` `(F, d_model)` is what becomes of the rows there. Times the output matrix
    that makes logits. From these the mean over the vocabulary is taken off: what raises all logits alike changes no
    probability. (In a post-norm model the norms of the later blocks are on the way as well, each with its own scale;
    `scale` is then the product of all.)

    `activations` `(F,)`; `unembedding` `(V, d_model)` and `mean` `(d_model,)`, its mean row; everything on the CPU in
    fp32.
    """

    activations: Tensor
    directions: Tensor
    scale: float
    unembedding: Tensor
    mean: Tensor

    def per_unit(self, neuron: int) -> Tensor:
        """`(V,)` how much one unit of a neuron's activation raises each token's logit above their mean."""
        logits = self.unembedding @ self.directions[neuron]
        return logits - logits.mean()

    def of(self, neuron: int) -> Tensor:
        """`(V,)` how much a neuron raises each token's logit above their mean, with its activation of this run."""
        return self.activations[neuron] * self.per_unit(neuron)

    def raised(self, neuron: int, count: int) -> list[tuple[int, float]]:
        """The `count` tokens that one unit of a neuron's activation raises most, each with how much."""
        return _largest(self.per_unit(neuron), count)

    def lowered(self, neuron: int, count: int) -> list[tuple[int, float]]:
        """The `count` tokens that one unit of a neuron's activation lowers most, each with how much (negative)."""
        return [(token, -value) for token, value in _largest(-self.per_unit(neuron), count)]

    def on(self, token: int) -> Tensor:
        """`(F,)` how much each neuron raises one token's logit above the mean of all."""
        against_mean = self.unembedding[token] - self.mean
        return self.activations * (self.directions @ against_mean)


def has_direct_effects(config: TransformerConfig) -> bool:
    """Whether the way from the stream to the logits is linear but for norms: not so through the head of a masked model,
    which bends once more, and not for a model without logits.
    """
    return config.head == "linear"


def direct_effects(run: Trace, lm: LanguageModel, layer: int, position: int) -> DirectEffects:
    """The direct effects of one layer's neurons at a token.

    Raises:
        IndexError: if there is no such layer or position.
        ValueError: for a model that has none, see `has_direct_effects`.
    """
    if not 0 <= layer < run.config.n_layers:
        raise IndexError(f"Layer {layer}: this model has {run.config.n_layers}.")
    (effects,) = _direct_effects(run, lm, (layer,), position)
    return effects


def _direct_effects(run: Trace, lm: LanguageModel, layers: Iterable[int], position: int) -> Iterator[DirectEffects]:
    """Those of several layers: the output matrix, by far the largest part, is brought to fp32 once."""
    if not has_direct_effects(run.config):
        raise ValueError(f"{lm.name} has no straight way from a neuron to the logits.")
    if not 0 <= position < len(run.tokens):
        raise IndexError(f"Position {position}: this run has {len(run.tokens)} tokens.")
    matrix = lm.transformer.output_matrix.detach().cpu().float()
    mean = matrix.mean(0)
    for layer in layers:
        mlp = f"blocks.{layer}.mlp"
        network = run.module(mlp)
        assert isinstance(network, FeedForward)
        vectors = network.W_out.weight.detach().T.cpu().float()
        total = 1.0
        for name in _norms_behind(run, layer):
            norm = run.module(name)
            assert isinstance(norm, Normalization)
            scale = float(run[f"{name}.hook_scale"][position])
            if norm.centred:
                vectors = vectors - vectors.mean(1, keepdim=True)
            vectors = vectors * (norm.weight.detach().cpu().float() / scale)
            total *= scale
        activations = run[f"{mlp}.hook_post"][position].cpu().float()
        yield DirectEffects(activations, vectors, total, matrix, mean)


def _norms_behind(run: Trace, layer: int) -> list[str]:
    """The norms between what a layer's feed-forward adds and the logits."""
    config = run.config
    if config.norm_place == "pre":
        return ["ln_final"]
    names = [f"blocks.{layer}.ln2"]
    for later in range(layer + 1, config.n_layers):
        parts = ("ln1", "ln_cross", "ln2") if config.kind == "encoder_decoder" else ("ln1", "ln2")
        names += [f"blocks.{later}.{part}" for part in parts]
    return names


@dataclass(frozen=True)
class Ranking:
    """What the neurons of a layer are sorted by, `values` `(F,)`: the largest in size, of either sign, first."""

    values: Tensor

    def first(self, count: int) -> list[tuple[int, float]]:
        """The first `count` neurons, each with its value."""
        ids = self.values.abs().topk(min(count, len(self.values))).indices
        return [(int(i), float(self.values[i])) for i in ids]

    @property
    def total(self) -> float:
        """The sum over all neurons."""
        return float(self.values.sum())


def ranking_by_effect(effects: DirectEffects, token: int) -> Ranking:
    """Sort the neurons of a layer by how much each raises the logit of `token` directly."""
    return Ranking(effects.on(token).double())


def ranking_by_size(of: FeedForwardRun, position: int) -> Ranking:
    """Sort the neurons of a layer by the length of what each adds at a token."""
    return Ranking(of.lengths(position))


def strongest(run: Trace, lm: LanguageModel, position: int, order: str, layer: int | None = None) -> Neuron:
    """The neuron that comes first in an order (see `RANKINGS`) at a token, in one layer or in all.

    The effect is the one on the likeliest next token.

    Raises:
        ValueError: for an unknown order, and as `direct_effects` does.
    """
    if order not in RANKINGS:
        raise ValueError(f"The order is {order!r}; choose one of {', '.join(RANKINGS)}.")
    layers = range(run.config.n_layers) if layer is None else (layer,)
    if order == "effect":
        token = int(run.logits[position].argmax())
        ranked = (ranking_by_effect(effects, token) for effects in _direct_effects(run, lm, layers, position))
    else:
        ranked = (ranking_by_size(feed_forward_run(run, one), position) for one in layers)
    best, best_value = (layers[0], 0), -1.0
    for one, ranking in zip(layers, ranked, strict=True):
        ((number, value),) = ranking.first(1)
        if abs(value) > best_value:
            best, best_value = (one, number), abs(value)
    return best


@dataclass(frozen=True)
class Change:
    """The guess after one token, as it is (`before`) and with some neurons off (`after`): logits `(V,)`, fp64."""

    position: int
    before: Tensor
    after: Tensor

    @property
    def probabilities(self) -> tuple[Tensor, Tensor]:
        """Softmax of both."""
        return self.before.softmax(0), self.after.softmax(0)

    @property
    def raised(self) -> Tensor:
        """`(V,)` how far each token's logit rose, less the mean over the vocabulary."""
        change = self.after - self.before
        return change - change.mean()

    @property
    def bits(self) -> float:
        """How far the distribution moved: the Kullback–Leibler divergence of `after` from `before`, in bits."""
        p, q = self.before.log_softmax(0), self.after.log_softmax(0)
        return max(0.0, float((p.exp() * (p - q)).sum()) / math.log(2))

    def tokens(self, count: int, also: Iterable[int] = ()) -> list[int]:
        """The `count` likeliest tokens before and the `count` likeliest after, and `also`; by probability before."""
        p, q = self.probabilities
        ids = {*also}
        for one in (p, q):
            ids |= set(one.topk(min(count, len(one))).indices.tolist())
        return sorted(ids, key=lambda token: (-float(p[token]), token))


def switched_off(run: Trace, lm: LanguageModel, neurons: Sequence[Neuron], position: int) -> Change:
    """Run the same tokens with some neurons at 0 for every token, and compare the guess after one of them.

    The edit is bound to this call: whoever else uses the model, and whatever is run later, has nothing of it.

    Raises:
        IndexError: if there is no such neuron or position.
    """
    config = run.config
    for layer, number in neurons:
        if not 0 <= layer < config.n_layers or not 0 <= number < config.d_ff:
            raise IndexError(f"Neuron {number} of layer {layer} does not exist.")
    if not 0 <= position < len(run.tokens):
        raise IndexError(f"Position {position}: this run has {len(run.tokens)} tokens.")
    off: dict[str, list[int]] = {}
    for layer, number in neurons:
        off.setdefault(f"blocks.{layer}.mlp.hook_post", []).append(number)

    def silence(activations: Tensor, name: str) -> Tensor:
        activations[..., off[name]] = 0
        return activations

    before = run.logits[position].cpu().double()
    if not off:
        return Change(position, before, before)
    # The same pass as the run's own, to the last bit, but nothing of it is recorded: that takes a third of the time.
    ids, mask = run.inputs()
    with torch.no_grad(), lm.edit(dict.fromkeys(off, silence)):
        logits = lm.transformer(ids, mask, rule=run.rule, encoder_ids=run.source_ids())[0, position]
    return Change(position, before, logits.cpu().double())


def expected_change(run: Trace, lm: LanguageModel, neurons: Sequence[Neuron], position: int) -> Tensor:
    """`(V,)` how far the logits would rise without these neurons, were there only their direct effects."""
    total = torch.zeros(run.config.vocab_size)
    for layer in sorted({layer for layer, _ in neurons}):
        effects = direct_effects(run, lm, layer, position)
        for number in {number for one, number in neurons if one == layer}:
            total -= effects.of(number)
    return total


def _largest(values: Tensor, count: int) -> list[tuple[int, float]]:
    top = values.topk(min(count, len(values)))
    return list(zip(top.indices.tolist(), top.values.tolist(), strict=True))
