"""How does it write?"""

import streamlit as st

from pages.kit import (
    errors,
    selection,
    tickets,
    tokens,
    writing,
    writing_choice,
    writing_closer,
    writing_controls,
    writing_texts,
    writing_tree,
)
from pages.kit.page import Page, opening
from pages.kit.writing import Writing


def draw(page: Page) -> None:
    prompt = tuple(page.run.tokens)
    writing_controls.draw(page, prompt)
    if not writing.room(page.lm, prompt):
        writing_controls.draw_remark(page, "no_room")
        tokens.strip(page, query=page.sel.query)
        return
    work = writing.current(page)
    writing_controls.draw_prompt(page, work)
    if not work.rows:
        st.info(page.say("no_way"))
        return
    with work.in_whole_run():
        tickets.fragment(page.lm, draw_work, page, work)


def draw_work(page: Page, work: Writing) -> None:
    """The texts and what belongs to them. While they are being written this part runs again and again by itself."""
    with errors.guarded(page.say):
        work.tick()
        if selection.current() != page.sel:
            st.rerun()  # all of the page shows the run, not only this part
        writing_texts.draw(page, work)
        writing_tree.draw(page, work)
        if work.running:
            if not work.whole_run:  # there the texts ask for the first time, as soon as the browser shows them
                st.rerun(scope="fragment")
            return
        writing_closer.draw_lesson(page, work)
        left, right = st.columns([2.4, 1], gap="medium")
        with left:
            writing_choice.draw(page, work)
        with right, st.container(border=True, key="aside_try"):
            writing_closer.draw_try(page, work)


draw(opening("generation"))
