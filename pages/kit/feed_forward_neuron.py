"""One neuron of the page on the feed-forward network: its arithmetic at the chosen token."""

from dataclasses import dataclass
from functools import cached_property

import streamlit as st

from model.analysis.feed_forward import FeedForwardRun
from model.analysis.neuron_effects import DirectEffects, Ranking, ranking_by_effect, ranking_by_size
from pages.kit import figures, numbers
from pages.kit.figures import Step, Term
from pages.kit.page import Page


@dataclass(frozen=True)
class Shown:
    """What the sections of the page look at: a layer's network, and of it one neuron at one token.

    `token` is the likeliest next one there, of an encoder the likeliest in its place; None in a model without logits.
    `effects` is None where there is no straight way to the logits.
    """

    page: Page
    of: FeedForwardRun
    effects: DirectEffects | None
    position: int
    neuron: int
    token: int | None

    @cached_property
    def label(self) -> str:
        """That token as people read it."""
        return "" if self.token is None else self.page.lm.tokenizer.labels([self.token])[0]

    @property
    def order(self) -> str:
        """What neurons are sorted by: as the reader chose, where there is a choice."""
        return "size" if self.effects is None else self.page.sel.ranked_by

    @cached_property
    def ranked(self) -> Ranking:
        """The layer's neurons in that order."""
        if self.effects is None or self.token is None or self.order == "size":
            return ranking_by_size(self.of, self.position)
        return ranking_by_effect(self.effects, self.token)

    @property
    def activation(self) -> float:
        """The neuron's activation at the token."""
        return float(self.of.post[self.position, self.neuron])


def worded(page: Page, section: str) -> str:
    """The section that has the words for this model: an encoder guesses what stands in a place, not what comes next."""
    here = f"{section}_here"
    return section if page.lm.config.causal or here not in page.say else here


def plus(value: float) -> str:
    """A number with its sign, also where it is a plus."""
    printed = numbers.signed_digits(value)
    return printed if value < 0 or not value else f"+{printed}"


def draw(shown: Shown) -> None:
    """From the vector that comes in to the logit, in the neuron's own numbers."""
    page, say = shown.page, shown.page.say
    of, position, neuron = shown.of, shown.position, shown.neuron
    print_ = numbers.signed_digits
    d_model = page.lm.config.d_model
    x, value = float(of.pre[position, neuron]), float(of.curved()[position, neuron])
    activation, row = shown.activation, float(of.rows[neuron].norm())
    products = "products" if of.key_bias is None else "products_bias"
    result = Term(print_(value), "" if of.linear is not None else "result")
    steps = [
        Step(say.plain("step_key"), [Term(say.plain(products, n=d_model, value=print_(x)))]),
        Step(say.plain(of.curve), [*_formula(of.curve, x), Term(" = "), result]),
    ]
    if of.linear is not None:
        linear = float(of.linear[position, neuron])
        steps.append(Step(say.plain("step_linear"), [Term(say.plain(products, n=d_model, value=print_(linear)))]))
        product = f"{print_(value)} × {in_brackets(linear)} = "
        steps.append(Step(say.plain("step_activation"), [Term(product), Term(print_(activation), "result")]))
    written = f"{print_(abs(activation))} × {numbers.three_digits(row)} = "
    steps.append(Step(say.plain("step_written"), [Term(written + numbers.three_digits(abs(activation) * row))]))
    share = numbers.percent(float(of.shares(position)[neuron]))
    note = say.plain("neuron_share", share=share)
    if shown.effects is not None and shown.token is not None:
        unit = float(shown.effects.per_unit(neuron)[shown.token])
        pushed = [Term(f"{print_(activation)} × {in_brackets(unit)} = "), Term(plus(activation * unit), "result")]
        steps.append(Step(say.plain("step_logit", token=shown.label), pushed))
        note += " " + say.plain("neuron_note", scale=numbers.three_digits(shown.effects.scale))
    who = [Term(page.run.labels[position], "query"), Term(f" → {say.plain('neuron_number', number=neuron)}")]
    st.html(figures.arithmetic(who, steps, page.palette, note=note))


def in_brackets(value: float) -> str:
    """A number as a factor: negative ones in brackets."""
    printed = numbers.signed_digits(value)
    return f"({printed})" if printed.startswith("−") else printed


def _formula(curve: str, x: float) -> list[Term]:
    one, minus = numbers.signed_digits(x), numbers.signed_digits(-x)
    if curve == "relu":
        return [Term(f"max(0, {one})")]
    if curve == "silu":
        return [Term(f"{one} ÷ (1 + e"), Term(minus, raised=True), Term(")")]
    if curve == "gelu_erf":
        return [Term(f"{one} · Φ({one})")]
    cube = [Term("3", raised=True), Term(")))")]
    return [Term(f"{one} ÷ 2 · (1 + tanh(0.798 · ({one} + 0.0447 · {in_brackets(x)}"), *cube]
