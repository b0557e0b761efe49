"""The lower half of the page on the residual stream: untrained stacks, measured while the reader waits."""

import time

import streamlit as st

from model.analysis.depth import DEPTHS, PLACEMENTS, Depth, Placement, measure_depth
from model.analysis.norm_steps import NORMS
from model.config import Norm
from pages.kit import figures, numbers, selection, show
from pages.kit.figures import Series
from pages.kit.page import Page
from pages.kit.show import Kind

QUIET_SECONDS = 0.25  # of measuring before a bar shows how far it is


def draw(page: Page) -> None:
    """Controls, what happens layer by layer at one depth, and what happens at every depth."""
    say, sel = page.say, page.sel
    with st.container(key="section_depth", gap="small"):
        st.header(say("depth_title"), anchor=False)
        st.markdown(say("depth"))
        with st.container(key="controls_depth", horizontal=True, vertical_alignment="bottom"):
            for name, options, value in (
                ("norm", NORMS, sel.norm),
                ("placement", PLACEMENTS, sel.placement),
                ("depth", DEPTHS, sel.depth),
            ):
                st.segmented_control(
                    say.label(f"choose_{name}"),
                    options,
                    key=selection.widget(name, value),
                    format_func=lambda option: say.label(option) if isinstance(option, str) else str(option),
                    required=True,
                )
        found = _measure(page)
        _draw_layers(page, found)
        _draw_depths(page, found)


def _measure(page: Page) -> dict[tuple[Placement, int], Depth]:
    """The stacks of the chosen depth, and those of the chosen placement; with a bar while it takes long."""
    sel = page.sel
    wanted = [(one, sel.depth) for one in PLACEMENTS] + [(sel.placement, d) for d in DEPTHS if d != sel.depth]
    place, begun = st.empty(), time.perf_counter()
    found = {}
    for done, (placement, depth) in enumerate(wanted):
        if time.perf_counter() - begun > QUIET_SECONDS:
            text = page.say.plain("measuring", done=done, count=len(wanted), depth=depth)
            place.progress(done / len(wanted), text)
        found[placement, depth] = _depth(sel.norm, placement, depth)
    place.empty()
    return found


def _draw_layers(page: Page, found: dict[tuple[Placement, int], Depth]) -> None:
    say, sel, palette = page.say, page.sel, page.palette
    colours = {"pre": palette.accent, "post": palette.key, "none": palette.muted}
    stacks = [found[placement, sel.depth] for placement in PLACEMENTS]
    places = range(sel.depth + 1)
    blocks = places[:-1]
    ticks = [*range(0, sel.depth, max(1, sel.depth // 6)), sel.depth]
    for column, name in zip(st.columns(2, gap="large"), ("sizes", "gradients"), strict=True):
        fig = figures.lines(
            places if name == "sizes" else blocks,
            [
                Series(
                    say.plain(one.placement),
                    one.sizes if name == "sizes" else one.gradients,
                    colours[one.placement],
                    "solid" if one.placement == sel.placement else "dot",
                    points=one.placement == sel.placement,
                )
                for one in stacks
            ],
            palette,
            x_title=say.plain("blocks_passed" if name == "sizes" else "block_number"),
            y_title=say.plain(f"{name}_axis"),
            log_y=True,
            height=280,
            x_ticks=ticks if name == "sizes" else ticks[:-1],
        )
        text = say.plain(f"{name}_caption", depth=sel.depth, norm=say.plain(sel.norm))
        caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=palette)
        with column, st.container(key=f"section_{name}", gap="xsmall"):
            st.markdown(say(f"{name}_text"))
            show.figure(fig, f"depth_{name}", alt=say.plain(f"{name}_alt"), caption=caption)
    one = {placement: found[placement, sel.depth] for placement in PLACEMENTS}
    values = {placement: numbers.signed_digits(stack.growth) for placement, stack in one.items()}
    st.markdown(say("depth_found", depth=sel.depth, **values))
    ends = {}
    for placement, stack in one.items():
        ends[f"{placement}_first"] = numbers.signed_digits(stack.gradients[0])
        ends[f"{placement}_last"] = numbers.signed_digits(stack.gradients[-1])
    st.markdown(say("gradient_found", **ends))


def _draw_depths(page: Page, found: dict[tuple[Placement, int], Depth]) -> None:
    say, sel = page.say, page.sel
    rows = []
    for depth in DEPTHS:
        one = found[sel.placement, depth]
        first, last = one.gradients[0], one.gradients[-1]
        values = (one.growth, first, last, first / last if last else float("nan"))
        name = say.plain("layers", depth=depth)
        cells = [numbers.signed_digits(v) for v in values]
        rows.append((f"{figures.MARK}{name}" if depth == sel.depth else name, cells))
    columns = ("depth_column", "growth_column", "first_column", "last_column", "ratio_column")
    title = say.plain("depths_title", placement=say.plain(sel.placement), norm=say.plain(sel.norm))
    st.markdown(f"**{say('depths_title', placement=say.plain(sel.placement), norm=say.plain(sel.norm))}**")
    with st.container(gap="xsmall"):
        show.marked_table(
            Kind.MEASURED,
            say.plain("measured"),
            say.plain("depths_caption"),
            [say.plain(column) for column in columns],
            rows,
            page.palette,
            description=title,
            mark=say.plain("mark_chosen"),
        )


@st.cache_resource(show_spinner=False, max_entries=64)
def _depth(norm: Norm, placement: Placement, depth: int) -> Depth:
    return measure_depth(norm, placement, depth)
