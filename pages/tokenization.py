"""What does the model see instead of letters?"""

from functools import partial

import streamlit as st

from model.analysis.one_hot import look_up
from model.analysis.text_bytes import ByteRun, byte_runs, measure
from model.merges import MergeStep
from model.tokenizer import Tokenizer
from pages.kit import errors, figures, numbers, show, tickets, tokenizer_kinds, tokenizer_training, tokens, vocabulary
from pages.kit.components import Shade
from pages.kit.figures import ByteGroup, Cell, MergeRow, Strip
from pages.kit.kept import kept
from pages.kit.page import Page, opening, part
from pages.kit.show import Kind, Scale

MAX_WORD = 48  # characters of a word whose merges are replayed
TRY = ("unhappiness", " unhappiness", "猫咪")


def draw(page: Page) -> None:
    position = _first_word(page) if page.sel.query is None else page.sel.query
    draw_strip(page, position)
    draw_bytes(page, position)
    tickets.fragment(page.lm, draw_merges, page)
    tickets.fragment(page.lm, tokenizer_kinds.draw, page)
    tickets.fragment(page.lm, vocabulary.draw, page)
    draw_numbers(page, position)
    tokenizer_training.draw(page)


def _first_word(page: Page) -> int:
    """The first token that is no special one, if there is any."""
    special = page.lm.tokenizer.special_ids
    return next((place for place, token in enumerate(page.run.tokens) if token not in special), 0)


def draw_strip(page: Page, position: int) -> None:
    """The coloured strip: the more bytes a token holds, the darker."""
    say, run = page.say, page.run
    shares = [None if piece.special else len(piece.data) / len(piece.ids) for piece in run.pieces]
    high = max((share for share in shares if share is not None), default=1) or 1
    tokens.strip(page, query=position, shade=Shade(say.plain("bytes_per_token"), shares, high, digits=1))
    size = measure(page.lm.tokenizer, run.pieces, run.text, page.typed)
    special = len(run.tokens) - size.n_tokens  # all of them are what the sidebar counts
    parts = [
        say.plain("strip_caption", characters=size.n_characters, bytes=size.n_bytes, tokens=size.n_tokens),
        *([say.plain("special_beside", n=special)] if special else []),
        say.plain("strip_joined" if size.joined else "strip_not_joined"),
    ]
    scale = Scale(say.plain("bytes_per_token"), "0", f"{high:.1f}", page.palette.sequential)
    show.caption(Kind.MEASURED, say.plain("measured"), " · ".join(parts), scale)


def draw_bytes(page: Page, position: int) -> None:
    """Characters, bytes and tokens of the text below each other."""
    say, run = page.say, page.run
    tokenizer, token = page.lm.tokenizer, run.tokens[position]
    runs = byte_runs(tokenizer, run.pieces)
    with st.container(key="section_bytes", gap="xsmall"):
        st.header(say("bytes_title"), anchor=False)
        st.markdown(say("bytes_text"))
        if not runs:
            st.markdown(say("bytes_none"))
            return
        words = (say.plain("line_characters"), say.plain("line_bytes"), say.plain("line_tokens"))
        groups = [_group(one, position) for one in runs]
        st.html(figures.byte_strip(groups, page.palette, words=words, label=say.plain("bytes_alt")))
        data = tokenizer.token_bytes(token)
        values = {"position": position, "token": run.labels[position], "id": token, "n": len(data)}
        spelling = tokenizer.token(token) or ""
        st.markdown(say("token_facts", **values, data=data.hex(" ").upper(), spelling=spelling))
        show.caption(Kind.MEASURED, say.plain("measured"), say.plain("bytes_caption"))


def _group(one: ByteRun, position: int) -> ByteGroup:
    place = position - one.start if 0 <= position - one.start < len(one.tokens) else None
    characters = tuple(Cell(text, width) for text, width in one.characters)
    cells = tuple(Cell(" ".join(map(str, ids)), width) for ids, width in one.tokens)
    return ByteGroup(characters, one.data, cells, one.start, place)


def draw_merges(page: Page) -> None:
    """The merges that built a word, one a step."""
    say = page.say
    with errors.guarded(say), st.container(key="section_merges", gap="xsmall"):
        st.header(say("merges_title"), anchor=False)
        st.markdown(say("merges_text"))
        left, right = st.columns([2.4, 1], gap="medium")
        with left:
            _draw_replay(page)
        with right, st.container(border=True, key="aside_merges"):
            st.markdown(say("try_title"))
            for number in range(1, len(TRY) + 1):
                word = TRY[number - 1]
                st.markdown(say(f"try_merges_{number}"))
                shown = word.replace(" ", "·")
                st.button(say.label("try_word", word=shown), key=f"try_word_{number}", on_click=partial(_put, word))


def _put(word: str) -> None:
    st.session_state["merge_word"] = word


def _draw_replay(page: Page) -> None:
    say, tokenizer = page.say, page.lm.tokenizer
    with st.container(key="controls_merges", horizontal=True, vertical_alignment="bottom"):
        typed = st.text_input(say.label("word"), key=kept("merge_word", TRY[0]), max_chars=MAX_WORD, width=240)
        word = typed[:MAX_WORD]  # the browser's own limit can be passed
        try:
            steps = _merges(page.lm.name, tokenizer, word)
        except ValueError:
            steps = []
        last = len(steps) - 1
        step = min(st.session_state.get("merge_step", last), last)
        if st.session_state.get("merges_of") != (tokenizer.vocab_size, word):  # a word opens on its tokens
            st.session_state["merges_of"], step = (tokenizer.vocab_size, word), last
        if last > 0:
            st.session_state["merge_step"] = step
            st.button("‹", key="step_back", disabled=step == 0, on_click=partial(_step, -1), help=say("merge_back"))
            st.button("›", key="step_on", disabled=step == last, on_click=partial(_step, 1), help=say("merge_on"))
            st.slider(say.label("merge_step"), 0, last, key="merge_step", width=200)
    if not steps:
        st.markdown(say("merges_other_kind", kind=tokenizer.kind))
        return
    shown = steps[: step + 1]
    rows = [_row(page, steps, place) for place in range(len(shown))]
    st.html(figures.merge_rows(rows, page.palette, label=say.plain("merges_alt", word=word)))
    ids = tokenizer.encode(word, add_special=False)
    if len(shown) < len(steps):
        end = say.plain("merges_not_done", step=len(shown) - 1, last=last)
    else:
        same = [tokenizer.token_bytes(i) for i in ids] == list(steps[-1].parts)
        printed = " ".join(map(str, ids)) or "–"
        end = say.plain("merges_same" if same else "merges_differ", ids=printed)
    show.caption(Kind.MEASURED, say.plain("measured"), end)


def _step(by: int) -> None:
    st.session_state["merge_step"] += by


@st.cache_data(show_spinner=False, max_entries=128)
def _merges(name: str, _tokenizer: Tokenizer, word: str) -> list[MergeStep]:
    return _tokenizer.merges(word)


def _row(page: Page, steps: list[MergeStep], place: int) -> MergeRow:
    say, step = page.say, steps[place]
    note = say.plain("merge_bytes", n=len(step.parts))
    if step.pair is not None and step.rank is not None:
        labels = steps[place - 1].labels
        at = step.at or 0
        note = say.plain("merge_rule", left=labels[at], right=labels[at + 1], rank=step.rank + 1)
    elif place:
        note = say.plain("merge_whole")
    following = steps[place + 1] if place + 1 < len(steps) else None
    pair = following.at if following is not None and following.pair is not None else None
    return MergeRow(f"{place}", tuple(step.labels), step.at if place else None, pair, note)


def draw_numbers(page: Page, position: int) -> None:
    """One-hot size against embedding size, and that both give the same row."""
    say, run, palette = page.say, page.run, page.palette
    token, label = run.tokens[position], run.labels[position]
    of = look_up(page.lm.transformer, token)
    n, size = len(run.tokens), of.number_bytes
    with st.container(key="section_numbers", gap="xsmall"):
        st.header(say("numbers_title", token=label), anchor=False)
        st.markdown(say("numbers_text", token=label, id=token, vocab_size=f"{of.one_hot:,}", d_model=of.embedding))
        st.caption(say("one_hot"))
        mark = say.plain("one_hot_mark", id=token)
        alt = say.plain("one_hot_alt", id=token, size=of.one_hot)
        st.html(figures.one_hot_bar(token, of.one_hot, palette, text=mark, label=alt))
        values = of.row.numpy()
        strip = Strip(say.plain("embedding"), values, palette.accent, figures.symmetric_limit(values))
        show.figure(
            figures.value_strip([strip], palette, index_word=say.plain("number"), row=18),
            "embedding_row",
            alt=say.plain("embedding_alt", token=label, d_model=of.embedding),
            caption=show.caption_html(
                Kind.MEASURED,
                say.plain("measured"),
                say.plain("embedding_caption", difference=numbers.power_of_ten(of.difference)),
                palette=palette,
            ),
        )
        rows = [
            (
                say.plain(name),
                (f"{one:,}", f"{one * size:,}", f"{n * one:,}", numbers.memory(n * one * size)),
            )
            for name, one in (("one_hot", of.one_hot), ("embedding", of.embedding))
        ]
        columns = ["", *(say.plain(f"numbers_{name}", n=n) for name in ("one", "bytes", "all", "memory"))]
        with st.container(key="numbers_table", width=760):
            st.html(figures.number_table(columns, rows, palette, description=say.plain("numbers_alt"), scrolls=True))
        ratio = numbers.three_digits(of.one_hot / of.embedding)
        text = say.plain("numbers_caption", ratio=ratio, matrix=numbers.short_count(of.matrix))
        show.caption(Kind.COMPUTED, say.plain("computed"), text)


part(opening("tokenization"), draw)
