"""Why not read word by word?"""

import streamlit as st

from model.analysis.recurrence import CELLS
from pages.kit import recurrence_data, recurrence_reach, recurrence_recall, recurrence_rounds, selection
from pages.kit.choices import CELL_GAINS, CELL_LENGTHS, CELL_WIDTHS, GATE_BIASES, RANGES
from pages.kit.page import Page, opening


def draw(page: Page) -> None:
    draw_controls(page)
    found = recurrence_data.measured(page)
    recurrence_reach.draw(page, found)
    recurrence_rounds.draw(page)
    recurrence_recall.draw(page)


def draw_controls(page: Page) -> None:
    """The cell, and what all networks of the page are built from."""
    say, sel = page.say, page.sel
    with st.container(key="controls_recurrence", horizontal=True, vertical_alignment="bottom"):
        st.segmented_control(
            say.label("choose_cell"),
            CELLS,
            key=selection.widget("cell", sel.cell),
            format_func=lambda cell: say.label(cell),
            required=True,
        )
        st.segmented_control(
            say.label("choose_cell_length"),
            CELL_LENGTHS,
            key=selection.widget("cell_length", sel.cell_length),
            format_func=lambda n: say.label("own_text") if n == 0 else str(n),
            required=True,
        )
        st.segmented_control(
            say.label("choose_cell_hidden"),
            CELL_WIDTHS,
            key=selection.widget("cell_hidden", sel.cell_hidden),
            help=say("help_cell_hidden"),
            required=True,
        )
        # Each belongs to cells of one sort; the other one's value stays as it is.
        if sel.cell == "rnn":
            st.segmented_control(
                say.label("choose_cell_gain"),
                CELL_GAINS,
                key=selection.widget("cell_gain", sel.cell_gain),
                format_func=lambda gain: f"{gain:g} ×",
                help=say("help_cell_gain"),
                required=True,
            )
        else:
            st.segmented_control(
                say.label("choose_gate_bias"),
                GATE_BIASES,
                key=selection.widget("gate_bias", sel.gate_bias),
                help=say("help_gate_bias"),
                required=True,
            )
        low, high = map(int, RANGES["cell_seed"])
        st.number_input(
            say.label("choose_cell_seed"), low, high, key=selection.widget("cell_seed", sel.cell_seed), width=110
        )


draw(opening("recurrence"))
