"""The sidebar: which model, which text, which language, and the way to the pages."""

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from model.zoo.catalog import CATALOG
from pages.kit import limits, loading, navigation, selection
from pages.kit.prose import LANGUAGES, Prose, escape

EXAMPLES = ("english", "chinese", "code", "pattern")


def draw(known: dict[str, StreamlitPage]) -> None:
    """Draw it, from the selection."""
    sel = selection.current()
    say = Prose("common", sel.lang)
    with st.sidebar:
        st.html(f'<p class="atlas-brand"><span aria-hidden="true">◐</span> {say.html("brand")}</p>')
        _model(sel.model, say)
        _text(sel, say)
        _below_text(sel, say)
        navigation.links(known, sel.lang)


def _model(name: str, say: Prose) -> None:
    st.session_state["model"] = name
    st.selectbox(
        say.label("model"),
        list(CATALOG),
        key="model",
        format_func=lambda one: escape(f"{one} · {_millions(one)} M"),
        on_change=lambda: selection.update(model=st.session_state["model"]),
    )


@st.cache_data(show_spinner=False)
def _millions(name: str) -> str:
    return f"{CATALOG[name].parameters / 1e6:.1f}"


def _text(sel: selection.Selection, say: Prose) -> None:
    st.session_state["text"] = sel.text
    st.text_area(
        say.label("text"),
        key="text",
        height="content",
        on_change=lambda: selection.update(text=st.session_state["text"]),
    )
    texts = {name: say.plain(f"example_{name}_text") for name in EXAMPLES}
    st.session_state["example"] = next((n for n, t in texts.items() if t == sel.text and sel.ids is None), None)

    def choose() -> None:
        if name := st.session_state["example"]:
            selection.update(text=texts[name])

    st.pills(
        say.label("examples"),
        list(texts),
        key="example",
        format_func=lambda name: say.label(f"example_{name}"),
        label_visibility="collapsed",
        on_change=choose,
    )


def _below_text(sel: selection.Selection, say: Prose) -> None:
    lm = loading.model(sel.model)
    if sel.ids is not None:
        st.html(f'<p class="atlas-count">{say.html("rewound", n=len(sel.ids))}</p>')
        st.button(say.label("back_to_text"), key="back_to_text", on_click=lambda: selection.update(ids=None))
    with st.container(key="below_text", horizontal=True, vertical_alignment="center", gap="small"):
        excerpt = limits.excerpt(lm, sel.text)
        if sel.ids is not None:
            pass
        elif excerpt.tokens_cut or excerpt.characters_cut:
            st.html(f'<p class="atlas-count">{say.html("token_count_cut", n=len(excerpt.ids), of=excerpt.n_tokens)}</p>')
        else:
            st.html(f'<p class="atlas-count">{say.html("token_count", n=excerpt.n_tokens)}</p>')
        st.session_state["lang"] = sel.lang
        st.segmented_control(
            say.label("language"),
            list(LANGUAGES),
            key="lang",
            format_func=LANGUAGES.__getitem__,
            required=True,
            label_visibility="collapsed",
            on_change=lambda: selection.update(lang=st.session_state["lang"]),
        )
