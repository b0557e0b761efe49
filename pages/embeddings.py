"""How does a number get a meaning?"""

import math
from functools import partial

import numpy as np
import streamlit as st

from model.analysis.embeddings import EmbeddingTable, Pair, Word, triangle
from model.analysis.one_hot import difference_from_run, look_up
from pages.kit import (
    embedding_context,
    embedding_map,
    embedding_words,
    figures,
    limits,
    numbers,
    selection,
    show,
    tokens,
)
from pages.kit.figures import TableRow
from pages.kit.page import Page, opening, part
from pages.kit.show import Kind, Scale

AROUND = 2  # rows of the table that are drawn on either side of the looked-up one
NEAREST = 12
LEANING = 0.05  # mean cosine of all pairs from which on the rows are said to lean the same way
CLEAR = 3.5  # spreads above the mean from which on the nearest token stands out


def draw(page: Page) -> None:
    position = page.last_word if page.sel.query is None else page.sel.query
    tokens.strip(page, query=position)
    draw_row(page, position)
    draw_pairs(page)
    draw_neighbours(page, position)
    embedding_map.draw(page, position)
    embedding_context.draw(page)


def draw_row(page: Page, position: int) -> None:
    """One-hot × table = row, for the chosen token."""
    say, palette = page.say, page.palette
    token, label = page.run.tokens[position], page.run.labels[position]
    of = look_up(page.lm.transformer, token)
    with st.container(key="section_row", gap="xsmall"):
        st.header(say("row_title", token=label), anchor=False)
        size = f"{of.one_hot:,}"
        st.markdown(say("row_text", token=label, id=f"{token:,}", vocab_size=size, d_model=of.embedding))
        bar = say.plain("row_one_hot_alt", size=of.one_hot, id=token)
        st.html(figures.one_hot_bar(token, of.one_hot, palette, text=say.plain("row_mark", id=token), label=bar))
        rows = _rows(page, token)
        fig = figures.look_up(rows, token, palette, row_word=say.plain("row_word"))
        limit = figures.symmetric_limit(*[row.values for row in rows if row.values is not None])
        parts = (numbers.power_of_ten(of.difference), numbers.power_of_ten(difference_from_run(page.run, position)))
        text = say.plain("row_caption", difference=parts[0], recorded=parts[1])
        end = numbers.three_digits(limit)
        scale = Scale(say.plain("row_scale"), f"−{end}", end, palette.diverging)
        caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, scale, palette=palette)
        show.figure(fig, "look_up", alt=say.plain("row_alt", token=label, id=token), caption=caption)


def _rows(page: Page, token: int) -> list[TableRow]:
    """The rows around a token's, and the first and the last; rows that are left out as one without values."""
    table, last = embedding_words.table(page), page.lm.config.vocab_size - 1
    shown = sorted({0, last, *range(max(0, token - AROUND), min(last, token + AROUND) + 1)})
    values = table.rows(tuple(shown)).numpy()
    rows = []
    for place, one in enumerate(shown):
        if place and one != shown[place - 1] + 1:
            rows.append(TableRow())
        rows.append(TableRow(one, page.lm.tokenizer.label(one), values[place]))
    return rows


def draw_pairs(page: Page) -> None:
    """Three words as one-hot vectors and as embeddings."""
    say = page.say
    listed = page.sel.words if page.sel.words is not None else say.plain("first_words")
    texts = (embedding_words.split(listed) + [""] * 3)[:3]
    with st.container(key="section_pairs", gap="xsmall"):
        st.header(say("pairs_title"), anchor=False)
        st.markdown(say("pairs_text"))
        with st.container(key="controls_words", horizontal=True, vertical_alignment="bottom"):
            for place, text in enumerate(texts):
                st.text_input(
                    say.label(f"word_{place + 1}"),
                    key=selection.widget(f"compared_{'abc'[place]}", text, partial(_with_word, texts, place)),
                    max_chars=limits.MAX_WORD,
                    width=180,
                )
            example = say.plain("try_word")
            st.button(
                say.label("try_third", word=example),
                key="try_third",
                on_click=lambda: selection.update(**_with_word(texts, 2, example)),
            )
        words = [word for word in embedding_words.look_up(page, texts) if word is not None]
        if len(words) < 2:
            st.markdown(say("pairs_too_few"))
            return
        table = embedding_words.table(page)
        sides = [(a, b) for place, a in enumerate(words) for b in words[place + 1 :]]
        pairs = [table.pair(a, b) for a, b in sides]
        closest = max(range(len(pairs)), key=lambda place: pairs[place].cosine)
        if len(words) == 3:
            _draw_triangles(page, words, pairs, closest)
        _draw_pair_table(page, table, sides, pairs, closest)
        embedding_words.tell_pieces(page, words)


def _with_word(texts: list[str], place: int, new: str) -> dict[str, str]:
    texts[place] = new  # the boxes share the list: what was typed in one before the others are drawn again stays
    return {"words": ", ".join(texts)}


def _draw_triangles(page: Page, words: list[Word], pairs: list[Pair], closest: int) -> None:
    say, palette = page.say, page.palette
    names = [word.text for word in words]
    distances = {"one_hot": [pair.one_hot for pair in pairs], "embedding": [pair.distance for pair in pairs]}
    corners = {name: triangle(*sides).numpy() for name, sides in distances.items()}
    wide, high = np.ptp([*corners.values()], axis=1).max(axis=0)
    equal = all(math.isclose(side, math.sqrt(2)) for side in distances["one_hot"])
    for column, (name, sides) in zip(st.columns(2, gap="large"), distances.items(), strict=True):
        hot = name == "one_hot"
        fig = figures.triangle(
            names,
            corners[name],
            [f"{side:.3f}" for side in sides],
            palette,
            extent=(float(wide), float(high)),
            shortest=None if hot else closest,
        )
        kind = Kind.COMPUTED if hot else Kind.MEASURED
        text = say.plain("one_hot_equal" if equal else "one_hot_shared") if hot else say.plain("embedding_caption")
        caption = show.caption_html(kind, say.plain(kind.value), text, palette=palette)
        with column, st.container(key=f"section_{name}", gap="xsmall"):
            st.markdown(say(f"{name}_title"))
            show.figure(fig, f"triangle_{name}", alt=say.plain(f"{name}_alt", words=", ".join(names)), caption=caption)


def _draw_pair_table(
    page: Page, table: EmbeddingTable, sides: list[tuple[Word, Word]], pairs: list[Pair], closest: int
) -> None:
    say = page.say
    nearer = [table.nearer(a, b) for a, b in sides]
    rows = []
    for place, ((a, b), pair) in enumerate(zip(sides, pairs, strict=True)):
        name = f"{a.text} – {b.text}"
        distances = (f"{pair.one_hot:.3f}", f"{pair.distance:.3f}", numbers.signed(pair.cosine, 3))
        cells = [*distances, f"{pair.raw_distance:.3f}", f"{nearer[place]:,}"]
        rows.append((f"{figures.MARK}{name}" if place == closest else name, cells))
    columns = [say.plain(f"pair_{name}") for name in ("words", "one_hot", "distance", "cosine", "raw", "nearer")]
    with st.container(key="pairs_table", width=860):
        html = figures.number_table(
            columns, rows, page.palette, description=say.plain("pairs_alt"), mark=say.plain("pairs_mark")
        )
        st.html(f'<div style="overflow-x:auto">{html}</div>')
    show.caption(Kind.MEASURED, say.plain("measured"), say.plain("pairs_caption"), marked=say.plain("pairs_mark"))
    (a, b), pair = sides[closest], pairs[closest]
    mean = table.mean_cosine
    values = {"first": a.text, "second": b.text, "cosine": numbers.signed(pair.cosine, 3)}
    section = {0: "closest_none", 1: "closest_one"}.get(nearer[closest], "closest")
    if pair.cosine <= mean:
        section = "closest_far"
    st.markdown(say(section, **values, nearer=f"{nearer[closest]:,}", mean=numbers.signed(mean, 2)))
    st.markdown(say("mean_cosine" if mean >= LEANING else "mean_cosine_small", mean=numbers.signed(mean, 2)))


def draw_neighbours(page: Page, position: int) -> None:
    """The rows that come nearest to a token's or a word's."""
    say, table, asked = page.say, embedding_words.table(page), page.sel.near or ""
    with st.container(key="section_near", gap="xsmall"):
        title = st.empty()
        left, right = st.columns([2.2, 1], gap="large")
        with right, st.container(border=True, key="aside_near"):
            st.text_input(
                say.label("near"),
                key=selection.widget("near", asked, lambda new: {"near": new or None}),
                max_chars=limits.MAX_WORD,
                placeholder=say.plain("near_placeholder"),
                help=say("help_near"),
            )
            st.markdown(say("try_title"))
            st.markdown(say("near_try"))
            with st.container(horizontal=True, gap="small"):
                for place, text in enumerate(embedding_words.split(say.plain("near_examples"))):
                    go = partial(selection.update, near=text)
                    st.button(say.label("near_example", word=text), key=f"near_{place}", on_click=go)
        with left:
            (word,) = embedding_words.look_up(page, [asked]) if asked else [table.token(page.run.tokens[position])]
            title.header(say("near_title", word=word.text if word else asked), anchor=False)
            if word is None:
                return
            _draw_nearest(page, table, word)


def _draw_nearest(page: Page, table: EmbeddingTable, word: Word) -> None:
    say = page.say
    found = table.neighbours(word, NEAREST)
    st.markdown(say("near_text", count=f"{found.count:,}"))
    embedding_words.tell_pieces(page, [word])
    if not found.nearest:
        return
    fig = figures.bars(
        [one.label for one in found.nearest],
        [max(one.cosine, 0.0) for one in found.nearest],
        page.palette,
        maximum=1.0,
        printed=[numbers.signed(one.cosine, 3) for one in found.nearest],
        details=[say.plain("map_token", token=one.label, id=f"{one.id:,}") for one in found.nearest],
    )
    text = say.plain(
        "near_caption", ids=", ".join(f"{i:,}" for i in word.ids[:6]) + (" …" if len(word.ids) > 6 else "")
    )
    caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=page.palette)
    show.figure(fig, "neighbours", alt=say.plain("near_alt", word=word.text), caption=caption)
    first = found.nearest[0]
    times = (first.cosine - found.mean) / found.spread if found.spread else math.inf
    printed = {"mean": numbers.signed(found.mean, 2), "spread": f"{found.spread:.2f}", "times": f"{times:.1f}"}
    section = "near_found" if times >= CLEAR else "near_found_weak"
    st.markdown(say(section, token=first.label, cosine=numbers.signed(first.cosine, 3), **printed))


part(opening("embeddings"), draw)
