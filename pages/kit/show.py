"""Puts figures on a page: one config, one caption line, the same everywhere."""

import html
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pages.kit import palette as palettes
from pages.kit.figures import MARK, number_table, style
from pages.kit.figures.style import html_text
from pages.kit.palette import Palette


class Kind(Enum):
    """Where a figure's numbers come from."""

    MEASURED = "measured"
    COMPUTED = "computed"
    ILLUSTRATION = "illustration"


@dataclass(frozen=True)
class Scale:
    """A colour scale as the caption shows it: its name, its ends as they are printed, its colours."""

    name: str
    low: str
    high: str
    colours: tuple[str, ...]


def figure(
    fig: go.Figure,
    key: str,
    *,
    alt: str,
    caption: str = "",
) -> None:
    """Draw `fig` at the width of its column, with `caption` (HTML from `caption_html`) below.

    key: unique on the page; keeps the element across reruns. alt: what a screen reader says.
    A figure may state its own frame in `layout.meta`: `min_width` (pixels; where there is less room it scrolls
    sideways inside its frame), `max_width` (pixels) and `aspect` (width ÷ height, instead of a fixed height).
    """
    config = {
        "displaylogo": False,
        "displayModeBar": "hover",
        "modeBarButtons": [["toImage"]],
        "toImageButtonOptions": {"format": "png", "scale": 3, "filename": key},
        "scrollZoom": False,
        "doubleClick": False,
        "responsive": True,
    }
    st.html(f"<style>{_frame(key, fig.layout.meta or {})}</style>")
    st.plotly_chart(
        fig,
        height="stretch" if "aspect" in (fig.layout.meta or {}) else "content",
        theme=None,
        key=key,
        config=config,
        alt=alt,
    )
    if caption:
        st.html(caption)


def caption_html(
    kind: Kind,
    word: str,
    text: str = "",
    *scales: Scale,
    masked: str = "",
    left_out: str = "",
    marked: str = "",
    palette: Palette | None = None,
    saves: bool = True,
) -> str:
    """The line under a figure as HTML, everything escaped; it ends with buttons that save the figure.

    word: the translated name of `kind`, shown as a pill. text: layer and head, kernel, counts.
    scales: each drawn as a small gradient between its printed ends.
    masked: the word for hatched cells, shown with a hatched swatch; "" where nothing is masked. left_out: likewise for
    dotted ones.
    marked: what the `MARK` before a row of the table means; "" where none has one.
    saves: whether there are those buttons; a line that speaks of words alone has none.
    """
    buttons = _SAVE if saves else ""
    colours = palette or palettes.current()
    if marked:
        text = f"{text} · {MARK}{marked}"
    pill = f'<span style="{_PILL.format(line=colours.line)}" data-source="{kind.value}">{html_text(word)}</span>'
    alone = not (scales or masked or left_out)  # then the buttons follow the text, else they end the line
    parts = [f"<span>{pill}{html_text(text)}{buttons if alone else ''}</span>"]
    for scale in scales:
        gradient = f"linear-gradient(90deg,{','.join(scale.colours)})"
        parts.append(
            f'<span style="{_TOGETHER}">{html_text(scale.name)}'
            f'<span style="font-family:{html.escape(style.MONO)}">{html_text(scale.low)}</span>'
            f'<i style="{_SWATCH.format(line=colours.line)};width:72px;background:{gradient}"></i>'
            f'<span style="font-family:{html.escape(style.MONO)}">{html_text(scale.high)}</span></span>'
        )
    ink = style.mix(colours.paper, colours.muted, 0.55)
    hatch = f"repeating-linear-gradient(135deg,{ink} 0 1px,{colours.paper} 1px 4px)"
    dots = f"radial-gradient({ink} 1px,{colours.paper} 1.5px) 0 0/4px 4px"
    for name, ground in ((masked, hatch), (left_out, dots)):
        if name:
            parts.append(
                f'<span style="{_TOGETHER}"><i style="{_SWATCH.format(line=colours.line)};width:18px;'
                f'background:{ground}"></i>{html_text(name)}</span>'
            )
    if not alone:
        parts.append(buttons)
    return f'<div class="atlas-caption" style="{_LINE.format(muted=colours.muted)}">{"".join(parts)}</div>'


def caption(
    kind: Kind, word: str, text: str = "", *scales: Scale, masked: str = "", marked: str = "", saves: bool = True
) -> None:
    """Write the caption line of `caption_html` here."""
    st.html(caption_html(kind, word, text, *scales, masked=masked, marked=marked, saves=saves))


def marked_table(
    kind: Kind,
    word: str,
    text: str,
    columns: Sequence[str],
    rows: Sequence[tuple[str, Sequence[str]]],
    palette: Palette,
    *,
    description: str,
    mark: str,
    key: str = "",
) -> None:
    """A `number_table` in which the name of a row may begin with `MARK`, and below it the caption, which says `mark`.

    kind, word, text: as of `caption`. key: of a container of the table's own, which its style sheet and files name.
    """
    with st.container(key=key) if key else nullcontext():
        st.html(number_table(columns, rows, palette, description=description, scrolls=True, mark=mark))
    caption(kind, word, text, marked=mark)


def exact_numbers(page: str, key: str, numbers: Callable[[], str]) -> None:
    """What the caption below saves as the numbers of the figure `key`, which is drawn with less than these.

    page: its name, with which the file's begins, as that of all that is saved (saving.js). numbers: makes the CSV when
    a reader saves it. Streamlit keeps it with the page: it must hold neither model nor run.
    """
    with st.container(key=f"{key}-file"):  # not seen: the caption's button presses it
        st.html(f"<style>.st-key-{key}-file{{display:none}}</style>")
        st.download_button("CSV", numbers, f"{page}-{key}.csv", "text/csv", key=f"{key}_csv", on_click="ignore")


def _frame(key: str, meta: dict[str, Any]) -> str:
    """CSS that gives the element `key` the frame that its figure asks for."""
    name = ".st-key-" + re.sub(r"[^a-zA-Z0-9_-]", "-", key.strip())
    if "aspect" in meta:
        rules = f"{name} [data-testid=stFullScreenFrame]{{height:auto;aspect-ratio:{meta['aspect']:.4f}}}"
        rules += f"{name}{{height:auto;flex:none}}"
    else:
        # Streamlit hides a chart, for every change anew, until it has measured its place: it would blink. Only where
        # the height follows from the width is the first one a guess.
        rules = f"{name} .js-plotly-plot{{visibility:visible!important}}"
    if "max_width" in meta:
        rules += f"{name}{{max-width:{meta['max_width']:.0f}px}}"
    if "min_width" in meta:
        rules += f"{name} [data-testid=stFullScreenFrame]{{min-width:{meta['min_width']:.0f}px}}"
    return rules


_LINE = (
    "display:flex;flex-wrap:wrap;align-items:center;gap:4px 14px;color:{muted};font-size:13px;line-height:1.45;"
    "font-variant-numeric:tabular-nums"
)
_PILL = (
    "display:inline-block;margin-right:12px;border:1px solid {line};border-radius:999px;padding:0 9px;font-size:12px;"
    "line-height:20px;white-space:nowrap"
)
# What happens on a click is in components/saving.js. Their names are no part of the caption's text.
_SAVE = (
    '<span class="atlas-save"><button type="button" data-save="png" aria-label="PNG"></button>'
    '<button type="button" data-save="csv" aria-label="CSV"></button></span>'
)
_TOGETHER = "display:inline-flex;align-items:center;gap:6px;white-space:nowrap"
_SWATCH = "display:inline-block;height:11px;border:1px solid {line};border-radius:2px"
