"""What do the heads look for?"""

from functools import partial

import streamlit as st

from model.analysis.interest import Place
from model.analysis.mixing import (
    View,
    layer_patterns,
    masked_cells,
    without_first,
)
from model.trace import Trace
from pages.kit import (
    captions,
    chosen_rows,
    controls,
    figures,
    heads_mix,
    heads_roles,
    heads_rollout,
    heads_view,
    numbers,
    selection,
    show,
    tokens,
)
from pages.kit.components import head_tiles, lines
from pages.kit.figures import Pooled
from pages.kit.page import Page, opening, part

N_HALF = 18  # more layers or heads side by side need the whole width


def draw(page: Page) -> None:
    with st.container(key="controls_heads", horizontal=True, vertical_alignment="bottom"):
        layer, head = controls.layer_and_head(page)
        heads_view.draw_settings(page)
    tokens.strip(page, query=page.place.query, key_index=page.place.key)
    chosen_rows.choose(page)
    one = heads_view.seen(page, [(layer, head)])
    shown = chosen_rows.visible(page, one)
    many = max(page.lm.config.n_layers, page.lm.config.n_heads) > N_HALF
    if many:
        draw_all(page, one)
    left, right = st.columns(2, gap="large")
    with left:
        if many:
            draw_lines(page, one, shown)
        else:
            draw_all(page, one)
        with st.container(border=True, key="aside_try"):
            draw_try(page)
    with right:
        draw_matrix(page, one, shown)
        if not many:
            draw_lines(page, one, shown)
    heads_roles.draw(page)
    left, right = st.columns(2, gap="large")
    with left:
        heads_mix.draw(page, shown)
        with st.container(border=True, key="aside_cross"):
            draw_cross(page)
    with right:
        heads_rollout.draw(page, shown)


def draw_all(page: Page, one: View) -> None:
    """Every head as a small picture; a click chooses one."""
    say, sel, config = page.say, page.sel, page.lm.config
    of_all = pool(page.run, sel.without_first)
    tiles = figures.shaded(of_all, scale=sel.scale, floor=heads_view.LOG_FOOT, threshold=sel.threshold)
    st.header(say("all_title", n=config.n_layers * config.n_heads), anchor=False)
    counts = say.plain("all_caption", n_layers=config.n_layers, n_heads=config.n_heads, n=tiles.queries)
    pooled = say.plain("all_pooled", n=tiles.block) if tiles.block > 1 else ""
    words = {"label": say.plain("all_alt", n=config.n_layers * config.n_heads), "help": say.plain("role_help")}
    words |= {"axes": say.plain("role_axes"), "axes_sideways": say.plain("role_axes_sideways")}
    head_tiles(
        tiles,
        page.place.layer,
        page.place.head,
        key="all_heads",
        words=words | {name: say.plain(name) for name in ("layer", "head")},
        left_out=sel.without_first,
        on_change=lambda layer, head: selection.update(layer=layer, head=head),
    )
    titles = [say.plain(name) for name in ("layer", "head", "query", "key", "pattern")]
    show.exact_numbers(page.name, "all_heads", partial(figures.pooled_csv, of_all, titles))
    st.html(heads_view.caption(page, counts, pooled, view=one))


def draw_matrix(page: Page, one: View, place: Place) -> None:
    """The chosen head as a matrix, and the cell that is told of."""
    say = page.say
    st.header(say("one_title", layer=place.layer, head=place.head), anchor=False)
    label = say.plain("one_label", layer=place.layer, head=place.head)
    heads_view.draw_panel(page, one, place, "one_head", label)
    where = say.plain("layer_head", layer=place.layer, head=place.head)
    st.html(heads_view.caption(page, where, captions.kernel(page, place.layer), chosen_rows.note(page), view=one))
    query, key = place.query, place.key
    labels = {"query": page.run.labels[query], "key": page.run.labels[key]}
    if one.hidden[query, key]:
        st.markdown(heads_view.tell_hidden(page, place))
    else:
        section = "cell_rest" if page.sel.without_first else "cell"
        labels["first"] = page.run.labels[0]
        st.markdown(say(section, **labels, weight=numbers.probability(float(one.weights[query, key]))))


def draw_lines(page: Page, one: View, place: Place) -> None:
    """The chosen head as lines between tokens."""
    say = page.say
    st.header(say("lines_title"), anchor=False)
    st.markdown(say("lines_help_text", layer=place.layer, head=place.head))
    rows = chosen_rows.of(page, one)
    lines(
        rows.weights,
        rows.labels(page),
        page.run.labels,
        rows.index(place.query),
        place.key,
        key="head_lines",
        words=captions.line_words(page, say.plain("lines_label", layer=place.layer, head=place.head)),
        masked=rows.hidden,
        threshold=page.sel.threshold,
        left_out=heads_view.left_out(page),
        on_change=partial(rows.pick, place),
    )
    where = say.plain("layer_head", layer=place.layer, head=place.head)
    st.html(heads_view.caption(page, where, say.plain("lines_caption"), chosen_rows.note(page)))


def draw_try(page: Page) -> None:
    """What there is to see in this run, in its own numbers."""
    say = page.say
    st.markdown(say("try_title"))
    surveyed = heads_roles.of_run(page.run)
    parked = surveyed.roles.get("first")
    if parked is None:
        st.markdown(say("try_one_token"))
        return
    layer, head = parked.strongest
    shares = {"mean": float(parked.scores.mean()), "share": float(parked.scores.max())}
    values = {name: numbers.percent(share, 0) for name, share in shares.items()}
    st.markdown(say("try_first", token=page.run.labels[0], layer=layer, head=head, **values))
    if not page.sel.without_first:
        st.markdown(say("try_hide"))
    st.button(
        say.label("go_to_head", layer=layer, head=head),
        key="go_to_sink",
        on_click=lambda: selection.update(layer=layer, head=head, query=None, key=None),
    )
    if page.sel.scale != "log":
        st.markdown(say("try_log", pale=numbers.percent(surveyed.below, 0), weight=heads_roles.PALE))


def draw_cross(page: Page) -> None:
    """Where the attention is that this model lacks."""
    st.markdown(page.say("elsewhere"))
    address = selection.to_parameters(page.sel)
    st.page_link("pages/architectures.py", label=page.say.label("page_architectures"), query_params=address)


@st.cache_data(show_spinner=False, max_entries=16, hash_funcs={Trace: lambda run: run.id})
def pool(run: Trace, leave_first: bool) -> Pooled:
    """What is drawn of all heads, on any scale and above any threshold."""
    hidden = masked_cells(run)
    views = (without_first(p, hidden) if leave_first else View(p, hidden) for p in layer_patterns(run))
    masked = without_first(hidden.float(), hidden).hidden if leave_first else hidden
    return figures.pool_patterns((view.weights.numpy() for view in views), masked=masked.numpy())


part(opening("heads"), draw)
