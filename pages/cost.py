"""What does a bigger model cost?"""

import streamlit as st

from model.analysis.costs import (
    block_parameters,
    cache_formula,
    parameter_count,
    parameter_formulas,
    pass_flops,
    rule_of_twelve,
    weights_formula,
)
from model.analysis.formula import Formula
from model.analysis.parameters import count_of_config
from model.analysis.presets import PRESETS
from model.config import TransformerConfig
from pages.kit import (
    cost_formats,
    cost_machine,
    cost_memory,
    cost_work,
    figures,
    numbers,
    plan_controls,
    plans,
    show,
    tokens,
)
from pages.kit.figures import Share, Step, Term
from pages.kit.page import Page, opening
from pages.kit.plans import Plan
from pages.kit.show import Kind

MAX_COUNTED = 160  # blocks of a module that is built, without memory for its numbers, only to be counted


def draw(page: Page) -> None:
    plan = plans.of(page.sel)
    tokens.strip(page, query=page.sel.query)
    plan_controls.draw(page, plan)
    draw_symbols(page, plan)
    draw_parameters(page, plan)
    cost_work.draw(page, plan)
    cost_memory.draw(page, plan)
    cost_formats.draw(page)
    speed = st.container()
    left, right = st.columns([2, 1], gap="large")
    with left:
        draw_models(page)
    with right, st.container(border=True, key="aside_try"):
        draw_try(page, plan)
    with speed:  # a machine is measured and a text written: the rest of the page need not wait for it
        cost_machine.draw(page, plan)


def draw_symbols(page: Page, plan: Plan) -> None:
    """What the letters of the formulas are, with their values."""
    say, c = page.say, plan.config
    values = {"d": c.d_model, "blocks": c.n_layers, "h": c.n_heads, "h_kv": c.n_kv_heads, "d_h": c.d_head}
    values |= {"f": c.d_ff, "v": c.vocab_size, "n": plan.context}
    letters = ("d", "L", "H", "Hₖᵥ", "dₕ", "f", "V", "n")
    words = [
        f"**{letter}** {say(f'symbol_{name}')} {value:,}"
        for letter, (name, value) in zip(letters, values.items(), strict=True)
    ]
    st.markdown(" · ".join(words))


def draw_parameters(page: Page, plan: Plan) -> None:
    """Parameters by part, by formula and counted, and the rule of twelve."""
    say, config = page.say, plan.config
    formulas = parameter_formulas(config)
    with st.container(key="section_parameters", gap="small"):
        st.header(say("parameters_title", n=numbers.count(parameter_count(config))), anchor=False)
        st.markdown(say("parameters"))
        left, right = st.columns([1, 1.25], gap="large")
        with left, st.container(gap="xsmall"):
            shares = [
                Share(say.plain(f"part_{part}"), formula.count, _note(page, config, part))
                for part, formula in formulas.items()
            ]
            words = {name: say.plain(f"parameters_{name}") for name in ("part_title", "count_title", "total")}
            st.html(figures.share_table(shares, page.palette, **words))
            _draw_count(page, config)
        with right, st.container(gap="xsmall"):
            steps = [
                Step(
                    f"{say.plain(f'part_{part}')}: {_symbols(page, formula)}",
                    [Term(f"{formula.numbers} = "), Term(f"{formula.count:,}", "result")],
                )
                for part, formula in formulas.items()
            ]
            title = say.plain("changed_plan" if plan.changed else "plain_plan", model=plan.name)
            note = say.plain("published", source=plan.source) if plan.source and not plan.changed else ""
            st.html(figures.arithmetic([Term(title)], steps, page.palette, note=note))
        _draw_rule(page, config)


def _symbols(page: Page, formula: Formula) -> str:
    """The formula in letters; what is a word in it is one of the reader's language."""
    symbols = formula.symbols
    for word in ("positions", "types"):
        symbols = symbols.replace(word, page.say.plain(f"factor_{word}"))
    return symbols


def _note(page: Page, config: TransformerConfig, part: str) -> str:
    return page.say.plain("tied_note") if part == "embedding" and config.tied_embeddings else ""


def _draw_count(page: Page, config: TransformerConfig) -> None:
    """The caption: the formula against the real module."""
    say, total = page.say, parameter_count(config)
    if config.n_layers + config.n_encoder_layers > MAX_COUNTED:
        show.caption(Kind.COMPUTED, say.plain("computed"), say.plain("not_counted", limit=MAX_COUNTED))
        return
    counted = page.lm.config == config
    n = sum(p.numel() for p in page.lm.transformer.parameters()) if counted else _counted(config)
    text = say.plain("counted_loaded" if counted else "counted_planned", n=f"{n:,}", difference=f"{n - total:,}")
    kind = Kind.MEASURED if counted else Kind.COMPUTED
    show.caption(kind, say.plain(kind.value), text)


@st.cache_data(show_spinner=False, max_entries=64)
def _counted(config: TransformerConfig) -> int:
    return count_of_config(config)


def _draw_rule(page: Page, config: TransformerConfig) -> None:
    say = page.say
    rule, blocks = rule_of_twelve(config), block_parameters(config)
    values = {
        "formula": rule.symbols,
        "numbers": rule.numbers,
        "rule": numbers.count(rule.value),
        "blocks": numbers.count(blocks),
        "ratio": numbers.three_digits(rule.value / blocks),
    }
    st.markdown(say("rule", **values))
    shape = config.n_heads * config.d_head / config.d_model, config.n_kv_heads / config.n_heads
    neurons = (3 if config.gated else 2) * config.d_ff / config.d_model
    attention = (2 * shape[0]) * (1 + shape[1])
    st.markdown(
        say("rule_why", attention=f"{attention:,.2f}", neurons=f"{neurons:,.2f}", sum=f"{attention + neurons:,.2f}")
    )


def draw_models(page: Page) -> None:
    """The loaded model and published ones, side by side."""
    say = page.say
    own = page.lm.config
    kept = 8 * page.lm.dtype.itemsize, 8 * page.lm.compute_dtype.itemsize
    models = {plans.LOADED: (page.lm.name, own, own.max_positions, kept)}
    models |= {name: (preset.name, preset.config, preset.context, (16, 16)) for name, preset in PRESETS.items()}
    rows = []
    for name, (title, config, context, (bits, cache_bits)) in models.items():
        n = parameter_count(config)
        work = sum(formula.value for formula in pass_flops(config, context).values())
        cache = numbers.memory(cache_formula(config, context, cache_bits).value) if config.kind == "decoder" else "–"
        cells = [
            numbers.count(n),
            f"{rule_of_twelve(config).value / block_parameters(config):.2f}",
            numbers.memory(weights_formula(config, bits).value),
            cache,
            numbers.with_prefix(work, "FLOP"),
        ]
        mark = figures.MARK if name == page.sel.plan else ""
        note = say.plain(
            "model_note", layers=config.n_layers, d=f"{config.d_model:,}", context=f"{context:,}", bits=bits
        )
        rows.append((f"{mark}{title}\n{note}", cells))
    columns = [say.plain(f"models_{name}") for name in ("name", "parameters", "rule", "weights", "cache", "read")]
    with st.container(key="section_models", gap="xsmall"):
        st.header(say("models_title"), anchor=False)
        show.marked_table(
            Kind.COMPUTED,
            say.plain("computed"),
            say.plain("models_caption"),
            columns,
            rows,
            page.palette,
            description=say.plain("models_alt"),
            mark=say.plain("mark_chosen"),
            key="models_table",
        )


def draw_try(page: Page, plan: Plan) -> None:
    """What to turn, with what it would do to this plan."""
    say, config = page.say, plan.config
    st.markdown(say("try_title"))
    wide = _growth(config, d_model=2 * config.d_model, d_head=2 * config.d_head, d_ff=2 * config.d_ff)
    deep = _growth(config, n_layers=2 * config.n_layers)
    if wide and deep:
        st.markdown(say("try_width", wide=f"{wide:.2f}", deep=f"{deep:.2f}"))
    st.markdown(say("try_context"))
    st.markdown(say("try_bits"))
    if page.sel.plan != "gpt3":
        st.markdown(say("try_gpt3"))


def _growth(config: TransformerConfig, **changes: int) -> float | None:
    """How many times the parameters of the blocks become with these sizes; None for sizes beyond all bounds."""
    try:
        return block_parameters(plans.resized(config, **changes)) / block_parameters(config)
    except ValueError:
        return None


draw(opening("cost"))
