"""How does one token look at the others?"""

from dataclasses import replace

import streamlit as st

from model.analysis.attention_rows import largest_weights, written_by_head
from model.analysis.attention_steps import MASK_KINDS
from pages.kit import (
    attention_arithmetic,
    attention_closer,
    captions,
    controls,
    figures,
    numbers,
    selection,
    show,
    tokens,
)
from pages.kit.attention_arithmetic import title
from pages.kit.attention_view import View
from pages.kit.components import Panel, Picked, matrices
from pages.kit.figures import Strip
from pages.kit.page import Page, opening, part
from pages.kit.show import Kind, Scale

N_BARS = 8  # keys in the bar chart
N_VALUES = 3  # values that are shown being mixed


def draw(page: Page) -> None:
    view = View(page)
    draw_controls(view)
    tokens.strip(page, query=view.place.query, key_index=view.place.key)
    draw_projections(view)
    draw_matrices(view)
    left, right = st.columns([2.4, 1], gap="medium")
    with left:
        attention_arithmetic.draw(view)
        draw_row(view)
    with right:
        aside = st.container(border=True, key="aside_try")
    draw_output(view)
    attention_closer.draw_scaling(view)
    masks = st.container()
    attention_closer.draw_python(view)
    # What the other mask does takes a second run of the model: the rest of the page need not wait for it.
    with aside:
        draw_try(view)
    if page.lm.config.kind == "decoder":  # it costs each token by how well it was predicted
        with masks:
            attention_closer.draw_mask(view)


def draw_controls(view: View) -> None:
    """Layer, head, mask and scaling in one line; below, what the reader should know about the last two."""
    page, say = view.page, view.page.say
    with st.container(key="controls_attention", horizontal=True):
        controls.layer_and_head(page)
        own = view.own_mask
        st.segmented_control(
            say.label("mask"),
            MASK_KINDS,
            key=selection.widget("mask", view.mask, lambda kind: {"mask": None if kind == own else kind}),
            format_func=lambda kind: say.label(f"mask_{kind}"),
            help=say("mask_help"),
            required=True,
        )
        st.segmented_control(
            say.label("scaling"),
            [True, False],
            key=selection.widget("scaling", page.sel.scaling),
            format_func=lambda on: say.label("on" if on else "off"),
            help=say("scaling_help", d=page.lm.config.d_head),
            required=True,
        )
    remarks = []
    if view.mask != own:
        remarks.append(say.html("other_mask", mask=say.plain(f"mask_{view.mask}"), does=_masked_subtitle(view)))
    if view.choice.padding:
        remarks.append(say.html("padding_rows"))
    if not page.sel.scaling:
        remarks.append(say.html("not_scaled", d=page.lm.config.d_head))
    if remarks:
        st.html(f'<p class="atlas-remark" role="status">{" ".join(remarks)}</p>')


def draw_projections(view: View) -> None:
    """From the vectors of the two tokens to the query of the one, key and value of the other."""
    page, say, place, steps = view.page, view.page.say, view.place, view.steps
    config, palette = page.lm.config, page.palette
    sizes = {"n": len(view.run.tokens), "d_model": config.d_model, "d_head": config.d_head}
    query, key = view.label(place.query), view.label(place.key)
    inputs = [Strip(f"x {query}", steps.x[place.query].numpy(), palette.query)]
    if place.key != place.query:
        inputs.append(Strip(f"x {key}", steps.x[place.key].numpy(), palette.key))
    outputs = [
        Strip(f"q {query}", steps.q[place.query].numpy(), palette.query),
        Strip(f"k {key}", steps.k[place.key].numpy(), palette.key),
        Strip(f"v {key}", steps.v[place.key].numpy(), palette.value),
    ]
    notes = [*_where(view), say.plain("x_caption" if config.norm_place == "pre" else "x_caption_post")]
    if config.positions == "rope":
        notes.append(say.plain("qk_caption_rope"))
    sharing = [head for head in range(config.n_heads) if head // config.queries_per_kv == steps.kv_head]
    if len(sharing) > 1:
        others = ", ".join(str(head) for head in sharing if head != place.head)
        notes.append(say.plain("shared_kv", heads=others))
    with st.container(key="section_projections", gap="xsmall"):
        st.markdown(say("projections", **sizes))
        left, right = st.columns(2, gap="large")
        with left, st.container(gap=None):
            st.caption(say("x_shape" if len(inputs) > 1 else "x_shape_one", **sizes))
            scale_x = _strips(view, "x", inputs)
        with right, st.container(gap=None):
            st.caption(say("qkv_shapes", **sizes))
            scale_qkv = _strips(view, "qkv", outputs)
        named = [replace(scale_x, name="x"), replace(scale_qkv, name="q, k, v")]
        show.caption(Kind.MEASURED, say.plain("measured"), " · ".join(notes), *named)


def draw_matrices(view: View) -> None:
    """The four matrices, and the line that says where they come from."""
    page, say, steps, place = view.page, view.page.say, view.steps, view.place
    config, hidden = page.lm.config, ~steps.visible.numpy()
    limits = [figures.symmetric_limit(steps.scores.numpy()), figures.symmetric_limit(steps.scaled.numpy())]
    scaled_subtitle = say.plain("scaled_subtitle" if page.sel.scaling else "unscaled_subtitle", d=config.d_head)
    if steps.bias.any():
        scaled_subtitle = say.plain("with_bias", subtitle=scaled_subtitle)
    panels = [
        Panel(title(view, 1), steps.scores.numpy(), limits[0], "q · k", scale="diverging", digits=2),
        Panel(
            title(view, 2),
            steps.scaled.numpy(),
            limits[1],
            scaled_subtitle,
            scale="diverging",
            digits=2,
        ),
        Panel(
            title(view, 3),
            steps.masked.numpy(),
            limits[1],
            _masked_subtitle(view),
            hidden,
            "diverging",
            digits=2,
        ),
        Panel(title(view, 4), steps.pattern.numpy(), 1.0, say.plain("pattern_subtitle"), hidden),
    ]
    ends = [(numbers.signed(-limit, 1), numbers.signed(limit, 1)) for limit in limits]
    with st.container(key="section_matrices", gap="xsmall"):
        st.markdown(say("matrices"))
        matrices(
            panels,
            view.run.labels,
            view.run.labels,
            place.query,
            place.key,
            key="matrices",
            words=captions.matrix_words(page, say.plain("matrices_label", layer=place.layer, head=place.head)),
            on_change=_choose_cell,
        )
        show.caption(
            *_source(view),
            " · ".join([*_where(view), _origin(view)]),
            Scale(say.plain("scores"), *ends[0], page.palette.diverging),
            Scale(scaled_subtitle, *ends[1], page.palette.diverging),
            Scale(say.plain("pattern"), "0", "1", page.palette.sequential),
            masked=say.plain("masked") if hidden.any() else "",
        )


def draw_row(view: View) -> None:
    """The chosen query's row as bars."""
    page, say, place = view.page, view.page.say, view.place
    token = view.label(place.query)
    row = largest_weights(view.steps, place.query, N_BARS)
    if not row.keys:
        st.markdown(say("row_empty", token=token))
        return
    fig = figures.bars(
        [view.label(key) for key in row.keys],
        row.weights,
        page.palette,
        highlight=row.keys.index(place.key) if place.key in row.keys else None,
        highlight_colour=page.palette.key,
        maximum=1.0,
        printed=[numbers.probability(weight) for weight in row.weights],
        details=[say.plain("bar_detail", token=view.label(key), position=key) for key in row.keys],
    )
    section = "row_all" if row.n_visible == len(row.keys) else "row_largest"
    section = "row_only" if row.n_visible == 1 else section
    text = say.plain(section, shown=len(row.keys), n=row.n_visible, rest=numbers.probability(row.rest))
    kind, word = _source(view)
    caption = show.caption_html(kind, word, " · ".join([*_where(view), text]), palette=page.palette)
    with st.container(key="section_row", gap="xsmall"):
        st.header(say("row_title", token=token), anchor=False)
        show.figure(fig, "row", alt=say.plain("row_alt", token=token), caption=caption)


def draw_try(view: View) -> None:
    """What to try next, with what it changes, measured in this run."""
    page, say, measured = view.page, view.page.say, view.measured
    on, off = measured.scaled, measured.unscaled
    values = {
        "token": view.label(view.place.query),
        "top_on": numbers.probability(on.row_top),
        "top_off": numbers.probability(off.row_top),
        "entropy_on": numbers.bits(on.entropy),
        "entropy_off": numbers.bits(off.entropy),
        "gradient_on": numbers.three_digits(on.gradient),
        "gradient_off": numbers.three_digits(off.gradient),
    }
    st.markdown(say("try_title"))
    if page.lm.config.kind != "decoder":  # what a mask costs is told by the next token
        st.markdown(say("try_unscale" if page.sel.scaling else "try_scale", **values))
        return
    effect = view.effect
    if effect.mean_before is None or effect.mean_after is None:
        st.markdown(say("try_more_text"))
        return
    st.markdown(say("try_unscale" if page.sel.scaling else "try_scale", **values))
    st.markdown(say("try_then"))
    costs = {"own": numbers.bits(effect.mean_before), "other": numbers.bits(effect.mean_after)}
    names = {"own_mask": say.plain(f"mask_{view.own_mask}"), "other_mask": say.plain(f"mask_{view.other_mask}")}
    st.markdown(say("try_other_mask" if view.mask == view.own_mask else "try_own_mask", **costs, **names))
    if not view.steps.visible.all():
        st.markdown(say("try_cell"))


def draw_output(view: View) -> None:
    """Values mixed by the pattern, and what the head adds to the stream."""
    page, say, place, steps = view.page, view.page.say, view.place, view.steps
    config, token = page.lm.config, view.label(place.query)
    sizes = {"d_model": config.d_model, "d_head": config.d_head, "n": len(view.run.tokens)}
    row = largest_weights(steps, place.query, N_VALUES)
    mixed = [
        Strip(f"{numbers.probability(weight)} {view.label(key)}", steps.v[key].numpy(), page.palette.value)
        for key, weight in zip(row.keys, row.weights, strict=True)
    ]
    mixed.append(Strip("z", steps.z[place.query].numpy(), page.palette.accent))
    written = written_by_head(view.run, steps, place.query)
    lengths = {"length": numbers.three_digits(written.length), "of": numbers.three_digits(written.stream_length)}
    section = "z_caption_all" if row.n_visible <= N_VALUES else "z_caption"
    section = "z_caption_only" if row.n_visible == 1 else section
    kind, word = _source(view)
    with st.container(key="section_output", gap="xsmall"):
        st.header(say("output_title"), anchor=False)
        st.markdown(say("output", token=token, **sizes))
        left, right = st.columns(2, gap="large")
        with left, st.container(gap=None):
            st.caption(say("z_shape", **sizes))
            scale = _strips(view, "mixed", mixed)
            show.caption(kind, word, say.plain(section, shown=len(row.keys), n=row.n_visible), scale)
        with right, st.container(gap=None):
            st.caption(say("out_shape", **sizes))
            added = Strip(say.plain("head_adds"), written.vector.numpy(), page.palette.accent)
            scale = _strips(view, "written", [added])
            show.caption(kind, word, say.plain("written_caption", **lengths), scale)


def _strips(view: View, key: str, strips: list[Strip]) -> Scale:
    """Draw vectors as strips on one scale, and return that scale for their caption."""
    page, say = view.page, view.page.say
    limit = figures.symmetric_limit(*(strip.values for strip in strips))
    fig = figures.value_strip(strips, page.palette, limit=limit, index_word=say.plain("number"), row=18)
    show.figure(fig, f"strips_{key}", alt=say.plain("strips_alt", names=", ".join(strip.name for strip in strips)))
    return Scale("", numbers.signed(-limit), numbers.signed(limit), page.palette.diverging)


def _masked_subtitle(view: View) -> str:
    """What the shown mask hides, in words."""
    say, rule = view.page.say, view.choice.rule
    if view.mask == "padding":
        return say.plain("hides_padding" if view.choice.padding else "hides_no_padding", n=view.choice.padding)
    if view.mask == "window" and rule is not None:
        return say.plain("hides_window" if rule.causal else "hides_window_both", n=(rule.window or 1) - 1)
    if view.mask == "prefix" and rule is not None:
        return say.plain("hides_prefix", n=rule.prefix)
    return say.plain(f"hides_{view.mask}")


def _source(view: View) -> tuple[Kind, str]:
    """Measured, or computed where the reader took the division by √d away from a model that has it."""
    kind = Kind.MEASURED if view.page.sel.scaling else Kind.COMPUTED
    return kind, view.page.say.plain(kind.value)


def _where(view: View) -> list[str]:
    """Layer and head, and the mask where it is not the model's own."""
    say, place = view.page.say, view.place
    parts = [say.plain("layer_head", layer=place.layer, head=place.head)]
    if view.mask != view.own_mask:
        parts.append(say.plain("with_mask", mask=say.plain(f"mask_{view.mask}")))
    return parts


def _origin(view: View) -> str:
    """Which kernel ran, or that this is not what ran."""
    if view.page.sel.scaling:
        return captions.kernel(replace(view.page, run=view.run), view.place.layer)
    return view.page.say.plain("from_measured", d=view.page.lm.config.d_head)


def _choose_cell(picked: Picked) -> None:
    selection.update(query=picked.query, key=picked.key)


part(opening("attention"), draw)
