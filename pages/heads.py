"""What do the heads look for?"""

from functools import partial

import streamlit as st

from model.analysis.mixing import (
    Sink,
    View,
    at_least,
    layer_patterns,
    masked_cells,
    mean_pattern,
    share_of_cells_below,
    sink,
    without_first,
)
from model.trace import Trace
from pages.kit import captions, chosen_rows, controls, figures, mixture, numbers, selection, show, tokens
from pages.kit.components import Panel, lines, matrices
from pages.kit.figures import Tiles
from pages.kit.page import Page, opening

LOG_FOOT = 1e-4  # the weight at the foot of the logarithmic scale
THRESHOLDS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
N_HALF = 18  # more layers or heads side by side need the whole width
PALE = 0.05  # a weight whose colour is hardly told from paper
PICKED = "picked"


def draw(page: Page) -> None:
    with st.container(key="controls_heads", horizontal=True, vertical_alignment="bottom"):
        layer, head = controls.layer_and_head(page)
        draw_settings(page)
    tokens.strip(page, query=page.place.query, key_index=page.place.key)
    chosen_rows.choose(page)
    one = seen(page, [(layer, head)])
    many = max(page.lm.config.n_layers, page.lm.config.n_heads) > N_HALF
    if many:
        draw_all(page, one)
    left, right = st.columns(2, gap="large")
    with left:
        if many:
            draw_lines(page, one)
        else:
            draw_all(page, one)
    with right:
        draw_matrix(page, one)
    left, right = st.columns(2, gap="large")
    with left:
        if not many:
            draw_lines(page, one)
        with st.container(border=True, key="aside_try"):
            draw_try(page)
    with right:
        draw_mix(page)


def draw_settings(page: Page) -> None:
    """How attention is drawn, the same in every figure of the page."""
    say, sel = page.say, page.sel
    st.segmented_control(
        say.label("scale"),
        selection.SCALES,
        key=selection.widget("scale", sel.scale),
        format_func=lambda name: say.label(f"scale_{name}"),
        required=True,
    )
    with st.container(key="slider_threshold", width=170, gap=None):
        printed = say.plain("off") if sel.threshold == 0 else f"{sel.threshold:g}"
        st.markdown(say.label("control_value", name=say.plain("threshold"), value=printed))
        st.select_slider(
            say.label("threshold"),
            sorted({*THRESHOLDS, sel.threshold}),
            key=selection.widget("threshold", sel.threshold),
            format_func=lambda value: say.label("off") if value == 0 else f"{value:g}",
            label_visibility="collapsed",
        )
    st.toggle(
        say.label("without_first", token=page.run.labels[0]),
        key=selection.widget("without_first", sel.without_first),
    )


def seen(page: Page, heads: list[mixture.Head]) -> View:
    """The mean of these heads' patterns, without the first token where the reader wants that."""
    weights, hidden = mean_pattern(page.run, heads), masked_cells(page.run)
    return without_first(weights, hidden) if page.sel.without_first else View(weights, hidden)


def draw_all(page: Page, one: View) -> None:
    """Every head as a small picture; a click chooses one."""
    say, sel, config = page.say, page.sel, page.lm.config
    tiles = tile(page.run, sel.scale, sel.without_first, sel.threshold)
    figure = figures.heads_overview(
        tiles,
        page.palette,
        layer=page.place.layer,
        head=page.place.head,
        layer_word=say.plain("layer"),
        head_word=say.plain("head"),
    )

    def choose() -> None:
        if found := show.picked("all_heads"):
            selection.update(layer=int(found[0]), head=int(found[1]))

    st.header(say("all_title", n=config.n_layers * config.n_heads), anchor=False)
    counts = say.plain("all_caption", n_layers=config.n_layers, n_heads=config.n_heads, n=tiles.queries)
    pooled = say.plain("all_pooled", n=tiles.block) if tiles.block > 1 else ""
    show.figure(
        figure,
        "all_heads",
        alt=say.plain("all_alt", n=config.n_layers * config.n_heads),
        caption=caption(page, counts, pooled, view=one),
        on_select=choose,
    )


def draw_matrix(page: Page, one: View) -> None:
    """The chosen head as a matrix."""
    say, place = page.say, page.place
    st.header(say("one_title", layer=place.layer, head=place.head), anchor=False)
    label = say.plain("one_label", layer=place.layer, head=place.head)
    draw_panel(page, one, "one_head", label)
    where = say.plain("layer_head", layer=place.layer, head=place.head)
    st.html(caption(page, where, captions.kernel(page, place.layer), chosen_rows.note(page), view=one))
    query, key = place.query, place.key
    labels = {"query": page.run.labels[query], "key": page.run.labels[key]}
    if one.hidden[query, key]:
        st.markdown(say("cell_hidden", **labels))
    else:
        st.markdown(say("cell", **labels, weight=numbers.probability(float(one.weights[query, key]))))


def draw_lines(page: Page, one: View) -> None:
    """The chosen head as lines between tokens."""
    say, place = page.say, page.place
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
        on_change=partial(rows.pick, page),
    )
    where = say.plain("layer_head", layer=place.layer, head=place.head)
    st.html(caption(page, where, say.plain("lines_caption"), chosen_rows.note(page)))


def draw_mix(page: Page) -> None:
    """Several heads together, as the mean of their patterns."""
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
    mixed = seen(page, heads)
    draw_panel(page, mixed, "mixed_heads", say.plain("mix_label", n=len(heads)))
    if len(heads) == 1:
        layer, head = heads[0]
        shown = say.plain("mix_caption_one", layer=layer, head=head)
    else:
        shown = say.plain("mix_caption", n=len(heads))
    st.html(caption(page, shown, chosen_rows.note(page), view=mixed))


def draw_panel(page: Page, view: View, key: str, label: str) -> None:
    """One matrix on the page's scale."""
    labels, rows = page.run.labels, chosen_rows.of(page, view)
    panel = Panel(
        page.say.plain("panel_title"),
        rows.weights,
        high=1.0,
        subtitle=page.say.plain("panel_without_first" if page.sel.without_first else "panel_rows", token=labels[0]),
        masked=rows.hidden,
        log_from=LOG_FOOT if page.sel.scale == "log" else None,
        threshold=page.sel.threshold,
    )
    matrices(
        [panel],
        rows.labels(page),
        labels,
        rows.index(page.place.query),
        page.place.key,
        key=key,
        words=captions.matrix_words(page, label),
        side=360,
        on_change=partial(rows.pick, page),
    )


def draw_try(page: Page) -> None:
    """What there is to see in this run, in its own numbers."""
    say = page.say
    st.markdown(say("try_title"))
    found = sinks(page.run)
    if found is None:
        st.markdown(say("try_one_token"))
        return
    values = {"mean": numbers.percent(found.mean, 0), "share": numbers.percent(found.share, 0)}
    st.markdown(say("try_first", token=page.run.labels[0], layer=found.layer, head=found.head, **values))
    if not page.sel.without_first:
        st.markdown(say("try_hide"))
    st.button(
        say.label("go_to_head", layer=found.layer, head=found.head),
        key="go_to_sink",
        on_click=lambda: selection.update(layer=found.layer, head=found.head, query=None, key=None),
    )
    if page.sel.scale != "log":
        st.markdown(say("try_log", pale=numbers.percent(pale_share(page.run), 0), weight=PALE))


def caption(page: Page, *said: str, view: View | None = None) -> str:
    """The line under a figure: what it shows, what is left out, and of a `view` in colours the scale and the mask."""
    say, sel = page.say, page.sel
    if sel.without_first:
        said += (say.plain("caption_without_first", token=page.run.labels[0]),)
    if sel.threshold:
        said += (say.plain("caption_threshold", threshold=f"{sel.threshold:g}"),)
    text = " · ".join(part for part in said if part)
    if view is None:
        return show.caption_html(show.Kind.MEASURED, say.plain("measured"), text)
    low = f"≤ {LOG_FOOT:g}" if sel.scale == "log" else "0"
    scale = show.Scale(say.plain("pattern"), low, "1", page.palette.sequential)
    return show.caption_html(
        show.Kind.MEASURED, say.plain("measured"), text, scale, masked=say.plain("masked") if view.hidden.any() else ""
    )


@st.cache_data(show_spinner=False, max_entries=64, hash_funcs={Trace: lambda run: run.id})
def tile(run: Trace, scale: str, leave_first: bool, threshold: float) -> Tiles:
    """All heads as small pictures."""
    hidden = masked_cells(run)
    views = (without_first(p, hidden) if leave_first else View(p, hidden) for p in layer_patterns(run))
    masked = without_first(hidden.float(), hidden).hidden if leave_first else hidden
    patterns = (at_least(view.weights, threshold).numpy() for view in views)
    return figures.tile_patterns(patterns, masked=masked.numpy(), scale=scale, floor=LOG_FOOT)


@st.cache_data(show_spinner=False, max_entries=256, hash_funcs={Trace: lambda run: run.id})
def sinks(run: Trace) -> Sink | None:
    """What is parked on the first token."""
    return sink(run)


@st.cache_data(show_spinner=False, max_entries=256, hash_funcs={Trace: lambda run: run.id})
def pale_share(run: Trace) -> float:
    """How many of the cells are hardly told from paper."""
    return share_of_cells_below(run, PALE)


draw(opening("heads"))
