"""What the texts are worth as a whole, and what beam search made of its hypotheses."""

import streamlit as st

from model.analysis.beam_continuation import BeamContinuation
from model.beam import Hypothesis, length_penalty
from pages.kit import figures, numbers, show
from pages.kit.page import Page
from pages.kit.show import Kind
from pages.kit.writing import Writing
from pages.kit.writing_texts import name

_TAIL = 8  # tokens of a hypothesis that the table shows


def draw(page: Page, work: Writing, after: int | None) -> None:
    """Both tables; that of beam search after so many steps (None: after all)."""
    beam = work.searched
    if beam is None or not beam.steps:
        _draw_totals(page, work)
        return
    left, right = st.columns([1, 1.25], gap="large")
    with left:
        _draw_totals(page, work)
    with right:
        _draw_hypotheses(page, beam, after)


def _draw_totals(page: Page, work: Writing) -> None:
    """What each text is worth as a whole."""
    say = page.say
    columns = [say.plain(word) for word in ("column_way", "column_tokens", "column_total", "column_mean")]
    rows = []
    for index, row in enumerate(work.rows):
        n, total = len(row.text.written), row.text.total_logprob
        values = [f"{n}", numbers.signed(total), numbers.signed(total / n)] if n else ["0", "–", "–"]
        rows.append((name(page, work, index), values))
    with st.container(key="totals_table"):
        st.markdown(say("totals_text"))
        st.html(figures.number_table(columns, rows, page.palette, description=say.plain("totals_alt"), scrolls=True))
        show.caption(Kind.MEASURED, say.plain("measured"), say.plain("totals_caption"))


def _draw_hypotheses(page: Page, beam: BeamContinuation, after: int | None) -> None:
    """The beam after the chosen step: what was kept, and what was not."""
    say = page.say
    shown = after or len(beam.steps)
    step = beam.steps[shown - 1]
    columns = [say.plain(word) for word in ("column_hypothesis", "column_total", "column_penalty", "column_score")]
    rows = []
    for kind, hypotheses in (("kept", step.kept), ("dropped", step.dropped)):
        for number, h in enumerate(hypotheses, start=1):
            fate = say.plain("fate_best" if kind == "kept" and number == 1 else f"fate_{kind}")
            penalty = length_penalty(len(h.ids), beam.alpha)
            values = [numbers.signed(h.logprob), f"{penalty:.2f}", numbers.signed(h.score(beam.alpha))]
            rows.append((f"{_tail(page, h)}\n{fate}", values))
    with st.container(key="hypotheses_table"):
        st.markdown(say("hypotheses_text", step=shown, width=beam.width))
        table = figures.number_table(
            columns, rows, page.palette, description=say.plain("hypotheses_alt", step=shown), scrolls=True
        )
        st.html(table)
        alike = len({len(h.ids) for h in (*step.kept, *step.dropped)}) == 1
        text = say.plain("hypotheses_caption", alpha=f"{beam.alpha:.2f}")
        if alike:
            text += " · " + say.plain("alpha_idle")
        show.caption(Kind.MEASURED, say.plain("measured"), text)


def _tail(page: Page, h: Hypothesis) -> str:
    labels = page.lm.tokenizer.labels(h.ids)
    return ("…" if len(labels) > _TAIL else "") + "".join(labels[-_TAIL:])
