"""The lower half of the page on flash attention: bytes moved on a GPU, and the kernel's source beside the plain one."""

import ast
import inspect
from pathlib import Path
from textwrap import dedent

import streamlit as st

from model.analysis.flash_tiles import FlashAttention, Running
from model.analysis.flash_traffic import BLOCKS, BYTES, CHIPS, Traffic, largest_block, traffic
from pages.kit import figures, numbers, selection, show
from pages.kit.figures import Mark, Series, Step, Term
from pages.kit.flash_view import View
from pages.kit.show import Kind

KERNEL = Path(inspect.getfile(FlashAttention)).parents[1] / "flash_triton.py"  # not imported: Triton may not be there
TABLE = (16, 32, 64, 128, 256)  # block sizes


def draw_traffic(view: View) -> None:
    """Bytes between the large and the small memory of a GPU by block size, and which blocks the small one holds."""
    page, say, sel = view.page, view.page.say, view.page.sel
    d, n, number = page.lm.config.d_head, sel.longest, BYTES[sel.dtype]
    best = largest_block(d, number, CHIPS[sel.chip])
    by_block = {block: traffic(n, d, block, block, number, causal=view.causal) for block in BLOCKS if block <= n}
    with st.container(key="section_traffic", gap="xsmall"):
        st.header(say("traffic_title"), anchor=False)
        st.markdown(say("traffic", n=n))
        with st.container(key="controls_traffic", horizontal=True):
            st.segmented_control(
                say.label("choose_chip"),
                tuple(CHIPS),
                key=selection.widget("chip", sel.chip),
                help=say("help_chip", chips=", ".join(f"{chip} {kib} KiB" for chip, kib in CHIPS.items())),
                required=True,
            )
        left, right = st.columns([1.3, 1], gap="large")
        with left, st.container(gap="xsmall"):
            _draw_curve(view, by_block, best)
        with right, st.container(gap="xsmall"):
            _draw_table(view, by_block, best)
        block = min(best, max(by_block))
        st.html(figures.arithmetic(_who(view, block), _formulas(view, by_block[block], block), page.palette))
        if view.causal:
            with_mask, whole = by_block[block], traffic(n, d, block, block, number, causal=False)
            ratios = {
                "all": with_mask.plain / with_mask.tiled,
                "tiles": whole.plain / whole.tiled,
                "mask": whole.tiled / with_mask.tiled,
            }
            st.markdown(say("less_causal", **{name: numbers.three_digits(ratio) for name, ratio in ratios.items()}))


def _draw_curve(view: View, by_block: dict[int, Traffic], best: int) -> None:
    page, say, palette, sel = view.page, view.page.say, view.page.palette, view.page.sel
    blocks = list(by_block)
    fig = figures.lines(
        blocks,
        [
            Series(say.plain("plain"), [by_block[b].plain / 2**20 for b in blocks], palette.key, "dash"),
            Series(say.plain("tiled"), [by_block[b].tiled / 2**20 for b in blocks], palette.accent, points=True),
        ],
        palette,
        x_title=say.plain("traffic_x"),
        y_title=say.plain("traffic_y"),
        log_x=True,
        log_y=True,
        x_ticks=blocks,
        marks=[Mark(best, say.plain("fits_until", chip=sel.chip))] if best in blocks else [],
        height=300,
    )
    mask = say.plain("mask_true" if view.causal else "mask_false")
    values = {"n": sel.longest, "d": page.lm.config.d_head, "dtype": say.plain(f"weights_{sel.dtype}"), "mask": mask}
    caption = show.caption_html(
        Kind.COMPUTED, say.plain("computed"), say.plain("traffic_caption", **values), palette=palette
    )
    show.figure(fig, "traffic", alt=say.plain("traffic_alt"), caption=caption)


def _draw_table(view: View, by_block: dict[int, Traffic], best: int) -> None:
    page, say, sel = view.page, view.page.say, view.page.sel
    rows = []
    for block in (b for b in TABLE if b in by_block):
        one = by_block[block]
        cells = [
            numbers.mebibytes(one.tiled),
            numbers.three_digits(one.plain / one.tiled),
            numbers.three_digits(one.on_chip / 1024),
            say.plain("fits_yes" if one.on_chip <= 1024 * CHIPS[sel.chip] else "fits_no"),
        ]
        rows.append((f"{figures.MARK if block == best else ''}{block} × {block}", cells))
    columns = [say.plain(f"traffic_{name}") for name in ("block", "moved", "less", "on_chip", "fits")]
    show.marked_table(
        Kind.COMPUTED,
        say.plain("computed"),
        say.plain("table_caption", kib=CHIPS[sel.chip], chip=sel.chip),
        columns,
        rows,
        page.palette,
        description=say.plain("traffic_alt"),
        mark=say.plain("table_mark"),
    )


def _who(view: View, block: int) -> list[Term]:
    return [Term(view.page.say.plain("reckoned", n=view.page.sel.longest, block=block))]


def _formulas(view: View, one: Traffic, block: int) -> list[Step]:
    say, sel = view.page.say, view.page.sel
    d, n, number = view.page.lm.config.d_head, sel.longest, BYTES[sel.dtype]
    plain = f"(4 · {n:,} · {d} + 4 · {n:,}²) · {number} B = "
    rows = n // block  # lengths and blocks are powers of 2
    sums = ("1", "1 + 2", f"1 + 2 + … + {rows:,}")[min(rows, 3) - 1]
    keys = f"{block} · ({sums}) = " if view.causal else f"{rows:,} · {n:,} = "
    tiled = f"(2 · {n:,} · {d} + 2 · {one.keys_read:,} · {d}) · {number} B + 4 B · {n:,} = "
    chip = f"({block} + 2 · {block}) · {d} · {number} B + 4 B · ({block}² + {block} · {d} + 2 · {block}) = "
    return [
        Step(say.plain("plain_formula"), [Term(plain), Term(f"{numbers.mebibytes(one.plain)} MiB", "result")]),
        Step(
            say.plain("keys_formula_true" if view.causal else "keys_formula_false", block=block),
            [Term(keys), Term(f"{one.keys_read:,}", "result")],
        ),
        Step(say.plain("tiled_formula"), [Term(tiled), Term(f"{numbers.mebibytes(one.tiled)} MiB", "result")]),
        Step(
            say.plain("chip_formula"),
            [Term(chip), Term(f"{numbers.three_digits(one.on_chip / 1024)} KiB", "result")],
        ),
    ]


def draw_sources(view: View) -> None:
    """The step in plain torch, as this page ran it, and the whole kernel for a GPU."""
    say = view.page.say
    with st.container(key="section_sources", gap="xsmall"):
        st.header(say("sources_title"), anchor=False)
        st.markdown(say("sources"))
        left, right = st.columns([1, 1.15], gap="medium")
        with left, st.container(key="source_plain", gap="xsmall"):
            st.markdown(say("source_plain"))
            parts = (Running.take_in, FlashAttention.scores, FlashAttention.__iter__)
            st.code("\n".join(dedent(inspect.getsource(part)) for part in parts), language="python")
        with right, st.container(key="source_kernel", gap="xsmall"):
            st.markdown(say("source_kernel"))
            st.code(kernel_source(), language="python")


@st.cache_data(show_spinner=False, max_entries=1)
def kernel_source() -> str:
    """Our kernel, decorator and all, as it stands in its file."""
    text = KERNEL.read_text(encoding="utf-8")
    (kernel,) = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.decorator_list)
    lines = text.splitlines()[kernel.decorator_list[0].lineno - 1 : kernel.end_lineno]
    return "\n".join(lines)
