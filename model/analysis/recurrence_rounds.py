"""How many steps must run one after another until the last state is finished: found by following one token.

A round is all that can be done at once: every place computes its state from what its neighbours have so far. In the
first token's vector there is NaN (not a number), and NaN makes NaN of all that it goes into: so it marks, without any
rounding, how far that token has come after each round.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.analysis.recurrence import Network, OneLayer, Recurrent
from model.hooks import edit, observe


@torch.no_grad()
def rounds(network: Network, length: int) -> Tensor:
    """Which places know of the first token after each round: `(rounds, length)`, true where they do.

    The last row is the first one in which the last place does. An RNN, LSTM or GRU takes as many rounds as the text
    has tokens, a Transformer as many as it has layers.

    Raises:
        ValueError: for an empty text.
    """
    if length < 1:
        raise ValueError("A text has at least one token.")
    return _stepwise(network, length) if isinstance(network, Recurrent) else _layerwise(network, length)


def _stepwise(network: Recurrent, length: int) -> Tensor:
    """Each round runs torch's cell once for all places, as so many texts of one token."""
    x = torch.zeros(length, 1, network.cell.input_size)
    x[0] = torch.nan
    state = torch.zeros(1, length, network.width)
    memory = state.clone()  # an LSTM's cell
    found: list[Tensor] = []
    while not found or not found[-1][-1]:
        before = [nn.functional.pad(part[:, :-1], (0, 0, 1, 0)) for part in (state, memory)]
        if isinstance(network.cell, nn.LSTM):
            _, (state, memory) = network.cell(x, (before[0], before[1]))
        else:
            _, state = network.cell(x, before[0])
        found.append(state[0].isnan().any(-1))
        if len(found) > length:
            raise AssertionError("the token never arrived")
    return torch.stack(found)


def _layerwise(network: Network, length: int) -> Tensor:
    """Each layer reads what the one below has of all places."""
    assert isinstance(network, OneLayer)

    def mark(x: Tensor, name: str) -> Tensor:
        marked = torch.zeros_like(x)
        marked[:, 0] = torch.nan
        return marked

    seen: dict[str, Tensor] = {}
    with edit({"hook_embed": mark}), observe(seen.__setitem__):
        network.transformer(torch.zeros(1, length, dtype=torch.long), last_only=True)
    layers = range(network.transformer.config.n_layers)
    found = torch.stack([seen[f"blocks.{layer}.hook_resid_post"][0].isnan().any(-1) for layer in layers])
    arrived = found[:, -1].nonzero().flatten()
    if not len(arrived):
        raise AssertionError("the token never arrived")
    return found[: int(arrived[0]) + 1]
