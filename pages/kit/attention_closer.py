"""The lower half of the page on self-attention: why scores are divided, what the mask is for, the same in Python."""

import inspect

import streamlit as st

from model.analysis.plain_attention import STEPS
from pages.kit import figures, numbers, show
from pages.kit.attention_view import View, scaling_of_random_vectors
from pages.kit.figures import Mark
from pages.kit.show import Kind

_PLAIN_ROWS = ("scores", "scaled", "masked_scores", "pattern_title", "mixed_title")


def draw_scaling(view: View) -> None:
    """Variance, entropy and gradient with and without the division by √d: on random vectors, and in this head."""
    page, say, d = view.page, view.page.say, view.page.lm.config.d_head
    st.subheader(say("why_title", d=d), anchor=False)
    st.markdown(say("why", d=d))
    rows = scaling_of_random_vectors()
    sizes = [row.d for row in rows]
    pairs = {
        "variance": [(row.variance, row.variance_scaled) for row in rows],
        "entropy": [(row.entropy, row.entropy_scaled) for row in rows],
        "gradient": [(row.gradient, row.gradient_scaled) for row in rows],
    }
    for column, (name, pair) in zip(st.columns(3, gap="medium"), pairs.items(), strict=True):
        draw = figures.variance_of_dots if name == "variance" else figures.with_and_without
        raw, scaled = zip(*pair, strict=True)
        fig = draw(
            sizes,
            raw,
            scaled,
            page.palette,
            raw_name=say.plain("without_root"),
            scaled_name=say.plain("with_root"),
            x_title=say.plain("numbers_in_a_vector"),
            mark=Mark(d, f"d = {d}") if d in sizes else None,
            height=230,
        )
        with column:
            st.markdown(say(f"why_{name}"))
            show.figure(fig, f"why_{name}", alt=say.plain(f"why_{name}_alt"))
    show.caption(Kind.ILLUSTRATION, say.plain("illustration"), say.plain("why_caption"))
    _draw_own_scaling(view)


def _draw_own_scaling(view: View) -> None:
    page, say, measured, place = view.page, view.page.say, view.measured, view.place
    on, off = measured.scaled, measured.unscaled
    table = [
        ("own_variance", numbers.three_digits(off.variance), numbers.three_digits(on.variance)),
        ("own_entropy", f"{off.entropy:.3f}", f"{on.entropy:.3f}"),
        ("own_gradient", numbers.three_digits(off.gradient), numbers.three_digits(on.gradient)),
        ("own_row_top", numbers.probability(off.row_top), numbers.probability(on.row_top)),
        ("own_row_gradient", numbers.three_digits(off.row_gradient), numbers.three_digits(on.row_gradient)),
    ]
    token = view.label(place.query)
    title = say.plain("own_title", layer=place.layer, head=place.head)
    fragment = figures.number_table(
        [title, say.plain("without_root"), say.plain("with_root")],
        [(say.plain(name, token=token), cells) for name, *cells in table],
        page.palette,
        description=title,
    )
    left, right = st.columns([1.6, 1], gap="large")
    with left:
        st.html(fragment)
        show.caption(Kind.COMPUTED, say.plain("computed"), say.plain("own_caption"))
    with right:
        st.markdown(say("own", d=page.lm.config.d_head))


def draw_mask(view: View) -> None:
    """What each token of the text cost with the model's own mask and with another, and which answers were in sight."""
    page, say, effect = view.page, view.page.say, view.effect
    own, other = (say.plain(f"mask_{kind}") for kind in (view.own_mask, view.other_mask))
    st.subheader(say("leak_title"), anchor=False)
    st.markdown(say("leak", own=own, other=other))
    if effect.mean_before is None or effect.mean_after is None:
        st.markdown(say("leak_one_token"))
        return
    values = {"own": own, "other": other, "before": f"{effect.mean_before:.2f}", "after": f"{effect.mean_after:.2f}"}
    in_sight = effect.in_sight.numpy()
    if effect.mean_before_in_sight is not None and effect.mean_after_in_sight is not None:
        values["before_seen"] = f"{effect.mean_before_in_sight:.2f}"
        values["after_seen"] = f"{effect.mean_after_in_sight:.2f}"
        cheaper = effect.mean_after_in_sight < effect.mean_before_in_sight
        st.markdown(say("leak_seen_cheaper" if cheaper else "leak_seen_dearer", **values))
    else:
        st.markdown(say("leak_unseen", **values))
    legend = {"before": own, "after": other}
    if in_sight.any():
        legend["marked"] = say.plain("in_sight", mask=other)
    st.html(figures.cost_legend(legend, page.palette))
    fig = figures.cost_changes(
        view.run.labels[1:],
        effect.before.numpy(),
        effect.after.numpy(),
        page.palette,
        before_name=own,
        after_name=other,
        marked=in_sight,
        marked_name=say.plain("was_in_sight"),
        y_title=say.plain("cost_axis"),
        unit=say.plain("bits"),
    )
    text = say.plain("leak_caption_padding" if view.mask == "padding" else "leak_caption")
    caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=page.palette)
    show.figure(fig, "mask_costs", alt=say.plain("leak_alt", own=own, other=other), caption=caption)


def draw_python(view: View) -> None:
    """The five steps in plain Python, run on this head's numbers, and how far torch and its kernels are from them."""
    page, say, measured, n = view.page, view.page.say, view.measured, len(view.run.tokens)
    plain = measured.plain
    st.subheader(say("python_title"), anchor=False)
    st.markdown(say("python"))
    rows = []
    for number, (name, difference, largest) in enumerate(
        zip(_PLAIN_ROWS, plain.differences, plain.largest, strict=True), start=1
    ):
        cells = (numbers.three_digits(largest), numbers.power_of_ten(difference))
        rows.append((f"{number} · {say.plain(name)}", cells))
    table = figures.number_table(
        [say.plain("python_step"), say.plain("python_largest"), say.plain("python_difference")],
        rows,
        page.palette,
        description=say.plain("python_title"),
    )
    place = view.place
    others = figures.number_table(
        [say.plain("other_checks"), say.plain("python_difference")],
        [
            (say.plain("kernel_check", kernel=view.run.kernels[f"blocks.{place.layer}.attn"], layer=place.layer),
             (numbers.power_of_ten(measured.kernel_difference),)),
            (say.plain("sum_check"), (numbers.power_of_ten(measured.row_sum_error),)),
        ],
        page.palette,
        description=say.plain("other_checks"),
    )  # fmt: skip
    left, right = st.columns([1.6, 1], gap="large")
    with left, st.container(key="python_source"):
        st.code("\n\n".join(inspect.getsource(step).rstrip() for step in STEPS), language="python", wrap_lines=True)
    with right:
        st.html(table)
        st.html(others)
        all_rows = plain.last - plain.first + 1 == n
        section = "python_all" if all_rows else "python_some"
        notes = [say.plain(section, n=n, first=plain.first, last=plain.last)]
        if not page.sel.scaling:
            notes.append(say.plain("python_unscaled"))
        if view.steps.bias.any():
            notes.append(say.plain("python_bias"))
        show.caption(Kind.MEASURED, say.plain("measured"), " · ".join(notes))
