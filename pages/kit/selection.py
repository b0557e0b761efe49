"""The one state of the app: what the reader chose. It lives in the session and is mirrored in the address.

The session's state is the truth. The address is read when a visit begins and when the reader goes back or forward
in the browser's history; otherwise it is only written, so that a link opens the same view. What the reader did not
choose is not in the address, and the pages choose it by what they measure.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from model.analysis.attention_steps import MASK_KINDS
from model.sampling import SamplingSettings
from model.zoo.catalog import CATALOG
from pages.kit import limits, loading, mixture, notices
from pages.kit.prose import LANGUAGES

_KEY = "atlas_selection"
DEFAULT_MODEL = next(iter(CATALOG))
DEFAULT_TEXT = {"en": "The little cat sat on the mat because it was", "zh": "那只小猫坐在垫子上，因为它"}


@dataclass(frozen=True)
class Selection:
    """What the reader chose. None means: not chosen, the page picks.

    `ids`: when set, the run is these tokens (a generated text that was rewound to) instead of the text's own.
    `query` and `key` are token positions. `temperature` to `seed` are sampling settings, as `SamplingSettings` has
    them. The rest is how attention is drawn: `scale` of the colours, `without_first` leaves the first token out,
    weights below `threshold` are not drawn, `mix` names the heads that are averaged (see `mixture`). `mask` is one
    of `MASK_KINDS` that the whole model runs with, None its own; without `scaling` scores are not divided by √d.
    """

    model: str = DEFAULT_MODEL
    text: str = DEFAULT_TEXT["en"]
    ids: tuple[int, ...] | None = None
    layer: int | None = None
    head: int | None = None
    query: int | None = None
    key: int | None = None
    lang: str = "en"
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    penalty: float = 1.0
    seed: int = 0
    scale: str = "linear"
    without_first: bool = False
    threshold: float = 0.0
    mix: str = mixture.LAYER
    mask: str | None = None
    scaling: bool = True

    @property
    def sampling(self) -> SamplingSettings:
        """The settings in the form that the model room takes."""
        return SamplingSettings(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.penalty,
            seed=self.seed,
        )


# Smallest and largest value of each number; controls offer the same ranges.
RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 3.0),
    "top_k": (0, 1_000),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "penalty": (0.5, 3.0),
    "seed": (0, 2**31 - 1),
    "threshold": (0.0, 1.0),
}
SCALES = ("linear", "log")
_PLACES = ("layer", "head", "query", "key")
_PARAMETERS = {f.name: "token" if f.name == "query" else f.name for f in fields(Selection)}


@dataclass
class _Widget:
    """A widget that shows a value of the selection."""

    key: str
    shown: Any
    changes: Callable[[Any], Mapping[str, Any]]


@dataclass
class _State:
    """All that this module keeps for a visitor, in one object.

    Streamlit may break off a run wherever it reads or writes `st.session_state`, to begin the next one. So the object
    is fetched first, and what belongs together is then written to it without another such access.
    """

    selection: Selection | None = None
    address: dict[str, str] = field(default_factory=dict)
    widgets: dict[str, _Widget] = field(default_factory=dict)
    serial: int = 0


def _state() -> _State:
    if _KEY not in st.session_state:
        st.session_state[_KEY] = _State()
    state: _State = st.session_state[_KEY]
    return state


def current() -> Selection:
    """The selection of this visitor, every value within what the model and the text have."""
    return _state().selection or sync()


def update(**changes: Any) -> None:
    """Change the selection and the address; outside of a widget's callback, `st.rerun()` has to follow.

    A new text or model forgets a rewound generation, and keeps query and key only where the tokens up to them are
    the same. Values out of range are brought into it, and the reader is told.
    """
    before = current()
    _store(_changed(before, changes))


def widget(name: str, value: Any, changes: Callable[[Any], Mapping[str, Any]] | None = None) -> str:
    """The key for a widget that shows `value` and changes the selection; call it right before the widget.

    `changes` turns the widget's new value into keyword arguments for `update`; without it, the value is that of
    the field `name`. The change is read at the start of the next run. A callback would do the same, but one that is
    broken off by the next click is lost with that click (type a text, then click a link at once).

    Where the selection changed by other means than this widget, the key is a new one and so is the widget: what the
    browser still says of the old one, not having heard yet, cannot be taken for a choice of the reader.
    """
    state = _state()
    known = state.widgets.get(name)
    key = known.key if known else f"choose_{name}"
    if known and st.session_state.get(key, value) != value:
        state.serial += 1
        key = f"choose_{name}_{state.serial}"
    if st.session_state.get(key) != value:
        st.session_state[key] = value
    state.widgets[name] = _Widget(key, value, changes or (lambda new: {name: new}))
    return key


def sync() -> Selection:
    """Take in what the reader did since the last run, then write the address. The shell calls this at each start."""
    state = _state()
    address = st.query_params.to_dict()
    now = [(one, st.session_state.get(one.key, one.shown)) for one in state.widgets.values()]
    context = get_script_run_ctx()
    # A click that overtakes the answer to the one before brings the old address along, so an address that differs
    # means nothing by itself.
    back_or_forward = context is not None and context.is_history_navigation and address != state.address
    if state.selection is None or back_or_forward:
        notices.clear()
        selection = repaired(from_parameters(address, preferred_language()))
    else:
        selection = state.selection
        changes: dict[str, Any] = {}
        for one, value in now:
            if value != one.shown:
                changes |= one.changes(value)
        if changes:
            selection = _changed(selection, changes)
    _store(selection)
    return selection


def _changed(before: Selection, changes: Mapping[str, Any]) -> Selection:
    notices.clear()
    if {"text", "model"} & set(changes):
        changes = {"ids": None} | dict(changes)
    after = repaired(replace(before, **changes))
    return _forget_moved_places(before, after, set(changes))


def preferred_language() -> str:
    """The language of the visitor's browser, if the app speaks it; English otherwise."""
    locale = st.context.locale or ""
    return next((lang for lang in LANGUAGES if locale.lower().startswith(lang)), "en")


def repaired(selection: Selection) -> Selection:
    """`selection` with every value within what there is; what had to change is noted for the reader."""
    if selection.model not in CATALOG:
        notices.add("unknown_model", name=selection.model[:40], model=DEFAULT_MODEL)
        selection = replace(selection, model=DEFAULT_MODEL)
    if selection.lang not in LANGUAGES:
        selection = replace(selection, lang=preferred_language())
    lm = loading.model(selection.model)
    if selection.ids is not None:
        size, room = lm.config.vocab_size, limits.max_tokens(lm)
        if not selection.ids or not all(0 <= i < size for i in selection.ids):
            notices.add("unknown_ids", last=size - 1)
            selection = replace(selection, ids=None)
        elif len(selection.ids) > room:
            notices.add("too_many_ids", n=len(selection.ids), limit=room)
            selection = replace(selection, ids=selection.ids[:room])
    n_tokens = len(loading.run_ids(selection))
    tops = {"layer": lm.config.n_layers, "head": lm.config.n_heads, "query": n_tokens, "key": n_tokens}
    for name, count in tops.items():
        value = getattr(selection, name)
        if value is not None and not 0 <= value < count:
            fitting = min(max(value, 0), count - 1)
            notices.add(f"clamped_{name}", asked=value, count=count, used=fitting)
            selection = replace(selection, **{name: fitting})
    if selection.scale not in SCALES:
        notices.add("unreadable", name="scale")
        selection = replace(selection, scale=SCALES[0])
    if selection.mask is not None and selection.mask not in MASK_KINDS:
        notices.add("unreadable", name="mask")
        selection = replace(selection, mask=None)
    mix = mixture.repaired(selection.mix, lm.config.n_layers, lm.config.n_heads)
    if mix != selection.mix:
        notices.add("unknown_heads", n_layers=lm.config.n_layers, n_heads=lm.config.n_heads)
        selection = replace(selection, mix=mix)
    for name, (low, high) in RANGES.items():
        value = getattr(selection, name)
        if not low <= value <= high:
            fitting = min(max(value, low), high)
            notices.add("clamped_number", name=name, asked=value, used=fitting)
            selection = replace(selection, **{name: type(value)(fitting)})
    return selection


def to_parameters(selection: Selection) -> dict[str, str]:
    """The address parameters of a selection, defaults left out."""
    default = Selection(text=DEFAULT_TEXT[selection.lang])
    out = {}
    for name, parameter in _PARAMETERS.items():
        value = getattr(selection, name)
        if name == "lang":
            wanted = value != preferred_language()
        elif name == "text":
            wanted = value != default.text and len(value) <= limits.MAX_LINK_CHARACTERS
        else:
            wanted = value != getattr(default, name)
        if wanted:
            out[parameter] = "-".join(map(str, value)) if name == "ids" else _written(value)
    return out


def from_parameters(parameters: Mapping[str, str], lang: str = "en") -> Selection:
    """The selection that address parameters describe; what cannot be read is left at its default."""
    found: dict[str, Any] = {}
    for name, parameter in _PARAMETERS.items():
        if parameter in parameters:
            value = _READERS.get(name, str)(parameters[parameter])
            if value is not None:
                found[name] = value
            else:
                notices.add("unreadable", name=parameter)
    found["lang"] = found.get("lang") if found.get("lang") in LANGUAGES else lang
    return Selection(**{"text": DEFAULT_TEXT[found["lang"]]} | found)


def _store(selection: Selection) -> None:
    state = _state()
    state.selection, state.address = selection, to_parameters(selection)
    if st.query_params.to_dict() != state.address:
        st.query_params.from_dict(state.address)


def _forget_moved_places(before: Selection, after: Selection, chosen: set[str]) -> Selection:
    if (before.model, before.text, before.ids) == (after.model, after.text, after.ids):
        return after
    old, new = loading.run_ids(before), loading.run_ids(after)
    forgotten = {}
    for name in {"query", "key"} - chosen:
        position = getattr(before, name)
        if position is not None and (before.model != after.model or old[: position + 1] != new[: position + 1]):
            forgotten[name] = None
    return replace(after, **forgotten)


def _written(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


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
    return value if math.isfinite(value) else None


def _flag(text: str) -> bool | None:
    return {"0": False, "1": True}.get(text)


def _ids(text: str) -> tuple[int, ...] | None:
    numbers = [_whole(part) for part in text.split("-")] if len(text) <= 20_000 else [None]
    return None if None in numbers else tuple(n for n in numbers if n is not None)


_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys((*_PLACES, "top_k", "seed"), _whole),
    **dict.fromkeys(("temperature", "top_p", "min_p", "penalty", "threshold"), _number),
    **dict.fromkeys(("without_first", "scaling"), _flag),
    "ids": _ids,
}
