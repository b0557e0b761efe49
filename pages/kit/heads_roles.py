"""Which head does what: a map of all heads for each role, measured on the reader's text or on repeated tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st

from model.analysis.roles import (
    ENTROPY,
    REPEATED,
    SCORES,
    WINDOW,
    RoleScores,
    Survey,
    repeated_random_tokens,
    row_values,
    survey,
)
from model.language import LanguageModel
from model.trace import Trace
from model.zoo.catalog import CATALOG
from pages.kit import limits, loading, numbers, selection, show
from pages.kit.choices import ROLES_ON
from pages.kit.components import MATRIX_WORDS, Panel, Picked, matrices
from pages.kit.page import Page
from pages.kit.show import Kind

COLUMNS = 3
REPETITION = ("same", "induction")  # what heads learn late, and small models hardly
PALE = 0.05  # a weight whose colour is hardly told from that of 0
WEAK = 0.2  # a strongest head that gives less than this hardly stands out on the map


@dataclass(frozen=True)
class Measured:
    """A role's scores, those of the chosen head row by row, and whether they are of the reader's text."""

    role: str
    scores: RoleScores
    values: list[float]
    of_text: bool

    @property
    def weak(self) -> bool:
        """Whether even the strongest head hardly stands out on the map of a share."""
        return self.role != ENTROPY and float(self.scores.scores.max()) < WEAK

    @property
    def decimals(self) -> int:
        """As many as scores are printed with: two, or where heads are compared with an even one what that takes."""
        return numbers.decimals_of_ratio(float(self.scores.scores.max()), self.scores.even) if self.weak else 2


def draw(page: Page) -> None:
    """What is measured on, and a map for each role."""
    say = page.say
    with st.container(key="section_roles", gap="small"):
        st.header(say("roles_title"), anchor=False)
        st.markdown(say("roles_text"))
        with st.container(key="controls_roles"):
            st.segmented_control(
                say.label("roles_on"),
                ROLES_ON,
                key=selection.widget("roles_on", page.sel.roles_on),
                format_func=lambda name: say.label(f"roles_on_{name}"),
                required=True,
            )
        found = _measured(page)
        if not all(one.of_text for one in found.values()):
            _draw_sequence(page)
        names = [role for role in SCORES if role in found]
        for start in range(0, len(names), COLUMNS):
            for column, role in zip(st.columns(COLUMNS, gap="large"), names[start : start + COLUMNS], strict=False):
                with column, st.container(key=f"section_role_{role}", gap="xsmall"):
                    _draw_role(page, role, found[role])


def _measured(page: Page) -> Mapping[str, Measured]:
    """Each role on the reader's text where that allows it and the reader wants it, else on the repeated tokens."""
    layer, head = page.place.layer, page.place.head
    found: dict[str, Measured] = {}
    if page.sel.roles_on == "text":
        scores, values = of_run(page.run).roles, _values(page.run, layer, head)
        found = {role: Measured(role, scores[role], values[role], True) for role in scores}
    if len(found) < len(SCORES):
        run = loading.trace(replace(page.sel, ids=_sequence(page.lm)))
        scores, values = of_run(run).roles, _values(run, layer, head)
        found |= {role: Measured(role, scores[role], values[role], False) for role in scores if role not in found}
    return found


def _draw_sequence(page: Page) -> None:
    """Which tokens are read twice, and why."""
    say, ids = page.say, _sequence(page.lm)
    labels = page.lm.tokenizer.labels(ids)
    n = min(REPEATED, len(ids) // 2)
    section = "roles_sequence_missing" if page.sel.roles_on == "text" else "roles_sequence"
    st.markdown(say(section, n=n, first=" ".join(labels[:5]), example=say.plain("example_pattern")))


def _draw_role(page: Page, role: str, of: Measured) -> None:
    say, place, scores = page.say, page.place, of.scores
    n_layers, n_heads = scores.scores.shape
    sideways = n_layers > 1.5 * n_heads  # as in the picture of all heads
    values = scores.scores.numpy().T if sideways else scores.scores.numpy()
    with st.container(key=f"role_words_{role}", gap="xsmall"):
        st.markdown(f"**{say(f'role_{role}')}**")
        if of.weak:
            best, even = float(scores.scores.max()), scores.even
            printed = {"score": f"{best:.{of.decimals}f}", "even": f"{even:.{of.decimals}f}"}
            more = f" {say('role_elsewhere')}" if role in REPETITION and _bundled(page) else ""
            with st.container(key=f"role_weak_{role}"):
                st.markdown(say("role_weak", **printed, times=f"{best / even:.1f}") + more)
        st.markdown(say(f"role_{role}_text", window=WINDOW))
        st.markdown(say(f"role_{role}_formula", window=WINDOW))

    def choose(picked: Picked) -> None:
        layer, head = (picked.key, picked.query) if sideways else (picked.query, picked.key)
        selection.update(layer=place.layer if layer is None else layer, head=place.head if head is None else head)

    high = max(scores.even, float(values.max())) if role == ENTROPY else 1.0
    names = ("head", "layer") if sideways else ("layer", "head")
    texts = {"label": say.plain("role_label", role=say.plain(f"role_{role}")), "help": say.plain("role_help")}
    texts |= {"query": say.plain(names[0]), "key": say.plain(names[1])}
    matrices(
        [
            Panel(
                say.plain("role_value_bits" if role == ENTROPY else "role_value"),
                values,
                high=high,
                subtitle=say.plain("role_axes_sideways" if sideways else "role_axes"),
            )
        ],
        [str(number) for number in range(values.shape[0])],
        [str(number) for number in range(values.shape[1])],
        place.head if sideways else place.layer,
        place.layer if sideways else place.head,
        key=f"role_{role}",
        words=texts | {word: say.plain(word) for word in MATRIX_WORDS if word not in texts},
        side=210,
        tokens=False,
        on_change=choose,
    )
    st.html(_caption(page, role, of, high))
    layer, head = scores.strongest
    score = _printed(role, float(scores.scores[layer, head]), of.decimals)
    st.button(
        say.label("role_widest" if role == ENTROPY else "role_strongest", layer=layer, head=head, score=score),
        key=f"go_to_{role}",
        on_click=selection.update,
        kwargs={"layer": layer, "head": head},
    )


def _caption(page: Page, role: str, of: Measured, high: float) -> str:
    """The chosen head's arithmetic, what it was measured on, what an even head would score, and the scale."""
    say, place, values = page.say, page.place, of.values
    printed = [_printed(role, value) for value in values]
    if len(printed) > 4:
        printed = [*printed[:2], "…", printed[-1]]
    mean = _printed(role, float(np.mean(values)))
    where = say.plain("layer_head", layer=place.layer, head=place.head)
    reckoned = f"({' + '.join(printed)}) ÷ {len(values)} = {mean}" if len(values) > 1 else mean
    parts = [
        f"{where}: {reckoned}",
        _measured_on(page, of),
        say.plain("role_even", score=_printed(role, of.scores.even, of.decimals)),
    ]
    if of.of_text and page.sel.without_first:
        parts.append(say.plain("role_whole"))
    name = say.plain("bits_unit") if role == ENTROPY else say.plain("role_scale")
    scale = show.Scale(name, "0", _printed(role, high) if role == ENTROPY else "1", page.palette.sequential)
    return show.caption_html(Kind.MEASURED, say.plain("measured"), " · ".join(parts), scale)


def _measured_on(page: Page, of: Measured) -> str:
    if of.of_text and len(of.values) == 1:
        return page.say.plain("role_on_text_one")
    return page.say.plain("role_on_text" if of.of_text else "role_on_random", n=len(of.values))


def _printed(role: str, value: float, decimals: int = 2) -> str:
    return numbers.bits(value) if role == ENTROPY else f"{value:.{decimals}f}"


def _bundled(page: Page) -> bool:
    """Whether the model is one of ours, which are small."""
    entry = CATALOG.get(page.sel.model)
    return entry is not None and entry.bundled


@st.cache_data(show_spinner=False, max_entries=128, hash_funcs={LanguageModel: lambda lm: lm.name})
def _sequence(lm: LanguageModel) -> tuple[int, ...]:
    return tuple(repeated_random_tokens(lm, limits.max_tokens(lm)))


@st.cache_data(show_spinner=False, max_entries=256, hash_funcs={Trace: lambda run: run.id})
def of_run(run: Trace) -> Survey:
    """The roles that a run's text allows, and how many of its cells are `PALE`."""
    return survey(run, PALE)


@st.cache_data(show_spinner=False, max_entries=512, hash_funcs={Trace: lambda run: run.id})
def _values(run: Trace, layer: int, head: int) -> dict[str, list[float]]:
    return row_values(run, layer, head)
