"""Words of the page on embeddings: as the reader types them, and as the model's table knows them."""

import re

import streamlit as st

from model.analysis.embeddings import EmbeddingTable, Word
from pages.kit import limits, loading
from pages.kit.page import Page
from pages.kit.prose import code

_SEPARATOR = re.compile(r"[,，、;；\n]")

_MAX_IDS = 6  # printed of a word


def split(text: str) -> list[str]:
    """The words of a list, without the space around them; a place left empty is an empty word."""
    return [part.strip()[: limits.MAX_WORD] for part in _SEPARATOR.split(text)]


def table(page: Page) -> EmbeddingTable:
    """The embedding table of the page's model."""
    return _table(page.lm.name, page)


@loading.leaves_with_a_model
@st.cache_resource(show_spinner=False, max_entries=2)  # each keeps its model's table in memory
def _table(name: str, _page: Page) -> EmbeddingTable:
    return EmbeddingTable(_page.lm.transformer, _page.lm.tokenizer)


def look_up(page: Page, texts: list[str]) -> list[Word | None]:
    """The word of each text, and a sentence for those that stand for no token or for several."""
    found = [table(page).word(text) if text else None for text in texts]
    for text, word in zip(texts, found, strict=True):
        if text and word is None:
            st.markdown(page.say("no_word", word=text))
    return found


def tell_pieces(page: Page, words: list[Word]) -> None:
    """A sentence for each word that is several tokens, and one for what that means."""
    told = {word.ids: word for word in words if len(word.ids) > 1}
    for word in told.values():
        pieces = " ".join(code(label) for label in word.labels[:12]) + (" …" if len(word.labels) > 12 else "")
        # The pieces are code already, and a value of a text would be escaped.
        st.markdown(page.say("pieces", word=word.text, n=len(word.ids)) + f" {pieces}")
    if told:
        st.markdown(page.say("pieces_note"))


def ids(word: Word) -> str:
    """A word's ids as they are printed; the first few of many."""
    return ", ".join(f"{i:,}" for i in word.ids[:_MAX_IDS]) + (" …" if len(word.ids) > _MAX_IDS else "")
