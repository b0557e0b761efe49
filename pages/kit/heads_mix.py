"""Several heads together, as the mean of their patterns."""

import streamlit as st

from model.analysis.interest import Place
from pages.kit import chosen_rows, heads_view, mixture, selection
from pages.kit.page import Page

PICKED = "picked"


def draw(page: Page, shown: Place) -> None:
    """Which heads, and the mean of their patterns."""
    say, sel, config = page.say, page.sel, page.lm.config
    st.header(say("mix_title"), anchor=False)
    here = (page.place.layer, page.place.head)
    kind = sel.mix if sel.mix in (mixture.LAYER, mixture.ALL) else PICKED
    st.segmented_control(
        say.label("mix_which"),
        [mixture.LAYER, mixture.ALL, PICKED],
        key=selection.widget("mix_kind", kind, lambda new: {"mix": mixture.written([here]) if new == PICKED else new}),
        format_func=lambda name: say.label(f"mix_{name}", layer=here[0]),
        required=True,
    )
    if kind == PICKED:
        st.multiselect(
            say.label("mix_heads"),
            mixture.heads(mixture.ALL, 0, config.n_layers, config.n_heads),
            key=selection.widget("mix_heads", mixture.picked(sel.mix), lambda new: {"mix": mixture.written(new)}),
            format_func=lambda head: say.label("layer_head", layer=head[0], head=head[1]),
            label_visibility="collapsed",
        )
    heads = mixture.heads(sel.mix, here[0], config.n_layers, config.n_heads)
    mixed = heads_view.seen(page, heads)
    heads_view.draw_panel(page, mixed, shown, "mixed_heads", say.plain("mix_label", n=len(heads)))
    if len(heads) == 1:
        layer, head = heads[0]
        said = say.plain("mix_caption_one", layer=layer, head=head)
    else:
        said = say.plain("mix_caption", n=len(heads))
    st.html(heads_view.caption(page, said, chosen_rows.note(page), view=mixed))
