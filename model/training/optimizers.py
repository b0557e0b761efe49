"""Which optimizer trains which parameter."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


def make_optimizers(
    model: nn.Module, muon_lr: float, adamw_lr: float, weight_decay: float, use_muon: bool = True
) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) for the matrices of the blocks, AdamW (Loshchilov & Hutter 2017) for the rest.

    Muon makes every update orthogonal, which suits matrices that map one vector space to another; embeddings
    (a table of rows) and gains (vectors) get AdamW, without decay. Without `use_muon` AdamW trains all, at
    `adamw_lr`, and decays the matrices.

    Each group's peak learning rate is kept under "peak"; `set_rates` scales it.
    """
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and "blocks." in name]
    chosen = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    plain = {"params": rest, "lr": adamw_lr, "weight_decay": 0.0}
    if use_muon:
        groups: list[dict[str, object]] = [plain]
    else:
        groups = [{"params": matrices, "lr": adamw_lr, "weight_decay": weight_decay}, plain]
    optimizers: list[torch.optim.Optimizer] = [torch.optim.AdamW(groups, betas=(0.9, 0.95))]
    if use_muon and matrices:
        optimizers.insert(
            0,
            torch.optim.Muon(matrices, lr=muon_lr, weight_decay=weight_decay, momentum=0.95, adjust_lr_fn="original"),
        )
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return optimizers


def set_rates(optimizers: Iterable[torch.optim.Optimizer], factor: float) -> None:
    """Set every learning rate to `factor` times its peak."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * factor
