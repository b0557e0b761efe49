"""From a name or a path to a model that is ready."""

from __future__ import annotations

from pathlib import Path

import torch

from model.devices import best_device
from model.language import LanguageModel
from model.zoo.catalog import CATALOG, available
from model.zoo.checkpoint import open_checkpoint, template_of
from model.zoo.files import CheckpointError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
DTYPES |= {"int8": torch.int8}  # matrices alone, see `model.int8`


def load(name: str | Path = "storyteller", device: str = "auto", dtype: str = "float32") -> LanguageModel:
    """Load a model by its id, or a checkpoint by its path.

    Args:
        name: an id that `python -m model list` shows (the name of a model in the operator's folder is one, too),
            a folder with config.json, tokenizer.json and safetensors files, or a .gguf file.
        device: "auto", "cpu", "cuda", "mps" or any that torch knows.
        dtype: "float32", "bfloat16" or "float16", or "int8": integers for matrices, and fp32 for all else.

    Raises:
        CheckpointError: if there is no such model, or its files cannot be used.
        ValueError: for a dtype or device that is not one of these.
    """
    if dtype not in DTYPES:
        raise ValueError(f"The dtype is {dtype!r}; choose one of {', '.join(DTYPES)}.")
    try:
        target = best_device() if device == "auto" else torch.device(device)
    except RuntimeError:
        raise ValueError(f"The device is {device!r}; choose auto, cpu, cuda or mps.") from None
    try:
        torch.empty(0, device=target)
    except (RuntimeError, AssertionError):  # by build and backend
        raise ValueError(f"The device {device!r} is not there on this machine; choose auto or cpu.") from None
    id_, path = _find(name)
    transformer, tokenizer = open_checkpoint(path, target, DTYPES[dtype])
    chat = template_of(path) if transformer.config.kind == "decoder" else None
    return LanguageModel(id_, transformer, tokenizer, str(path.resolve()), chat)


def _find(name: str | Path) -> tuple[str, Path]:
    """The id and the place of a model."""
    entry = CATALOG.get(str(name)) or available().get(str(name))
    if entry is None:
        path = Path(name)
        if not str(name) or not (path.is_dir() or (path.suffix == ".gguf" and path.is_file())):
            raise CheckpointError(f"There is no model {str(name)!r}. Known are {', '.join(CATALOG)}, or give a folder.")
        return path.name, path
    if not entry.ready:
        raise CheckpointError(
            f"{entry.id} is not on this machine yet; `python -m model fetch {entry.id}` brings it "
            f"({entry.nbytes / 1e6:,.0f} MB)."
        )
    return entry.id, entry.folder
