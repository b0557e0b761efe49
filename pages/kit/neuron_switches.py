"""Neurons turned off, for this reader's run alone, and what becomes of the guess."""

from functools import partial

import streamlit as st

from model.analysis.neuron_effects import Change, Neuron, expected_change, switched_off
from model.language import LanguageModel
from model.trace import Trace
from pages.kit import figures, numbers, selection, show, switches
from pages.kit.feed_forward_neuron import Shown, plus, worded
from pages.kit.show import Kind

N_TOKENS = 7
N_MORE = 10


def draw(shown: Shown) -> None:
    """The switches, the next tokens in both runs, and their numbers."""
    page, say = shown.page, shown.page.say
    here: Neuron = (shown.of.layer, shown.neuron)
    off = [here] if page.sel.off is None else switches.read(page.sel.off)
    with st.container(key="section_switches", gap="xsmall"):
        st.header(say("off_title"), anchor=False)
        st.markdown(say(worded(page, "off"), token=page.run.labels[shown.position]))
        _draw_switches(shown, here, off)
        change = _switched_off(page.run, page.lm, tuple(off), shown.position)
        at = shown.position + int(page.lm.config.causal)  # of the text's own token in the place that is guessed
        follower = next(iter(page.run.tokens[at : at + 1]), None)
        ids = change.tokens(N_TOKENS, [] if follower is None else [follower])
        labels = [page.lm.tokenizer.labels([i])[0] for i in ids]
        left, right = st.columns([1.1, 1], gap="large")
        with left:
            _draw_bars(shown, change, ids, labels, len(off))
        with right:
            _draw_table(shown, change, ids, labels, off)


def _draw_switches(shown: Shown, here: Neuron, off: list[Neuron]) -> None:
    say, layer = shown.page.say, shown.of.layer

    def turn(value: bool) -> dict[str, str | int]:
        others = [one for one in off if one != here]
        return {"off": switches.written([*others, here] if value else others), "layer": here[0], "neuron": here[1]}

    with st.container(key="controls_switches", horizontal=True, vertical_alignment="center"):
        key = selection.widget("neuron_off", here in off, turn)
        st.toggle(say.label("turn_off", layer=layer, number=shown.neuron), key=key)
        most = [(layer, number) for number, _ in shown.ranked.first(N_MORE)]
        st.button(
            say.label("turn_more_off", n=len(most), layer=layer),
            key="turn_more_off",
            disabled=set(most) <= set(off),
            on_click=partial(selection.update, off=switches.written([*off, *most])),
        )
        st.button(say.label("all_on"), key="all_on", disabled=not off, on_click=partial(selection.update, off=""))
    if off and off != [here]:
        key = selection.widget("off_list", off, lambda new: {"off": switches.written(list(new))})
        st.pills(
            say.label("choose_off"),
            off,
            key=key,
            selection_mode="multi",
            format_func=lambda one: say.label("layer_neuron", layer=one[0], number=one[1]),
        )


def _draw_bars(shown: Shown, change: Change, ids: list[int], labels: list[str], n_off: int) -> None:
    page, say = shown.page, shown.page.say
    before, after = change.probabilities
    names = {"before": say.plain("as_it_is"), "after": say.plain("with_off")}
    fig = figures.changed_bars(
        labels,
        [float(before[i]) for i in ids],
        [float(after[i]) for i in ids],
        page.palette,
        before_name=names["before"],
        after_name=names["after"],
        printed=[f"{numbers.probability(float(before[i]))} → {numbers.probability(float(after[i]))}" for i in ids],
        highlight=ids.index(shown.token) if shown.token is not None and shown.token in ids else None,
    )
    st.html(figures.cost_legend(names, page.palette))
    text = say.plain("off_caption", n=n_off, bits=_bits(change.bits))
    caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=page.palette)
    show.figure(fig, "switched_off", alt=say.plain("off_alt"), caption=caption)


def _draw_table(shown: Shown, change: Change, ids: list[int], labels: list[str], off: list[Neuron]) -> None:
    """How far each logit moved, and how far it would have if later layers had not reacted."""
    page, say = shown.page, shown.page.say
    changes = {"measured": change.raised}
    if shown.effects is not None:
        changes["direct"] = expected_change(page.run, page.lm, off, shown.position)
    rows = [
        (label, [plus(_rounded(float(one[i]))) for one in changes.values()])
        for label, i in zip(labels, ids, strict=True)
    ]
    columns = [say.plain(f"off_{name}") for name in ("token", *changes)]
    st.html(figures.number_table(columns, rows, page.palette, description=say.plain("off_table_alt"), scrolls=True))
    st.markdown(say("off_why" if "direct" in changes else "off_why_measured"))


def _bits(value: float) -> str:
    return f"{value:.3f}" if value >= 1e-3 or value == 0 else numbers.power_of_ten(value)


def _rounded(value: float) -> float:
    return 0.0 if abs(value) < 1e-9 else value


@st.cache_data(show_spinner=False, max_entries=64, hash_funcs={Trace: lambda run: run.id})
def _switched_off(run: Trace, _lm: LanguageModel, off: tuple[Neuron, ...], position: int) -> Change:
    return switched_off(run, _lm, off, position)
