"""How fast a machine could be at best. Part of the page on cost."""

import math
import time

import streamlit as st

from model.analysis.costs import bytes_read, ceilings, decode_flops, pass_flops
from model.analysis.machines import MACHINES, Machine
from model.language import LanguageModel
from model.sampling import SamplingSettings
from pages.kit import figures, machines, numbers, selection, show
from pages.kit.figures import Step, Term
from pages.kit.page import Page
from pages.kit.plans import Plan
from pages.kit.show import Kind

MEASURED_TOKENS = 24


def draw(page: Page, plan: Plan) -> None:
    """The machine, its two ceilings with their arithmetic, and what was measured where it is this one."""
    say, sel = page.say, page.sel
    with st.container(key="section_machine", gap="small"):
        st.header(say("machine_title"), anchor=False)
        st.markdown(say("machine"))
        machine = machines.of(sel, page.lm)
        _draw_controls(page, machine)
        if plan.config.kind != "decoder":
            st.markdown(say("no_writing", model=plan.name))
            return
        _draw_ceilings(page, plan, machine)
        if sel.machine == machines.HERE:
            _draw_measured(page, plan, machine)


def _draw_controls(page: Page, machine: Machine) -> None:
    say, sel = page.say, page.sel

    def chosen(new: str) -> dict[str, object]:
        return {"machine": new, "bandwidth": None, "tflops": None}

    with st.container(key="controls_machine", horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            say.label("choose_machine"),
            machines.NAMES,
            key=selection.widget("machine", sel.machine, chosen),
            format_func=lambda name: say.label(f"machine_{name}") if name not in _MAKERS else MACHINES[name].name,
            width=230,
        )
        for name, value in (("bandwidth", machine.bandwidth / 1e9), ("tflops", machine.flops / 1e12)):
            low, high = machines.RANGES[name]
            rounded = min(max(round(value, 3), low), high)
            step = max(0.001, 10.0 ** (math.floor(math.log10(rounded)) - 1))  # some percent of what it changes
            st.number_input(
                say.label(name), low, high, key=selection.widget(name, rounded), step=step, format="%.3f", width=190
            )
        if sel.machine == machines.HERE:
            st.button(say.label("measure_again"), key="measure_again", on_click=_measure_again)
    own = sel.bandwidth is None and sel.tflops is None
    here = own and sel.machine == machines.HERE
    kind = Kind.MEASURED if here else Kind.COMPUTED
    section = "source_here" if here else "source_published" if own else "source_reader"
    show.caption(kind, say.plain(kind.value), say.plain(section, source=machine.source), saves=False)


_MAKERS = ("rtx4090", "a100", "h100")


def _measure_again() -> None:
    machines.here.clear()
    selection.update(bandwidth=None, tflops=None)


def _draw_ceilings(page: Page, plan: Plan, machine: Machine) -> None:
    say, config = page.say, plan.config
    found = ceilings(config, plan.context, plan.bits, plan.cache_bits, machine.bandwidth, machine.flops)
    read = bytes_read(config, plan.context, plan.bits, plan.cache_bits)
    total_read = sum(formula.value for formula in read.values())
    written = sum(formula.value for formula in decode_flops(config, plan.context).values())
    prefill = sum(formula.value for formula in pass_flops(config, plan.context).values())
    speed, work = (
        numbers.with_prefix(machine.bandwidth, "B/s"),
        f"{numbers.three_digits(machine.flops / 1e12)}\u00a0TFLOP/s",
    )
    steps = [
        Step(
            say.plain("step_read", weights=read["weights"].symbols, cache=read["cache"].symbols),
            [Term(f"{read['weights'].numbers} + {read['cache'].numbers} = {numbers.memory(total_read)}")],
        ),
        Step(
            say.plain("step_bandwidth"),
            [Term(f"{speed} ÷ {numbers.memory(total_read)} = "), Term(_rate(page, found.by_bandwidth), "result")],
        ),
        Step(
            say.plain("step_compute"),
            [
                Term(f"{work} ÷ {numbers.with_prefix(written, 'FLOP')} = "),
                Term(_rate(page, found.by_compute), "result"),
            ],
        ),
        Step(
            say.plain("step_prefill", n=f"{plan.context:,}"),
            [
                Term(f"{numbers.with_prefix(prefill, 'FLOP')} ÷ {work} = "),
                Term(_duration(page, found.prefill_seconds), "result"),
            ],
        ),
    ]
    st.html(figures.arithmetic([Term(say.plain("ceilings_of", model=plan.name))], steps, page.palette))
    show.caption(Kind.COMPUTED, say.plain("computed"), say.plain("ceilings_caption"))
    low, high = sorted((found.by_bandwidth, found.by_compute))
    section = "bound_by_memory" if found.by_bandwidth < found.by_compute else "bound_by_compute"
    st.markdown(say(section, rate=_rate(page, low), ratio=numbers.three_digits(high / low)))


def _rate(page: Page, rate: float) -> str:
    return page.say.plain("rate", n=numbers.three_digits(rate))


def _duration(page: Page, seconds: float) -> str:
    if seconds < 1:
        return page.say.plain("ms", n=numbers.three_digits(1e3 * seconds))
    return page.say.plain("seconds", n=numbers.three_digits(seconds))


def _draw_measured(page: Page, plan: Plan, machine: Machine) -> None:
    """The loaded model's own speed under its ceiling, where the plan is the loaded model as it is."""
    say, lm = page.say, page.lm
    bits, cache_bits = 8 * lm.dtype.itemsize, 8 * lm.compute_dtype.itemsize
    own = plan.config == lm.config and (plan.bits, plan.cache_bits) == (bits, cache_bits)
    if not own or len(page.run.tokens) + MEASURED_TOKENS > lm.config.max_positions:
        return
    rate = _speed(lm, lm.name, str(lm.device), page.run.id, tuple(page.run.tokens))
    if rate is None:
        return
    # The ceiling for this text, not for a full context.
    length = len(page.run.tokens) + MEASURED_TOKENS
    found = ceilings(lm.config, length, bits, cache_bits, machine.bandwidth, machine.flops)
    values = {
        "rate": _rate(page, rate),
        "ceiling": _rate(page, found.tokens_per_second),
        "share": numbers.percent(rate / found.tokens_per_second, 0),
        "n": MEASURED_TOKENS,
    }
    st.markdown(say("speed_measured", **values))
    show.caption(Kind.MEASURED, say.plain("measured"), say.plain("speed_caption", n=MEASURED_TOKENS), saves=False)


@st.cache_data(show_spinner=False, max_entries=64)
def _speed(_lm: LanguageModel, model: str, device: str, run: str, ids: tuple[int, ...]) -> float | None:
    """Tokens per second behind this text, of the median token after the first; None where nothing is written."""
    steps = _lm.generate(ids, MEASURED_TOKENS, SamplingSettings(temperature=0))
    deadline, taken = time.perf_counter() + 5, []
    for step in steps:
        taken.append(step.milliseconds)
        if time.perf_counter() > deadline:
            break
    own = sorted(taken[1:])
    return 1000 / own[len(own) // 2] if own else None
