"""Where a model's chat template stands: in tokenizer_config.json, in a file of its own, or in a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.chat import ChatTemplate
from model.zoo.files import CheckpointError, inside, read_json, read_text

CONFIG, ALONE = "tokenizer_config.json", "chat_template.jinja"
_GGUF_TOKENS = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}  # Transformers' name and GGUF's


def of_folder(folder: Path) -> ChatTemplate | None:
    """The template of a folder in the Hugging Face layout; None: it has none that can be read."""
    data: dict[str, Any] = {}
    try:
        if (folder / CONFIG).exists():
            data = read_json(inside(folder, CONFIG))
        if (folder / ALONE).exists():
            data["chat_template"] = read_text(inside(folder, ALONE))
    except CheckpointError:
        return None
    return _of(data)


def of_gguf(metadata: Mapping[str, Any]) -> ChatTemplate | None:
    """The template of a GGUF file; None: it has none."""
    return _of(config_of_gguf(metadata))


def _of(data: Mapping[str, Any]) -> ChatTemplate | None:
    source = data.get("chat_template")
    if isinstance(source, list):  # several by name
        named = {one.get("name"): one.get("template") for one in source if isinstance(one, dict)}
        source = named.get("default")
    if not isinstance(source, str):
        return None
    spelled = {name: _spelling(value) for name, value in data.items() if name.endswith("_token")}
    return ChatTemplate(source, tuple((name, text) for name, text in spelled.items() if text is not None))


def _spelling(token: Any) -> str | None:
    """A token as a tokenizer_config.json names it: its text, or an object that holds it."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def config_of_gguf(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The tokenizer_config.json that says what a GGUF file does about its template; empty: it has none."""
    source, tokens = metadata.get("tokenizer.chat_template"), metadata.get("tokenizer.ggml.tokens", [])
    if not isinstance(source, str):
        return {}
    found = {"chat_template": source}
    for name, theirs in _GGUF_TOKENS.items():
        number = metadata.get(f"tokenizer.ggml.{theirs}_token_id")
        if isinstance(number, int) and 0 <= number < len(tokens):
            found[f"{name}_token"] = tokens[number]
    return found
