"""The vocabulary, searchable: part of the tokenization page."""

import streamlit as st

from model.analysis.vocabulary import Vocabulary
from model.tokenizer import Tokenizer
from pages.kit import errors, figures, loading, show
from pages.kit.figures import TokenRow
from pages.kit.kept import kept
from pages.kit.page import Page
from pages.kit.show import Kind

MAX_ROWS = 50
MAX_QUERY = 40  # characters


def draw(page: Page) -> None:
    """A search field and the tokens that hold what is in it."""
    say = page.say
    with errors.guarded(say), st.container(key="section_vocabulary", gap="xsmall"):
        st.header(say("vocabulary_title"), anchor=False)
        entries = _vocabulary(page.lm.name, page.lm.tokenizer)
        st.markdown(say("vocabulary_text", n=f"{len(entries):,}"))
        key = kept("vocabulary_query", say.plain("vocabulary_first"))
        query = st.text_input(say.label("vocabulary_query"), key=key, max_chars=MAX_QUERY, width=240)[:MAX_QUERY]
        found = entries.search(query, MAX_ROWS)
        if not found.entries:
            st.markdown(say("vocabulary_none", query=query))
            return
        rows = [
            TokenRow(
                f"{one.id}",
                one.label,
                (one.spelling, one.data.hex(" ").upper(), say.plain("special") if one.special else f"{len(one.data)}"),
            )
            for one in found.entries
        ]
        columns = [say.plain(f"vocabulary_{name}") for name in ("id", "token", "spelling", "bytes", "n_bytes")]
        st.html(figures.token_table(rows, page.palette, columns=columns, label=say.plain("vocabulary_alt")))
        text = say.plain("vocabulary_caption", shown=len(rows), found=found.n_found, n=len(entries))
        show.caption(Kind.MEASURED, say.plain("measured"), text)


@loading.leaves_with_a_model
@st.cache_resource(show_spinner=False, max_entries=8)
def _vocabulary(name: str, _tokenizer: Tokenizer) -> Vocabulary:
    return Vocabulary(_tokenizer)
