"""The residual stream of a run: how long its vectors are, and what each half of a block adds (Elhage et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from model.trace import Trace


@dataclass(frozen=True)
class BlockSum:
    """One block's sum: entering + attention + feed-forward = leaving.

    Each `(T, d_model)`, fp64 on the CPU. A post-norm block normalises after each of its two sums: `middle` is then
    what its first norm makes of entering + attention, and `leaving` is the second sum, before its second norm.
    `normed_middle` says so.
    """

    entering: Tensor
    attention: Tensor
    middle: Tensor
    feed_forward: Tensor
    leaving: Tensor
    first_sum: Tensor
    normed_middle: bool

    @property
    def difference(self) -> float:
        """The largest distance of a number of the run's own sums from the parts added up here, in fp64."""
        carried = self.middle if self.normed_middle else self.entering + self.attention
        first = (self.entering + self.attention - self.first_sum).abs().max()
        return float(torch.maximum(first, (carried + self.feed_forward - self.leaving).abs().max()))

    @property
    def relative_difference(self) -> float:
        """`difference` as a part of the largest number in the sum."""
        return self.difference / (float(self.leaving.abs().max()) or 1.0)

    def parts(self) -> Tensor:
        """`(3, T, d_model)`: what came in, what attention added, what the feed-forward added; they sum to `leaving`.

        After a norm in between, the first two are what it made of them: scaled alike, its shift with what came in.
        """
        if not self.normed_middle:
            return torch.stack([self.entering, self.attention, self.feed_forward])
        # A norm is no sum, so the two are parted as their sum was: along it, by their shares.
        share = along(self.attention, self.first_sum)[:, None]
        return torch.stack([self.middle * (1 - share), self.middle * share, self.feed_forward])


def block_sum(run: Trace, layer: int) -> BlockSum:
    """The sum of one block of a run.

    Raises:
        ValueError: for an encoder-decoder, whose blocks add a third part.
        IndexError: if the run has no such layer.
    """
    config = run.config
    if config.kind == "encoder_decoder":
        raise ValueError("A block of an encoder-decoder has three parts; this sum has two.")
    if not 0 <= layer < config.n_layers:
        raise IndexError(f"Layer {layer}: this model has {config.n_layers}.")

    def of(name: str) -> Tensor:
        return run[f"blocks.{layer}.{name}"].cpu().double()

    first, post = of("hook_resid_mid"), config.norm_place == "post"
    middle = _normed(run, f"blocks.{layer}.ln1", "hook_resid_mid", layer) if post else first
    return BlockSum(
        of("hook_resid_pre"), of("hook_attn_out"), middle, of("hook_mlp_out"), of("hook_resid_post"), first, post
    )


def along(part: Tensor, whole: Tensor) -> Tensor:
    """How much of `whole` is `part`: its component along it, as a share. `(…, d)` to `(…)`; 0 where `whole` is 0.

    Shares of parts that sum to the whole sum to 1. One is negative where the part points against the whole.
    """
    square = whole.square().sum(-1)
    return torch.where(square > 0, (part * whole).sum(-1) / square.clamp_min(torch.finfo(whole.dtype).tiny), 0)


@dataclass(frozen=True)
class Stream:
    """A whole run's stream.

    `lengths`: `(2 · n_layers + 1, T)`, Euclidean, as the stream enters and after each half-block. `added`:
    `(2 · n_layers, T)`, lengths of what each half-block added. `shares`: `(n_layers, 3, T)`, how much of what leaves
    a block came in, is attention's and is the feed-forward's, see `along`. `differences` and
    `relative_differences`: of each block's sum, see `BlockSum`.
    """

    lengths: Tensor
    added: Tensor
    shares: Tensor
    differences: tuple[float, ...]
    relative_differences: tuple[float, ...]

    @property
    def mean_shares(self) -> Tensor:
        """`(n_layers, 3)`: the mean over the tokens."""
        return self.shares.mean(-1)

    def rewritten_most(self, position: int) -> tuple[int, int]:
        """Layer and half (0 attention, 1 feed-forward) with the largest share at a token."""
        shares = self.shares[:, 1:, position]
        layer, half = divmod(int(shares.argmax()), 2)
        return layer, half


def stream(run: Trace) -> Stream:
    """Measure the stream of a run after each half-block. In a post-norm model that is after the norm.

    Raises:
        ValueError: for an encoder-decoder.
    """
    sums = [block_sum(run, layer) for layer in range(run.config.n_layers)]
    if not sums:
        raise ValueError("A model without blocks adds nothing to its stream.")
    carried = [sums[0].entering]
    for layer, one in enumerate(sums):
        last = layer + 1 == len(sums)
        post = one.normed_middle
        end = _normed(run, f"blocks.{layer}.ln2", "hook_resid_post", layer) if post and last else one.leaving
        carried += [one.middle, end if last or not post else sums[layer + 1].entering]
    return Stream(
        torch.stack([x.norm(dim=-1) for x in carried]),
        torch.stack([x.norm(dim=-1) for one in sums for x in (one.attention, one.feed_forward)]),
        torch.stack([along(one.parts(), one.leaving) for one in sums]),
        tuple(one.difference for one in sums),
        tuple(one.relative_difference for one in sums),
    )


def _normed(run: Trace, module: str, hook: str, layer: int) -> Tensor:
    with torch.no_grad():
        out: Tensor = run.module(module)(run[f"blocks.{layer}.{hook}"][None])[0]
    return out.cpu().double()
