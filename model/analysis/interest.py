"""Where a run does something worth looking at, so that a figure never opens on a blank."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from model.trace import Trace


class Place(NamedTuple):
    """One cell of one head's pattern."""

    layer: int
    head: int
    query: int
    key: int


def interesting_keys(n_tokens: int) -> Tensor:
    """`(n, n)` bool: keys that tell something about a head.

    Looking at oneself, at the token before, or at the first token (where heads with nothing to do park their
    attention, Xiao et al. 2023) is what most heads do most of the time, so those cells do not count; in
    texts too short for that, only oneself does not.
    """
    query, key = torch.arange(n_tokens)[:, None], torch.arange(n_tokens)
    if n_tokens < 4:
        return key < query
    return (key > 0) & (key < query - 1)


def most_interesting(run: Trace, layer: int | None = None, head: int | None = None) -> Place:
    """The head that looks hardest at a key that tells something, averaged over the queries; and its best cell.

    `layer` and `head` narrow the search to one layer, or to the heads of that number. For a single token, or where
    nothing counts, the last query's strongest key of the first head.

    Raises:
        KeyError, IndexError: if the run has no such layer, no such head.
    """
    counts = interesting_keys(len(run.tokens))
    best, best_score = (0, 0), -1.0
    for one in range(run.config.n_layers) if layer is None else (layer,):
        weight = (run[f"blocks.{one}.attn.hook_pattern"].cpu() * counts).amax(-1)  # (H, T)
        score = weight.mean(-1)
        strongest = int(score.argmax()) if head is None else head
        if float(score[strongest]) > best_score:
            best, best_score = (one, strongest), float(score[strongest])
    return strongest_cell(run, *best)


def strongest_cell(run: Trace, layer: int, head: int, query: int | None = None) -> Place:
    """The strongest telling cell of a head, or of one of its queries.

    Raises:
        IndexError: if the run has no such layer, head or query.
    """
    pattern = run[f"blocks.{layer}.attn.hook_pattern"][head].cpu()
    counted = pattern * interesting_keys(len(run.tokens))
    if query is None:
        query = int(counted.amax(-1).argmax()) if bool(counted.any()) else len(run.tokens) - 1
    row = counted[query] if bool(counted[query].any()) else pattern[query]
    return Place(layer, head, query, int(row.argmax()))
