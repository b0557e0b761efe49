"""The same word in several sentences: how context moves its vector, layer by layer."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import streamlit as st

from model.analysis.context import Comparison, compare, find_word, other_words
from model.trace import Trace
from pages.kit import controls, figures, limits, loading, numbers, selection, show
from pages.kit.figures import Mark, Series, Step, Strip, Term
from pages.kit.page import Page
from pages.kit.show import Kind, Scale

APART = 0.1  # of cosine: below it, two sentences are about as near as each other
SENTENCES = 3
EXAMPLES = 3


@dataclass(frozen=True)
class _Vectors:
    """Sentence (counted from 1), its tokens of the word, and the word's vector after every step."""

    sentence: int
    run: Trace
    positions: tuple[int, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.run.labels[position] for position in self.positions)


def draw(page: Page) -> None:
    """Controls, the cosines by layer, and the arithmetic of one of them."""
    say, sel = page.say, page.sel
    word = (sel.word if sel.word is not None else say.plain("first_word"))[: limits.MAX_WORD]
    lines = (sel.sentences if sel.sentences is not None else say.plain("first_sentences")).split("\n")
    texts = [text[: limits.MAX_SENTENCE] for text in (lines + [""] * SENTENCES)[:SENTENCES]]
    with st.container(key="section_context", gap="xsmall"):
        st.header(say("context_title", word=word or "…"), anchor=False)
        st.markdown(say("context_before" if page.lm.config.causal else "context_both"))
        _draw_inputs(page, word, texts)
        found = _find(page, word, texts)
        if found is None:
            return
        _draw_context(page, word, found)


def _draw_inputs(page: Page, word: str, texts: list[str]) -> None:
    say = page.say
    with st.container(key="controls_context"):
        first, *others = st.columns([1, *[2] * SENTENCES], vertical_alignment="bottom")
        first.text_input(say.label("word"), key=selection.widget("word", word), max_chars=limits.MAX_WORD)
        for place, (column, text) in enumerate(zip(others, texts, strict=True)):
            column.text_input(
                say.label(f"sentence_{place + 1}"),
                key=selection.widget(f"sentence_{place + 1}", text, partial(_with_sentence, texts, place)),
                max_chars=limits.MAX_SENTENCE,
            )
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(say("context_try"), width="content")
            for number in range(1, EXAMPLES + 1):
                example = {name: say.plain(f"example_{name}_{number}") for name in ("word", "sentences")}
                go = partial(selection.update, **example)
                st.button(say.label("context_example", word=example["word"]), key=f"context_{number}", on_click=go)


def _with_sentence(texts: list[str], place: int, new: str) -> dict[str, str]:
    texts[place] = " ".join(new.split("\n"))  # shared by the boxes, as in `pages/embeddings.py`
    return {"sentences": "\n".join(texts)}


def _find(page: Page, word: str, texts: list[str]) -> list[_Vectors] | None:
    """The word in each sentence; None, with a sentence for the reader, where it is missing. The third may be empty."""
    say = page.say
    if not word.strip():
        st.markdown(say("context_no_word"))
        return None
    found, missing = [], []
    for number, text in enumerate(texts, 1):
        if number == SENTENCES and not text.strip():
            continue
        run = loading.trace(replace(page.sel, text=text, ids=None))
        positions = find_word(run, word) if text else ()
        if positions:
            found.append(_Vectors(number, run, positions))
        else:
            missing.append(str(number))
    if missing:
        st.markdown(say("context_missing", word=word, sentences=", ".join(missing)))
        return None
    return found


def _draw_context(page: Page, word: str, found: list[_Vectors]) -> None:
    say, palette = page.say, page.palette
    first = found[0]
    compared = {one.sentence: _compare(first.run, first.positions, one.run, one.positions) for one in found[1:]}
    curves = {number: one.cosines for number, one in compared.items()}
    layer = _telling(curves) if page.sel.layer is None else page.sel.layer
    layers = page.lm.config.n_layers
    colours = {2: palette.key, 3: palette.accent}
    series = [
        Series(say.plain("line_pair", other=number), curve, colours[number], points=True)
        for number, curve in curves.items()
    ]
    others = _others(first.run, found[1].run)
    if np.isfinite(others).all():
        series.append(Series(say.plain("line_others"), others, palette.muted, "dash"))
    fig = figures.lines(
        range(layers + 1),
        series,
        palette,
        x_title=say.plain("context_x"),
        y_title=say.plain("context_y"),
        marks=[Mark(layer + 1, say.plain("after_block", layer=layer))],
        height=320,
        x_ticks=range(0, layers + 1, max(1, layers // 12)),
    )
    named = [say.plain("context_tokens", sentence=one.sentence, labels=" ".join(one.labels)) for one in found]
    text = " · ".join([*named, say.plain("context_caption")])
    caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=palette)
    show.figure(fig, "context", alt=say.plain("context_alt", word=word), caption=caption)
    _tell(page, word, found, curves, layer)
    with st.container(key="controls_layer", horizontal=True, vertical_alignment="bottom"):
        controls.numbered("layer", say.label("choose_block"), layer, layers)
    _draw_meeting(page, word, compared[2], layer)


def _telling(curves: dict[int, list[float]]) -> int:
    """The block after which sentence 2 and 3 differ most in how near they are to sentence 1."""
    reference = curves.get(3, [1.0] * len(curves[2]))
    gaps = [abs(same - other) for same, other in zip(reference, curves[2], strict=True)]
    return max(range(len(gaps) - 1), key=lambda block: gaps[block + 1])


def _tell(page: Page, word: str, found: list[_Vectors], curves: dict[int, list[float]], layer: int) -> None:
    """What the curves show, in words that fit the numbers."""
    say = page.say
    other = curves[2][layer + 1]
    values = {"word": word, "layer": layer, "start": numbers.signed(curves[2][0], 3), "other": numbers.signed(other, 3)}
    alike = len({tuple(one.run.tokens[p] for p in one.positions) for one in found}) == 1
    st.markdown(say("context_start" if alike else "context_start_differs", **values))
    if 3 not in curves:
        st.markdown(say("context_found", **values))
        return
    same = curves[3][layer + 1]
    verdict = "apart" if same - other > APART else "reversed" if other - same > APART else "alike"
    values["same"] = numbers.signed(same, 3)
    st.markdown(say("context_found_both", **values))
    st.markdown(say(f"context_{verdict}"))


def _draw_meeting(page: Page, word: str, compared: Comparison, layer: int) -> None:
    """The two vectors after a block, and the arithmetic of their cosine."""
    say, palette = page.say, page.palette
    one, other = compared.first[layer + 1].numpy(), compared.second[layer + 1].numpy()
    limit = figures.symmetric_limit(one, other)
    strips = [Strip(say.plain("strip_sentence", sentence=number), v) for number, v in ((1, one), (2, other))]
    end = numbers.three_digits(limit)
    scale = Scale(say.plain("row_scale"), f"−{end}", end, palette.diverging)
    text = say.plain("after_block", layer=layer)
    caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, scale, palette=palette)
    fig = figures.value_strip(strips, palette, limit=limit, index_word=say.plain("number"), row=18)
    show.figure(fig, "context_strips", alt=say.plain("strips_alt", word=word, layer=layer), caption=caption)
    met = compared.meetings[layer + 1]
    dot, first, second = (numbers.signed_digits(value) for value in (met.dot, met.first, met.second))
    steps = [
        Step(say.plain("step_dot"), [Term(f"a·b = {dot}")]),
        Step(say.plain("step_lengths"), [Term(f"|a| = {first}, |b| = {second}")]),
        Step(
            say.plain("step_cosine"),
            [Term(f"{dot} ÷ ({first} · {second}) = "), Term(numbers.signed(met.cosine, 3), "result")],
        ),
    ]
    who = [Term(say.plain("context_who", word=word, layer=layer))]
    st.html(figures.arithmetic(who, steps, palette))


@st.cache_data(show_spinner=False, max_entries=64, hash_funcs={Trace: lambda run: run.id})
def _compare(one: Trace, positions: tuple[int, ...], other: Trace, others: tuple[int, ...]) -> Comparison:
    return compare(one, positions, other, others)


@st.cache_data(show_spinner=False, max_entries=64, hash_funcs={Trace: lambda run: run.id})
def _others(one: Trace, other: Trace) -> np.ndarray:
    values: np.ndarray = other_words(one, other).numpy()
    return values
