"""The tokenizer inside a GGUF file, written as a tokenizer.json.

Two kinds: "gpt2", byte-level BPE, whose way of cutting a text into words the file names (`tokenizer.ggml.pre`), and
"llama", SentencePiece's BPE, whose merges follow from the scores of its tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from model.zoo.files import TokenizerError

_UNKNOWN, _CONTROL, _USER, _BYTE = 2, 3, 4, 6  # token types
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_GPT2 = _BYTES | {"use_regex": True}
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _split(numbers: str) -> dict[str, Any]:
    """Words by a pattern of the authors of cl100k; `numbers`: how digits are cut."""
    pattern = {"Regex": _LETTERS + numbers + _REST}
    cut = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [cut, _BYTES | {"use_regex": False}]}


_DIGITS_FIRST = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, _GPT2]}
_LLAMA3, _QWEN2 = _split(r"\p{N}{1,3}"), _split(r"\p{N}")
# How a text is cut into words, by the name in the file.
PRE_TOKENIZERS: dict[str, dict[str, Any]] = {
    "default": _GPT2,
    "gpt-2": _GPT2,
    "phi-2": _GPT2,
    "olmo": _GPT2,
    "smollm": _DIGITS_FIRST,
    "starcoder": _DIGITS_FIRST,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
}


def tokenizer_json(metadata: Mapping[str, Any]) -> str:
    """The text of a tokenizer.json that cuts texts as the file's model expects.

    Raises:
        CheckpointError: for a kind or a pre-tokenizer that we do not know, or tokens that do not fit together.
    """
    kind, tokens = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens) or not tokens:
        raise TokenizerError("The file holds no tokens (tokenizer.ggml.tokens).")
    types = metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    if not isinstance(types, list) or len(types) != len(tokens):
        raise TokenizerError(f"The file has {len(tokens)} tokens, but not as many token types.")
    if kind == "gpt2":
        definition = _byte_level(metadata, tokens)
    elif kind == "llama":
        definition = _sentencepiece(metadata, tokens, types)
    else:
        raise TokenizerError(f"The file's tokenizer is of kind {kind!r:.60}; read are 'gpt2' and 'llama'.")
    definition |= {"version": "1.0", "truncation": None, "padding": None}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    definition["added_tokens"] = [
        {"id": i, "content": token, "special": types[i] != _USER, **special}
        for i, token in enumerate(tokens)
        if types[i] in (_CONTROL, _USER) or (kind == "llama" and types[i] == _UNKNOWN)
    ]
    definition["post_processor"] = _frame(metadata, tokens)
    return json.dumps(definition, ensure_ascii=False)


def _byte_level(metadata: Mapping[str, Any], tokens: list[str]) -> dict[str, Any]:
    merges, name = metadata.get("tokenizer.ggml.merges"), metadata.get("tokenizer.ggml.pre", "default")
    if not isinstance(merges, list) or not all(isinstance(m, str) and m.count(" ") == 1 for m in merges):
        raise TokenizerError("The file's merges (tokenizer.ggml.merges) cannot be used.")
    if name not in PRE_TOKENIZERS:
        raise TokenizerError(
            f"The file cuts texts the way of {name!r:.60}, which we do not know; known are {', '.join(PRE_TOKENIZERS)}."
        )
    return {
        "normalizer": {"type": "NFC"} if PRE_TOKENIZERS[name] is _QWEN2 else None,
        "pre_tokenizer": PRE_TOKENIZERS[name],
        "decoder": _BYTES | {"use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": _vocabulary(tokens),
            "merges": [merge.split(" ") for merge in merges],
            "ignore_merges": PRE_TOKENIZERS[name] is _LLAMA3,  # a word that is a token is taken whole
        },
    }


def _sentencepiece(metadata: Mapping[str, Any], tokens: list[str], types: list[int]) -> dict[str, Any]:
    scores = metadata.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        raise TokenizerError(f"The file has {len(tokens)} tokens, but not as many scores.")
    vocabulary = _vocabulary(tokens)
    mergeable = {token: i for token, i in vocabulary.items() if types[i] not in (_CONTROL, _UNKNOWN, _BYTE)}
    # SentencePiece joins, at each step, the two neighbours whose union has the best score.
    found = [
        (-scores[i], i, token[:cut], token[cut:])
        for token, i in mergeable.items()
        for cut in range(1, len(token))
        if token[:cut] in mergeable and token[cut:] in mergeable
    ]
    space = {"String": " "}
    prepend = [{"type": "Prepend", "prepend": "▁"}] if metadata.get("tokenizer.ggml.add_space_prefix", True) else []
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prepend else []
    unknown = next((tokens[i] for i, kind in enumerate(types) if kind == _UNKNOWN), None)
    return {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [*prepend, {"type": "Replace", "pattern": space, "content": "▁"}],
        },
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                *strip,
            ],
        },
        "model": {
            "type": "BPE",
            "vocab": vocabulary,
            "merges": [[left, right] for *_, left, right in sorted(found)],
            "unk_token": unknown,
            "fuse_unk": True,
            "byte_fallback": True,
        },
    }


def _vocabulary(tokens: list[str]) -> dict[str, int]:
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise TokenizerError("The file has the same token twice.")
    return vocabulary


def _frame(metadata: Mapping[str, Any], tokens: list[str]) -> dict[str, Any] | None:
    """The tokens that the file wants before and after every text."""
    parts: list[dict[str, Any]] = [{"Sequence": {"id": "A", "type_id": 0}}]
    names: dict[str, Any] = {}
    for key, default, place in (("bos", metadata["tokenizer.ggml.model"] == "llama", 0), ("eos", False, 2)):
        token = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if not metadata.get(f"tokenizer.ggml.add_{key}_token", default) or token is None:
            continue
        if not isinstance(token, int) or not 0 <= token < len(tokens):
            raise TokenizerError(f"The file's {key} token is {token!r:.40}; it has {len(tokens)} tokens.")
        names[tokens[token]] = {"id": tokens[token], "ids": [token], "tokens": [tokens[token]]}
        parts.insert(place, {"SpecialToken": {"id": tokens[token], "type_id": 0}})
    if not names:
        return None
    return {"type": "TemplateProcessing", "single": parts, "pair": parts, "special_tokens": names}
