"""The box under the four matrices: the chosen cell's own numbers, step by step."""

import streamlit as st

from model.analysis.attention_rows import largest_weights
from model.analysis.attention_steps import CellArithmetic, cell_arithmetic
from pages.kit import figures, numbers
from pages.kit.attention_view import View
from pages.kit.figures import Step, Term


def draw(view: View) -> None:
    """The chosen cell's own numbers through the four steps."""
    say, place = view.page.say, view.place
    cell = cell_arithmetic(view.steps, place.query, place.key)
    query, key = (f"“{view.label(position)}”" for position in (place.query, place.key))
    n_visible = largest_weights(view.steps, place.query, 0).n_visible
    if cell.masked:
        note = say.plain("arithmetic_masked" if n_visible else "arithmetic_dead", query=query, key=key)
    else:
        note = say.plain("arithmetic_note", n=n_visible, d=view.page.lm.config.d_head)
    who = [Term(query, "query"), Term(" → ", "muted"), Term(key, "key")]
    st.html(figures.arithmetic(who, _steps(view, cell), view.page.palette, note=note))


def _steps(view: View, cell: CellArithmetic) -> list[Step]:
    say = view.page.say
    product = [Term("q", "query"), Term("·"), Term("k", "key"), Term(f" = {numbers.signed(cell.dot)}")]
    if view.page.sel.scaling:
        scaled = [Term(f"÷ √{view.page.lm.config.d_head}")]
    else:
        scaled = [Term(say.plain("not_divided"), "muted")]
    if cell.bias:
        scaled.append(Term(f" {'−' if cell.bias < 0 else '+'} {numbers.signed(abs(cell.bias))}"))
    scaled.append(Term(f" = {numbers.signed(cell.scaled)}"))
    bottom = f" ÷ {cell.denominator:.4f} = "
    if cell.masked:
        masked = [Term("−∞")]
        share = [Term("e"), Term("−∞", raised=True), Term(bottom), Term("0", "result")]
        if not cell.denominator:
            share = [Term("0", "result")]
    else:
        top = numbers.signed(cell.row_max)
        difference = f"{numbers.signed(cell.scaled)} − {f'({top})' if cell.row_max < 0 else top}"
        masked = [Term(numbers.signed(cell.scaled)), Term(f" {say.plain('in_reach')}", "muted")]
        share = [Term("e"), Term(difference, raised=True), Term(bottom)]
        share.append(Term(numbers.probability(cell.weight), "result"))
    parts = (product, scaled, masked, share)
    return [Step(title(view, i), terms, i == 3 and cell.masked) for i, terms in enumerate(parts, start=1)]


def title(view: View, number: int) -> str:
    """Number and name of one of the four steps, as their matrices have them."""
    name = ("scores", "scaled", "masked_scores", "pattern_title")[number - 1]
    return f"{number} · {view.page.say.plain(name)}"
