"""The continuations side by side, with the buttons that stop and go on."""

from functools import partial

import streamlit as st

from pages.kit import numbers, selection, show
from pages.kit.components.continuations import WORDS, Chip, continuations
from pages.kit.components.continuations import Row as Card
from pages.kit.page import Page
from pages.kit.show import Kind, Scale
from pages.kit.tickets import later
from pages.kit.writing import Row, Writing


def draw(page: Page, work: Writing) -> None:
    """The cards and what stands around them."""
    say = page.say
    words = {word: say.plain(f"texts_{word}" if word in ("label", "help") else f"word_{word}") for word in WORDS}
    with st.container(key="section_texts", gap="xsmall"):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            n = len(work.rows)
            title = say("texts_title_one") if n == 1 else say("texts_title", n=n)
            st.header(title, anchor=False, width="content")
            with st.container(horizontal=True, gap="small", width="content"):
                _buttons(page, work)
        if not work.running and not work.can_go_on:
            st.markdown(say("all_full" if any(not row.text.ended for row in work.rows) else "all_ended"))
        cards = [_card(page, work, index) for index in range(len(work.rows))]
        continuations(
            cards, work.looked_at(), ask=work.whole_run_number, key="texts", words=words, on_change=later(work, _pick)
        )
        scale = Scale(say.plain("probability"), "0", "1", page.palette.sequential)
        text = say.plain("texts_caption")
        if work.searched:
            text += " · " + say.plain("beam_caption")
        plain = [row.text for row in work.rows if not row.beam]  # a step of beam search is more than a token
        spent = [token.milliseconds for one in plain for token in one.written if not token.by_reader]
        if spent:
            text += " · " + say.plain("speed_caption", ms=numbers.three_digits(sum(spent) / len(spent)))
        show.caption(Kind.MEASURED, say.plain("measured"), text, scale)


def name(page: Page, work: Writing, index: int) -> str:
    """What a row is called."""
    say, row = page.say, work.rows[index]
    if row.origin is not None:
        return say.plain("row_branch", row=name(page, work, row.origin.of), place=row.origin.place + 1)
    if row.beam:
        return say.plain("row_beam", width=row.beam.width)
    return say.plain("row_greedy") if row.greedy else say.plain("row_seed", seed=row.text.settings.seed)


def _buttons(page: Page, work: Writing) -> None:
    say = page.say
    if work.running:
        st.button(say.label("stop"), key="stop", icon=":material/stop:", on_click=later(work, _stop))
    elif work.can_go_on:
        missing = any(work.wants(row) for row in work.rows)
        n = page.sel.length
        label = say.label("resume") if missing else say.label("go_on", n=n)
        anew = work.wish(0 if missing else n)
        st.button(label, key="go_on", on_click=later(work, Writing.go_on, n, gone=anew))
    elif work.drawn_rows:
        seed = (page.sel.seed + work.drawn_rows) % (int(selection.RANGES["seed"][1]) + 1)
        st.button(say.label("draw_others"), key="draw_others", on_click=partial(selection.update, seed=seed))


def _stop(work: Writing) -> None:
    work.running = False


def _pick(work: Writing, row: int, place: int) -> None:
    work.picked = (row, place)


def _card(page: Page, work: Writing, index: int) -> Card:
    row = work.rows[index]
    return Card(name(page, work, index), _note(page, row), _chips(page, row), work.running and work.wants(row))


def _note(page: Page, row: Row) -> str:
    say, n = page.say, len(row.text.written)
    rate = row.text.tokens_per_second
    if rate is None or n < 2:
        note = say.plain("note_one") if n == 1 else say.plain("note_tokens", n=n)
    else:
        note = say.plain("note_speed", n=n, rate=f"{rate:,.0f}")
    if row.text.ended:
        return say.plain("note_ended", note=note)
    return note if row.text.room else say.plain("note_full", note=note)


def _chips(page: Page, row: Row) -> list[Chip]:
    tokenizer, ids, first = page.lm.tokenizer, row.text.ids, len(row.text.prompt)
    labels = tokenizer.labels(ids)
    chips = []
    for piece in tokenizer.pieces(ids):
        for position in range(max(piece.start, first), piece.end):
            token = row.text.written[position - first]
            whole = piece.end - piece.start == 1
            chips.append(
                Chip(
                    label=labels[position],
                    spaces=len(piece.text) - len(piece.text.lstrip(" ")) if whole and piece.text.strip(" ") else 0,
                    id=token.id,
                    probability=token.model_probability,
                    final="–" if row.beam else numbers.probability(token.probability),
                    rank=f"{token.rank + 1:,}",
                    instead=tuple(
                        (tokenizer.labels([other.id])[0], numbers.probability(other.model_probability))
                        for other in token.alternatives
                    ),
                    special=piece.special,
                    by_reader=token.by_reader,
                    joined=position > piece.start and position > first,
                )
            )
    return chips
