"""Who may look at whom in the three models, and which positions a replaced token reaches."""

from collections.abc import Sequence

import streamlit as st

from model.analysis.sight import Sight, Stack, change, changed, sight
from model.trace import Trace
from pages.kit import captions, figures, limits, numbers, selection, show
from pages.kit.components import Panel, matrices
from pages.kit.figures import RowToken
from pages.kit.three_models import ThreeModels

SIDE = 250


def draw_masks(three: ThreeModels) -> None:
    """The masks side by side: what the models' own attention does with this sentence, all heads together."""
    say = three.page.say
    with st.container(key="section_masks", gap="small"):
        st.header(say("masks_title"), anchor=False)
        run = three.translation_run
        written = three.translator.tokenizer.labels(three.translated.ids)
        first, second, third = st.columns(3, gap="large")
        with first:
            _mask(three, "mask_encoder", three.encoder_run, three.encoder_run.labels, three.encoder_run.labels)
        with second:
            _mask(three, "mask_decoder", three.decoder_run, three.decoder_run.labels, three.decoder_run.labels)
        with third, st.container(border=True, key="aside_masks"):
            st.markdown(say("masks"))
            st.markdown(say("masks_colours"))
            st.markdown(say("masks_two"))
        first, second, third = st.columns(3, gap="large")
        with first:
            _mask(three, "mask_source", run, run.source_labels, run.source_labels, "encoder.")
        with second:
            _mask(three, "mask_target", run, run.labels, run.labels)
        with third:
            _mask(three, "mask_cross", run, written, run.source_labels, cross=True)
        scale = show.Scale(say.plain("pattern"), "0", say.plain("masks_peak"), three.page.palette.sequential)
        text = say.plain("masks_caption")
        show.caption(show.Kind.MEASURED, say.plain("measured"), text, scale, masked=say.plain("masked"))


def _mask(
    three: ThreeModels,
    name: str,
    run: Trace,
    labels_q: Sequence[str],
    labels_k: Sequence[str],
    stack: Stack = "",
    *,
    cross: bool = False,
) -> None:
    say, found = three.page.say, _sight(run, stack, cross)
    title = say.plain(name)
    panel = Panel(
        title,
        found.weights.numpy(),
        high=found.peak,
        subtitle=say.plain("mask_rows_cross" if cross else "mask_rows"),
        masked=found.hidden.numpy(),
    )
    words = captions.matrix_words(three.page, title)
    matrices([panel], labels_q, labels_k, None, None, key=name, words=words, side=SIDE)
    error, peak = numbers.power_of_ten(found.row_error), numbers.probability(found.peak)
    if found.ahead is None:
        st.caption(say("mask_sum", error=error, peak=peak))
    else:
        share = numbers.percent(found.ahead, 0)
        st.caption(say("mask_ahead" if found.ahead else "mask_never", share=share, error=error, peak=peak))


@st.cache_data(show_spinner=False, max_entries=64, hash_funcs={Trace: lambda run: run.id})
def _sight(run: Trace, stack: Stack, cross: bool) -> Sight:
    return sight(run, stack, cross=cross)


def draw_change(three: ThreeModels) -> None:
    """One token replaced in all three, and how far each position's last vector moved."""
    say, page = three.page.say, three.page
    with st.container(key="section_change", gap="small"):
        st.header(say("change_title"), anchor=False)
        st.markdown(say("change"))
        with st.container(key="controls_instead", horizontal=True, vertical_alignment="bottom"):
            st.text_input(
                say.label("which_instead", token=three.encoder_run.labels[three.hidden]),
                key=selection.widget("instead", three.instead),
                max_chars=limits.MAX_WORD,
                width=260,
            )
        _row(three, "change_encoder", three.encoder_run, three.encoder_edited)
        if three.decoder_edited is None:
            st.markdown(say("change_beyond", model=three.decoder.name))
        else:
            _row(three, "change_decoder", three.decoder_run, three.decoder_edited)
        if not three.translates_own:
            place, word = three.in_source
            label = three.translation_run.source_labels[place]
            st.markdown(say("change_spare", token=label, instead=word, sentence=three.for_translator.text))
        one, other = three.translation_run, three.translation_edited
        _row(three, "change_source", one, other, "encoder.")
        _row(three, "change_target", one, other)
        show.caption(show.Kind.MEASURED, say.plain("measured"), say.plain("change_caption"))
        with st.container(border=True, key="aside_try"):
            st.markdown(say("try_title"))
            st.markdown(say("try_first"))
            st.markdown(say("try_last"))
            if page.sel.query is not None or page.sel.instead is not None:
                st.button(
                    say.label("choose_for_me"),
                    key="choose_for_me",
                    on_click=selection.update,
                    kwargs={"query": None, "key": None, "instead": None},
                )


def _row(three: ThreeModels, name: str, one: Trace, other: Trace, stack: Stack = "") -> None:
    say, palette = three.page.say, three.page.palette
    differences = change(one, other, stack)
    moved = changed(differences).tolist()
    values, most = differences.tolist(), float(differences.max())
    source = bool(stack)
    if source:
        labels, new, before, after = one.source_labels, other.source_labels, one.source, other.source
    else:
        labels, new, before, after = one.labels, other.labels, one.tokens, other.tokens
    tokens = [
        RowToken(
            label,
            value / most if hit else None,
            numbers.three_digits(value) if hit else say.plain("unchanged"),
            "chosen" if before[place] != after[place] else "",
        )
        for place, (label, value, hit) in enumerate(zip(labels, values, moved, strict=True))
    ]
    section = "row_all" if all(moved) else "row_none" if not any(moved) else "row_some"
    n, first = sum(moved), labels[moved.index(True)] if any(moved) else ""
    with st.container(gap="xsmall", key=f"row_{name}"):
        edited = [place for place in range(len(after)) if before[place] != after[place]]
        put = [say("put", old=labels[place], new=new[place]) for place in edited]
        st.markdown(" · ".join([f"**{say(name)}**", *put, say(section, n=n, of=len(moved), first=first)]))
        st.html(figures.token_row(tokens, palette, description=say.plain(name)))
