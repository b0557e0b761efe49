"""The chosen token: what stood against it, rewinding to it, branching from it."""

from functools import partial

import streamlit as st

from model.analysis.continuations import WrittenToken
from pages.kit import figures, limits, numbers, selection, show
from pages.kit.page import Page
from pages.kit.show import Kind
from pages.kit.tickets import later
from pages.kit.writing import Writing
from pages.kit.writing_texts import name


def draw(page: Page, work: Writing) -> None:
    """The token that is looked at; nothing where there is none yet."""
    at = work.looked_at()
    if at is None:
        return
    say = page.say
    row, place = at
    text = work.rows[row].text
    token = text.written[place]
    ids = text.ids[: len(text.prompt) + place + 1]
    label = page.lm.tokenizer.labels(ids)[-1]
    with st.container(key="section_choice", gap="xsmall"):
        title = say("choice_title", place=place + 1, row=name(page, work, row), token=label)
        st.header(title, anchor=False)
        section = "choice_by_reader" if token.by_reader else "choice_rank" if token.rank else "choice_first"
        st.markdown(say(section, rank=f"{token.rank + 1:,}"))
        if token.id in page.lm.config.eos_ids:
            st.markdown(say("end_of_text"))
        left, right = st.columns([1.6, 1], gap="large")
        with left:
            _draw_alternatives(page, token)
            _draw_branches(page, work, at, token)
        with right:
            _draw_actions(page, work, at, token, ids)


def _rewind(work: Writing, at: tuple[int, int], ids: tuple[int, ...]) -> None:
    work.picked = at
    selection.turn_to(ids)


def _draw_alternatives(page: Page, token: WrittenToken) -> None:
    say, label = page.say, page.lm.tokenizer.label
    shown = [(other.id, other.model_probability) for other in token.alternatives]
    if token.id not in [one for one, _ in shown]:
        shown.append((token.id, token.model_probability))
    names = [label(one) for one, _ in shown]
    figure = figures.bars(
        names,
        [p for _, p in shown],
        page.palette,
        highlight=[one for one, _ in shown].index(token.id),
        printed=[numbers.probability(p) for _, p in shown],
    )
    caption = show.caption_html(Kind.MEASURED, say.plain("measured"), say.plain("choice_caption"), palette=page.palette)
    show.figure(figure, "choice", alt=say.plain("choice_alt"), caption=caption)


def _draw_actions(page: Page, work: Writing, at: tuple[int, int], token: WrittenToken, ids: tuple[int, ...]) -> None:
    say = page.say
    facts = {"fact_model": numbers.probability(token.model_probability)}
    if not work.rows[at[0]].beam:  # beam search knows no settings
        facts["fact_final"] = numbers.probability(token.probability)
    facts["fact_position"] = f"{len(ids) - 1}"
    if token.u is not None:
        facts["fact_u"] = f"{token.u:.4f}"
    if not token.by_reader:
        facts["fact_time"] = say.plain("ms", n=numbers.three_digits(token.milliseconds))
    st.html(figures.fact_list({say.plain(fact): value for fact, value in facts.items()}, page.palette))
    limit = limits.max_tokens(page.lm)
    st.button(
        say.label("rewind"),
        key="rewind",
        icon=":material/history:",
        disabled=len(ids) > limit or ids == tuple(page.run.tokens),
        on_click=later(work, _rewind, at, ids, gone=partial(selection.turn_to, ids)),
    )
    if len(ids) > limit:
        st.caption(say("rewind_too_long", limit=limit, n=len(ids)))


def _draw_branches(page: Page, work: Writing, at: tuple[int, int], token: WrittenToken) -> None:
    with st.container(key="branches", horizontal=True, vertical_alignment="center", gap="xsmall"):
        st.caption(page.say("branch_title"), width="content")
        for other in token.alternatives:
            if other.id != token.id:
                text = page.say.label("branch_to", token=page.lm.tokenizer.label(other.id))
                branch = *at, other.id
                go = later(work, Writing.branch, *branch, gone=work.wish(branch=branch))
                st.button(text, key=f"branch_{other.id}", on_click=go)
