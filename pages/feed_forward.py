"""What is stored between the attentions?"""

from functools import partial

import plotly.graph_objects as go
import streamlit as st

from model.analysis.feed_forward import (
    FeedForwardRun,
    LayerActivity,
    activity,
    draw_curves,
    feed_forward_run,
    gelu_gap,
    on_curve,
)
from model.analysis.neuron_effects import (
    RANKINGS,
    Neuron,
    direct_effects,
    has_direct_effects,
    strongest,
)
from model.language import LanguageModel
from model.trace import Trace
from pages.kit import (
    controls,
    feed_forward_neuron,
    figures,
    loading,
    neuron_switches,
    neuron_texts,
    numbers,
    selection,
    show,
    tokens,
)
from pages.kit.feed_forward_neuron import Shown
from pages.kit.figures import Curve, Strip
from pages.kit.page import Page, opening
from pages.kit.show import Kind

N_RANKED = 8
CURVES = ("relu", "gelu_erf", "gelu_tanh", "silu")


def draw(page: Page) -> None:
    run, sel = page.run, page.sel
    position = page.newest if sel.query is None else sel.query
    layer, neuron = _neuron(page, position)
    _draw_controls(page, layer)
    tokens.strip(page, query=position)
    of = _feed_forward_run(run, layer)
    straight, logits = has_direct_effects(page.lm.config), page.lm.config.head != "none"
    effects = direct_effects(run, page.lm, layer, position) if straight else None
    token = int(run.logits[position].argmax()) if logits else None
    shown = Shown(page, of, effects, position, neuron, token)
    left, right = st.columns([1, 1.35], gap="large")
    with left, st.container(key="section_ranking", gap="xsmall"):
        _draw_ranking(shown)
    with right, st.container(key="section_curve", gap="xsmall"):
        _draw_curves(shown)
    feed_forward_neuron.draw(shown)
    neuron_texts.draw(shown)
    switches = st.container()
    _draw_vectors(shown)
    _draw_shares(shown)
    if logits:  # it takes a second run of the model, which the rest of the page need not wait for
        with switches:
            neuron_switches.draw(shown)


def _neuron(page: Page, position: int) -> Neuron:
    """The reader's neuron; without one, the first of the order, in the reader's layer or in all."""
    sel = page.sel
    if sel.layer is None or sel.neuron is None:
        order = sel.ranked_by if has_direct_effects(page.lm.config) else "size"
        first = _strongest(page.run, page.lm, position, order, sel.layer)
        return first if sel.neuron is None else (first[0], sel.neuron)
    return sel.layer, sel.neuron


def _draw_controls(page: Page, layer: int) -> None:
    say, count = page.say, page.lm.config.n_layers
    with st.container(key="controls_feed_forward", horizontal=True, vertical_alignment="bottom"):
        # A neuron's number means another one in another layer.
        controls.numbered("layer", say.label("layer"), layer, count, lambda new: {"layer": new, "neuron": None})
        if has_direct_effects(page.lm.config):
            names = {one: say.label(feed_forward_neuron.worded(page, f"order_{one}")) for one in RANKINGS}
            st.segmented_control(
                say.label("ranked_by"),
                RANKINGS,
                key=selection.widget("ranked_by", page.sel.ranked_by),
                format_func=names.__getitem__,
                required=True,
            )


def _draw_ranking(shown: Shown) -> None:
    """The neurons that do most at this token, and the choice of one."""
    page, say, palette, order = shown.page, shown.page.say, shown.page.palette, shown.order
    layer = shown.of.layer
    first = shown.ranked.first(N_RANKED)
    ids, of_ids = [i for i, _ in first], [value for _, value in first]
    plus = numbers.signed_digits if order == "size" else feed_forward_neuron.plus
    st.header(say("ranking_title", token=page.run.labels[shown.position]), anchor=False)
    st.markdown(say(feed_forward_neuron.worded(page, f"ranking_{order}"), token=shown.label, n=page.lm.config.d_ff))
    colours = [palette.diverging[2] if value >= 0 else palette.diverging[0] for value in of_ids]
    fig = figures.bars(
        [say.plain("neuron_number", number=i) for i in ids],
        [abs(value) for value in of_ids],
        palette,
        highlight=ids.index(shown.neuron) if shown.neuron in ids else None,
        colours=colours if order == "effect" else None,
        highlight_colour=colours[ids.index(shown.neuron)] if order == "effect" and shown.neuron in ids else None,
        printed=[plus(value) for value in of_ids],
    )
    n = page.lm.config.d_ff
    text = say.plain(f"ranking_caption_{order}", n=n, total=plus(shown.ranked.total), token=shown.label)
    kind = Kind.COMPUTED if order == "effect" else Kind.MEASURED
    _figure(page, fig, "neuron_ranking", say.plain("ranking_alt", layer=layer), text, kind)
    with st.container(key="controls_neuron", horizontal=True, vertical_alignment="bottom"):
        key = selection.widget("neuron", shown.neuron, lambda new: {"layer": layer, "neuron": new})
        st.number_input(say.label("neuron"), 0, page.lm.config.d_ff - 1, key=key, width=130)
        key = selection.widget(
            "top_neuron",
            shown.neuron if shown.neuron in ids else None,
            lambda new: {} if new is None else {"layer": layer, "neuron": new},
        )
        st.pills(say.label("ranked"), ids, key=key, format_func=str, label_visibility="collapsed")


def _draw_curves(shown: Shown) -> None:
    """Every neuron's input on the curve of the model, and the other curves to compare."""
    page, say, palette = shown.page, shown.page.say, shown.page.palette
    of, position = shown.of, shown.position
    into, out = of.pre[position].numpy(), of.curved()[position].numpy()
    x, values = draw_curves(min(-4.0, float(into.min())), max(4.0, float(into.max())))
    curves = [Curve(say.plain(name), values[name], own=name == of.curve) for name in CURVES]
    fig = figures.activation_curves(
        x,
        curves,
        (into, out),
        palette,
        chosen=shown.neuron,
        chosen_name=say.plain("neuron_number", number=shown.neuron),
        point_word=say.plain("neuron"),
        x_title=say.plain("curve_input"),
        y_title=say.plain("curve_value"),
    )
    name = say.plain(of.curve)
    st.header(say("curve_title", name=name), anchor=False)
    network = page.lm.config.activation
    section = f"curve_{network}" if of.linear is not None else "curve_plain"
    st.markdown(say(section, name=name, n=page.lm.config.d_ff, token=page.run.labels[position]))
    st.html(figures.curve_legend(curves, palette))
    gap = numbers.power_of_ten(of.curve_difference)
    text = say.plain("curve_caption", name=name, n_tokens=len(page.run.tokens), difference=gap)
    _figure(page, fig, "activation_curve", say.plain("curve_alt", name=name, layer=of.layer), text)
    _draw_comparison(shown)


def _draw_comparison(shown: Shown) -> None:
    """The chosen neuron's input on every curve."""
    say, of, position = shown.page.say, shown.of, shown.position
    x = float(of.pre[position, shown.neuron])
    linear = None if of.linear is None else float(of.linear[position, shown.neuron])
    rows = []
    for name in CURVES:
        value = on_curve(name, x)
        cells = [numbers.signed_digits(value)]
        if linear is not None:
            cells.append(numbers.signed_digits(value * linear))
        gated = f"\n{say.plain(f'gated_{name}')}" if linear is not None else ""
        mark = figures.MARK if name == of.curve else ""
        rows.append((f"{mark}{say.plain(name)}{gated}", cells))
    columns = [say.plain("column_curve"), say.plain("column_value")]
    if linear is not None:
        columns.append(say.plain("column_times", linear=numbers.signed_digits(linear)))
    with st.expander(say.label("compare", number=shown.neuron, x=numbers.signed_digits(x))):
        alt = say.plain("compare_alt", number=shown.neuron)
        st.html(
            figures.number_table(columns, rows, shown.page.palette, description=alt, mark=say.plain("compare_mark"))
        )
        gap = numbers.power_of_ten(gelu_gap())
        show.caption(
            Kind.COMPUTED,
            say.plain("computed"),
            say.plain("compare_caption", gap=gap),
            marked=say.plain("compare_mark"),
        )


def _draw_vectors(shown: Shown) -> None:
    """One token's way through the network: every vector whole."""
    page, say, palette = shown.page, shown.page.say, shown.page.palette
    of, position = shown.of, shown.position
    parts = [("input", of.inputs), ("pre" if of.linear is None else "gate", of.pre)]
    parts += [] if of.linear is None else [("linear", of.linear)]
    parts += [("activation", of.post), ("output", of.out)]
    colours = {"input": None, "activation": palette.accent, "output": palette.value}
    strips = []
    for name, values in parts:
        one = values[position].float().numpy()
        strips.append(Strip(say.plain(f"strip_{name}"), one, colours.get(name), figures.symmetric_limit(one)))
    fig = figures.value_strip(strips, palette, index_word=say.plain("number"), row=20)
    with st.container(key="section_vectors", gap="xsmall"):
        st.header(say("vectors_title", token=page.run.labels[position]), anchor=False)
        sizes = {"d_model": page.lm.config.d_model, "d_ff": page.lm.config.d_ff}
        st.markdown(say("vectors_gated" if of.linear is not None else "vectors_plain", **sizes, layer=of.layer))
        checks = {
            "difference": numbers.power_of_ten(of.sum_difference),
            "relative": numbers.power_of_ten(of.relative_sum_difference),
        }
        section = "vectors_caption" if of.bias is None else "vectors_caption_bias"
        text = say.plain(section, d_ff=sizes["d_ff"], **checks)
        _figure(page, fig, "ffn_vectors", say.plain("vectors_alt"), text)


def _draw_shares(shown: Shown) -> None:
    """How many neurons are busy: along the text, and layer by layer."""
    page, say, palette = shown.page, shown.page.say, shown.page.palette
    position, layer = shown.position, shown.of.layer
    shares = 100 * shown.of.open_shares.numpy()
    mean = float(shares.mean())
    fig = figures.token_costs(
        page.run.labels,
        shares,
        palette,
        highlight=position,
        y_title=say.plain("shares_axis"),
        mean=mean,
        mean_text=say.plain("shares_mean", mean=numbers.percent(mean / 100, 0)),
        unit="%",
    )
    left, right = st.columns([1.5, 1], gap="large")
    with left, st.container(key="section_open", gap="xsmall"):
        st.header(say("shares_title"), anchor=False)
        st.markdown(say("shares"))
        alt, text = say.plain("shares_alt", layer=layer), say.plain("shares_text", layer=layer)
        _figure(page, fig, "ffn_shares", alt, text)
    layers = _activity(page.run, position)
    with right, st.container(key="section_busy", gap="xsmall"):
        st.header(say("busy_title", token=page.run.labels[position]), anchor=False)
        rows = []
        for number, one in enumerate(layers):
            cells = [numbers.percent(one.here, 0), numbers.percent(one.mean, 0), f"{one.half:,}"]
            name = say.plain("layer_number", layer=number)
            rows.append((f"{figures.MARK}{name}" if number == layer else name, cells))
        columns = [say.plain(f"busy_{name}") for name in ("layer", "here", "mean", "half")]
        table = figures.number_table(
            columns, rows, palette, description=say.plain("busy_alt"), mark=say.plain("mark_chosen")
        )
        st.html(f'<div style="overflow-x:auto">{table}</div>')
        show.caption(
            Kind.MEASURED,
            say.plain("measured"),
            say.plain("busy_caption", d_ff=page.lm.config.d_ff),
            marked=say.plain("mark_chosen"),
        )
    with st.container(border=True, key="aside_try"):
        _draw_try(shown, layers)


def _draw_try(shown: Shown, layers: list[LayerActivity]) -> None:
    """What there is to see in this run, in its own numbers."""
    page, say, position = shown.page, shown.page.say, shown.position
    st.markdown(say("try_title"))
    label = page.run.labels[position]
    layer, number = _strongest(page.run, page.lm, position, "size", None)
    st.markdown(say("try_size", token=label, layer=layer, number=number))
    if (layer, number) != (shown.of.layer, shown.neuron):
        go = partial(selection.update, layer=layer, neuron=number)
        st.button(say.label("go_to_neuron", layer=layer, number=number), key="go_to_size", on_click=go)
    few = min(range(len(layers)), key=lambda one: layers[one].half)
    st.markdown(say("try_few", token=label, layer=few, half=layers[few].half, d_ff=page.lm.config.d_ff))
    st.markdown(say("try_tokens"))


def _figure(page: Page, fig: go.Figure, key: str, alt: str, text: str, kind: Kind = Kind.MEASURED) -> None:
    caption = show.caption_html(kind, page.say.plain(kind.value), text, palette=page.palette)
    show.figure(fig, key, alt=alt, caption=caption)


@loading.leaves_with_a_model
@st.cache_resource(show_spinner=False, max_entries=8, hash_funcs={Trace: lambda run: run.id})
def _feed_forward_run(run: Trace, layer: int) -> FeedForwardRun:
    return feed_forward_run(run, layer)


@st.cache_data(show_spinner=False, max_entries=256, hash_funcs={Trace: lambda run: run.id})
def _strongest(run: Trace, _lm: LanguageModel, position: int, order: str, layer: int | None) -> Neuron:
    return strongest(run, _lm, position, order, layer)


@st.cache_data(show_spinner=False, max_entries=128, hash_funcs={Trace: lambda run: run.id})
def _activity(run: Trace, position: int) -> list[LayerActivity]:
    return activity(run, position)


draw(opening("feed_forward"))
