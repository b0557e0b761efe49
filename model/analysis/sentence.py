"""One vector for a whole text: the mean of its tokens' vectors (Reimers & Gurevych 2019)."""

from __future__ import annotations

import torch
from torch import Tensor

from model.trace import Trace


def sentence_embedding(run: Trace) -> Tensor:
    """`(d_model,)`, of length 1, so that the product of two is the cosine of the angle between them.

    The mean over all real tokens, [CLS] and [SEP] included, of a model that was trained for it (head "none").

    Raises:
        ValueError: for a model with a head, whose vectors were made to predict tokens.
    """
    if run.config.head != "none":
        raise ValueError("Only a model of sentences gives a vector for a text.")
    mean = run["hook_output"][run.padding :].float().mean(0)
    return torch.nn.functional.normalize(mean, dim=0)
