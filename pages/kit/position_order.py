"""The first part of the page on positions: one set of tokens in two orders, without positions and with."""

import streamlit as st

from model.analysis.word_order import Reordered
from model.language import LanguageModel
from pages.kit import figures, numbers, position_data, selection, show
from pages.kit.choices import SWAPPED
from pages.kit.figures import Strip, style
from pages.kit.page import Page
from pages.kit.show import Kind, Scale


def draw(page: Page) -> None:
    """Two orders of the same tokens, what comes out for one of them, and the differences of all."""
    say, sel = page.say, page.sel
    without, with_ = position_data.models()["none"], page.lm
    with st.container(key="section_order", gap="small"):
        st.header(say("order_title"), anchor=False)
        with st.container(key="controls_order", horizontal=True):
            st.segmented_control(
                say.label("choose_swapped"),
                SWAPPED,
                key=selection.widget("swapped", sel.swapped),
                format_func=lambda name: say.label(f"order_{name}"),
                required=True,
            )
        texts = {lm: _ids(page, lm) for lm in (without, with_)}
        found = {
            (lm, causal): position_data.turned_round(lm, texts[lm], causal) for lm in texts for causal in (False, True)
        }
        ids = texts[without]
        first, second = ids, [ids[i] for i in found[without, False].order]
        sentences = {"first": _sentence(without, first), "second": _sentence(without, second)}
        st.markdown(say("order", **sentences))
        if len(without.tokenizer.pieces(ids)) == 1:
            st.markdown(say("order_single"))
        for column, lm in zip(st.columns(2, gap="large"), (without, with_), strict=True):
            with column, st.container(key=f"section_order_{'with' if lm is with_ else 'without'}", gap="xsmall"):
                _draw_vectors(page, lm, texts[lm], found[lm, False], own=lm is without)
        if with_.config.positions == "alibi":
            st.markdown(say("order_mirror"))
        _draw_table(page, found)
        st.markdown(say("order_mask"))


def _ids(page: Page, lm: LanguageModel) -> tuple[int, ...]:
    """The tokens without the marks that an encoder's tokenizer puts around a text: those have no order to lose."""
    if page.sel.swapped == "example":
        return tuple(lm.tokenizer.encode(_example(page), add_special=False))[: lm.config.max_positions]
    if lm is not page.lm:
        return position_data.ids_of(page)[: lm.config.max_positions]
    special = frozenset() if lm.config.causal else lm.tokenizer.special_ids
    return tuple(i for i in page.run.tokens if i not in special) or tuple(page.run.tokens)


def _example(page: Page) -> str:
    """Three words. In a language with spaces one stands before the first as well, so that each word is one token."""
    words = page.say.plain("order_words")
    return f" {words}" if " " in words else words


def _sentence(lm: LanguageModel, ids: tuple[int, ...] | list[int]) -> str:
    """The tokens' text on one line, with its end left out where it is long."""
    text = "".join(lm.tokenizer.labels(ids)) if not lm.tokenizer.decode(ids).strip() else lm.tokenizer.decode(ids)
    return style.short(text.strip(), 48)


def _draw_vectors(page: Page, lm: LanguageModel, ids: tuple[int, ...], of: Reordered, *, own: bool) -> None:
    say, palette = page.say, page.palette
    token = lm.tokenizer.labels(ids)[0]
    name = _name(page, lm)
    st.markdown(say("order_vectors", name=name, token=token))
    strips = [
        Strip(say.plain("strip_first"), of.first[0].numpy(), palette.query),
        Strip(say.plain("strip_second"), of.second[0].numpy(), palette.key),
        Strip(say.plain("strip_difference"), (of.second[0] - of.first[0]).numpy()),
    ]
    fig = figures.value_strip(strips, palette, limit=of.usual, index_word=say.plain("number"), row=18)
    text = say.plain("order_caption", difference=_printed(float(of.differences[0])))
    scale = Scale("", numbers.signed(-of.usual), numbers.signed(of.usual), palette.diverging)
    caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, scale, palette=palette)
    show.figure(fig, f"order_{'without' if own else 'with'}", alt=say.plain("order_alt", name=name), caption=caption)


def _draw_table(page: Page, found: dict[tuple[LanguageModel, bool], Reordered]) -> None:
    say = page.say
    rows = []
    for (lm, causal), of in found.items():
        name = _name(page, lm)
        sees = say.plain("sees_earlier" if causal else "sees_all")
        rows.append((f"{name}\n{sees}", [_printed(of.difference), _printed(of.largest)]))
    titles = [say.plain(name) for name in ("order_column_model", "order_column_difference", "order_column_largest")]
    with st.container(key="order_table"):
        table = figures.number_table(titles, rows, page.palette, description=say.plain("order_table_alt"))
        st.html(f'<div style="overflow-x:auto">{table}</div>')
    show.caption(Kind.MEASURED, say.plain("measured"), say.plain("order_table_caption"))


def _name(page: Page, lm: LanguageModel) -> str:
    say = page.say
    if lm is not page.lm:
        return say.plain("model_none")
    return say.plain("model_loaded", name=lm.name, scheme=say.plain(f"scheme_{lm.config.positions}"))


def _printed(value: float) -> str:
    return numbers.power_of_ten(value) if abs(value) < 1e-3 else numbers.three_digits(value)
