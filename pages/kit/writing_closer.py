"""What the texts teach: the best next word each time against the best text, and what to try next."""

import math

import streamlit as st

from model.analysis.continuations import Comparison, compared, least_probable, parting
from pages.kit import figures, numbers, show
from pages.kit.page import Page
from pages.kit.show import Kind
from pages.kit.writing import Writing
from pages.kit.writing_texts import name


def draw_lesson(page: Page, work: Writing) -> None:
    """Greedy beside beam search: two ways to look for a probable text, and what they found here."""
    greedy = next((i for i, row in enumerate(work.rows) if row.greedy and row.origin is None), None)
    beam = next((i for i, row in enumerate(work.rows) if row.beam and row.origin is None), None)
    if greedy is None or beam is None or not work.rows[greedy].text.written or not work.rows[beam].text.written:
        return
    say, one, other = page.say, work.rows[greedy].text, work.rows[beam].text
    names = {"one": name(page, work, greedy), "other": name(page, work, beam)}
    with st.container(key="section_lesson", gap="xsmall"):
        st.header(say("lesson_title"), anchor=False)
        st.markdown(say("lesson_text"))
        found = compared(one, other)
        if found is None:
            same = len(one.written) == len(other.written)
            st.markdown(say("lesson_same" if same else "lesson_beginning", **names))
            return
        st.markdown(say(_verdict(found, len(one.written) == len(other.written)), **names, **_values(page, found)))
        columns = [say.plain(word) for word in ("column_way", "column_shared", "column_here", "column_rest")]
        columns.append(say.plain("column_total"))
        parts = ((found.one, found.rest_one, found.total_one), (found.other, found.rest_other, found.total_other))
        rows = []
        for title, (token, rest, total) in zip(names.values(), parts, strict=True):
            values = [numbers.signed(value) for value in (found.shared, token.logprob, rest, total)]
            rows.append((f"{title}\n{page.lm.tokenizer.label(token.id)}", values))
        table = figures.number_table(columns, rows, page.palette, description=say.plain("lesson_alt"), scrolls=True)
        with st.container(key="lesson_table"):
            st.html(table)
            show.caption(Kind.MEASURED, say.plain("measured"), say.plain("lesson_caption", place=found.place + 1))


def _verdict(found: Comparison, as_long: bool) -> str:
    """Which text says what happened here."""
    if not as_long:
        return "lesson_lengths"
    if found.total_other <= found.total_one:
        return "lesson_greedy_wins"
    # A repetition penalty may keep even the greedy text from the most probable token.
    return "lesson_beam_wins" if found.one.rank == 0 and found.one.logprob > found.other.logprob else "lesson_beam_more"


def _values(page: Page, found: Comparison) -> dict[str, object]:
    label, gap = page.lm.tokenizer.label, abs(found.total_other - found.total_one)
    times = (
        numbers.three_digits(math.exp(gap)) if gap < math.log(1e5) else numbers.power_of_ten(math.exp(min(gap, 700)))
    )
    return {
        "place": found.place + 1,
        "a": label(found.one.id),
        "b": label(found.other.id),
        "p_a": numbers.probability(found.one.model_probability),
        "p_b": numbers.probability(found.other.model_probability),
        "total_a": numbers.signed(found.total_one),
        "total_b": numbers.signed(found.total_other),
        "times": times,
    }


def draw_try(page: Page, work: Writing) -> None:
    """What to look at and to turn next, with what it did here."""
    say, label = page.say, page.lm.tokenizer.label
    st.markdown(say("try_title"))
    if work.base_rows > 1:
        one, other = work.rows[0].text, work.rows[1].text
        names = {"one": name(page, work, 0), "other": name(page, work, 1)}
        place = parting(one, other)
        if place is None:
            drawn = work.rows[1].drawn
            st.markdown(say("try_same" if drawn else "try_same_beam", **names))
        else:
            words = {"a": label(one.written[place].id), "b": label(other.written[place].id)}
            st.markdown(
                say("try_differ" if place else "try_differ_at_once", n=place, place=place + 1, **names, **words)
            )
        mean, mean_other = one.mean_probability, other.mean_probability
        if work.rows[0].greedy and work.rows[1].drawn and mean is not None and mean_other is not None:
            section = "try_mean" if mean > mean_other else "try_mean_less"
            st.markdown(
                say(section, **names, mean=numbers.probability(mean), mean_other=numbers.probability(mean_other))
            )
    least = least_probable([row.text for row in work.rows])
    if least is not None:
        token = work.rows[least[0]].text.written[least[1]]
        values = {"token": label(token.id), "row": name(page, work, least[0]), "place": least[1] + 1}
        st.markdown(say("try_least", **values, p=numbers.probability(token.model_probability)))
    st.markdown(say("try_branch"))
    if work.searched:
        st.markdown(say("try_beam"))
    st.markdown(say("try_temperature"))
