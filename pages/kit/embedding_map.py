"""The map of the page on embeddings: the text's tokens and the reader's words, by two kinds of projection."""

from dataclasses import dataclass

import numpy as np
import streamlit as st

from model.analysis.embeddings import Word
from model.analysis.projection import DIMENSIONS, MIN_POINTS, PROJECTIONS, Projection, project
from pages.kit import embedding_words, figures, numbers, selection, show
from pages.kit.choices import TEXT_LENGTHS
from pages.kit.figures import MapPoint
from pages.kit.page import Page
from pages.kit.show import Kind

MAX_TOKENS = 60  # different tokens of the text on the map
MAX_WORDS = 40
_KEPT = 5  # neighbours that are looked for again on the map


@dataclass(frozen=True)
class _Points:
    """What is on the map: words, their points, which of them is the chosen token, how many tokens were left out."""

    words: list[Word]
    points: list[MapPoint]
    chosen: int
    left_out: int


def draw(page: Page, position: int) -> None:
    """Controls, the map, and what its distances mean."""
    say, sel = page.say, page.sel
    listed = sel.mapped if sel.mapped is not None else say.plain("first_mapped")
    with st.container(key="section_map", gap="xsmall"):
        st.header(say("map_title"), anchor=False)
        st.markdown(say("map_text", d_model=page.lm.config.d_model))
        with st.container(key="controls_map", horizontal=True, vertical_alignment="bottom"):
            for name, options, value in (("projection", PROJECTIONS, sel.projection), ("dims", DIMENSIONS, sel.dims)):
                st.segmented_control(
                    say.label(f"choose_{name}"),
                    options,
                    key=selection.widget(name, value),
                    format_func=lambda option: say.label(f"option_{option}"),
                    required=True,
                )
        st.text_input(
            say.label("mapped"),
            key=selection.widget("mapped", listed),
            max_chars=TEXT_LENGTHS["mapped"],
            help=say("help_mapped", n=MAX_WORDS),
        )
        on = _points(page, position, listed)
        if len(on.words) < MIN_POINTS:
            st.markdown(say("map_too_few", n=MIN_POINTS))
            return
        with st.spinner(say("map_computing")):
            found = _project(embedding_words.table(page).directions(on.words).numpy(), sel.projection, sel.dims)
        _draw_map(page, on, found)


def _points(page: Page, position: int, listed: str) -> _Points:
    say, run, table = page.say, page.run, embedding_words.table(page)
    distinct = list(dict.fromkeys(run.tokens))
    shown = distinct[:MAX_TOKENS]
    if run.tokens[position] not in shown:
        shown[-1] = run.tokens[position]
    labels = dict(zip(reversed(run.tokens), reversed(run.labels), strict=True))  # each as it is where it first stands
    words = [table.token(token) for token in shown]
    points = [MapPoint(labels[i], say.plain("map_token", token=labels[i], id=f"{i:,}")) for i in shown]
    known = {word.ids for word in words}
    texts = [text for text in dict.fromkeys(embedding_words.split(listed)) if text]
    for word in embedding_words.look_up(page, texts[:MAX_WORDS]):
        if word is None or word.ids in known:
            continue
        known.add(word.ids)
        words.append(word)
        section = "map_token" if len(word.ids) == 1 else "map_pieces"
        points.append(MapPoint(word.text, say.plain(section, token=word.text, id=embedding_words.ids(word)), 1))
    if len(texts) > MAX_WORDS:
        st.markdown(say("map_many_words", n=MAX_WORDS))
    return _Points(words, points, shown.index(run.tokens[position]), len(distinct) - len(shown))


@st.cache_data(show_spinner=False, max_entries=64)
def _project(vectors: np.ndarray, kind: str, dimensions: int) -> Projection:
    return project(vectors, kind, dimensions)


def _draw_map(page: Page, on: _Points, found: Projection) -> None:
    say, sel = page.say, page.sel
    percent = [numbers.percent(share) for share in found.shares]
    fig = figures.point_map(
        on.points,
        found.points.numpy(),
        [say.plain("group_text"), say.plain("group_words")],
        page.palette,
        axes=[say.plain("axis", number=number + 1, share=share) for number, share in enumerate(percent)],
        highlight=on.chosen,
    )
    n = len(on.points)
    parts = [say.plain("map_points", n=n), say.plain("map_directions")]
    if on.left_out:
        parts.append(say.plain("map_left_out", n=on.left_out, limit=MAX_TOKENS))
    if any(len(word.ids) > 1 for word in on.words):
        parts.append(say.plain("map_mean"))
    parts.append(say.plain("map_turn") if sel.dims == 3 else say.plain("map_hover"))
    caption = show.caption_html(Kind.MEASURED, say.plain("measured"), " · ".join(parts), palette=page.palette)
    alt = say.plain("map_alt", kind=say.plain(f"option_{sel.projection}"), n=n, dims=sel.dims)
    left, right = st.columns([2.4, 1], gap="medium")
    with left:
        show.figure(fig, f"map_{sel.projection}_{sel.dims}", alt=alt, caption=caption)
    with right, st.container(border=True, key="aside_map"):
        shown = sum(found.shares)
        printed = {"share": numbers.percent(shown, 0), "rest": numbers.percent(1 - shown, 0)}
        st.markdown(say(f"means_{sel.projection}", dims=sel.dims, n=n, **printed))
        st.markdown(say("map_kept", kept=numbers.percent(found.kept, 0), count=min(_KEPT, n - 1)))
        st.markdown(say("map_try"))
