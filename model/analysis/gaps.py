"""A hidden token, and what a masked language model puts in its place (Devlin et al. 2018, arXiv:1810.04805)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from model.language import LanguageModel
from model.trace import Trace

_MASKS = ("[MASK]", "<mask>")  # BERT's spelling and RoBERTa's


def mask_id(lm: LanguageModel) -> int | None:
    """The token that stands for a hidden one; None for a model that was not trained to fill gaps."""
    if lm.config.kind != "encoder" or lm.config.head == "none":
        return None
    for spelling in _MASKS:
        ids = lm.tokenizer.encode(spelling, parse_special=True, add_special=False)
        if len(ids) == 1 and ids[0] in lm.tokenizer.special_ids:
            return ids[0]
    return None


@dataclass(frozen=True)
class Gap:
    """What a model expects at `position`: the likeliest `ids` with their `probabilities`, descending.

    `hidden` is the token that stands there in the text, with its `probability` and how many tokens the model held
    more probable (`rank` 0: its first guess).
    """

    position: int
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]
    hidden: int
    probability: float
    rank: int


def with_gap(lm: LanguageModel, ids: Sequence[int], position: int) -> tuple[int, ...]:
    """The same tokens with the one at `position` hidden.

    Raises:
        ValueError: for a model without a token for that.
        IndexError: for a position that there is not.
    """
    mask = mask_id(lm)
    if mask is None:
        raise ValueError(f"{lm.name} fills no gaps.")
    if not 0 <= position < len(ids):
        raise IndexError(f"Position {position}: there are {len(ids)} tokens.")
    return (*ids[:position], mask, *ids[position + 1 :])


def gap(run: Trace, position: int, hidden: int, count: int = 6) -> Gap:
    """The softmax over the whole vocabulary (fp32) where a token is hidden; `run` read the text with the gap."""
    probabilities = run.logits[position].float().softmax(-1).cpu()
    values, ids = probabilities.topk(min(count, len(probabilities)))
    rank = int((probabilities > probabilities[hidden]).sum())
    return Gap(position, tuple(ids.tolist()), tuple(values.tolist()), hidden, float(probabilities[hidden]), rank)


def telling_gap(lm: LanguageModel, ids: Sequence[int], positions: Sequence[int]) -> int:
    """Which of `positions` to hide, so that there is something to see: a token that the model gets right without being
    sure of it.

    Each is hidden in turn. Of those that are the model's first guess, it is the one with the greatest −p·log p; where
    none is, the most probable.

    Raises:
        ValueError: without a position, or for a model that fills no gaps.
    """
    if not positions:
        raise ValueError("There is no token to hide.")
    rows = torch.tensor([with_gap(lm, ids, position) for position in positions], device=lm.device)
    only = torch.zeros_like(rows, dtype=torch.bool)
    only[range(len(positions)), list(positions)] = True
    with torch.no_grad():
        probabilities = lm.transformer(rows, only=only).float().softmax(-1).cpu()  # (positions, vocab_size)
    hidden = torch.tensor([ids[position] for position in positions])
    own = probabilities.gather(1, hidden[:, None])[:, 0]
    right = (probabilities.argmax(-1) == hidden).tolist()

    def interest(place: int) -> tuple[bool, float]:
        p = float(own[place])
        return (right[place], -p * math.log(p) if right[place] and p > 0 else p)

    return positions[max(range(len(positions)), key=interest)]
