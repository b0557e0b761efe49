"""How does it write?"""

from functools import partial

import streamlit as st

from model.analysis.continuations import WrittenToken, least_probable, parting
from pages.kit import controls, errors, figures, limits, numbers, selection, show, tokens, writing
from pages.kit.components.continuations import WORDS, Chip, continuations
from pages.kit.components.continuations import Row as Card
from pages.kit.page import Page, opening
from pages.kit.show import Kind, Scale
from pages.kit.writing import Row, Writing


def draw(page: Page) -> None:
    prompt = tuple(page.run.tokens)
    draw_controls(page, prompt)
    if not writing.room(page.lm, prompt):
        _remark(page, "no_room")
        tokens.strip(page, query=page.sel.query)
        return
    work = writing.current(page)
    draw_prompt(page, work)
    with work.in_whole_run():
        st.fragment(draw_work)(page, work)


def draw_controls(page: Page, prompt: tuple[int, ...]) -> None:
    """Sampling in one line; below it the length and the number of texts."""
    say, sel = page.say, page.sel
    controls.sampling_controls(page)
    most = min(writing.MAX_LENGTH, writing.room(page.lm, prompt))
    with st.container(key="controls_length", horizontal=True, vertical_alignment="top"):
        if most > 1:
            length = min(sel.length, most)
            with st.container(width=controls.WIDTH, gap=None):
                controls.label(page, "length", f"{length}")
                st.slider(
                    say.label("length"),
                    1,
                    most,
                    key=selection.widget("length", length),
                    label_visibility="collapsed",
                )
        st.segmented_control(
            say.label("samples"),
            range(4),
            key=selection.widget("samples", sel.samples),
            help=say("help_samples"),
            required=True,
            disabled=sel.temperature == 0,
        )
    if sel.temperature == 0 and sel.samples:
        st.caption(say("greedy_only"))
    if 0 < most < sel.length:
        _remark(page, "room")


def _remark(page: Page, section: str) -> None:
    n, limit = len(page.run.tokens), page.lm.config.max_positions
    values = {"n": n, "limit": limit, "room": limit - n, "model": page.lm.name}
    st.html(f'<p class="atlas-remark" role="status">{page.say.html(section, **values)}</p>')


def draw_prompt(page: Page, work: Writing) -> None:
    """The text to continue, and where it was rewound to."""
    say, last = page.say, len(page.run.tokens) - 1
    tokens.strip(page, query=last if page.sel.query is None else page.sel.query, ask_next=True)
    at = work.rewound(tuple(page.run.tokens))
    if at is None:
        return
    with st.container(key="rewound", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(say("rewound", place=at[1] + 1, row=_name(page, work, at[0])), width="content")
        st.button(say.label("write_on"), key="write_on", on_click=writing.forget)
        st.button(say.label("back_to_text"), key="back_here", on_click=partial(selection.update, ids=None))


def draw_work(page: Page, work: Writing) -> None:
    """The texts and what belongs to them. While they are being written this part runs again and again by itself."""
    with errors.guarded(page.say):
        work.tick()
        if selection.current() != page.sel:
            st.rerun()  # all of the page shows the run, not only this part
        draw_texts(page, work)
        if work.running:
            if not work.whole_run:  # there the texts ask for the first time, as soon as the browser shows them
                st.rerun(scope="fragment")
            return
        left, right = st.columns([2.4, 1], gap="medium")
        with left:
            draw_choice(page, work)
        with right, st.container(border=True, key="aside_try"):
            draw_try(page, work)


def draw_texts(page: Page, work: Writing) -> None:
    """The continuations side by side, with the buttons that stop and go on."""
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
            cards, work.looked_at(), ask=work.whole_run_number, key="texts", words=words, on_change=partial(_pick, work)
        )
        scale = Scale(say.plain("probability"), "0", "1", page.palette.sequential)
        text = say.plain("texts_caption")
        spent = [token.milliseconds for row in work.rows for token in row.text.written if not token.by_reader]
        if spent:
            text += " · " + say.plain("speed_caption", ms=numbers.three_digits(sum(spent) / len(spent)))
        show.caption(Kind.MEASURED, say.plain("measured"), text, scale)


def _buttons(page: Page, work: Writing) -> None:
    say = page.say
    if work.running:
        st.button(say.label("stop"), key="stop", icon=":material/stop:", on_click=partial(_stop, work))
    elif work.can_go_on:
        missing = any(work.wants(row) for row in work.rows)
        label = say.label("resume") if missing else say.label("go_on", n=page.sel.length)
        st.button(label, key="go_on", on_click=partial(work.go_on, page.sel.length))
    elif work.drawn_rows:
        seed = (page.sel.seed + work.drawn_rows) % (int(selection.RANGES["seed"][1]) + 1)
        st.button(say.label("draw_others"), key="draw_others", on_click=partial(selection.update, seed=seed))


def _stop(work: Writing) -> None:
    work.running = False


def _pick(work: Writing, row: int, place: int) -> None:
    work.picked = (row, place)


def _name(page: Page, work: Writing, index: int) -> str:
    say, row = page.say, work.rows[index]
    if row.origin is not None:
        return say.plain("row_branch", row=_name(page, work, row.origin.of), place=row.origin.place + 1)
    return say.plain("row_greedy") if row.greedy else say.plain("row_seed", seed=row.text.settings.seed)


def _card(page: Page, work: Writing, index: int) -> Card:
    row = work.rows[index]
    return Card(_name(page, work, index), _note(page, row), _chips(page, row), work.running and work.wants(row))


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
                    final=numbers.probability(token.probability),
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


def draw_choice(page: Page, work: Writing) -> None:
    """The chosen token: what stood against it, rewinding to it, branching from it."""
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
        title = say("choice_title", place=place + 1, row=_name(page, work, row), token=label)
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
    selection.update(ids=ids, query=None, key=None)


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
    facts = {
        "fact_model": numbers.probability(token.model_probability),
        "fact_final": numbers.probability(token.probability),
        "fact_position": f"{len(ids) - 1}",
    }
    if token.u is not None:
        facts["fact_u"] = f"{token.u:.4f}"
    if not token.by_reader:
        facts["fact_time"] = say.plain("ms", n=numbers.three_digits(token.milliseconds))
    st.html(figures.fact_list({say.plain(name): value for name, value in facts.items()}, page.palette))
    limit = limits.max_tokens(page.lm)
    st.button(
        say.label("rewind"),
        key="rewind",
        icon=":material/history:",
        disabled=len(ids) > limit or ids == tuple(page.run.tokens),
        on_click=partial(_rewind, work, at, ids),
    )
    if len(ids) > limit:
        st.caption(say("rewind_too_long", limit=limit, n=len(ids)))


def _draw_branches(page: Page, work: Writing, at: tuple[int, int], token: WrittenToken) -> None:
    with st.container(key="branches", horizontal=True, vertical_alignment="center", gap="xsmall"):
        st.caption(page.say("branch_title"), width="content")
        for other in token.alternatives:
            if other.id != token.id:
                text = page.say.label("branch_to", token=page.lm.tokenizer.label(other.id))
                st.button(text, key=f"branch_{other.id}", on_click=partial(work.branch, *at, other.id))


def draw_try(page: Page, work: Writing) -> None:
    """What to look at and to turn next, with what it did here."""
    say, label = page.say, page.lm.tokenizer.label
    st.markdown(say("try_title"))
    if work.base_rows > 1:
        one, other = work.rows[0].text, work.rows[1].text
        names = {"one": _name(page, work, 0), "other": _name(page, work, 1)}
        place = parting(one, other)
        if place is None:
            st.markdown(say("try_same", **names))
        else:
            words = {"a": label(one.written[place].id), "b": label(other.written[place].id)}
            st.markdown(
                say("try_differ" if place else "try_differ_at_once", n=place, place=place + 1, **names, **words)
            )
        mean, mean_other = one.mean_probability, other.mean_probability
        if mean is not None and mean_other is not None:
            section = "try_mean" if mean > mean_other else "try_mean_less"
            st.markdown(
                say(section, **names, mean=numbers.probability(mean), mean_other=numbers.probability(mean_other))
            )
    least = least_probable([row.text for row in work.rows])
    if least is not None:
        token = work.rows[least[0]].text.written[least[1]]
        values = {"token": label(token.id), "row": _name(page, work, least[0]), "place": least[1] + 1}
        st.markdown(say("try_least", **values, p=numbers.probability(token.model_probability)))
    st.markdown(say("try_branch"))
    st.markdown(say("try_temperature"))


draw(opening("generation"))
