"""The lower half of the page on the next token: where a logit comes from, and what a text's own tokens cost."""

import math
from functools import partial

import plotly.graph_objects as go
import streamlit as st

from model.analysis.next_token import Choice, Costs, Readout, costs, readout
from model.trace import Trace
from pages.kit import figures, numbers, show, tokens
from pages.kit.figures import Step, Strip, Term
from pages.kit.page import Page
from pages.kit.show import Kind

N_TERMS = 5
# Figures that no slider changes are kept: building one takes longer than all of the ledger.
_kept = st.cache_resource(
    show_spinner=False,
    max_entries=64,
    hash_funcs={Page: lambda page: (page.run.id, page.say.lang, page.palette)},
)


def draw_readout(page: Page, chosen: Choice) -> None:
    """Final norm and dot product: one logit's own arithmetic."""
    say, config, palette = page.say, page.lm.config, page.palette
    token = chosen.draw.id
    label = page.lm.tokenizer.label(token)
    of = readout(page.run, page.lm.transformer, chosen.position, token)
    sizes = {"d_model": config.d_model, "vocab_size": f"{config.vocab_size:,}"}
    with st.container(key="section_readout", gap="xsmall"):
        st.header(say("readout_title", token=label), anchor=False)
        st.markdown(say("readout", **sizes))
        with st.container(gap=None):
            st.caption(say("readout_shape", d_model=config.d_model, vocab_size=config.vocab_size))
            show.figure(
                _readout_figure(page, chosen.position, token),
                "readout",
                alt=say.plain("readout_alt", token=label),
                caption=show.caption_html(
                    Kind.MEASURED, say.plain("measured"), say.plain("readout_caption"), palette=palette
                ),
            )
        st.html(
            figures.arithmetic([Term(f"“{label}”")], _readout_steps(page, of), palette, note=_readout_note(page, of))
        )


def _readout_steps(page: Page, of: Readout) -> list[Step]:
    say = page.say
    before, after = of.lengths
    lengths = f"{numbers.three_digits(before)} → {numbers.three_digits(after)}"
    terms: list[Term] = []
    for _, x, w in of.largest(N_TERMS):
        terms.append(Term(f"{' + ' if terms else ''}{_in_brackets(x)}·{_in_brackets(w)}"))
    rest = of.rest(N_TERMS)
    terms.append(Term(f" {'−' if rest < 0 else '+'} {numbers.signed(abs(rest))}"))
    terms.append(Term(f" ({say.plain('readout_rest', n=len(of.products) - N_TERMS)})", "muted"))
    return [
        Step(say.plain("readout_norm_step"), [Term(lengths)]),
        Step(say.plain("readout_dot_step", n=len(of.products)), terms),
        Step(say.plain("readout_logit_step"), [Term("= "), Term(numbers.signed(of.logit), "result")]),
    ]


def _readout_note(page: Page, of: Readout) -> str:
    return page.say.plain("readout_note", n=len(of.products), difference=numbers.power_of_ten(of.difference))


def _in_brackets(value: float) -> str:
    printed = numbers.signed(value)
    return f"({printed})" if printed.startswith("−") else printed


def draw_costs(page: Page) -> None:
    """What each token of the text cost, and the perplexity of the whole."""
    say, run = page.say, page.run
    spent = _costs(run)
    with st.container(key="section_costs", gap="xsmall"):
        st.header(say("cost_title"), anchor=False)
        if spent.mean is None or spent.perplexity is None:
            st.markdown(say("cost_one_token"))
            return
        left, right = st.columns([1.6, 1], gap="large")
        with right:
            _say_costs(page, spent, spent.mean, spent.perplexity)
        with left:
            show.figure(
                _costs_figure(page, page.sel.query),
                "costs",
                alt=say.plain("cost_alt"),
                caption=show.caption_html(
                    Kind.MEASURED, say.plain("measured"), say.plain("cost_caption"), palette=page.palette
                ),
            )


def _say_costs(page: Page, spent: Costs, mean: float, perplexity: float) -> None:
    say, run = page.say, page.run
    st.markdown(say("cost"))
    vocab_size = page.lm.config.vocab_size
    sizes = {"vocab_size": f"{vocab_size:,}"}
    section = "cost_mean" if perplexity < vocab_size else "cost_mean_blind"
    st.markdown(say(section, mean=numbers.bits(mean), perplexity=numbers.three_digits(perplexity), **sizes))
    ends = {}
    for name, position in (("cheap", spent.cheapest), ("dear", spent.dearest)):
        ends[name] = run.labels[position]
        ends[f"{name}_bits"] = numbers.bits(float(spent.bits[position - 1]))
        ends[f"{name}_p"] = numbers.probability(spent.probability(position))
    if spent.cheapest != spent.dearest:
        st.markdown(say("cost_ends", **ends))
    plain = 8 * spent.n_bytes
    section = "cost_total" if spent.total < plain else "cost_total_more"
    st.markdown(say(section, total=f"{spent.total:,.0f}", plain=f"{plain:,}"))
    st.button(
        say.label("cost_look", token=run.labels[spent.dearest]),
        key="go_dearest",
        on_click=partial(tokens.choose, spent.dearest - 1),
    )


@_kept
def _readout_figure(page: Page, position: int, token: int) -> go.Figure:
    say, palette = page.say, page.palette
    of = readout(page.run, page.lm.transformer, position, token)
    label = page.lm.tokenizer.label(token)
    parts = [
        (say.plain("strip_stream"), of.stream.numpy(), None),
        (say.plain("strip_normed"), of.normed.numpy(), None),
        (say.plain("strip_weights", token=label), of.weights.numpy(), None),
        (say.plain("strip_products"), of.products.numpy(), palette.accent),
    ]
    strips = [Strip(name, values, colour, figures.symmetric_limit(values)) for name, values, colour in parts]
    return figures.value_strip(strips, palette, index_word=say.plain("number"), row=18)


@_kept
def _costs_figure(page: Page, query: int | None) -> go.Figure:
    say, run = page.say, page.run
    spent = _costs(run)
    if spent.mean is None:
        raise ValueError("A single token has no costs to draw.")
    return figures.token_costs(
        run.labels,
        [math.nan, *spent.bits.tolist()],
        page.palette,
        highlight=query,
        y_title=say.plain("cost_axis"),
        mean=spent.mean,
        mean_text=say.plain("cost_mean_mark", mean=numbers.bits(spent.mean)),
        unknown_text=say.plain("cost_first"),
        unit=say.plain("bits_unit"),
    )


@st.cache_data(show_spinner=False, max_entries=256, hash_funcs={Trace: lambda run: run.id})
def _costs(run: Trace) -> Costs:
    return costs(run)
