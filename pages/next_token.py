"""How does a vector become a word?"""

from functools import partial

import streamlit as st

from model.analysis.next_token import (
    Candidate,
    Choice,
    Openness,
    WhatIf,
    choice,
    surest_and_most_open,
    what_if,
)
from model.trace import Trace
from pages.kit import controls, figures, limits, next_token_closer, numbers, selection, show, tokens
from pages.kit.figures import LedgerRow
from pages.kit.page import Page, opening, part
from pages.kit.show import Kind

N_BAR = 12  # segments with a name
MIN_ROWS, MAX_ROWS = 10, 14
N_CUT = 4  # rows that show where the filters cut
TRY_TOP_P = 0.9
COLD, HOT = 0.5, 2.0


def draw(page: Page) -> None:
    last = len(page.run.tokens) - 1
    position = last if page.sel.query is None else page.sel.query
    chosen = choice(page.run, position, page.sel.sampling)
    controls.sampling_controls(page, chosen.ledger.no_effect())
    tokens.strip(page, query=position, ask_next=True)
    draw_bar(page, chosen)
    draw_ledger(page, chosen)
    left, right = st.columns([2.4, 1], gap="medium")
    with left:
        next_token_closer.draw_readout(page, chosen)
    with right, st.container(border=True, key="aside_try"):
        draw_try(page, chosen)
    next_token_closer.draw_costs(page)


def draw_bar(page: Page, chosen: Choice) -> None:
    """The cumulative bar with the random number on it."""
    say, entries, drawn = page.say, chosen.ledger, chosen.draw
    n_tokens, label = len(page.run.tokens), _label(page, drawn.id)
    first = entries.top(min(N_BAR, entries.n_kept)).tolist()
    greedy = entries.settings.greedy
    low, high, u = numbers.interval(drawn.low, drawn.high, drawn.u)
    bar = figures.draw_bar(
        [_label(page, token) for token in first],
        [float(p) for p in entries.candidates[: len(first)]],
        page.palette,
        alt=say.plain("draw_alt_greedy" if greedy else "draw_alt", u=u, token=label),
        rest_label=say.plain("draw_more", n=entries.n_kept - len(first)),
        u=None if greedy else drawn.u,
        drawn=first.index(drawn.id) if drawn.id in first else None,
        mark_text=say.plain("draw_mark", u=u, token=label),
    )
    if greedy:
        caption = say.plain("draw_caption_greedy")
    elif entries.n_kept == 1:
        caption = say.plain("draw_caption_one")
    else:
        place = chosen.position + 1
        caption = say.plain("draw_caption", seed=page.sel.seed, place=place, token=f"“{label}”", low=low, high=high)
    with st.container(key="section_draw", gap="xsmall"):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            title = say("draw_title", token=page.run.labels[chosen.position])
            st.header(title, anchor=False, width="content")
            if chosen.position + 1 < n_tokens:
                st.button(say.label("to_end"), key="to_end", on_click=partial(tokens.choose, n_tokens - 1))
            else:
                written = (*page.run.tokens, drawn.id)
                limit = limits.max_tokens(page.lm)
                full = n_tokens >= limit
                st.button(
                    say.label("write", token=label),
                    key="write",
                    disabled=full,
                    help=say("no_room", limit=limit) if full else None,
                    on_click=lambda: selection.turn_to(written),
                )
        st.html(bar)
        show.caption(Kind.MEASURED, say.plain("measured"), caption)


def draw_ledger(page: Page, chosen: Choice) -> None:
    """A row per candidate, from its logit to its final probability."""
    say, entries = page.say, chosen.ledger
    follower = next(iter(page.run.tokens[chosen.position + 1 :][:1]), None)
    count = min(max(MIN_ROWS, entries.n_kept + N_CUT), MAX_ROWS)
    also = (chosen.draw.id, follower, chosen.most_penalised)
    rows = chosen.candidates(count, [token for token in also if token is not None])
    columns = ["rank", "logit", "penalised", "scaled", "probability", "cumulative"]
    if not entries.previous:
        columns.remove("penalised")
    table = figures.ledger_table(
        [_row(page, candidate, columns, candidate.id == chosen.draw.id, follower) for candidate in rows],
        page.palette,
        token_title=say.plain("column_token"),
        columns=[say.plain(f"column_{column}") for column in columns],
        verdict_title=say.plain("column_filter"),
        final_title=say.plain("column_final"),
        description=say.plain("ledger_alt"),
    )
    with st.container(key="section_ledger", gap="xsmall"):
        st.header(say("ledger_title"), anchor=False)
        st.caption(say("ledger"))
        if follower is not None:
            of = next(candidate for candidate in rows if candidate.id == follower)
            values = {"rank": f"{of.rank + 1:,}", "probability": numbers.probability(of.final)}
            st.markdown(say("goes_on", token=_label(page, follower), **values))
        st.html(table)
        show.caption(Kind.MEASURED, say.plain("measured"), " · ".join(_ledger_notes(page, chosen, len(rows))))


def _row(page: Page, of: Candidate, columns: list[str], drawn: bool, follower: int | None) -> LedgerRow:
    cells = {
        "rank": f"{of.rank + 1:,}",
        "logit": numbers.signed(of.logit),
        "penalised": numbers.signed(of.penalised),
        "scaled": "–" if page.sel.temperature == 0 else numbers.signed(of.scaled),
        "probability": numbers.probability(of.probability),
        "cumulative": numbers.probability(of.cumulative),
    }
    verdict = page.say.plain("kept" if of.cut_by is None else f"cut_{of.cut_by}")
    if of.id == follower:
        verdict = page.say.plain("in_text", verdict=verdict)
    return LedgerRow(
        label=_label(page, of.id),
        cells=tuple(cells[name] for name in columns),
        verdict=verdict,
        kept=of.cut_by is None,
        final=of.final,
        printed=numbers.probability(of.final),
        drawn=drawn,
    )


def _ledger_notes(page: Page, chosen: Choice, shown: int) -> list[str]:
    say, entries = page.say, chosen.ledger
    raw, final = entries.raw_entropy, entries.final_entropy
    printed = {"raw": numbers.bits(raw), "final": numbers.bits(final)}
    notes = [
        say.plain("ledger_caption", shown=shown, vocab_size=entries.vocab_size),
        say.plain("entropy_same" if printed["raw"] == printed["final"] else "entropy_changed", **printed),
    ]
    if entries.n_kept == entries.vocab_size:
        notes.append(say.plain("nucleus_all"))
    else:
        section = "nucleus_one" if entries.n_kept == 1 else "nucleus"
        notes.append(say.plain(section, n=entries.n_kept, mass=numbers.percent(entries.kept_mass)))
    if entries.previous:
        notes.append(say.plain("penalised_tokens", n=len(entries.previous)))
    if entries.n_top_k < entries.vocab_size and not entries.settings.greedy:
        notes.append(say.plain("cumulative_after_top_k"))
    return notes


def draw_try(page: Page, chosen: Choice) -> None:
    """What to turn next, with what it does here, measured in this run."""
    say, run, position = page.say, page.run, chosen.position
    here, label = _what_if(run, position), run.labels[position]
    first = _label(page, here.first)
    st.markdown(say("try_title"))
    if chosen.ledger.settings.greedy:
        st.markdown(say("try_one", token=first, one=numbers.probability(here.probability[1.0])))
    else:
        p, bits = here.probability, here.entropy
        values = {"cold": numbers.probability(p[COLD]), "hot": numbers.probability(p[HOT])}
        entropies = {"cold_bits": numbers.bits(bits[COLD]), "hot_bits": numbers.bits(bits[HOT])}
        st.markdown(say("try_zero", token=first, **values, **entropies))
    sizes = {"vocab_size": f"{page.lm.config.vocab_size:,}"}
    st.markdown(say("try_top_p", token=label, n=f"{here.nucleus[TRY_TOP_P]:,}", **sizes))
    ends = _surest_and_most_open(run)
    if ends is None:
        st.markdown(say("try_more_text"))
        return
    for key, place in zip(("surest", "open"), ends, strict=True):
        there = run.labels[place.position]
        n = _what_if(run, place.position).nucleus[TRY_TOP_P]
        st.markdown(say(f"try_{key}", token=there, bits=numbers.bits(place.bits), n=f"{n:,}"))
        if place.position != position:
            go = partial(tokens.choose, place.position)
            st.button(say.label("go_to", token=there), key=f"go_{key}", on_click=go)
    if not chosen.ledger.settings.greedy:
        st.markdown(say("try_again"))


@st.cache_data(show_spinner=False, max_entries=256, hash_funcs={Trace: lambda run: run.id})
def _surest_and_most_open(run: Trace) -> tuple[Openness, Openness] | None:
    return surest_and_most_open(run)


@st.cache_data(show_spinner=False, max_entries=512, hash_funcs={Trace: lambda run: run.id})
def _what_if(run: Trace, position: int) -> WhatIf:
    return what_if(run, position, (COLD, 1.0, HOT), (TRY_TOP_P,))


def _label(page: Page, token: int) -> str:
    return page.lm.tokenizer.labels([token])[0]


part(opening("next_token"), draw)
