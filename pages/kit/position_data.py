"""The five small models of the page on positions, loaded once, and what is measured on them, kept within bounds."""

import numpy as np
import streamlit as st

from model.analysis.position_loss import Binned, binned_loss
from model.analysis.position_models import SCHEMES, LossCurves, load_position_models, read_loss_curves, read_story
from model.analysis.position_views import mean_attention, scheme_matrix
from model.analysis.word_order import Reordered, reordered, reversed_pieces
from model.config import Positions
from model.language import LanguageModel
from pages.kit.choices import Selection
from pages.kit.page import Page


@st.cache_resource(show_spinner=False, max_entries=1)
def models() -> dict[Positions, LanguageModel]:
    """The five models by scheme."""
    return load_position_models()


@st.cache_resource(show_spinner=False, max_entries=1)
def curves() -> LossCurves:
    """What the recipe measured on stories that no model was trained on."""
    return read_loss_curves()


@st.cache_resource(show_spinner=False, max_entries=1)
def story() -> str:
    """The bundled text that is longer than the models were trained to read."""
    return read_story()


def ids_of(page: Page) -> tuple[int, ...]:
    """The page's text as the five models read it; for an empty text their start token."""
    lm = models()["none"]
    return tuple(lm.tokenizer.encode(page.text)) or (lm.config.bos_id or 0,)


@st.cache_data(show_spinner=False, max_entries=64, hash_funcs={LanguageModel: lambda lm: (lm.name, id(lm))})
def turned_round(lm: LanguageModel, ids: tuple[int, ...], causal: bool) -> Reordered:
    """A text and the same text backwards, in one model; see `reordered`."""
    return reordered(lm, ids, reversed_pieces(lm.tokenizer.pieces(ids)), causal=causal)


@st.cache_data(show_spinner=False, max_entries=32)
def attention(scheme: Positions, ids: tuple[int, ...]) -> np.ndarray:
    """Where one of the five looks in a text: the mean over all its layers and heads, as an array (T, T)."""
    found: np.ndarray = mean_attention(models()[scheme].trace(ids)).numpy()
    return found


@st.cache_data(show_spinner=False, max_entries=64)
def matrix(scheme: Positions, length: int, head: int) -> np.ndarray:
    """What a scheme says about every two of `length` positions, as an array (length, length)."""
    found: np.ndarray = scheme_matrix(models()[scheme].transformer, length, head).numpy()
    return found


@st.cache_data(show_spinner=False, max_entries=32)
def loss_on(ids: tuple[int, ...]) -> dict[Positions, Binned]:
    """What each of the five loses on a text, by position."""
    return {scheme: binned_loss(models()[scheme].transformer, ids) for scheme in SCHEMES}


def position(sel: Selection, last: int) -> int:
    """The chosen position, at most `last`; `last` where none is chosen."""
    return last if sel.position is None else min(sel.position, last)
