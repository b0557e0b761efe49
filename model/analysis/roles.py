"""What a head looks for, as one number a role: how much of its attention goes to the keys that the role is about.

The roles are those that the field has names for: previous-token, duplicate-token and induction heads (Elhage et al.
2021, Olsson et al. 2022), heads that park their attention on the first token (Xiao et al. 2023), and local ones (Clark
et al. 2019). The sixth number, entropy, says how widely a head spreads whatever it looks at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.analysis.mixing import layer_patterns, masked_cells
from model.language import LanguageModel
from model.trace import Trace

SHARES = ("previous", "first", "same", "induction", "local")
ENTROPY = "entropy"
SCORES = (*SHARES, ENTROPY)
WINDOW = 3  # tokens to either side that are nearby
REPEATED = 25  # random tokens that are read twice


@dataclass(frozen=True)
class RoleScores:
    """One role, measured in every head of a run.

    `scores` `(layers, heads)`, fp32 on the CPU: shares from 0 to 1, the entropy in bits. `rows` are the queries that
    they are the mean of. `even` is the score of a head that gives all keys in its reach the same weight; of the
    entropy that is the largest there can be.
    """

    scores: Tensor
    rows: tuple[int, ...]
    even: float

    @property
    def strongest(self) -> tuple[int, int]:
        """Layer and head of the highest score."""
        layer, head = divmod(int(self.scores.argmax()), self.scores.shape[1])
        return layer, head


@dataclass(frozen=True)
class Survey:
    """What one walk through all heads of a run finds.

    `roles` are those that the text allows, by name. `below` is how many of the cells that the mask leaves open hold
    less than the weight that was asked for, over all heads, as a share of 1.
    """

    roles: dict[str, RoleScores]
    below: float


def role_cells(role: str, tokens: Sequence[int], visible: Tensor) -> Tensor:
    """`(T, T)` bool: the keys that a role is about, for each query, among those that `visible` `(T, T)` leaves open.

    "previous": the token right before. "first": the first token, for all others. "same": other places with the
    query's token. "induction": the tokens that followed the query's token elsewhere (never the query itself, nor its
    own follower). "local": the query and `WINDOW` tokens to either side, for queries that can also look further.

    Raises:
        ValueError: for any other role.
    """
    ids = torch.tensor(list(tokens))
    query, key = torch.arange(len(ids))[:, None], torch.arange(len(ids))
    elsewhere = (ids[:, None] == ids) & (query != key)
    if role == "previous":
        cells = key == query - 1
    elif role == "first":
        cells = (key == 0) & (query > 0)
    elif role == "same":
        cells = elsewhere
    elif role == "induction":
        cells = elsewhere.roll(1, dims=1) & (key > 0) & (query != key)
    elif role == "local":
        near = (query - key).abs() <= WINDOW
        cells = near & (~near & visible).any(-1, keepdim=True)
    else:
        raise ValueError(f"There is no role {role!r}; there are {', '.join(SHARES)}.")
    return cells & visible


def row_shares(pattern: Tensor, cells: Tensor) -> Tensor:
    """What the rows that have a key among `cells` `(T, T)` give to those keys: `(…, rows)` of a pattern `(…, T, T)`."""
    return (pattern * cells).sum(-1)[..., cells.any(-1)]


def row_entropies(pattern: Tensor, visible: Tensor) -> Tensor:
    """−Σ p·log₂ p in bits of the rows with a choice, two keys or more: `(…, rows)` of a pattern `(…, T, T)`."""
    nats: Tensor = torch.special.entr(pattern).sum(-1)
    return nats[..., visible.sum(-1) > 1] / math.log(2)


def measure_roles(run: Trace) -> dict[str, RoleScores]:
    """Every role that the run's text allows, by name; see `survey`."""
    return survey(run, 0).roles


def survey(run: Trace, weight: float) -> Survey:
    """Every role that the run's text allows, and how many cells hold less than `weight`.

    A text allows a role if at least one row counts: without a repeated token there is no "same" and no "induction".
    Patterns of long texts take longer to compute than to read, so there is one walk for all; one layer's are in memory
    at a time.

    Raises:
        ValueError: if the mask leaves no cell open.
    """
    visible = ~masked_cells(run)
    if not bool(visible.any()):
        raise ValueError("The mask leaves no cell open.")
    cells = {role: role_cells(role, run.tokens, visible) for role in SHARES}
    cells = {role: of for role, of in cells.items() if bool(of.any())}
    shares, entropies, below = [], [], 0
    if cells:  # the mean of the rows' sums is one product of the pattern with the cells, each ÷ the number of rows
        divided = torch.stack([(of / of.any(-1).sum()).flatten() for of in cells.values()], dim=1)
    for pattern in layer_patterns(run):
        if cells:
            shares.append(pattern.flatten(1) @ divided)  # (H, roles)
        entropies.append(row_entropies(pattern, visible).mean(-1))
        below += int(((pattern < weight) & visible).sum())
    even = visible / visible.sum(-1, keepdim=True).clamp_min(1)
    found = {}
    for number, (role, of) in enumerate(cells.items()):
        mean = float(row_shares(even, of).mean())
        found[role] = RoleScores(torch.stack([layer[:, number] for layer in shares]), _places(of.any(-1)), mean)
    with_choice = visible.sum(-1) > 1
    if bool(with_choice.any()):
        mean = float(row_entropies(even, visible).mean())
        found[ENTROPY] = RoleScores(torch.stack(entropies), _places(with_choice), mean)
    n_cells = int(visible.sum()) * run.config.n_layers * run.config.n_heads
    return Survey(found, below / n_cells)


def row_values(run: Trace, layer: int, head: int) -> dict[str, list[float]]:
    """What a head's scores are the means of: of each role one number for each of `RoleScores.rows`.

    Raises:
        KeyError, IndexError: if the run has no such layer, no such head.
    """
    visible = ~masked_cells(run)
    pattern = run[f"blocks.{layer}.attn.hook_pattern"][head].float().cpu()
    values = {role: row_shares(pattern, role_cells(role, run.tokens, visible)) for role in SHARES}
    values[ENTROPY] = row_entropies(pattern, visible)
    return {role: of.tolist() for role, of in values.items() if len(of)}


def repeated_random_tokens(lm: LanguageModel, most: int, seed: int = 0) -> list[int]:
    """`REPEATED` different random tokens, twice over: a text in which only repetition helps (Olsson et al. 2022).

    They are whole characters of the model's vocabulary, framed as its tokenizer frames texts; fewer where `most`
    positions have no room.
    """
    tokenizer = lm.tokenizer
    full, bare = tokenizer.encode("a"), tokenizer.encode("a", add_special=False)
    start = next((i for i in range(len(full)) if full[i : i + len(bare)] == bare), 0)
    before, after = full[:start], full[start + len(bare) :]
    count = min(REPEATED, (most - len(before) - len(after)) // 2)
    size = min(lm.config.vocab_size, tokenizer.vocab_size)
    drawn = torch.randperm(size, generator=torch.Generator().manual_seed(seed)).tolist()
    chosen: list[int] = []
    for token in drawn:
        if len(chosen) >= count:
            break
        if token not in tokenizer.special_ids and "\ufffd" not in tokenizer.decode([token]):
            chosen.append(token)
    return [*before, *chosen, *chosen, *after]


def _places(rows: Tensor) -> tuple[int, ...]:
    return tuple(int(place) for place in rows.nonzero()[:, 0])
