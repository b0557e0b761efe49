"""What the format of the model's weights costs: bytes, and loss on the reader's text. Part of the page on cost."""

from functools import partial

import streamlit as st

from model.analysis.formats import FORMATS, FormatCost, format_cost, format_nbytes
from model.config import TransformerConfig
from pages.kit import figures, loading, numbers, show
from pages.kit.page import Page
from pages.kit.show import Kind

EXACT = FORMATS[0]  # what the others are compared with
SMALL = 200 * 10**6  # bytes in fp32: up to here a model is loaded in every format without being asked for
_ASKED = "atlas_formats_asked"  # the models that the reader wants compared although they are large


def draw(page: Page) -> None:
    """The formats below each other, with what is measured of each, and what that comes to."""
    say = page.say
    nbytes = {name: _nbytes(page.lm.config, name) for name in FORMATS}
    with st.container(key="section_formats", gap="small"):
        st.header(say("formats_title"), anchor=False)
        st.markdown(say("formats"))
        found = {name: _measured(page, name) for name in FORMATS if name in _wanted(page, nbytes)}
        known = {name: cost.bits for name, cost in found.items() if cost.bits is not None}
        columns = [say.plain(f"formats_{name}") for name in ("format", "bytes", "loss", "more")]
        rows = [_row(page, name, nbytes[name], known) for name in FORMATS]
        show.marked_table(
            Kind.MEASURED,
            say.plain("measured"),
            say.plain("formats_caption" if known else "formats_no_loss", n=len(page.run.tokens) - 1),
            columns,
            rows,
            page.palette,
            description=say.plain("formats_alt"),
            mark=say.plain("mark_chosen"),
        )
        if known and EXACT not in known:
            st.button(
                say.label("formats_measure", size=numbers.memory(nbytes[EXACT])),
                key="measure_formats",
                on_click=partial(_ask, page.lm.id),
            )
        elif known and len(known) < len(FORMATS):
            st.markdown(say("formats_one_by_one"))
        _draw_outcome(page, nbytes, known)


def _ask(model: str) -> None:
    _asked().add(model)


def _asked() -> set[str]:
    asked: set[str] = st.session_state.setdefault(_ASKED, set())
    return asked


def _wanted(page: Page, nbytes: dict[str, int]) -> set[str]:
    """The formats to measure: all of a small model; of a large one the reader's, and fp32 where that was asked for."""
    if nbytes[EXACT] <= SMALL:
        return set(FORMATS)
    return {page.sel.weights} | ({EXACT} if page.lm.id in _asked() else set())


def _measured(page: Page, name: str) -> FormatCost:
    sel = page.sel
    return _cost(sel.model, page.lm.source, name, sel.device, tuple(page.run.tokens))


@st.cache_data(show_spinner=False, max_entries=128)
def _cost(model: str, source: str, weights: str, device: str | None, ids: tuple[int, ...]) -> FormatCost:
    """The model is asked for in here, so that nothing is loaded for what is known; two sources may have one name."""
    return format_cost(loading.model(model, weights, device), ids)


@st.cache_data(show_spinner=False, max_entries=64)
def _nbytes(config: TransformerConfig, name: str) -> int:
    return format_nbytes(config, name)


def _row(page: Page, name: str, nbytes: int, known: dict[str, float]) -> tuple[str, list[str]]:
    say = page.say
    mark = figures.MARK if name == page.sel.weights else ""
    loss = f"{known[name]:.3f}" if name in known else "–"
    more = "–" if not {name, EXACT} <= set(known) or name == EXACT else numbers.signed(known[name] - known[EXACT], 3)
    title = f"{mark}{say.plain(f'weights_{name}')}\n{say.plain(f'formats_{name}_note')}"
    return title, [numbers.memory(nbytes), loss, more]


def _draw_outcome(page: Page, nbytes: dict[str, int], known: dict[str, float]) -> None:
    """One sentence on the reader's format, or on integers where that is fp32."""
    name = FORMATS[-1] if page.sel.weights == EXACT else page.sel.weights
    if not {name, EXACT} <= set(known):
        return
    say, more = page.say, known[name] - known[EXACT]
    values = {
        "format": say.plain(f"weights_{name}"),
        "share": numbers.percent(nbytes[name] / nbytes[EXACT], 0),
        "bits": f"{abs(more):.3f}",
        "percent": numbers.percent(abs(more) / known[EXACT]) if known[EXACT] else "–",
    }
    st.markdown(say("formats_costs_more" if more > 0 else "formats_costs_less", **values))
