"""What the format of a model's weights costs: bytes, and loss on a text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from model.config import TransformerConfig
from model.int8 import to_int8
from model.language import LanguageModel
from model.loading import DTYPES
from model.losses import token_losses
from model.transformer import Transformer

FORMATS = ("float32", "bfloat16", "int8")


@dataclass(frozen=True)
class FormatCost:
    """A model's weights in one format: `nbytes`, counted, and `bits`, the mean loss of a text's tokens in bits (None
    where the model predicts no next token, or the text has only one)."""

    nbytes: int
    bits: float | None


def format_cost(lm: LanguageModel, ids: Sequence[int]) -> FormatCost:
    """One pass of a loaded model over a text."""
    if lm.config.kind != "decoder" or lm.config.head == "none" or len(ids) < 2:
        return FormatCost(lm.nbytes, None)
    with torch.no_grad():
        logits = lm.transformer(torch.tensor([list(ids)], device=lm.device))[0]
    return FormatCost(lm.nbytes, float(token_losses(logits, ids).double().mean()) / math.log(2))


def format_nbytes(config: TransformerConfig, dtype: str) -> int:
    """Bytes of the weights that a model of this config has in a format, counted on a module without its numbers.

    Raises:
        ValueError: for a format that is none of `model.loading.DTYPES`.
    """
    if dtype not in DTYPES:
        raise ValueError(f"The format {dtype!r} is not known; choose one of {', '.join(DTYPES)}.")
    with torch.device("meta"):
        transformer = Transformer(config)
    if dtype == "int8":
        to_int8(transformer)
    else:
        transformer.to(DTYPES[dtype])
    return transformer.nbytes
