"""What every page opens with: its question, what the reader should know about the text, and the run."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import streamlit as st

from model.analysis.formats import FORMATS
from model.analysis.interest import Place, most_interesting, strongest_cell
from model.language import LanguageModel
from model.trace import Trace
from pages.kit import errors, limits, loading, navigation, notices, palette, selection
from pages.kit.choices import DEFAULT_MODEL
from pages.kit.palette import Palette
from pages.kit.prose import Prose
from pages.kit.selection import Selection
from pages.kit.sitemap import ABOUT_NEXT_TOKEN, FILLING_GAPS

MAX_NAMED = 4  # special tokens in a message that are named
_AROUND = {"model", "weights", "device", "text", "chat", "ids", "lang"}  # what shell and opening are made of


@dataclass(frozen=True)
class Page:
    """What a page is drawn from. Everything on it comes from this one `run`."""

    name: str
    sel: Selection
    lm: LanguageModel
    run: Trace
    say: Prose
    palette: Palette

    @cached_property
    def last_word(self) -> int:
        """The last token that is no special one, if there is any."""
        special = self.lm.tokenizer.special_ids
        places = range(len(self.run.tokens) - 1, -1, -1)
        return next((place for place in places if self.run.tokens[place] not in special), places[0])

    @cached_property
    def newest(self) -> int:
        """The token that a page opens on: the last one, which a model that writes goes on from; of a text that a model
        reads all at once the last word, not the mark that closes it."""
        return len(self.run.tokens) - 1 if self.lm.config.causal else self.last_word

    @cached_property
    def typed(self) -> str | None:
        """The text that the reader typed; None where the run is of something else, or of a part of it."""
        if self.sel.ids is not None:
            return None
        excerpt = limits.excerpt(self.lm, self.sel.text, self.sel.chat)
        if excerpt.chat or excerpt.empty or excerpt.tokens_cut:
            return None
        return self.sel.text[: limits.MAX_CHARACTERS]

    @cached_property
    def text(self) -> str:
        """The text of the run without special tokens: as it was typed, or else as the tokens give it back."""
        if self.typed is not None:
            return self.typed
        return "".join(piece.text for piece in self.run.pieces if not piece.special)

    @cached_property
    def place(self) -> Place:
        """Layer, head, query and key to show: the reader's choices, and where there is none, what the run picks."""
        return place(self.run, self.sel)


def opening(name: str) -> Page:
    """The first line of every page: draws title and lead, returns what the page is made of.

    The text file of the page has the sections "title" (its question) and "lead" (one sentence), which may use
    the values {n_tokens}, {n_layers}, {n_heads}, {d_model}, {d_head} and {vocab_size}.
    """
    navigation.ensure_shell()
    sel = selection.current()
    say = Prose(name, sel.lang)
    lm = loading.chosen(sel)
    _end_without_next_token(name, sel, lm)
    run = loading.trace(sel)
    facts = _facts(lm) | {"n_tokens": len(run.tokens)}
    with st.container(key="opening", gap="small"):
        st.title(say("title", **facts), anchor=False)
        st.markdown(say("lead", **facts))
        if sentences := _remarks(sel, lm, say):
            st.html(f'<p class="atlas-remark" role="status">{"<br>".join(sentences)}</p>')
    return Page(name, sel, lm, run, say, palette.current())


def part(page: Page, draw: Callable[[Page], None]) -> None:
    """Draw the page below its opening, so that it alone is drawn again when the reader changes something in it.

    That takes a reader's browser two thirds of the time. What changes the text or the model still draws everything.
    """
    name, drawn, told = page.name, page.sel, bool(notices.pending())
    first = [page]  # not for longer than this run: it would hold its trace for as long as the reader stays

    def again() -> None:
        with errors.guarded(Prose(name, selection.current().lang)):
            if first:
                draw(first.pop())
                return
            if told or notices.pending() or selection.changed_since(drawn) & _AROUND:
                st.rerun()
            sel = selection.sync()
            if notices.pending():
                st.rerun()
            draw(_page(name, sel))

    st.fragment(again)()


def _page(name: str, sel: Selection) -> Page:
    return Page(name, sel, loading.chosen(sel), loading.trace(sel), Prose(name, sel.lang), palette.current())


def _end_without_next_token(name: str, sel: Selection, lm: LanguageModel) -> None:
    """Where a page is about the next token and this model has none: say what it is, and end the page there."""
    if name not in ABOUT_NEXT_TOKEN or lm.config.kind == "decoder":
        return
    say = Prose(name, sel.lang)
    st.title(say("title", **_facts(lm)), anchor=False)
    why = say.plain("why_sentences" if lm.config.head == "none" else "why_masked")
    st.info(say("lacks_continuing", model=sel.model, why=why))
    label = say.label("use_default_model", model=DEFAULT_MODEL)
    st.button(label, key="use_default_model", on_click=selection.update, kwargs={"model": DEFAULT_MODEL})
    if lm.config.head != "none":  # and there is a page for what it does instead
        st.markdown(say("see_gaps", model=sel.model))
        address = selection.to_parameters(sel)
        st.page_link(f"pages/{FILLING_GAPS}.py", label=say.label(f"page_{FILLING_GAPS}"), query_params=address)
    raise errors.Ended


def _facts(lm: LanguageModel) -> dict[str, int]:
    return {f: getattr(lm.config, f) for f in ("n_layers", "n_heads", "d_model", "d_head", "vocab_size")}


def place(run: Trace, sel: Selection) -> Place:
    """The cell that a figure of attention opens on: what the reader chose, the rest by what the run does there."""
    if sel.layer is None or sel.head is None or (sel.query is None and sel.key is None):
        best = _most_interesting(run, sel.layer, sel.head)
        if sel.query is None and sel.key is None:
            return best
        layer, head = best.layer, best.head
    else:
        layer, head = sel.layer, sel.head
    cell = strongest_cell(run, layer, head, sel.query)
    return cell if sel.key is None else cell._replace(key=sel.key)


@st.cache_data(show_spinner=False, max_entries=512, hash_funcs={Trace: lambda run: run.id})
def _most_interesting(run: Trace, layer: int | None, head: int | None) -> Place:
    return most_interesting(run, layer, head)


def _remarks(sel: Selection, lm: LanguageModel, say: Prose) -> list[str]:
    """What the reader should know about this view, as HTML sentences."""
    said = [say.html(section, **notices.worded(values, say.lang)) for section, values in notices.pending()]
    if sel.weights != FORMATS[0]:
        said.append(say.html(f"rounded_{sel.weights}"))
    if sel.ids is not None:
        return said
    excerpt = limits.excerpt(lm, sel.text, sel.chat)
    if (error := excerpt.no_chat) is not None:
        reason = say.plain(f"chat_{error.code}", **error.values)
        said.append(say.html("chat_failed", model=lm.name, reason=reason))
    if excerpt.special:
        said.append(say.html("chat_typed_special", tokens=" ".join(excerpt.special[:MAX_NAMED])))
    if excerpt.empty:
        said.append(say.html("text_empty", token=lm.tokenizer.labels(excerpt.ids)[0]))
    elif not sel.text.strip() and not excerpt.chat:
        said.append(say.html("text_blank", n=excerpt.n_tokens))
    if excerpt.characters_cut:
        said.append(say.html("text_many_characters", n=len(sel.text), limit=limits.MAX_CHARACTERS))
    if excerpt.tokens_cut:
        section = "message_many_tokens" if excerpt.chat else "text_many_tokens"
        said.append(say.html(section, n=excerpt.n_tokens, limit=len(excerpt.ids)))
    if len(sel.text) > limits.MAX_LINK_CHARACTERS:
        said.append(say.html("text_not_in_link", limit=limits.MAX_LINK_CHARACTERS))
    return said
