"""Word for word: the cross-attention of the translation, as a matrix, as lines, and one token of it at a time."""

import streamlit as st

from model.analysis.alignment import Alignment, agreement, align, clearest_head
from model.analysis.guesses import guesses
from model.trace import Trace
from pages.kit import captions, figures, notices, numbers, parts, selection, show
from pages.kit.choices import MEAN, OPTIONS
from pages.kit.components import Panel, Picked, lines, matrices
from pages.kit.figures import RowToken
from pages.kit.three_models import MAX_SHOWN, N_GUESSES, ThreeModels

Head = tuple[int, int]


def repair(three: ThreeModels) -> None:
    """The chosen tokens are in source and translation; else the page is run again with the last ones, and says so."""
    sel = three.page.sel
    if (sel.written is None and sel.read is None) or not three.translated.own:
        return
    wrong: dict[str, int] = {}
    for name, count in (("written", len(three.translated.ids)), ("read", len(three.for_translator.ids))):
        asked = getattr(sel, name)
        if asked is not None and asked >= count:
            wrong[name] = count - 1
            notices.add(f"clamped_{name}", asked=asked, count=count, used=count - 1)
    if wrong:
        selection.correct(**wrong)
        st.rerun()


def draw(three: ThreeModels) -> None:
    """The head to look at, its cross-attention twice, and what stood to choose for one written token."""
    say, run, written = three.page.say, three.translation_run, three.translated
    with st.container(key="section_words", gap="small"):
        st.header(say("words_title"), anchor=False)
        st.markdown(say("words"))
        if not written.own:
            st.info(say("words_none"))
            return
        head = _choose_head(three)
        found = _align(run, head)
        row = three.page.sel.written if three.page.sel.written is not None else _clear(found)
        column = three.page.sel.read if three.page.sel.read is not None else found.sources[row]
        labels = three.translator.tokenizer.labels(written.ids)
        _draw_both(three, found, labels, row, column, head)
        _draw_step(three, found, labels, row, column)


def _choose_head(three: ThreeModels) -> Head | None:
    """The chosen head; None: the mean of all."""
    say, run, n = three.page.say, three.translation_run, len(three.translated.own)
    scores = _agreement(run, n)
    best = _clearest(run, n)
    chosen = three.page.sel.cross or f"{best[0]}.{best[1]}"

    def described(name: str) -> str:
        if name == MEAN:
            return say.plain("cross_mean", n=len(OPTIONS["cross"]) - 1)
        layer, head = map(int, name.split("."))
        return say.plain("cross_head", layer=layer, head=head, score=f"{scores[layer][head]:.2f}")

    with st.container(key="controls_cross", gap="xsmall"):
        st.selectbox(
            say.label("choose_cross"),
            OPTIONS["cross"],
            key=selection.widget("cross", chosen),
            format_func=described,
            width=320,
        )
        st.caption(say("cross_note", layer=best[0], head=best[1]))
    if chosen == MEAN:
        return None
    layer, head = map(int, chosen.split("."))
    return layer, head


def _clear(found: Alignment) -> int:
    """The row with the clearest pointer: the one to open on."""
    top = [float(found.weights[row, source]) for row, source in enumerate(found.sources)]
    return top.index(max(top[:-1] or top))


def _draw_both(
    three: ThreeModels, found: Alignment, labels: list[str], row: int, column: int, head: Head | None
) -> None:
    say, page, run = three.page.say, three.page, three.translation_run

    def picked(pick: Picked) -> None:
        # Another row: its own strongest source; the same row: the source that was picked.
        new = row if pick.query is None else pick.query
        selection.update(written=new, read=pick.key if new == row else None)

    weights = found.weights.numpy()
    left, right = st.columns(2, gap="large")
    with left:
        panel = Panel(say.plain("words_panel"), weights, high=1.0, subtitle=say.plain("mask_rows_cross"))
        words = captions.matrix_words(page, say.plain("words_label"))
        words |= {"query": say.plain("choose_written"), "key": say.plain("read")}
        matrices(
            [panel], labels, run.source_labels, row, column, key="cross_matrix", words=words, side=400, on_change=picked
        )
    with right:
        words = captions.line_words(page, say.plain("words_label"))
        words |= {"query": say.plain("choose_written"), "key": say.plain("read")}
        lines(
            weights, labels, run.source_labels, row, column, key="cross_lines", words=words, threshold=0.1,
            on_change=picked,
        )  # fmt: skip
    where = say.plain("cross_mean", n=len(OPTIONS["cross"]) - 1)
    if head is not None:
        where = say.plain("layer_head", layer=head[0], head=head[1])
    n, of = found.pointing(len(three.translated.own)), len(three.translated.own)
    st.markdown(f"{say('aligned')} {say('aligned_many' if 2 * n >= of else 'aligned_few', n=n, of=of)}")
    aligned = [
        RowToken(
            label, float(found.weights[place, source]), run.source_labels[source], "chosen" if place == row else ""
        )
        for place, (label, source) in enumerate(zip(labels, found.sources, strict=True))
    ]
    if three.translated.ended:
        del aligned[-1]  # the token that ends the translation translates nothing
    st.html(figures.token_row(aligned[:MAX_SHOWN], page.palette, description=say.plain("aligned_alt")))
    scale = show.Scale(say.plain("pattern"), "0", "1", page.palette.sequential)
    show.caption(show.Kind.MEASURED, say.plain("measured"), f"{where} · {say.plain('words_caption')}", scale)


def _draw_step(three: ThreeModels, found: Alignment, labels: list[str], row: int, column: int) -> None:
    """One written token: where it looked, and what else could have come."""
    say, page, run, written = three.page.say, three.page, three.translation_run, three.translated
    values = {"token": labels[row], "number": row + 1, "of": len(labels)}
    weight = numbers.probability(float(found.weights[row, column]))
    left, right = st.columns([1, 1.4], gap="large", vertical_alignment="center")
    with left:
        st.markdown(say("step_looks", **values, source=run.source_labels[column], weight=weight))
        p = numbers.probability(written.probabilities[row])
        st.markdown(say("step_end" if row >= len(written.own) else "step_chosen", **values, p=p))
        with st.container(key="controls_step", horizontal=True):
            for name, to in (("step_before", row - 1), ("step_after", row + 1)):
                st.button(
                    say.label(name),
                    key=name,
                    disabled=not 0 <= to < len(labels),
                    on_click=selection.update,
                    kwargs={"written": to, "read": None},
                )
    with right, st.container(gap="xsmall"):
        there = guesses(run, row, N_GUESSES)
        own = written.ids[row]
        fig = figures.bars(
            [three.translator.tokenizer.label(token) for token in there.ids],
            there.probabilities,
            page.palette,
            highlight=there.ids.index(own) if own in there.ids else None,
            maximum=1.0,
            printed=[numbers.probability(p) for p in there.probabilities],
        )
        caption = show.caption_html(
            show.Kind.MEASURED, say.plain("measured"), say.plain("step_caption", **values), palette=page.palette
        )
        show.figure(fig, "step_bars", alt=say.plain("step_alt", **values), caption=caption)
        parts.explain(page, map(three.translator.tokenizer.label, there.ids))


@st.cache_data(show_spinner=False, max_entries=256, hash_funcs={Trace: lambda run: run.id})
def _align(run: Trace, head: Head | None) -> Alignment:
    return align(run) if head is None else align(run, *head)


@st.cache_data(show_spinner=False, max_entries=256, hash_funcs={Trace: lambda run: run.id})
def _agreement(run: Trace, n_written: int) -> list[list[float]]:
    scores: list[list[float]] = agreement(run, n_written).tolist()
    return scores


@st.cache_data(show_spinner=False, max_entries=256, hash_funcs={Trace: lambda run: run.id})
def _clearest(run: Trace, n_written: int) -> Head:
    return clearest_head(run, n_written)
