"""Three kinds of tokenizer on the same text: part of the tokenization page."""

from dataclasses import replace
from functools import reduce

import streamlit as st

from model.analysis import tokenizer_kinds as kinds
from model.analysis.tokenizer_kinds import Reading
from model.tokenizer import Tokenizer
from pages.kit import errors, figures, limits, show
from pages.kit.components import CHIP_WORDS, chips
from pages.kit.figures.style import short
from pages.kit.kept import kept
from pages.kit.page import Page
from pages.kit.show import Kind

MAX_BACK = 300  # columns of a text that came back different


def draw(page: Page) -> None:
    """Counts, strips, and what comes back."""
    say = page.say
    with errors.guarded(say), st.container(key="section_kinds", gap="xsmall"):
        st.header(say("kinds_title"), anchor=False)
        st.markdown(say("kinds_text"))
        special = st.toggle(say.label("show_special"), key=kept("show_special", False), help=say("help_special"))
        coders = {"own": page.lm.tokenizer} | {kind: kinds.bundled(kind) for kind in kinds.KINDS}
        start = limits.start_id(page.lm)
        read = {
            name: kinds.read(coder, page.text, special=special, start=start if name == "own" else None)
            for name, coder in coders.items()
        }
        for name, coder in coders.items():
            _strip(page, name, coder, read[name])
        _counts(page, coders, read)


def _name(page: Page, name: str, coder: Tokenizer) -> str:
    return page.say.plain("kind_own", kind=coder.kind) if name == "own" else page.say.plain(f"kind_{name}")


def _strip(page: Page, name: str, coder: Tokenizer, reading: Reading) -> None:
    say = page.say
    with st.container(key=f"kind_{name}", gap="xsmall"):
        count = "kind_count_one" if reading.n_tokens == 1 else "kind_count"
        told = [say(count, kind=_name(page, name, coder), n=reading.n_tokens)]
        if special := len(reading.ids) - reading.n_tokens:
            told.append(say("special_beside", n=special))
        st.markdown(" · ".join(told))
        if not reading.ids:
            st.caption(say("kind_empty"))
            return
        texts = {"label": say.plain("kind_strip", kind=_name(page, name, coder)), "help": "", "hint": ""}
        words = texts | {word: say.plain(word) for word in CHIP_WORDS if word not in texts}
        pieces = coder.pieces(reading.ids)
        if name == "wordpiece":  # with its own sign for what goes on inside a word
            names = [" ".join(coder.labels(piece.ids)) for piece in pieces]
            pieces = [replace(piece, text=own, label=own) for piece, own in zip(pieces, names, strict=True)]
        chips(pieces, None, None, key=f"chips_{name}", words=words, max_height=112)
        if reading.lost:
            names = [say.plain(f"lost_{one}", n=reading.n_unknown) for one in reading.lost]
            what = reduce(lambda first, further: say.plain("list", first=first, further=further), names)
            st.markdown(say("kind_lost", what=what, back=short(reading.back, MAX_BACK) or "–"))
        else:
            st.caption(say("kind_exact"))


def _counts(page: Page, coders: dict[str, Tokenizer], read: dict[str, Reading]) -> None:
    say, palette = page.say, page.palette
    passages = {lang: say.plain(f"example_passage_{lang}_text") for lang in ("english", "chinese")}
    compared = {
        (name, lang): kinds.read(coder, passage) for name, coder in coders.items() for lang, passage in passages.items()
    }
    rows = []
    for name, coder in coders.items():
        cells = (f"{coder.vocab_size:,}", f"{read[name].n_tokens:,}", _ratio(read[name]), f"{read[name].n_unknown}")
        both = tuple(_ratio(compared[name, lang]) for lang in passages)
        rows.append((_name(page, name, coder), (*cells, *both)))
    names = ("kind", "vocabulary", "tokens", "per_character", "unknown", "english", "chinese")
    columns = [say.plain(f"column_{column}") for column in names]
    left, right = st.columns([1.5, 1], gap="large")
    with left:
        with st.container(key="kinds_table"):
            st.html(figures.number_table(columns, rows, palette, description=say.plain("kinds_alt"), scrolls=True))
        show.caption(Kind.MEASURED, say.plain("measured"), say.plain("kinds_caption"))
    with right:
        colours = {"english": palette.query, "chinese": palette.key}
        labels = [f"{say.plain(f'short_{name}')} {say.plain(f'short_{lang}')}" for name, lang in compared]
        figure = figures.bars(
            labels,
            [one.tokens_per_character or 0 for one in compared.values()],
            palette,
            colours=[colours[lang] for _, lang in compared],
            decimals=2,
        )
        text = say.plain("languages_caption", **{lang: len(passage) for lang, passage in passages.items()})
        caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=palette)
        show.figure(figure, "languages", alt=say.plain("languages_alt"), caption=caption)
    with st.expander(say.label("passages")):
        for passage in passages.values():
            st.markdown(say("passage", text=passage))


def _ratio(reading: Reading) -> str:
    ratio = reading.tokens_per_character
    return "–" if ratio is None else f"{ratio:.2f}"
