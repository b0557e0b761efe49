"""Memory of a plan: what using it and what training it hold. Part of the page on cost."""

import streamlit as st

from model.analysis.costs import activation_formulas, cache_formula, training_memory, weights_formula
from model.analysis.formula import Formula
from pages.kit import figures, numbers, show
from pages.kit.figures import Step, Term
from pages.kit.page import Page
from pages.kit.plans import Plan
from pages.kit.show import Kind


def draw(page: Page, plan: Plan) -> None:
    """Both, as bars on one scale, with their formulas below."""
    say, config = page.say, plan.config
    using = {"weights": weights_formula(config, plan.bits)}
    if config.kind == "decoder":
        using["cache"] = cache_formula(config, plan.context, plan.cache_bits)
    training = training_memory(config, plan.bits)
    activations = activation_formulas(config, plan.context, plan.bits)
    training |= {f"activations_{name}": formula for name, formula in activations.items()}
    with st.container(key="section_memory", gap="small"):
        st.header(say("memory_title"), anchor=False)
        st.markdown(say("memory"))
        for column, (kind, formulas) in zip(
            st.columns(2, gap="large"), (("using", using), ("training", training)), strict=True
        ):
            with column, st.container(key=f"section_{kind}", gap="xsmall"):
                _draw(page, plan, kind, formulas)


def _draw(page: Page, plan: Plan, kind: str, formulas: dict[str, Formula]) -> None:
    say = page.say
    total = sum(formula.value for name, formula in formulas.items() if name != "activations_patterns")
    st.markdown(say(f"{kind}_text", total=numbers.memory(total)))
    values = [formula.value for formula in formulas.values()]
    names = [say.plain(f"memory_{name}") for name in formulas]
    figure = figures.bars(names, values, page.palette, printed=[numbers.memory(value) for value in values])
    bits = plan.bits if kind == "using" else max(plan.bits, 16)
    text = say.plain(f"{kind}_caption", n=f"{plan.context:,}", bits=bits)
    caption = show.caption_html(Kind.COMPUTED, say.plain("computed"), text, palette=page.palette)
    show.figure(figure, f"memory_{kind}", alt=say.plain(f"{kind}_alt"), caption=caption)
    steps = [
        Step(
            f"{say.plain(f'memory_{name}')}: {formula.symbols}",
            [Term(f"{formula.numbers} = "), Term(numbers.memory(formula.value), "result")],
        )
        for name, formula in formulas.items()
    ]
    st.html(figures.arithmetic([Term(say.plain(f"{kind}_formulas"))], steps, page.palette))
