"""The controls of a plan: which model it begins as, and each of its sizes."""

import streamlit as st

from model.analysis.presets import PRESETS
from pages.kit import plans, selection
from pages.kit.page import Page
from pages.kit.plans import Plan

NUMBERS = ("plan_d", "plan_layers", "plan_heads", "plan_kv", "plan_ff", "plan_vocab", "plan_context")
WIDTH = 160  # of a box that holds eight digits beside its two buttons
_FIELDS = {
    "plan_d": "d_model",
    "plan_layers": "n_layers",
    "plan_heads": "n_heads",
    "plan_kv": "n_kv_heads",
    "plan_ff": "d_ff",
    "plan_vocab": "vocab_size",
}


def choose_preset(page: Page) -> None:
    """The box that names the model; choosing another forgets what was changed."""
    say, sel, loaded = page.say, page.sel, page.lm.name

    def name(plan: str) -> str:
        return say.plain("plan_loaded", model=loaded) if plan == plans.LOADED else PRESETS[plan].name

    st.selectbox(
        say.label("plan"),
        plans.NAMES,
        key=selection.widget("plan", sel.plan, lambda new: {"plan": new, **plans.NOTHING_CHANGED}),
        format_func=name,
        width=280,
    )


def draw(page: Page, plan: Plan) -> None:
    """All of them, in lines that wrap."""
    say, config = page.say, plan.config
    with st.container(key="controls_plan", horizontal=True, vertical_alignment="bottom"):
        choose_preset(page)
        for name in NUMBERS:
            value = plan.context if name == "plan_context" else getattr(config, _FIELDS[name])
            low, high = map(int, plans.RANGES[name])
            st.number_input(say.label(name), low, high, key=selection.widget(name, value), width=WIDTH)
    with st.container(key="controls_options", horizontal=True, vertical_alignment="bottom"):
        for name, bits, options in (
            ("plan_bits", plan.bits, plans.WEIGHT_BITS),
            ("plan_cache", plan.cache_bits, plans.CACHE_BITS),
        ):
            key = selection.widget(name, bits)
            st.segmented_control(say.label(name), options, key=key, required=True)
        flags = {
            "plan_learned": config.positions == "learned",
            "plan_tied": config.tied_embeddings,
            "plan_gated": config.gated,
        }
        for name, on in flags.items():
            st.toggle(say.label(name), key=selection.widget(name, on))
        n = len(page.run.tokens)
        st.button(
            say.label("plan_own_length", n=n),
            key="plan_own_length",
            disabled=plan.context == n,
            on_click=selection.update,
            kwargs={"plan_context": n},
        )
        if any(getattr(page.sel, name) is not None for name in plans.NOTHING_CHANGED):
            st.button(
                say.label("plan_back", model=plan.name),
                key="plan_back",
                on_click=selection.update,
                kwargs=plans.NOTHING_CHANGED,
            )
