"""How large a cache is, by formula, for the loaded and for published models: part of the page on the cache."""

import streamlit as st

from model.analysis.costs import bytes_per_value, cache_formula, weights_formula
from model.analysis.presets import PRESETS
from model.config import TransformerConfig
from pages.kit import figures, numbers, plans, selection, show
from pages.kit.figures import Step, Term
from pages.kit.page import Page
from pages.kit.plan_controls import WIDTH, choose_preset
from pages.kit.plans import Plan
from pages.kit.show import Kind

SHARED = 8  # key/value heads of the grouped column


def draw(page: Page) -> None:
    """A preset, its length, heads and bits; the formula with these numbers; all presets side by side."""
    say, plan = page.say, plans.of(page.sel)
    with st.container(key="section_plan_sizes", gap="small"):
        st.header(say("size_title"), anchor=False)
        st.markdown(say("size"))
        with st.container(key="controls_sizes", horizontal=True, vertical_alignment="bottom"):
            choose_preset(page)
            if plan.config.kind == "decoder":
                _draw_controls(page, plan)
        if plan.config.kind != "decoder":
            st.markdown(say("size_no_cache", model=plan.name))
        else:
            _draw_formula(page, plan)
        _draw_presets(page)


def _draw_controls(page: Page, plan: Plan) -> None:
    say, config = page.say, plan.config
    low, high = map(int, plans.RANGES["plan_context"])
    st.number_input(
        say.label("plan_context"), low, high, key=selection.widget("plan_context", plan.context), width=WIDTH
    )
    counts = [n for n in range(1, config.n_heads + 1) if config.n_heads % n == 0]
    st.selectbox(
        say.label("plan_kv"),
        counts,
        key=selection.widget("plan_kv", config.n_kv_heads),
        format_func=lambda n: say.label(_kind(config, n), n=n),
        width=170,
    )
    st.segmented_control(
        say.label("plan_cache"),
        plans.CACHE_BITS,
        key=selection.widget("plan_cache", plan.cache_bits),
        format_func=lambda bits: f"{bits}",
        required=True,
    )


def _kind(config: TransformerConfig, n: int) -> str:
    return "heads_mha" if n == config.n_heads else "heads_mqa" if n == 1 else "heads_gqa"


def _draw_formula(page: Page, plan: Plan) -> None:
    say, config = page.say, plan.config
    one, whole = (cache_formula(config, n, plan.cache_bits) for n in (1, plan.context))
    width = bytes_per_value(plan.cache_bits)
    note = f"b = {plan.cache_bits} ÷ 8"
    if plan.cache_bits <= 8:
        note += f" + 8 ÷ 32 = {width:g}: {say.plain('scales_note')}"
    else:
        note += f" = {width:g}"
    steps = [
        Step(say.plain("step_formula"), [Term(whole.symbols)]),
        Step(say.plain("step_token"), [Term(f"{one.numbers} = "), Term(numbers.memory(one.value), "result")]),
        Step(
            say.plain("step_context", n=f"{plan.context:,}"),
            [Term(f"{whole.numbers} = {whole.count:,} B = "), Term(numbers.memory(whole.value), "result")],
        ),
    ]
    title = say.plain("changed_plan" if plan.changed else "plain_plan", model=plan.name)
    st.html(figures.arithmetic([Term(title)], steps, page.palette, note=note))
    weights = weights_formula(config, plan.bits).value
    text = say.plain(
        "size_caption",
        weights=numbers.memory(weights),
        bits=plan.bits,
        ratio=numbers.three_digits(whole.value / weights),
    )
    show.caption(Kind.COMPUTED, say.plain("computed"), text)
    st.markdown(say("symbols_cache"))


def _draw_presets(page: Page) -> None:
    say, asked = page.say, page.sel.plan_cache
    models = {name: (preset.name, preset.config, preset.context, 16) for name, preset in PRESETS.items()}
    if page.lm.config.kind == "decoder":
        own = page.lm.config
        models = {plans.LOADED: (page.lm.name, own, own.max_positions, 8 * page.lm.compute_dtype.itemsize)} | models
    rows = []
    for name, (title, config, context, computed) in models.items():
        bits = asked or computed
        shapes = [config, *(config.replace(n_kv_heads=n) for n in _sharings(config))]
        sizes = [numbers.memory(cache_formula(one, context, bits).value) for one in shapes]
        if len(_sharings(config)) == 2:  # fewer heads than the grouped column has
            sizes.insert(2, "–")
        per_token = numbers.memory(cache_formula(config, 1, bits).value)
        note = say.plain("preset_note", layers=config.n_layers, heads=config.n_heads, kv=config.n_kv_heads, bits=bits)
        mark = figures.MARK if name == page.sel.plan else ""
        rows.append((f"{mark}{title}\n{note}", [f"{context:,}", per_token, *sizes]))
    columns = [say.plain(f"preset_{name}") for name in ("model", "context", "token", "own", "all")]
    columns += [say.plain("preset_grouped", n=SHARED), say.plain("preset_one")]
    show.marked_table(
        Kind.COMPUTED,
        say.plain("computed"),
        say.plain("presets_caption"),
        columns,
        rows,
        page.palette,
        description=say.plain("presets_alt"),
        mark=say.plain("mark_chosen"),
        key="presets_table",
    )


def _sharings(config: TransformerConfig) -> list[int]:
    """Key/value heads of the columns: one each, a group, one for all."""
    grouped = [SHARED] if config.n_heads % SHARED == 0 and config.n_heads > SHARED else []
    return [config.n_heads, *grouped, 1]
