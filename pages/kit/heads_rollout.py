"""Attention followed back to the input, layer by layer."""

import streamlit as st

from model.analysis.interest import Place
from model.analysis.mixing import View, masked_cells
from model.analysis.rollout import Rollout, rollout
from model.trace import Trace
from pages.kit import chosen_rows, controls, figures, heads_view, numbers
from pages.kit.figures import Step, Term
from pages.kit.page import Page
from pages.kit.show import Kind


def draw(page: Page, shown: Place) -> None:
    """The rollout up to a layer as a matrix, the chosen cell's arithmetic, and what it is not."""
    say, count = page.say, page.lm.config.n_layers
    layer = count - 1 if page.sel.rollout_to is None else page.sel.rollout_to
    st.header(say("rollout_title"), anchor=False)
    controls.numbered("rollout_to", say.label("rollout_to"), layer, count)
    found = _rollout(page.run, layer)
    view = heads_view.as_wanted(page, View(found.weights.float(), masked_cells(page.run)))
    heads_view.draw_panel(page, view, shown, "rollout", say.plain("rollout_label", layer=layer), "rollout_panel")
    said = say.plain("rollout_caption", layer=layer) if layer else say.plain("rollout_caption_first")
    st.html(heads_view.caption(page, said, chosen_rows.note(page), view=view, kind=Kind.COMPUTED, name="rollout_scale"))
    _draw_cell(page, found, view, shown, layer)
    st.markdown(say("rollout_text"))
    st.markdown(say("rollout_honest"))
    query = shown.query
    if layer and query:
        first = _rollout(page.run, 0)
        values = {
            "before": numbers.percent(float(first.weights[query, 0]), 0),
            "after": numbers.percent(float(found.weights[query, 0]), 0),
        }
        labels = {"query": page.run.labels[query], "token": page.run.labels[0]}
        st.markdown(say("rollout_try", layer=layer, **labels, **values))


def _printed(value: float) -> str:
    return numbers.power_of_ten(value) if 0 < value < 1e-6 else numbers.probability(value)


def _draw_cell(page: Page, found: Rollout, view: View, shown: Place, layer: int) -> None:
    say, labels, query, key = page.say, page.run.labels, shown.query, shown.key
    if view.hidden[query, key]:
        st.markdown(heads_view.tell_hidden(page, shown))
        return
    read, kept, total = (float(part[query, key]) for part in (found.read, found.kept, found.weights))
    whole = not page.sel.without_first
    steps = [
        Step(say.plain("rollout_read", layer=layer), [Term(f"½ · {_printed(2 * read)} = {_printed(read)}")]),
        Step(say.plain("rollout_kept"), [Term(f"½ · {_printed(2 * kept)} = {_printed(kept)}")]),
        Step(
            say.plain("rollout_sum"),
            [Term(f"{_printed(read)} + {_printed(kept)} = "), Term(_printed(total), "result" if whole else "")],
        ),
    ]
    if not whole:
        divided = f"{_printed(total)} ÷ (1 − {_printed(float(found.weights[query, 0]))}) = "
        result = Term(_printed(float(view.weights[query, key])), "result")
        steps.append(Step(say.plain("panel_without_first_short", token=labels[0]), [Term(divided), result]))
    who = [Term(labels[query], "query"), Term(" → ", "muted"), Term(labels[key], "key")]
    st.html(figures.arithmetic(who, steps, page.palette))


@st.cache_data(show_spinner=False, max_entries=8, hash_funcs={Trace: lambda run: run.id})
def _rollout(run: Trace, layer: int) -> Rollout:
    return rollout(run, layer)
