"""The state of a run in one safetensors file: tensors as they are, everything else as JSON in its header."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

FILE = "checkpoint.safetensors"


def save_state(
    folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], scalars: dict[str, Any]
) -> None:
    """Write weights, optimizer states and `scalars` (JSON values).

    One file, written beside the old one, flushed to disk and then renamed: after a crash at any moment there is
    a whole checkpoint, the old or the new.
    """
    names = {id(p): name for name, p in model.named_parameters()}
    tensors = {f"model.{name}": p.detach() for name, p in model.named_parameters()}
    for i, optimizer in enumerate(optimizers):
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                tensors[f"optimizer.{i}.{key}.{names[id(parameter)]}"] = torch.as_tensor(value)
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{FILE}.part"
    save_file(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
        part,
        metadata={"scalars": json.dumps(scalars)},
    )
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(folder / FILE)


def read_scalars(folder: Path) -> dict[str, Any]:
    """The JSON part of a checkpoint.

    Raises:
        ValueError: if there is no checkpoint, or it is damaged.
    """
    try:
        with safe_open(folder / FILE, framework="pt") as file:
            scalars: dict[str, Any] = json.loads(file.metadata()["scalars"])
    except (OSError, SafetensorError, TypeError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"There is no checkpoint to resume from in {folder}: {error}") from None
    return scalars


def load_state(folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Any]:
    """Put a checkpoint back into a model and optimizers made the same way; returns the scalars.

    Raises:
        ValueError: if there is no checkpoint, it is damaged, or it is of another model or optimizer.
    """
    scalars = read_scalars(folder)
    parameters = dict(model.named_parameters())
    with safe_open(folder / FILE, framework="pt") as file:
        tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    saved = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    if {n: t.shape for n, t in saved.items()} != {n: p.shape for n, p in parameters.items()}:
        raise ValueError("The checkpoint is of a model with other parameters.")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(saved[name])
    for i, optimizer in enumerate(optimizers):
        own = {id(p) for group in optimizer.param_groups for p in group["params"]}
        optimizer.state.clear()
        for full in [name for name in tensors if name.startswith(f"optimizer.{i}.")]:
            key, name = full.removeprefix(f"optimizer.{i}.").split(".", 1)
            parameter = parameters[name]
            if id(parameter) not in own:
                raise ValueError("The checkpoint was written with another choice of optimizers.")
            # AdamW counts its steps in a CPU tensor; moments live where the parameter does.
            value = tensors[full] if key == "step" else tensors[full].to(parameter.device)
            optimizer.state[parameter][key] = value
    return scalars
