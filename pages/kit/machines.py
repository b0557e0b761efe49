"""The machine that a plan runs on: this one as measured, a published one, or the reader's own numbers."""

from typing import TYPE_CHECKING

import streamlit as st

from model.analysis.machines import MACHINES, Machine, measure
from model.language import LanguageModel

if TYPE_CHECKING:
    from pages.kit.choices import Selection

HERE = "here"
NAMES = (HERE, *MACHINES)
RANGES: dict[str, tuple[float, float]] = {"bandwidth": (0.1, 1e6), "tflops": (0.001, 1e6)}  # GB/s, 10¹² a second


def of(sel: "Selection", lm: LanguageModel) -> Machine:
    """The chosen machine, with the reader's numbers in place of its own where they are given."""
    machine = here(lm, str(lm.device), str(lm.compute_dtype)) if sel.machine == HERE else MACHINES[sel.machine]
    bandwidth = machine.bandwidth if sel.bandwidth is None else sel.bandwidth * 1e9
    flops = machine.flops if sel.tflops is None else sel.tflops * 1e12
    return Machine(machine.name, bandwidth, flops, machine.source)


@st.cache_resource(show_spinner=False, max_entries=4)
def here(_lm: LanguageModel, device: str, dtype: str) -> Machine:
    """This machine, measured once for a device and dtype; `here.clear()` forgets it."""
    return measure(_lm.device, _lm.compute_dtype)
