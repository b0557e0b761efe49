"""A checkpoint of any format: a folder in the Hugging Face layout, a GGUF file, or a folder that holds one."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError

from model.chat import ChatTemplate
from model.config import TransformerConfig
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from model.zoo import chat_template
from model.zoo.copies import converted_folder, note_origin, remove_stale
from model.zoo.files import CheckpointError, TokenizerError, inside, read_text, shown
from model.zoo.gguf_file import GGUFWeights
from model.zoo.gguf_model import describe
from model.zoo.gguf_tokenizer import tokenizer_json
from model.zoo.readers import assemble, load_checkpoint, save_checkpoint
from model.zoo.store import becoming, locked

# Letters of scripts of which a tokenizer with a fault in what it does with the unknown lacks at least one.
_ANY_TEXT = "a 1 é 猫 🦊 \n ꙮ 𓀀"


def open_checkpoint(path: Path, device: torch.device, dtype: torch.dtype) -> tuple[Transformer, Tokenizer]:
    """The model and the tokenizer of a folder or a .gguf file.

    A GGUF file is dequantised once, into the models folder; from then on that copy is mapped, until the file changes.

    Raises:
        CheckpointError: what is missing or wrong.
    """
    remove_stale()
    gguf = gguf_of(path)
    if gguf is not None:
        return _converted(gguf, device, dtype)
    transformer = load_checkpoint(path, device, dtype)
    return transformer, _tokenizer(path, transformer.config)


def _tokenizer(folder: Path, config: TransformerConfig) -> Tokenizer:
    definition = read_text(inside(folder, "tokenizer.json"))
    try:
        return _fitting(Tokenizer(definition), config, folder.name)
    except TokenizerError:
        raise
    except ValueError as error:
        raise TokenizerError(f"The tokenizer of {folder.name} cannot be used: {error}") from None


def _fitting(tokenizer: Tokenizer, config: TransformerConfig, name: str) -> Tokenizer:
    """The tokenizer, if it can encode any text, and into tokens that the model embeds.

    Raises:
        CheckpointError: if not.
    """
    if tokenizer.text_vocab_size > config.vocab_size:
        raise TokenizerError(f"{name} has {tokenizer.text_vocab_size} tokens and embeds {config.vocab_size}.")
    try:
        ids = tokenizer.encode(_ANY_TEXT)
    except Exception as error:  # the library raises bare Exception
        reason = shown(str(error))
        raise TokenizerError(f"The tokenizer of {name} cannot encode every text: {reason}.") from None
    if max(ids, default=0) >= config.vocab_size:  # what it puts around a text
        raise TokenizerError(f"{name} has a token {max(ids)} and embeds {config.vocab_size}.")
    return tokenizer


def template_of(path: Path) -> ChatTemplate | None:
    """How an opened model wants dialogues written; None: it knows of none.

    Raises:
        CheckpointError: if the files cannot be used.
    """
    gguf = gguf_of(path)
    if gguf is None:
        return chat_template.of_folder(path)
    folder = converted_folder(gguf)
    return chat_template.of_folder(folder) if folder.is_dir() else chat_template.of_gguf(GGUFWeights(gguf).metadata)


def gguf_of(path: Path) -> Path | None:
    """The GGUF file that `path` is or, without a config.json beside it, holds; None: it is another kind.

    Raises:
        CheckpointError: if the folder holds several, or the file leads out of it.
    """
    if path.is_file():
        return inside(path.parent, path.name)
    found = sorted(file.name for file in path.glob("*.gguf"))
    if not found or (path / "config.json").exists():
        return None
    if len(found) > 1:
        raise CheckpointError(
            f"{path.name} holds several GGUF files; name one of them: {', '.join(map(shown, found[:5]))}."
        )
    return inside(path, found[0])


def prepare(path: Path) -> None:
    """Do now what the first loading would have to do: convert a GGUF file. Where there is no room for it, nothing.

    Raises:
        CheckpointError: if the file cannot be used.
    """
    gguf = gguf_of(path)
    if gguf is not None:
        with suppress(OSError, SafetensorError):
            _converted_once(gguf)


def _converted_once(path: Path) -> Path:
    folder = converted_folder(path)
    if not folder.is_dir():
        with locked(folder.name):
            if not folder.is_dir():
                _convert(path, folder)
    return folder


def _converted(path: Path, device: torch.device, dtype: torch.dtype) -> tuple[Transformer, Tokenizer]:
    try:
        folder = _converted_once(path)
        transformer = load_checkpoint(folder, device, dtype, mapped=True)  # ours, and never written again
        return transformer, _tokenizer(folder, transformer.config)
    except (OSError, SafetensorError):  # no room, or a folder that is not ours to write: it also goes without
        return _read(path, device, dtype)


def _convert(path: Path, folder: Path) -> None:
    with becoming(folder) as part:
        if shutil.disk_usage(part).free < 10 * path.stat().st_size:  # four bits become 32
            raise OSError("no room")
        transformer, tokenizer = _read(path, torch.device("cpu"), torch.float32)
        save_checkpoint(part, transformer, torch.float32)
        about = chat_template.config_of_gguf(GGUFWeights(path).metadata)
        (part / chat_template.CONFIG).write_text(json.dumps(about), encoding="utf-8")
        (part / "tokenizer.json").write_text(tokenizer.definition, encoding="utf-8")
        note_origin(path, part)


def _read(path: Path, device: torch.device, dtype: torch.dtype) -> tuple[Transformer, Tokenizer]:
    weights = GGUFWeights(path)
    config, family = describe(weights)
    tokenizer = _fitting(Tokenizer(tokenizer_json(weights.metadata)), config, path.name)
    return assemble(config, family, weights, device, dtype), tokenizer
