"""Reading and writing checkpoints in the Hugging Face layout. Only safetensors: nothing is ever unpickled."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from model.config import TransformerConfig
from model.decode import side_by_side
from model.transformer import Transformer
from model.zoo.families import family_of
from model.zoo.families.atlas import ATLAS
from model.zoo.families.family import Family
from model.zoo.families.llama import LLAMA

_FLOATS = {"F64", "F32", "F16", "BF16"}  # as the header of a safetensors file spells them


class CheckpointError(ValueError):
    """A checkpoint that cannot be loaded; the message says why, in one sentence."""


def read_config(folder: Path) -> tuple[TransformerConfig, Family]:
    """The config of a checkpoint folder and the family that names its tensors.

    Raises:
        CheckpointError: if there is no config, it is not JSON, or it describes no model that we can build.
    """
    path = folder / "config.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        family = family_of(data)
        return TransformerConfig.from_hf(data), family
    except OSError:
        raise CheckpointError(f"{folder.name} has no config.json that can be read.") from None
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise CheckpointError(f"The config of {folder.name} cannot be used: {error}") from None


def load_checkpoint(
    folder: Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> Transformer:
    """The Transformer that a folder's config.json and model.safetensors describe, in evaluation mode.

    Every tensor of the file is used or known as ignorable, every parameter is filled with one of its own
    shape; all this is checked on the file's header before any weight is read.

    Raises:
        CheckpointError: which file, tensor or shape is wrong.
    """
    config, family = read_config(folder)
    with torch.device("meta"):
        transformer = Transformer(config)
    wanted = {name: tuple(p.shape) for name, p in transformer.named_parameters()}
    path = folder / "model.safetensors"
    weights: dict[str, Tensor] = {}
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
            used = _match(shapes, wanted, family, config)
            for theirs in used:
                if slices[theirs].get_dtype() not in _FLOATS:
                    raise CheckpointError(f"{theirs} holds {slices[theirs].get_dtype()}, not floating-point weights.")
            for theirs, ours in used.items():
                weights[ours] = file.get_tensor(theirs).to(dtype)
    except FileNotFoundError:
        raise CheckpointError(f"{folder.name} has no model.safetensors.") from None
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path.name} is damaged or not a safetensors file: {error}") from None
    transformer.load_state_dict(weights, strict=True, assign=True)
    if torch.device(device).type == "cpu":
        side_by_side(transformer)
    return transformer.requires_grad_(False).eval()


def _match(
    found: dict[str, tuple[int, ...]],
    wanted: dict[str, tuple[int, ...]],
    family: Family,
    config: TransformerConfig,
) -> dict[str, str]:
    """File name to our name for every parameter, or CheckpointError."""
    used = family.names(wanted, config.n_layers)
    missing = [theirs for theirs in used if theirs not in found]
    if missing:
        raise CheckpointError(f"The file lacks {missing[0]}" + _and_more(missing) + ".")
    # A tied output matrix may be stored as well; it is the embedding once more.
    spare = {"lm_head.weight"} if config.tied_embeddings else set()
    extra = [n for n in found if n not in used and n not in spare and not n.endswith(family.ignored)]
    if extra:
        raise CheckpointError(f"The file has {extra[0]}, which this model has no place for" + _and_more(extra) + ".")
    for theirs, ours in used.items():
        if found[theirs] != wanted[ours]:
            raise CheckpointError(f"{theirs} has shape {found[theirs]}; the config asks for {wanted[ours]}.")
    return used


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
        theirs: state[ours].detach().to("cpu", dtype).contiguous()
        for theirs, ours in family.names(state, config.n_layers).items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    weights, settings = folder / "model.safetensors", folder / "config.json"
    save_file(tensors, weights.with_suffix(".part"), metadata={"format": "pt"})
    settings.with_suffix(".part").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    weights.with_suffix(".part").replace(weights)
    settings.with_suffix(".part").replace(settings)
