"""A neuron as key and value: the texts that light it up, and the tokens that its row raises and lowers."""

from collections.abc import Sequence

import streamlit as st

from model.analysis.neuron_effects import DirectEffects
from model.analysis.neuron_index import ENDS, Context, End, NeuronIndex, along_text, load_index
from model.language import LanguageModel
from model.zoo.catalog import available
from pages.kit import errors, figures, loading, numbers, show
from pages.kit.feed_forward_neuron import Shown, plus, worded
from pages.kit.figures import ShadedText
from pages.kit.show import Kind, Scale

N_TOKENS = 8
N_TEXTS = (5, 3)  # of the end that goes further, and of the other
AROUND = 16  # tokens of the reader's text on either side of the chosen one


def draw(shown: Shown) -> None:
    """Two columns: key and value."""
    say = shown.page.say
    with st.container(key="section_memory", gap="xsmall"):
        st.header(say("memory_title", number=shown.neuron, layer=shown.of.layer), anchor=False)
        st.markdown(say(worded(shown.page, "memory")))
    left, right = st.columns([1.5, 1], gap="large")
    with left, st.container(key="section_texts", gap="xsmall"), errors.guarded(say, "texts_failed"):
        _draw_texts(shown)
    with right, st.container(key="section_tokens", gap="xsmall"):
        st.markdown(f"**{say(worded(shown.page, 'tokens_title'))}**")
        if shown.effects is None:
            st.markdown(say("tokens_none"))
        else:
            _draw_tokens(shown, shown.effects)


def _draw_texts(shown: Shown) -> None:
    page, say, layer, neuron = shown.page, shown.page.say, shown.of.layer, shown.neuron
    st.markdown(f"**{say('texts_title')}**")
    index = _index(page.lm.id)
    own = [float(value) for value in shown.of.post[:, neuron]]
    first = max(0, shown.position - AROUND)
    groups = [("texts_here", [_shaded(page.lm, page.run.tokens, own, shown.position, first)])]
    differences = [0.0]
    limit = max(map(abs, own))
    if index is not None:
        for end, contexts in _contexts(index, page.lm, layer, neuron, gated=shown.of.linear is not None):
            rows = []
            for context, values in contexts:
                differences.append(abs(values[context.position] - context.activation))
                rows.append(_shaded(page.lm, context.ids, values, context.position))
                limit = max(limit, *map(abs, values))
            groups.append((f"texts_{end}", rows))
    for section, rows in groups:
        st.caption(say(section))
        st.html(figures.shaded_texts(rows, page.palette, limit=limit or 1.0, description=say.plain(section)))
    if index is None:
        st.info(say(worded(page, "texts_none"), model=page.lm.name), icon=":material/info:")
    scale = Scale(
        say.plain("activation"), f"−{numbers.three_digits(limit)}", numbers.three_digits(limit), page.palette.diverging
    )
    text = "" if index is None else _sample(shown, index, max(differences))
    show.caption(Kind.MEASURED, say.plain("measured"), text, scale)


def _sample(shown: Shown, index: NeuronIndex, difference: float) -> str:
    sampling = index.about["sampling"]
    return shown.page.say.plain(
        "texts_caption",
        n=f"{index.n_sentences:,}",
        written=f"{index.n_written:,}",
        ours=f"{index.n_sentences - index.n_written:,}",
        temperature=sampling["temperature"],
        top_p=sampling["top_p"],
        difference=numbers.power_of_ten(difference),
    )


def _shaded(
    lm: LanguageModel, ids: Sequence[int], values: Sequence[float], position: int, first: int = 0
) -> ShadedText:
    """Of the tokens from `first` on; a piece of several tokens has the activation of its strongest."""
    pieces: list[tuple[str, float]] = []
    peak, cut = None, False
    for piece in lm.tokenizer.pieces(list(ids)):
        if piece.end <= first:
            continue
        if first and piece.start > position + AROUND:
            cut = True
            break
        if piece.start <= position < piece.end:
            peak = len(pieces)
        pieces.append((piece.text or piece.label, max(values[piece.start : piece.end], key=abs)))
    if first:
        pieces.insert(0, ("… ", 0.0))
        peak = None if peak is None else peak + 1
    if cut:
        pieces.append((" …", 0.0))
    return ShadedText(numbers.signed_digits(values[position]), pieces, peak)


def _draw_tokens(shown: Shown, effects: DirectEffects) -> None:
    page, say, neuron = shown.page, shown.page.say, shown.neuron
    raised, lowered = effects.raised(neuron, N_TOKENS), effects.lowered(neuron, N_TOKENS)
    largest = max(abs(value) for _, value in (*raised, *lowered))
    low, _, high = page.palette.diverging
    for name, found, colour in (("raised", raised, high), ("lowered", lowered, low)):
        fig = figures.bars(
            [page.lm.tokenizer.labels([token])[0] for token, _ in found],
            [abs(value) for _, value in found],
            page.palette,
            colours=[colour] * len(found),
            maximum=largest,
            printed=[plus(value) for _, value in found],
        )
        st.caption(say(f"tokens_{name}"))
        show.figure(fig, f"neuron_{name}", alt=say.plain(f"tokens_{name}_alt", number=neuron))
    section = "tokens_here" if shown.activation >= 0 else "tokens_here_negative"
    st.markdown(say(section, token=page.run.labels[shown.position], activation=numbers.signed_digits(shown.activation)))
    text = say.plain("tokens_caption", scale=numbers.three_digits(effects.scale))
    show.caption(Kind.COMPUTED, say.plain("computed"), text)


@loading.leaves_with_a_model
@st.cache_resource(show_spinner=False, max_entries=4)
def _index(name: str) -> NeuronIndex | None:
    entry = available().get(name)
    return None if entry is None else load_index(entry.folder)


def _contexts(
    index: NeuronIndex, lm: LanguageModel, layer: int, neuron: int, *, gated: bool
) -> list[tuple[End, list[tuple[Context, tuple[float, ...]]]]]:
    """The contexts of a neuron's end that goes further, and a few of the other; without a gate only the high one."""
    ends: tuple[End, ...] = ENDS if gated else ENDS[:1]
    found = {end: index.contexts(layer, neuron, end) for end in ends}
    further = sorted(found, key=lambda end: -abs(found[end][0].activation))
    return [
        (end, [(one, _along(lm, lm.name, one.ids, layer, neuron)) for one in found[end][:count]])
        for end, count in zip(further, N_TEXTS, strict=False)
    ]


@st.cache_data(show_spinner=False, max_entries=1_000)
def _along(_lm: LanguageModel, name: str, ids: tuple[int, ...], layer: int, neuron: int) -> tuple[float, ...]:
    return along_text(_lm, ids, layer, neuron)
