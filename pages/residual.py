"""Why does depth not blow up?"""

from functools import partial

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from model.analysis.norm_steps import HALVES, NORMS, Half, NormSteps, norm_steps
from model.analysis.residual import Stream, stream
from model.config import Norm
from model.trace import Trace
from pages.kit import controls, figures, numbers, residual_depth, selection, show, tokens
from pages.kit.figures import Mark, Series, Step, Strip, Term
from pages.kit.page import Page, opening, part
from pages.kit.show import Kind


def draw(page: Page) -> None:
    run, sel, say = page.run, page.sel, page.say
    position = page.newest if sel.query is None else sel.query
    measured = _stream(run)
    busiest = measured.rewritten_most(position)
    layer = busiest[0] if sel.layer is None else sel.layer
    half = sel.half or HALVES[busiest[1]]
    with st.container(key="controls_residual", horizontal=True, vertical_alignment="bottom"):
        count = page.lm.config.n_layers
        controls.numbered("layer", say.label("layer"), layer, count)
        st.segmented_control(
            say.label("norm_of"),
            HALVES,
            key=selection.widget("half", half, lambda new: {"layer": layer, "half": new}),
            format_func=lambda name: say.label(name),
            required=True,
        )
    tokens.strip(page, query=position)
    draw_stream(page, measured, position, layer)
    draw_sums(page, measured, position, layer)
    steps = {kind: norm_steps(run, layer, half, position, kind) for kind in NORMS}
    draw_norms(page, steps, position, layer, half)
    with st.container(border=True, key="aside_try"):
        draw_try(page, measured, steps, position, layer)
    residual_depth.draw(page)


def draw_stream(page: Page, measured: Stream, position: int, layer: int) -> None:
    """How long the vectors are along the way, and what each block's output consists of."""
    say, palette, token = page.say, page.palette, page.run.labels[position]
    n_layers = page.lm.config.n_layers
    lengths, added = measured.lengths.numpy(), measured.added.numpy()
    halves = np.arange(2 * n_layers + 1) / 2
    blank = np.full(2 * n_layers + 1, np.nan)
    attention, feed_forward = blank.copy(), blank.copy()
    attention[1::2], feed_forward[2::2] = added[0::2, position], added[1::2, position]
    fig = figures.lines(
        halves,
        [
            Series(token, lengths[:, position], palette.ink, points=True),
            Series(say.plain("mean_of_tokens"), lengths.mean(1), palette.muted, "dash"),
            Series(say.plain("attention"), attention, palette.accent, points=True),
            Series(say.plain("feed_forward"), feed_forward, palette.value, points=True),
        ],
        palette,
        x_title=say.plain("blocks_passed"),
        y_title=say.plain("length_axis"),
        log_y=True,
        marks=[Mark(layer + 0.5, say.plain("layer_number", layer=layer))],
        height=300,
        x_ticks=range(0, n_layers + 1, max(1, n_layers // 12)),
    )
    left, right = st.columns(2, gap="large")
    with left, st.container(key="section_lengths", gap="xsmall"):
        st.header(say("lengths_title", token=token), anchor=False)
        st.markdown(say("lengths"))
        section = "lengths_caption_post" if page.lm.config.norm_place == "post" else "lengths_caption"
        _show(page, fig, "stream_lengths", say.plain("lengths_alt", token=token), say.plain(section))
    with right, st.container(key="section_shares", gap="xsmall"):
        st.header(say("shares_title"), anchor=False)
        st.markdown(say("shares"))
        fig = figures.stacked_bars(
            [say.plain("layer_number", layer=number) for number in range(n_layers)],
            [say.plain("came_in"), say.plain("attention"), say.plain("feed_forward")],
            measured.shares[:, :, position].numpy(),
            palette,
            highlight=layer,
        )
        mean = measured.mean_shares[layer].tolist()
        values = dict(zip(("came_in", "attention", "feed_forward"), map(numbers.percent, mean), strict=True))
        text = say.plain("shares_caption", token=token, layer=layer, **values)
        _show(page, fig, "stream_shares", say.plain("shares_alt", token=token), text)


def draw_sums(page: Page, measured: Stream, position: int, layer: int) -> None:
    """In + attention + feed-forward = out, for every block."""
    say, lengths, added = page.say, measured.lengths[:, position].tolist(), measured.added[:, position].tolist()
    rows = []
    for number, difference in enumerate(measured.differences):
        sizes = (lengths[2 * number], added[2 * number], added[2 * number + 1], lengths[2 * number + 2])
        cells = [*map(numbers.three_digits, sizes), numbers.power_of_ten(difference)]
        name = say.plain("layer_number", layer=number)
        rows.append((f"{figures.MARK}{name}" if number == layer else name, cells))
    columns = ("sum_layer", "came_in", "attention", "feed_forward", "goes_out", "sum_difference")
    titles = [say.plain(column) for column in columns]
    with st.container(key="section_sums", gap="xsmall"):
        post = page.lm.config.norm_place == "post"
        st.header(say("sums_title_post" if post else "sums_title"), anchor=False)
        st.markdown(say("sums_post" if post else "sums"))
        worst = numbers.power_of_ten(max(measured.relative_differences))
        show.marked_table(
            Kind.MEASURED,
            say.plain("measured"),
            say.plain("sums_caption", worst=worst),
            titles,
            rows,
            page.palette,
            description=say.plain("sums_alt"),
            mark=say.plain("mark_chosen"),
            key="sums_table",
        )


def draw_norms(page: Page, steps: dict[Norm, NormSteps], position: int, layer: int, half: Half) -> None:
    """One vector through LayerNorm and RMSNorm."""
    say, token = page.say, page.run.labels[position]
    number = steps[NORMS[0]].largest if page.sel.number is None else page.sel.number
    size = page.lm.config.d_model
    with st.container(key="section_norms", gap="xsmall"):
        st.header(say("norms_title", token=token), anchor=False)
        st.markdown(say("norms", layer=layer, half=say.plain(half), d_model=size))
        with st.container(key="controls_number"):
            st.number_input(say.label("which_number"), 0, size - 1, key=selection.widget("number", number), width=150)
        for column, kind in zip(st.columns(2, gap="large"), NORMS, strict=True):
            with column, st.container(key=f"section_{kind}", gap="xsmall"):
                _draw_norm(page, steps[kind], number)


def _draw_norm(page: Page, of: NormSteps, number: int) -> None:
    say, palette = page.say, page.palette
    st.markdown(say("norm_own" if of.own else "norm_other", name=say.plain(of.kind)))
    st.markdown(say(f"formula_{of.kind}"))
    limit = figures.symmetric_limit(of.x.numpy())
    strips = [Strip("x", of.x.numpy(), limit=limit)]
    if of.kind == "layernorm":
        strips.append(Strip(say.plain("strip_centred"), of.centred.numpy(), limit=limit))
    strips.append(_strip(say.plain("strip_normalized"), of.normalized.numpy(), palette.query))
    if of.own:
        strips.append(_strip("γ", of.gain.numpy(), palette.key))
        if of.shift is not None:
            strips.append(_strip("β", of.shift.numpy(), palette.key))
        strips.append(_strip(say.plain("strip_out"), of.out.numpy(), palette.accent))
    fig = figures.value_strip(strips, palette, index_word=say.plain("number"), row=18)
    torch_name = "layer_norm" if of.kind == "layernorm" else "rms_norm"
    checks = [say.plain("torch_check", name=torch_name, difference=numbers.power_of_ten(of.difference))]
    if of.run_difference is None:
        kind, notes = Kind.COMPUTED, [say.plain(f"other_{of.kind}"), *checks]
    else:
        run_check = say.plain("run_check", difference=numbers.power_of_ten(of.run_difference))
        kind, notes = Kind.MEASURED, [*checks, run_check]
    alt = say.plain("norm_alt", name=say.plain(of.kind))
    word = say.plain(kind.value)
    show.figure(fig, f"norm_{of.kind}", alt=alt, caption=show.caption_html(kind, word, " · ".join(notes)))
    after = of.after
    square = float(of.x.double().square().mean())
    rows = [
        (say.plain("row_mean"), [numbers.signed_digits(of.mean), _near_zero(after[0])]),
        (say.plain("row_variance"), [numbers.three_digits(of.variance), f"{after[1]:.4f}"]),
        (say.plain("row_mean_square"), [numbers.three_digits(square), f"{after[2]:.4f}"]),
    ]
    titles = [say.plain("of_the_vector"), "x", say.plain("strip_normalized")]
    st.html(figures.number_table(titles, rows, palette, description=alt))
    st.html(figures.arithmetic([Term(say.plain("number_of", number=number))], _arithmetic(page, of, number), palette))


def _arithmetic(page: Page, of: NormSteps, number: int) -> list[Step]:
    say = page.say
    x, centred, normalized, out = (float(v[number]) for v in (of.x, of.centred, of.normalized, of.out))
    print_ = numbers.signed_digits
    steps = []
    if of.kind == "layernorm":
        taken = [Term(f"{print_(x)} − {_in_brackets(of.mean)} = {print_(centred)}")]
        steps.append(Step(say.plain("step_centre"), taken))
    inside = f"{numbers.three_digits(of.mean_square)} + {numbers.power_of_ten(of.eps)}"
    steps.append(Step(say.plain(f"step_scale_{of.kind}"), [Term(f"√({inside}) = {numbers.three_digits(of.scale)}")]))
    divided = f"{print_(centred)} ÷ {numbers.three_digits(of.scale)} = "
    steps.append(Step(say.plain("step_divide"), [Term(divided), Term(print_(normalized), "" if of.own else "result")]))
    if of.own:
        last = f"{print_(normalized)} · {_in_brackets(float(of.gain[number]))}"
        if of.shift is not None:
            last += f" + {_in_brackets(float(of.shift[number]))}"
        name = "step_gain_shift" if of.shift is not None else "step_gain"
        steps.append(Step(say.plain(name), [Term(f"{last} = "), Term(print_(out), "result")]))
    return steps


def draw_try(page: Page, measured: Stream, steps: dict[Norm, NormSteps], position: int, layer: int) -> None:
    """What there is to see in this run, in its own numbers."""
    say, token = page.say, page.run.labels[position]
    st.markdown(say("try_title"))
    busy, half = measured.rewritten_most(position)
    share = numbers.percent(float(measured.shares[busy, 1 + half, position]), 0)
    st.markdown(say("try_busy", token=token, layer=busy, half=say.plain(HALVES[half]), share=share))
    if busy != layer:
        go = partial(selection.update, layer=busy, half=HALVES[half])
        st.button(say.label("go_to_layer", layer=busy), key="go_to_busy", on_click=go)
    one, other = (steps[kind].normalized for kind in NORMS)
    gap, mean = float((one - other).abs().max()), abs(steps["rmsnorm"].mean) / steps["rmsnorm"].scale
    values = {"gap": numbers.three_digits(gap), "mean": numbers.three_digits(mean)}
    st.markdown(say("try_both", token=token, **values))


def _strip(name: str, values: np.ndarray, colour: str) -> Strip:
    return Strip(name, values, colour, figures.symmetric_limit(values))


def _near_zero(value: float) -> str:
    return numbers.power_of_ten(value) if abs(value) < 1e-3 else numbers.signed_digits(value)


def _in_brackets(value: float) -> str:
    printed = numbers.signed_digits(value)
    return f"({printed})" if printed.startswith("−") else printed


def _show(page: Page, fig: go.Figure, key: str, alt: str, text: str) -> None:
    caption = show.caption_html(Kind.MEASURED, page.say.plain("measured"), text, palette=page.palette)
    show.figure(fig, key, alt=alt, caption=caption)


@st.cache_data(show_spinner=False, max_entries=128, hash_funcs={Trace: lambda run: run.id})
def _stream(run: Trace) -> Stream:
    return stream(run)


part(opening("residual"), draw)
