"""How can it skip the big matrix?"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import streamlit as st

from model.analysis.flash_tiles import ORDERS
from model.analysis.flash_traffic import BYTES
from pages.kit import controls, errors, figures, flash_closer, flash_race, numbers, selection, show, tickets, tokens
from pages.kit.components import Picked
from pages.kit.components.flash import WORDS, Step, flash
from pages.kit.flash_view import MAX_TILES, View
from pages.kit.page import Page, opening
from pages.kit.show import Kind, Scale

Option = TypeVar("Option")


def draw(page: Page) -> None:
    view = View.of(page)
    draw_controls(view)
    tickets.fragment(page.lm, draw_walk, view)
    left, right = st.columns([2, 1], gap="large")
    with left:
        draw_checks(view)
    with right, st.container(border=True, key="aside_try"):
        draw_try(view)
    flash_race.draw(view)
    flash_closer.draw_traffic(view)
    flash_closer.draw_sources(view)


def draw_controls(view: View) -> None:
    """Layer and head, then how the matrix is cut and what it is computed in."""
    page, say, sel = view.page, view.page.say, view.page.sel
    with st.container(key="controls_flash", horizontal=True, vertical_alignment="bottom"):
        controls.layer_and_head(page)
        for name, used in zip(("block_q", "block_k"), view.blocks, strict=True):
            st.select_slider(
                say.label(name),
                view.sizes(used),
                key=selection.widget(name, used, partial(_block, name)),
                width=150,
                disabled=view.n == 1,
            )
        _choice(view, "order", ORDERS, sel.order, "order")
        own = page.lm.config.causal
        _choice(view, "causal", (True, False), view.causal, "mask", lambda on: None if on == own else on)
        _choice(view, "dtype", tuple(BYTES), sel.dtype, "weights")
    remarks = []
    if view.enlarged:
        values = {"block_q": view.blocks[0], "block_k": view.blocks[1], "most": MAX_TILES}
        remarks.append(say.html("enlarged", n=view.n, **values))
    if sel.causal not in (None, page.lm.config.causal):
        remarks.append(say.html("other_mask_on" if view.causal else "other_mask_off"))
    if sel.tile is not None and sel.tile > len(view.walk.tiles):
        remarks.append(say.html("no_such_step", asked=sel.tile + 1, count=len(view.walk.tiles) + 1))
    if remarks:
        st.html(f'<p class="atlas-remark" role="status">{" ".join(remarks)}</p>')


def _choice(
    view: View,
    name: str,
    options: Sequence[Option],
    value: Option,
    prefix: str,
    stored: Callable[[Option], Option | None] = lambda new: new,
) -> None:
    """Buttons for one field of the selection. Other numbers are other steps, so the page picks the step anew."""
    say = view.page.say
    st.segmented_control(
        say.label(f"choose_{name}"),
        options,
        key=selection.widget(name, value, lambda new: {name: stored(new), "tile": None}),
        format_func=lambda option: say.label(f"{prefix}_{option}".lower()) if prefix else option,
        help=say(f"help_{name}"),
        required=True,
    )


def _block(name: str, size: int) -> dict[str, int | None]:
    return {name: size, "tile": None}


def draw_walk(view: View) -> None:
    """The tiles, one a step. Stepping runs this part alone."""
    page, say, walk = view.page, view.page.say, view.walk
    sel = selection.current()
    with errors.guarded(say):
        step = walk.shrinks_most[0] if sel.tile is None else min(sel.tile, len(walk.tiles))
        tokens.strip(page, query=sel.query)
        with st.container(key="section_walk", gap="xsmall"):
            st.header(say("walk_title"), anchor=False)
            st.markdown(say("walk", n=view.n))
            steps = [
                Step(tile.place, *(getattr(tile, name).numpy() for name in ("scores", "weights", "largest", "factor")),
                     *(getattr(tile, name).numpy() for name in ("added", "total", "out")))
                for tile in walk.tiles
            ]  # fmt: skip
            flash(
                steps,
                walk.skipped,
                walk.out.numpy(),
                page.run.labels,
                step,
                sel.query,
                id=view.id,
                key="walk",
                words=_words(view),
                on_change=_choose,
            )
            _walk_caption(view)


def _words(view: View) -> dict[str, str]:
    """The words of the component; it fills the names in braces in by itself."""
    say, place = view.page.say, view.page.place
    later = {name: f"{{{name}}}" for name in ("tile", "tiles", "queries", "keys", "factor", "total")}
    shared = {"query", "key", "masked", "weight"}
    named = shared | {"slider"}
    own = {
        word: say.plain(f"word_{word}", layer=place.layer, head=place.head, **later)
        for word in WORDS
        if word not in named
    }
    return own | {word: say.plain(word) for word in shared} | {"slider": say.plain("which_tile")}


def _walk_caption(view: View) -> None:
    page, say, walk, place = view.page, view.page.say, view.walk, view.page.place
    limits = {
        "word_score": max(float(tile.scores.masked_fill(tile.scores.isinf(), 0).abs().max()) for tile in walk.tiles),
        "word_values": max(float(tile.out.abs().max()) for tile in walk.tiles),
        "word_output": float(walk.out.abs().max()),
    }
    text = [say.plain("layer_head", layer=place.layer, head=place.head)]
    values = {
        "difference": numbers.power_of_ten(walk.difference),
        "largest": numbers.three_digits(limits["word_output"]),
    }
    text.append(say.plain("walk_caption", **values))
    kind = Kind.MEASURED if page.sel.causal in (None, page.lm.config.causal) else Kind.COMPUTED
    scales = [
        Scale(say.plain(name), numbers.signed(-limit), numbers.signed(limit), page.palette.diverging)
        for name, limit in limits.items()
    ]
    masked = say.plain("masked") if view.causal and view.n > 1 else ""
    show.caption(kind, say.plain(kind.value), " · ".join(text), *scales, masked=masked)


def _choose(picked: Picked) -> None:
    selection.update(query=picked.query, tile=picked.key)


def draw_checks(view: View) -> None:
    """The same result: forward and backward; and how much there is to keep at a time."""
    page, say, checks = view.page, view.page.say, view.checks
    forward = checks.forward
    dtype = say.plain(f"weights_{page.sel.dtype}")
    rows = [(say.plain("check_forward", dtype=dtype), [numbers.power_of_ten(forward.tiled)])]
    if page.sel.dtype != "float32":
        rows.append((say.plain("check_plain", dtype=dtype), [numbers.power_of_ten(forward.plain)]))
    rows += [
        (say.plain("check_backward", name=name), [numbers.power_of_ten(difference)])
        for name, difference in zip(("q", "k", "v"), checks.backward, strict=True)
    ]
    with st.container(key="section_checks", gap="xsmall"):
        st.header(say("checks_title"), anchor=False)
        section = "checks" if page.sel.dtype == "float32" else "checks_low"
        st.markdown(say(section, dtype=dtype, largest=numbers.three_digits(forward.largest)))
        titles = [say.plain("check_column", layer=page.place.layer), say.plain("difference_column")]
        st.html(figures.number_table(titles, rows, page.palette, description=say.plain("checks_title")))
        show.caption(Kind.MEASURED, say.plain("measured"), say.plain("checks_caption"))
        st.markdown(say("backward_text", n=view.n))
        _draw_kept(view)


def _draw_kept(view: View) -> None:
    page, say, d = view.page, view.page.say, view.page.lm.config.d_head
    n, (block_q, block_k) = view.n, view.blocks
    matrix, tile, state, kept = n * n, block_q * block_k, block_q * (d + 2), n
    rows = [
        (say.plain("kept_plain"), [f"{n:,} · {n:,} = {matrix:,}"]),
        (say.plain("kept_tile"), [f"{block_q} · {block_k} = {tile:,}"]),
        (say.plain("kept_rows"), [f"{block_q} · ({d} + 2) = {state:,}"]),
        (say.plain("kept_backward"), [f"{kept:,}"]),
    ]
    titles = [say.plain("kept_column"), say.plain("numbers_column")]
    st.html(figures.number_table(titles, rows, page.palette, description=titles[0]))
    show.caption(Kind.COMPUTED, say.plain("computed"), say.plain("kept_caption", d=d))


def draw_try(view: View) -> None:
    """What there is to see in this walk, in its own numbers."""
    page, say, walk = view.page, view.page.say, view.walk
    st.markdown(say("try_title"))
    number, query = walk.shrinks_most
    tile = walk.tiles[number]
    factor = float(tile.factor[query - tile.place.first_query])
    if 0 < factor < 1:
        label = page.run.labels[query]
        st.markdown(say("try_shrink", step=number + 1, token=label, factor=numbers.three_digits(factor)))
        go = partial(selection.update, tile=number, query=None)
        st.button(say.label("go_to_step", step=number + 1), key="go_to_step", on_click=go)
    elif view.n == 1:
        st.markdown(say("try_more_text"))
    else:
        st.markdown(say("try_smaller"))
    if view.n > 1:
        st.markdown(say("try_play"))
        st.markdown(say("try_order", difference=numbers.power_of_ten(walk.difference)))
        if walk.skipped:
            tiles = len(walk.skipped) + len(walk.tiles)
            st.markdown(say("try_mask", skipped=len(walk.skipped), tiles=tiles))


draw(opening("flash"))
