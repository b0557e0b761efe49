"""Reading and writing checkpoints in the Hugging Face layout. Only safetensors: nothing is ever unpickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

import torch
from safetensors.torch import save_file
from torch import Tensor

from model.config import TransformerConfig
from model.int8 import to_int8
from model.products import side_by_side
from model.transformer import Transformer
from model.zoo.families import family_of
from model.zoo.families.atlas import ATLAS
from model.zoo.families.family import Family, Held
from model.zoo.families.layouts import Shape
from model.zoo.families.llama import LLAMA
from model.zoo.files import CheckpointError, ConfigError, DamagedError, TensorsError, inside, read_json, shown
from model.zoo.safetensors_file import SafetensorsWeights

__all__ = ["CheckpointError", "load_checkpoint", "read_config", "save_checkpoint"]


class Weights(Protocol):
    """Tensors of a file, whatever its format: `shapes` by name, and each tensor when it is asked for."""

    shapes: dict[str, Shape]

    def check(self, name: str) -> None:
        """Raises: CheckpointError, if a tensor cannot be weights."""

    def read(self, name: str) -> Tensor:
        """The tensor, in any floating-point dtype."""


def read_config(folder: Path) -> tuple[TransformerConfig, Family]:
    """The config of a checkpoint folder and the family that names its tensors.

    Raises:
        CheckpointError: if there is no config, it is not JSON, or it describes no model that we can build.
    """
    path = inside(folder, "config.json")
    try:
        data = read_json(path)
        family = family_of(data)
        config = TransformerConfig.from_hf(data)
        return config.replace(**_more_ends(folder, config)).with_known_ids(), family
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ConfigError(f"The config of {folder.name} cannot be used: {error}") from None


def _more_ends(folder: Path, config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Tokens that end a text and that only generation_config.json tells of (the end of a turn in a dialogue)."""
    if not (folder / "generation_config.json").exists():
        return {}
    ends = read_json(inside(folder, "generation_config.json")).get("eos_token_id")
    ends = ends if isinstance(ends, list) else [] if ends is None else [ends]
    if not all(type(i) is int for i in ends):
        raise ValueError(f"eos_token_id of generation_config.json is {ends!r:.40}; it must be whole numbers.")
    return {"more_eos_ids": tuple(dict.fromkeys([*config.more_eos_ids, *(i for i in ends if i != config.eos_id)]))}


def load_checkpoint(
    folder: Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32, *, mapped: bool = False
) -> Transformer:
    """The Transformer that a folder's config.json and safetensors files describe, in evaluation mode.

    With `torch.int8` as dtype its matrices become integers (see `model.int8`), and all else is fp32.

    `mapped` is for files that nobody but us writes, see `SafetensorsWeights`.

    Every tensor of the files is used or known as ignorable, every parameter is filled with one of its own
    shape; all this is checked on the files' headers before any weight is read. Every weight is a finite number.

    Raises:
        CheckpointError: which file, tensor or shape is wrong.
    """
    config, family = read_config(folder)
    with SafetensorsWeights(folder, mapped) as weights:
        return assemble(config, family, weights, device, dtype)


def assemble(
    config: TransformerConfig, family: Family, weights: Weights, device: torch.device | str, dtype: torch.dtype
) -> Transformer:
    """The Transformer of a config with the weights of a file; see `load_checkpoint`.

    Raises:
        CheckpointError: which tensor or shape is wrong.
    """
    with torch.device("meta"):
        transformer = Transformer(config)
    read_as = torch.float32 if dtype == torch.int8 else dtype
    wanted = {name: tuple(p.shape) for name, p in transformer.named_parameters()}
    filled: dict[str, Tensor] = {}
    for theirs, held in _match(weights, wanted, family, config).items():
        tensor = weights.read(theirs)
        if not torch.stack(torch.aminmax(tensor)).isfinite().all():  # one pass, and NaN is both
            raise DamagedError(f"{shown(theirs)} holds values that are no finite numbers.")
        parts = held.layout.parts(tensor.to(device, read_as), config)
        filled |= {name: part.contiguous() for name, part in zip(held.ours, parts, strict=True)}
    transformer.load_state_dict(filled, strict=True, assign=True)
    if dtype == torch.int8:
        _turn_to_integers(transformer)
    if transformer.device.type == "cpu":
        side_by_side(transformer)
    return transformer.requires_grad_(False).eval()


def _turn_to_integers(transformer: Transformer) -> None:
    try:
        to_int8(transformer)
    except ValueError as error:
        raise TensorsError(str(error)) from None


def _match(weights: Weights, wanted: dict[str, Shape], family: Family, config: TransformerConfig) -> dict[str, Held]:
    """For every tensor of the file that is used, what it holds; or CheckpointError."""
    found: dict[str, str] = {}
    for theirs in weights.shapes:
        name = family.canonical(theirs)
        if name in found:
            raise TensorsError(f"The file has both {shown(found[name])} and {shown(theirs)}, which are the same.")
        found[name] = theirs
    held = family.held(wanted, config.n_layers)
    missing = [_full(family, name, found) for name in held if name not in found]
    if missing:
        raise TensorsError(f"The file lacks {missing[0]}" + _and_more(missing) + ".")
    extra = [found[n] for n in found if n not in held and not family.may_ignore(n, config)]
    if extra:
        raise TensorsError(
            f"The file has {shown(extra[0])}, which this model has no place for" + _and_more(extra) + "."
        )
    for name, part in held.items():
        shape = part.layout.shape([wanted[ours] for ours in part.ours], config)
        if weights.shapes[found[name]] != shape:
            raise TensorsError(f"{found[name]} has shape {weights.shapes[found[name]]}; the config asks for {shape}.")
        weights.check(found[name])
    return {found[name]: part for name, part in held.items()}


def _full(family: Family, name: str, found: dict[str, str]) -> str:
    """A missing name as the file would spell it."""
    prefixed = any(theirs != short and theirs.startswith(family.prefix) for short, theirs in found.items())
    return family.prefix + name if prefixed else name


def _and_more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def save_checkpoint(folder: Path, transformer: Transformer, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write config.json and model.safetensors into `folder`; each replaces an older one in one step.

    A config that Transformers' Llama can express is written in that dialect, any other in our own.
    """
    config = transformer.config
    try:
        family, data = LLAMA, LLAMA.to_hf(config)
    except ValueError:
        family, data = ATLAS, ATLAS.to_hf(config)
    data |= {"torch_dtype": str(dtype).removeprefix("torch.")}
    state = dict(transformer.named_parameters())
    tensors = {
        theirs: state[held.ours[0]].detach().to("cpu", dtype).contiguous()
        for theirs, held in family.held(state, config.n_layers).items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    weights, settings = folder / "model.safetensors", folder / "config.json"
    save_file(tensors, weights.with_suffix(".part"), metadata={"format": "pt"})
    settings.with_suffix(".part").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    weights.with_suffix(".part").replace(weights)
    settings.with_suffix(".part").replace(settings)
