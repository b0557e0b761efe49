"""The sidebar: which model, which text, which language, and the way to the pages."""

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from model.analysis.formats import FORMATS
from model.devices import devices
from model.zoo.catalog import KINDS, Entry
from pages.kit import fetching, limits, loading, navigation, repairs, selection
from pages.kit.prose import LANGUAGES, Prose

EXAMPLES = ("english", "chinese", "code", "pattern")


def texts(say: Prose) -> dict[str, str]:
    """The texts to begin with, by name."""
    return {name: say.plain(f"example_{name}_text") for name in EXAMPLES}


def draw(known: dict[str, StreamlitPage], current: str) -> None:
    """Draw it, from the selection; `current` is the name of the page that is open."""
    sel = selection.current()
    say = Prose("common", sel.lang)
    with st.sidebar:
        st.html(f'<p class="atlas-brand"><span aria-hidden="true">◐</span> {say.html("brand")}</p>')
        _model(sel.model, say)
        _form(sel, say)
        _text(sel, say)
        navigation.links(known, current, sel.lang)


def _model(name: str, say: Prose) -> None:
    entries = repairs.models()
    kinds = {kind: say.plain(f"kind_{kind}") for kind in dict.fromkeys(entry.kind for entry in entries.values())}
    st.selectbox(
        say.label("model"),
        sorted(entries, key=lambda one: KINDS.index(entries[one].kind)),  # grouped; within a kind as they come
        key=selection.widget("model", name),
        format_func=lambda one: _described(entries.get(one), one, kinds),
    )


def _form(sel: selection.Selection, say: Prose) -> None:
    """How the model's weights are kept, and where it runs if there is a choice."""
    for name, value, options in (
        ("weights", sel.weights, FORMATS),
        ("device", sel.device or devices()[0], devices()),
    ):
        if len(options) == 1:
            continue
        with st.container(key=f"form_{name}", horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(say.label(f"choose_{name}"), help=say("help_weights") if name == "weights" else None)
            st.segmented_control(
                say.label(f"choose_{name}"),
                options,
                key=selection.widget(name, value),
                format_func=lambda one: say.label(f"weights_{one}") if one in FORMATS else one.upper(),
                required=True,
                label_visibility="collapsed",
            )
    fetching.draw()


def _described(entry: Entry | None, name: str, kinds: dict[str, str]) -> str:
    if entry is None:
        return name
    if entry.kind != "base":  # a size as well would not fit
        return f"{name} · {kinds[entry.kind]}"
    return f"{name} · {_parameters(entry) / 1e6:.1f} M"


@st.cache_data(show_spinner=False, max_entries=64, hash_funcs={Entry: lambda entry: entry.id})
def _parameters(entry: Entry) -> int:
    return entry.parameters


def _text(sel: selection.Selection, say: Prose) -> None:
    # A generated text is shown too: who changes it goes on from there, and the button below leads back. A dialogue is
    # not: the template would go around all of it once more.
    lm = loading.chosen(sel)
    shown = sel.text if sel.ids is None or sel.chat else lm.tokenizer.decode(sel.ids)
    st.text_area(say.label("text"), key=selection.widget("text", shown), height=112)
    if lm.chat is not None:
        st.toggle(say.label("chat"), key=selection.widget("chat", sel.chat), help=say("chat_help"))
    with st.container(key="below_text", horizontal=True, vertical_alignment="center", gap="small"):
        st.html(f'<p class="atlas-count">{_count(sel, say)}</p>')
        st.segmented_control(
            say.label("lang"),
            list(LANGUAGES),
            key=selection.widget("lang", sel.lang),
            format_func=LANGUAGES.__getitem__,
            required=True,
            label_visibility="collapsed",
        )
    if sel.ids is not None:
        st.button(say.label("back_to_text"), key="back_to_text", on_click=selection.update, kwargs={"ids": None})
    examples = texts(say)
    chosen = next((name for name, text in examples.items() if text == sel.text and sel.ids is None), None)
    st.pills(
        say.label("examples"),
        list(examples),
        key=selection.widget("example", chosen, lambda name: {"text": examples[name]} if name else {}),
        format_func=lambda name: say.label(f"example_{name}"),
        label_visibility="collapsed",
    )


def _count(sel: selection.Selection, say: Prose) -> str:
    if sel.ids is not None:
        return say.html("rewound", n=len(sel.ids))
    excerpt = limits.excerpt(loading.chosen(sel), sel.text, sel.chat)
    if excerpt.characters_cut:
        return say.html("token_count_first", n=len(excerpt.ids))
    if excerpt.tokens_cut:
        return say.html("token_count_of", n=len(excerpt.ids), of=excerpt.n_tokens)
    return say.html("token_count_one" if excerpt.n_tokens == 1 else "token_count", n=excerpt.n_tokens)
