"""The lower half of the page on self-attention: why scores are divided, what the mask is for, the same in Python."""

import inspect

import plotly.graph_objects as go
import streamlit as st

from model.analysis import plain_attention
from model.trace import Trace
from pages.kit import figures, numbers, show
from pages.kit.attention_view import View, effect_of, scaling_of_random_vectors
from pages.kit.figures import Mark
from pages.kit.palette import Palette
from pages.kit.show import Kind

_QUANTITIES = ("variance", "entropy", "gradient")
_PLAIN_ROWS = ("scores", "scaled", "masked_scores", "pattern_title", "mixed_title")


def draw_scaling(view: View) -> None:
    """Variance, entropy and gradient with and without the division by √d: on random vectors, and in this head."""
    page, say, d = view.page, view.page.say, view.page.lm.config.d_head
    words = tuple(say.plain(word) for word in ("without_root", "with_root", "numbers_in_a_vector"))
    with st.container(key="section_why", gap="xsmall"):
        st.header(say("why_title", d=d), anchor=False)
        st.markdown(say("why", d=d))
        for column, name in zip(st.columns(3, gap="medium"), _QUANTITIES, strict=True):
            with column, st.container(gap=None):
                st.caption(say(f"why_{name}"))
                show.figure(_why(name, d, words, page.palette), f"why_{name}", alt=say.plain(f"why_{name}_alt"))
        show.caption(Kind.ILLUSTRATION, say.plain("illustration"), say.plain("why_caption"))
        _draw_own_scaling(view)


# Figures that stay as they are while the reader moves about are kept: making one takes longer than all its numbers.
@st.cache_resource(show_spinner=False, max_entries=32)
def _why(name: str, d: int, words: tuple[str, ...], palette: Palette) -> go.Figure:
    rows = scaling_of_random_vectors()
    raw_name, scaled_name, x_title = words
    draw = figures.variance_of_dots if name == "variance" else figures.with_and_without
    return draw(
        [row.d for row in rows],
        [getattr(row, name) for row in rows],
        [getattr(row, f"{name}_scaled") for row in rows],
        palette,
        raw_name=raw_name,
        scaled_name=scaled_name,
        x_title=x_title,
        mark=Mark(d, f"d = {d}") if d in [row.d for row in rows] else None,
        height=215,
    )


def _draw_own_scaling(view: View) -> None:
    page, say, measured, place = view.page, view.page.say, view.measured, view.place
    on, off = measured.scaled, measured.unscaled
    table = [
        ("own_variance", numbers.three_digits(off.variance), numbers.three_digits(on.variance)),
        ("own_entropy", numbers.three_digits(off.entropy), numbers.three_digits(on.entropy)),
        ("own_gradient", numbers.three_digits(off.gradient), numbers.three_digits(on.gradient)),
        ("own_row_top", numbers.probability(off.row_top), numbers.probability(on.row_top)),
        ("own_row_gradient", numbers.three_digits(off.row_gradient), numbers.three_digits(on.row_gradient)),
    ]
    token = view.label(place.query)
    title = say.plain("own_title", layer=place.layer, head=place.head)
    left, right = st.columns([1.6, 1], gap="large", vertical_alignment="center")
    with left, st.container(gap="xsmall"):
        st.html(
            figures.number_table(
                [title, say.plain("without_root"), say.plain("with_root")],
                [(say.plain(name, token=token), cells) for name, *cells in table],
                page.palette,
                description=title,
            )
        )
        show.caption(Kind.COMPUTED, say.plain("computed"), say.plain("own_caption"))
    with right:
        st.markdown(say("own"))


def draw_mask(view: View) -> None:
    """What each token of the text cost with the model's own mask and with another, and which answers were in sight."""
    say, effect = view.page.say, view.effect
    own, other = (say.plain(f"mask_{kind}") for kind in (view.own_mask, view.other_mask))
    with st.container(key="section_mask", gap="xsmall"):
        st.header(say("leak_title"), anchor=False)
        before, after = effect.mean_before, effect.mean_after
        if before is None or after is None:
            st.markdown(say("leak_one_token"))
            return
        left, right = st.columns([1, 1.6], gap="large", vertical_alignment="center")
        with left:
            st.markdown(say("leak", own=own, other=other))
            values = {"own": own, "other": other, "before": numbers.bits(before), "after": numbers.bits(after)}
            st.markdown(_leaked(view, values))
        with right, st.container(gap="xsmall"):
            _draw_costs(view, own, other)


def _leaked(view: View, values: dict[str, str]) -> str:
    say, effect = view.page.say, view.effect
    before, after = effect.mean_before_in_sight, effect.mean_after_in_sight
    if before is None or after is None:
        return say("leak_unseen", **values)
    which = "all" if effect.in_sight.all() else "seen"
    cost = "cheaper" if after < before else "dearer"
    return say(f"leak_{which}_{cost}", **values, before_seen=numbers.bits(before), after_seen=numbers.bits(after))


def _draw_costs(view: View, own: str, other: str) -> None:
    page, say, effect = view.page, view.page.say, view.effect
    in_sight = effect.in_sight.numpy()
    legend = {"before": own, "after": other}
    if in_sight.any():
        legend["marked"] = say.plain("in_sight", mask=other)
    if in_sight.all():
        del legend["after"]
    words = tuple(say.plain(word) for word in ("was_in_sight", "cost_axis", "bits_unit"))
    fig = _costs(page.run, view.other_run, own, other, words, page.palette)
    text = say.plain("leak_caption_padding" if view.mask == "padding" else "leak_caption")
    st.html(figures.cost_legend(legend, page.palette))
    show.figure(
        fig,
        "mask_costs",
        alt=say.plain("leak_alt", own=own, other=other),
        caption=show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=page.palette),
    )


@st.cache_resource(show_spinner=False, max_entries=32, hash_funcs={Trace: lambda run: run.id})
def _costs(before: Trace, after: Trace, own: str, other: str, words: tuple[str, ...], palette: Palette) -> go.Figure:
    effect = effect_of(before, after)
    marked_name, y_title, unit = words
    return figures.cost_changes(
        before.labels[1:],
        effect.before.numpy(),
        effect.after.numpy(),
        palette,
        before_name=own,
        after_name=other,
        marked=effect.in_sight.numpy(),
        marked_name=marked_name,
        y_title=y_title,
        unit=unit,
    )


def draw_python(view: View) -> None:
    """The five steps in plain Python, run on this head's numbers, and how far torch and its kernels are from them."""
    page, say, place, measured = view.page, view.page.say, view.place, view.measured
    plain, n = measured.plain, len(view.run.tokens)
    steps = [
        (f"{number}\u00a0·\u00a0{say.plain(name)}", (numbers.three_digits(largest), numbers.power_of_ten(difference)))
        for number, (name, difference, largest) in enumerate(
            zip(_PLAIN_ROWS, plain.differences, plain.largest, strict=True), start=1
        )
    ]
    kernel = say.plain("kernel_check", kernel=view.run.kernels[f"blocks.{place.layer}.attn"], layer=place.layer)
    checks = [
        (kernel, (numbers.power_of_ten(measured.kernel_difference),)),
        (say.plain("sum_check"), (numbers.power_of_ten(measured.row_sum_error),)),
    ]
    difference = say.plain("python_difference")
    whole = plain.last - plain.first + 1 == n
    notes = [say.plain("python_all" if whole else "python_some", n=n, first=plain.first, last=plain.last)]
    if not page.sel.scaling:
        notes.append(say.plain("python_unscaled"))
    if view.steps.bias.any():
        notes.append(say.plain("python_bias"))
    with st.container(key="section_python", gap="xsmall"):
        st.header(say("python_title"), anchor=False)
        st.markdown(say("python"))
        left, right = st.columns([1.6, 1], gap="large")
        with left, st.container(key="python_source"):
            source = inspect.getsource(plain_attention).split('"""', 2)[2].strip()  # without what it says of itself
            st.code(source, language="python", wrap_lines=True)  # so that no part of it is out of a keyboard's reach
        with right, st.container(gap="small"):
            titles = [say.plain("python_step"), say.plain("python_largest"), difference]
            st.html(figures.number_table(titles, steps, page.palette, description=say.plain("python_title")))
            titles = [say.plain("other_checks"), difference]
            st.html(figures.number_table(titles, checks, page.palette, description=titles[0]))
            show.caption(Kind.MEASURED, say.plain("measured"), " · ".join(notes))
