"""Operations of a plan: reading, writing, and the table of squares. Part of the page on cost."""

import numpy as np
import streamlit as st

from model.analysis.costs import CONTEXTS, decode_flops, pair_growth, parameter_count, pass_flops, training_flops
from model.analysis.formula import Formula
from pages.kit import figures, numbers, show
from pages.kit.figures import Mark, Series, Step, Term
from pages.kit.page import Page
from pages.kit.plans import Plan
from pages.kit.show import Kind

TRAINING_TOKENS = 20  # for every parameter, as Hoffmann et al. 2022 recommend


def draw(page: Page, plan: Plan) -> None:
    """Formulas with their numbers, work by length, pairs by length."""
    say = page.say
    with st.container(key="section_work", gap="small"):
        st.header(say("work_title"), anchor=False)
        st.markdown(say("work"))
        left, right = st.columns(2, gap="large")
        with left, st.container(gap="xsmall"):
            _draw_formulas(page, "reading", plan, pass_flops(plan.config, plan.context))
        with right, st.container(gap="xsmall"):
            if plan.config.kind == "decoder":
                _draw_formulas(page, "writing", plan, decode_flops(plan.config, plan.context))
            else:
                st.markdown(say("no_writing", model=plan.name))
        show.caption(Kind.COMPUTED, say.plain("computed"), say.plain("work_caption"))
        n = parameter_count(plan.config)
        training = training_flops(n, TRAINING_TOKENS * n)
        values = {
            "formula": training.symbols,
            "numbers": training.numbers,
            "flops": numbers.power_of_ten(training.value),
            "tokens": numbers.count(TRAINING_TOKENS * n),
        }
        st.markdown(say("work_training", **values))
    with st.container(key="section_square", gap="small"):
        st.header(say("square_title"), anchor=False)
        st.markdown(say("square"))
        left, right = st.columns([1.15, 1], gap="large")
        with left, st.container(gap="xsmall"):
            _draw_table(page, plan)
        with right, st.container(gap="xsmall"):
            _draw_curve(page, plan)


def _draw_formulas(page: Page, kind: str, plan: Plan, formulas: dict[str, Formula]) -> None:
    say = page.say
    steps = [
        Step(
            f"{say.plain(f'work_{name}')}: {formula.symbols}",
            [Term(f"{formula.numbers} = "), Term(numbers.with_prefix(formula.value, "FLOP"), "result")],
        )
        for name, formula in formulas.items()
    ]
    total = sum(formula.value for formula in formulas.values())
    steps.append(Step(say.plain("work_total"), [Term(numbers.with_prefix(total, "FLOP"), "result")]))
    st.html(figures.arithmetic([Term(say.plain(kind, n=f"{plan.context:,}"))], steps, page.palette))


def _draw_table(page: Page, plan: Plan) -> None:
    say, config = page.say, plan.config
    rows = []
    for length, growth in zip(CONTEXTS, pair_growth(), strict=True):
        parts = {name: formula.value for name, formula in pass_flops(config, length).items()}
        share = parts["attention"] / sum(parts.values())
        matrix = length * length * 2  # bytes: one head's weights in 16 bits
        cells = [
            f"{growth:,}×",
            numbers.with_prefix(parts["attention"], "FLOP"),
            numbers.percent(share),
            numbers.memory(matrix),
        ]
        rows.append((f"{length:,}", cells))
    columns = [say.plain(f"square_{name}") for name in ("length", "pairs", "work", "share", "matrix")]
    table = figures.number_table(columns, rows, page.palette, description=say.plain("square_alt"), scrolls=True)
    st.html(table)
    show.caption(Kind.COMPUTED, say.plain("computed"), say.plain("square_caption"))


def _draw_curve(page: Page, plan: Plan) -> None:
    say, palette = page.say, page.palette
    top = max(CONTEXTS[-1], 4 * plan.context)  # so that the mark's words and the lines' names do not meet
    lengths = np.geomspace(128, top, 41)
    work = [pass_flops(plan.config, round(n)) for n in lengths]
    parts = {name: [one[name].value for one in work] for name in ("matrices", "attention")}
    fig = figures.lines(
        lengths,
        [
            Series(say.plain("work_matrices"), parts["matrices"], palette.ink),
            Series(say.plain("work_attention"), parts["attention"], palette.accent),
        ],
        palette,
        x_title=say.plain("length_axis"),
        y_title=say.plain("flop_axis"),
        log_x=True,
        log_y=True,
        marks=[Mark(max(plan.context, 128), say.plain("your_length", n=f"{plan.context:,}"))],
        height=270,
        decimals=3,
        x_ticks=[10.0**power for power in range(3, 9) if 10.0**power <= top],
    )
    formulas = pass_flops(plan.config, 1)
    meet = formulas["matrices"].value / formulas["attention"].value  # 2·n·M = 4·…·n²
    caption = show.caption_html(
        Kind.COMPUTED, say.plain("computed"), say.plain("curve_caption", n=f"{meet:,.0f}"), palette=palette
    )
    show.figure(fig, "work_by_length", alt=say.plain("curve_alt"), caption=caption)
