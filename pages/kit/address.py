"""The selection as parameters of the address, and back."""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import streamlit as st

from pages.kit import limits, notices, plans
from pages.kit.choices import DEFAULT_TEXT, Selection
from pages.kit.prose import LANGUAGES

_DIGITS = 6  # of numbers in the address: enough to tell two settings apart, without 0.30000000000000004
_PLACES = ("layer", "head", "query", "key")
_PARAMETERS = {f.name: "token" if f.name == "query" else f.name for f in fields(Selection)}


def preferred_language() -> str:
    """The language of the visitor's browser, if the app speaks it; English otherwise."""
    locale = st.context.locale or ""
    return next((lang for lang in LANGUAGES if locale.lower().startswith(lang)), "en")


def to_parameters(selection: Selection) -> dict[str, str]:
    """The address parameters of a selection. What the reader did not choose is left out."""
    default = Selection(lang=preferred_language())
    out = {}
    for name, parameter in _PARAMETERS.items():
        value = getattr(selection, name)
        if name != "text" and value != getattr(default, name):
            out[parameter] = _written(value)
    # A link must show the same text to readers of any language, so it tells the text unless the language implies it.
    implied = DEFAULT_TEXT[selection.lang if "lang" in out or not out else "en"]
    if selection.text != implied and len(selection.text) <= limits.MAX_LINK_CHARACTERS:
        out["text"] = selection.text
    return out


def from_parameters(parameters: Mapping[str, str]) -> Selection:
    """The selection that address parameters describe; what cannot be read is left at its default, and said."""
    found: dict[str, Any] = {}
    for name, parameter in _PARAMETERS.items():
        if parameter in parameters:
            value = _READERS.get(name, str)(parameters[parameter])
            if value is not None:
                found[name] = value
            else:
                notices.add("unreadable", name=parameter)
    preferred = preferred_language()
    implied = found.get("lang", "en") if parameters else preferred
    return Selection(**{"text": DEFAULT_TEXT[implied], "lang": preferred} | found)


def _written(value: object) -> str:
    if isinstance(value, tuple):
        return "-".join(map(str, value))
    if isinstance(value, bool):
        return str(int(value))
    return repr(round(value, _DIGITS)).removesuffix(".0") if isinstance(value, float) else str(value)


def _whole(text: str) -> int | None:
    try:
        return int(text) if len(text) <= 12 else None
    except ValueError:
        return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return round(value, _DIGITS) + 0.0 if math.isfinite(value) else None  # + 0.0: no −0


def _flag(text: str) -> bool | None:
    return {"0": False, "1": True}.get(text)


def _language(text: str) -> str | None:
    return text if text in LANGUAGES else None


def _ids(text: str) -> tuple[int, ...] | None:
    numbers = [_whole(part) for part in text.split("-")] if len(text) <= 20_000 else [None]
    return None if None in numbers else tuple(n for n in numbers if n is not None)


_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys((*_PLACES, "top_k", "seed", "length", "samples", "number", "depth", "dims", "neuron"), _whole),
    **dict.fromkeys(("block_q", "block_k", "tile", "longest"), _whole),
    **dict.fromkeys(("race", "kv_heads", "bits", "window", *plans.WHOLE), _whole),
    **dict.fromkeys(("temperature", "top_p", "min_p", "penalty", "threshold", "bandwidth", "tflops", "theta"), _number),
    **dict.fromkeys(("chat", "without_first", "scaling", "causal", *plans.FLAGS), _flag),
    **dict.fromkeys(("ids", "rows"), _ids),
    **dict.fromkeys(("position", "pair", "table_width", "slopes", "slope"), _whole),
    **dict.fromkeys(("translation_beam", "written", "read"), _whole),
    **dict.fromkeys(("beams", "beam_step"), _whole),
    "greedy": _flag,
    "alpha": _number,
    "rollout_to": _whole,
    **dict.fromkeys(("cell_length", "cell_hidden", "gate_bias", "cell_seed", "distance"), _whole),
    "cell_gain": _number,
    "lang": _language,
}
