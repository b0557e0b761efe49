"""The tiles of one head of a run, one after the other, and how far they end from plain attention."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model.analysis.flash_checks import Difference, backward_difference, forward_difference
from model.analysis.flash_tiles import FlashAttention, Place, Tile
from model.kernels import Visible, explicit
from model.trace import Trace


@dataclass(frozen=True)
class Walk:
    """One head of T tokens, D numbers each, on the CPU.

    `tiles`: its steps, without batch and head axes. `skipped`: tiles with nothing visible. `out` `(T, D)`: the result.
    `difference`: its largest distance from plain attention in fp32. `shrinks_most`: step and query whose sums shrink
    most when a larger score turns up, the first of all where none do.
    """

    tiles: tuple[Tile, ...]
    skipped: tuple[Place, ...]
    out: Tensor
    difference: float
    shrinks_most: tuple[int, int]


@dataclass(frozen=True)
class Checks:
    """Of all heads of a layer. `forward`: see there. `backward`: relative distances for q, k and v."""

    forward: Difference
    backward: tuple[float, ...]


def walk(
    run: Trace, layer: int, head: int, blocks: tuple[int, int], *, order: str, causal: bool, dtype: str = "float32"
) -> Walk:
    """Go through the tiles of a head with the queries, keys and values that a run recorded.

    `causal` replaces what the run's own mask did; `dtype` is what the matrix products' inputs are rounded to.

    Raises:
        IndexError: if the model has no such layer or head.
    """
    config = run.config
    if not (0 <= layer < config.n_layers and 0 <= head < config.n_heads):
        raise IndexError(f"Layer {layer}, head {head}: this model has {config.n_layers} layers of {config.n_heads}.")
    q, k, v, visible = inputs(run, layer, causal)
    shared = head // config.queries_per_kv
    q, k, v = q[:, head : head + 1], k[:, shared : shared + 1], v[:, shared : shared + 1]
    if visible.bias is not None:
        visible = Visible(causal=visible.causal, mask=visible.mask, bias=visible.bias[:, head : head + 1])
    flash = _flash(q, k, v, visible, blocks, order, dtype)
    tiles = tuple(_alone(tile) for tile in flash)
    plain = explicit(q, k, v, visible).out
    return Walk(
        tiles,
        tuple(flash.skipped),
        flash.out[0, 0].float().cpu(),
        float((flash.out.float() - plain.float()).abs().max()),
        shrinks_most(tiles),
    )


def check_layer(
    run: Trace, layer: int, blocks: tuple[int, int], *, order: str, causal: bool, dtype: str = "float32"
) -> Checks:
    """Compare tiled with plain attention for all heads of a layer: forward in `dtype`, backward in fp32."""
    q, k, v, visible = inputs(run, layer, causal)
    forward = forward_difference(_flash(q, k, v, visible, blocks, order, dtype), q, k, v)
    return Checks(forward, tuple(backward_difference(q, k, v, visible, *blocks)))


def inputs(run: Trace, layer: int, causal: bool) -> tuple[Tensor, Tensor, Tensor, Visible]:
    """A layer's q, k and v in fp32, and what is visible with or without a causal mask."""
    q, k, v, visible = run.attention_inputs(f"blocks.{layer}.attn")
    if visible.mask is None:
        visible = replace(visible, causal=causal)
    return q.float(), k.float(), v.float(), visible


def liveliest_head(
    run: Trace, blocks: tuple[int, int], layer: int | None = None, head: int | None = None
) -> tuple[int, int]:
    """Layer and head in which larger scores turn up late: where the sums shrink most, all rows and tiles together.

    Tiles come by rows, under the run's own mask. `layer` and `head` narrow the search; the first of all where no sum
    ever shrinks.
    """
    best = (-1.0, 0, 0)
    for one in range(run.config.n_layers) if layer is None else [layer]:
        q, k, v, visible = inputs(run, one, run.config.causal)
        shrunk = torch.zeros(run.config.n_heads)
        for tile in _flash(q, k, v, visible, blocks, "rows", "float32"):
            shrunk += (1 - tile.factor).masked_fill(tile.factor == 0, 0.0).sum(-1)[0].cpu()
        other = int(shrunk.argmax()) if head is None else head
        best = max(best, (float(shrunk[other]), one, other), key=lambda found: found[0])
    return best[1:]


def shrinks_most(tiles: tuple[Tile, ...]) -> tuple[int, int]:
    """Which step, and which query in it, has the smallest factor above 0; the first of all where none is below 1."""
    found = (1.0, 0, tiles[0].place.first_query)
    for number, tile in enumerate(tiles):
        factors = tile.factor.masked_fill(tile.factor == 0, 1.0)
        smallest = int(factors.argmin())
        found = min(found, (float(factors[smallest]), number, tile.place.first_query + smallest))
    return found[1:]


def _flash(
    q: Tensor, k: Tensor, v: Tensor, visible: Visible, blocks: tuple[int, int], order: str, dtype: str
) -> FlashAttention:
    low: torch.dtype = getattr(torch, dtype)
    return FlashAttention(q, k, v, visible, block_q=blocks[0], block_k=blocks[1], order=order, dtype=low)


def _alone(tile: Tile) -> Tile:
    """The tile of the only head of the only text."""
    names = ("scores", "weights", "largest", "factor", "added", "total", "out")
    return replace(tile, **{name: getattr(tile, name)[0, 0].float().cpu() for name in names})
