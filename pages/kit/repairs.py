"""How a choice that does not fit the model or the text is brought into it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from model.analysis.smaller_caches import head_counts
from model.language import LanguageModel
from model.zoo.catalog import Entry, available
from model.zoo.files import CheckpointError
from pages.kit import limits, loading, mixture, notices, plans, switches
from pages.kit.choices import (
    DEFAULT_MODEL,
    FORMS,
    MAX_PAIRS,
    MAX_POSITIONS,
    OPTIONS,
    RANGES,
    TEXT_LENGTHS,
    Selection,
)


def models() -> dict[str, Entry]:
    """The models that the reader can choose: those on this machine that the pages about one model can show."""
    return {name: entry for name, entry in available().items() if entry.listed}


def repaired(selection: Selection) -> Selection:
    """`selection` with every value within what there is; what had to change is noted for the reader."""
    if selection.model not in models():
        notices.add("unknown_model", name=selection.model[:40], model=DEFAULT_MODEL)
        selection = replace(selection, model=DEFAULT_MODEL)
    selection = _with_options(selection, FORMS)
    try:
        lm = loading.chosen(selection)
    except ValueError as error:
        if selection.model == DEFAULT_MODEL:
            raise
        fault = error.fault if isinstance(error, CheckpointError) else "other"
        notices.add("model_failed", which=selection.model, model=DEFAULT_MODEL, fault=fault, reason=str(error))
        selection = replace(selection, model=DEFAULT_MODEL)
        lm = loading.chosen(selection)
    selection = _with_places(_with_input(selection, lm), lm)
    selection = _with_options(selection, OPTIONS)
    tops = {
        "rollout_to": lm.config.n_layers,
        "number": lm.config.d_model,
        "neuron": lm.config.d_ff,
        "position": MAX_POSITIONS,
        "pair": MAX_PAIRS,
    }
    selection = _within(selection, {name: (0, count - 1) for name, count in tops.items()})
    selection = _with_short_texts(_with_names(selection, lm))
    selection = _within(selection, RANGES)
    if selection.kv_heads is not None and selection.kv_heads not in (counts := head_counts(lm.config.n_kv_heads)):
        notices.add("clamped_number", name="kv_heads", asked=selection.kv_heads, used=counts[0])
        selection = replace(selection, kv_heads=None)
    return plans.repaired(selection)


def _with_options(selection: Selection, options: Mapping[str, tuple[object, ...]]) -> Selection:
    """Each of these values is one of its options, or its default."""
    changes: dict[str, Any] = {}
    for name, allowed in options.items():
        if getattr(selection, name) not in (*allowed, getattr(Selection, name)):
            notices.add("unreadable", name=name)
            changes[name] = getattr(Selection, name)
    return replace(selection, **changes)


def _within(selection: Selection, ranges: Mapping[str, tuple[float, float]], notice: str | None = None) -> Selection:
    """Each of these numbers, where it is chosen, lies within its range. `notice`: the section that says which did not,
    with {name} in it, where each has a sentence of its own."""
    changes: dict[str, Any] = {}
    for name, (low, high) in ranges.items():
        value = getattr(selection, name)
        if value is not None and not low <= value <= high:
            used = changes[name] = type(value)(min(max(value, low), high))
            if notice is None:
                notices.add("clamped_number", name=name, asked=value, used=used)
            else:
                notices.add(notice.format(name=name), asked=value, count=high + 1, used=used)
    return replace(selection, **changes)


def _with_input(selection: Selection, lm: LanguageModel) -> Selection:
    """Chat template and token ids are such as the model has."""
    if selection.chat and lm.chat is None:
        notices.add("no_chat_template", model=selection.model)
        selection = replace(selection, chat=False)
    if selection.ids is not None:
        size, room = lm.config.vocab_size, limits.max_tokens(lm)
        if not selection.ids or not all(0 <= i < size for i in selection.ids):
            notices.add("unknown_ids", last=size - 1)
            selection = replace(selection, ids=None)
        elif len(selection.ids) > room:
            notices.add("too_many_ids", n=len(selection.ids), limit=room)
            selection = replace(selection, ids=selection.ids[:room])
    return selection


def _with_places(selection: Selection, lm: LanguageModel) -> Selection:
    """Layer and head are in the model, tokens in the text."""
    n_tokens = len(loading.run_ids(selection))
    tops = {"layer": lm.config.n_layers, "head": lm.config.n_heads, "query": n_tokens, "key": n_tokens}
    selection = _within(selection, {name: (0, count - 1) for name, count in tops.items()}, "clamped_{name}")
    if selection.rows is not None:
        rows = tuple(dict.fromkeys(row for row in selection.rows if 0 <= row < n_tokens)) or None
        if rows is None or len(rows) < len(set(selection.rows)):
            notices.add("unknown_rows", count=n_tokens)
        selection = replace(selection, rows=rows)
    return selection


def _with_names(selection: Selection, lm: LanguageModel) -> Selection:
    """Neurons that are turned off and heads that are averaged are in the model."""
    if selection.off is not None:
        off = switches.repaired(selection.off, lm.config.n_layers, lm.config.d_ff)
        if off != selection.off:
            notices.add("unreadable", name="off")
            selection = replace(selection, off=off)
    mix = mixture.repaired(selection.mix, lm.config.n_layers, lm.config.n_heads)
    if mix != selection.mix:
        notices.add("unknown_heads", n_layers=lm.config.n_layers, n_heads=lm.config.n_heads)
        selection = replace(selection, mix=mix)
    return selection


def _with_short_texts(selection: Selection) -> Selection:
    """No text is longer than it may be."""
    changes: dict[str, Any] = {}
    for name, length in TEXT_LENGTHS.items():
        text = getattr(selection, name)
        if text is not None and len(text) > length:
            notices.add("cut_text", name=name, limit=length)
            changes[name] = text[:length]
    return replace(selection, **changes)
