"""What the page on recurrence measures, kept by its settings, and the colours and names of the four networks."""

import time
from dataclasses import dataclass

import streamlit as st

from model.analysis.recall_task import VOCABULARY
from model.analysis.recurrence import KINDS, Build, Kind, renumbered
from model.analysis.recurrence_reach import Reach, StepFactor, Survival, gradient_reach, step_factor, survival
from pages.kit.page import Page

QUIET_SECONDS = 0.25  # of measuring before a bar shows how far it is


@dataclass(frozen=True)
class Measured:
    """Everything that was measured for the settings of the page, by network; `factor` is the chosen cell's."""

    length: int
    reach: dict[Kind, Reach]
    survival: dict[Kind, Survival]
    factor: StepFactor


def build(page: Page, vocabulary: int = VOCABULARY) -> Build:
    """What the networks are built from."""
    sel = page.sel
    return Build(sel.cell_hidden, vocabulary, sel.gate_bias, sel.cell_gain)


def own_ids(page: Page) -> tuple[int, ...] | None:
    """The reader's tokens, numbered anew, where they are what is read."""
    return renumbered(tuple(page.run.tokens)) if page.sel.cell_length == 0 else None


def measured(page: Page) -> Measured:
    """What is not known yet is measured now, with a bar while it takes long."""
    ids = own_ids(page)
    length = page.sel.cell_length if ids is None else len(ids)
    of = build(page, max(VOCABULARY, *(one + 1 for one in ids)) if ids else VOCABULARY)
    place, begun = st.empty(), time.perf_counter()
    reach: dict[Kind, Reach] = {}
    left: dict[Kind, Survival] = {}
    for done, kind in enumerate(KINDS):
        if time.perf_counter() - begun > QUIET_SECONDS:
            text = page.say.plain("measuring", done=done, count=len(KINDS))
            place.progress(done / len(KINDS), text)
        reach[kind] = _reach(kind, of, ids, length, page.sel.cell_seed)
        left[kind] = _survival(kind, of, ids, length, page.sel.cell_seed)
    place.empty()
    return Measured(length, reach, left, _factor(page.sel.cell, of, ids, length, page.sel.cell_seed))


def colours(page: Page) -> dict[Kind, str]:
    """The colour of each network in all figures of the page."""
    palette = page.palette
    return {"rnn": palette.key, "lstm": palette.value, "gru": palette.query, "attention": palette.accent}


def dash(page: Page, kind: Kind) -> str:
    """The chosen cell and attention are drawn solid, the others step back."""
    return "solid" if kind in (page.sel.cell, "attention") else "dot"


@st.cache_data(show_spinner=False, max_entries=512)
def _reach(kind: Kind, of: Build, ids: tuple[int, ...] | None, length: int, seed: int) -> Reach:
    return gradient_reach(kind, of, ids, length, seed=seed)


@st.cache_data(show_spinner=False, max_entries=512)
def _survival(kind: Kind, of: Build, ids: tuple[int, ...] | None, length: int, seed: int) -> Survival:
    return survival(kind, of, ids, length, seed=seed)


@st.cache_data(show_spinner=False, max_entries=512)
def _factor(kind: Kind, of: Build, ids: tuple[int, ...] | None, length: int, seed: int) -> StepFactor:
    return step_factor(kind, of, ids, length, seed=seed)
