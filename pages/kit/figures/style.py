"""One look for every figure: type, paper, margins, hover labels, and text that stays text.

Plotly reads a small HTML dialect, entities, MathJax between dollars and `%{…}` templates in almost every
string it is given. `literal` turns any text into one that Plotly draws as it stands. All text that comes
from outside (tokens above all) must pass through it, or through `label`, which also shortens.
"""

import html
import unicodedata
from typing import Any

# Plotly uses pandas as soon as it finds it in `sys.modules`, and fails while another thread is still importing it.
import pandas  # noqa: F401
import plotly.graph_objects as go

from model.graphemes import sign
from pages.kit.palette import Palette

SANS = '"Source Sans", "Source Sans 3", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", "Noto Sans", sans-serif'
MONO = (
    '"Source Code Pro", ui-monospace, "SF Mono", Menlo, Consolas, "Noto Sans Mono CJK SC", '
    '"Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", monospace'
)
TEXT_SIZE = 13
SMALL_SIZE = 12

# Plotly decodes only a handful of named entities (&quot; is not one of them), but every numeric one.
_PLOTLY_SPECIAL = {ord(c): f"&#{ord(c)};" for c in "&<>\"'$%"}
_INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# A joiner or a variation selector inside an emoji is part of its picture.
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f"} | {chr(c) for c in range(0xE0020, 0xE0080)}


def visible(text: str) -> str:
    """`text` with every control, format and unpaired surrogate character made visible, by the signs of the model's
    own labels (↵, ⟨ESC⟩, ⟨RLO⟩, ⟨U+D800⟩). Spaces stay as they are.
    """
    out = []
    for position, char in enumerate(text):
        joins = char in _JOINERS and position > 0
        out.append(sign(char) if unicodedata.category(char) in _INVISIBLE_CATEGORIES and not joins else char)
    return "".join(out)


def literal(text: str) -> str:
    """`text` for any Plotly string: no tag, entity, MathJax or `%{…}` template in it is interpreted."""
    return visible(text).translate(_PLOTLY_SPECIAL)


def html_text(text: str) -> str:
    """`text` for HTML, between tags or in an attribute: nothing in it is markup, and all of it can be seen."""
    return html.escape(visible(text), quote=True)


def columns(text: str) -> int:
    """Width of `text` in character cells of a monospace font: wide East Asian characters and emoji count two."""
    return sum(_cells(text))


def _cells(text: str) -> list[int]:
    """Cells of each character; 0 for one that joins the character before it (marks, skin tones, parts of an emoji)."""
    cells, before = [], ""
    for char in text:
        joins = char in _JOINERS or before == "\u200d" or "\U0001f3fb" <= char <= "\U0001f3ff"
        if joins or unicodedata.category(char).startswith("M"):
            cells.append(0)
        else:
            cells.append(2 if unicodedata.east_asian_width(char) in "WF" else 1)
        before = char
    return cells


def short(text: str, width: int = 18) -> str:
    """`text`, cut to at most `width` character cells with a closing …; marks stay with the character they join."""
    text = visible(text)
    cells = _cells(text)
    # Marks have no width of their own: a letter buried under a hundred of them is cut by count.
    if sum(cells) <= width and len(text) <= 4 * width:
        return text
    used, end = 1, 0
    for place, wide in enumerate(cells[: 4 * width]):
        used += wide
        if used > width:
            break
        end = place + 1
    return text[:end].rstrip("\u200d") + "…"


def label(text: str, width: int = 18) -> str:
    """A tick label: `short`, then `literal`."""
    return literal(short(text, width))


def coloured(text: str, colour: str, bold: bool = False) -> str:
    """Plotly markup that draws already literal `text` in `colour` (a hex code of the palette)."""
    inner = f"<b>{text}</b>" if bold else text
    return f'<span style="color:{colour}">{inner}</span>'


def label_margin(labels: list[str] | tuple[str, ...], width: int = 18, size: int = TEXT_SIZE) -> int:
    """Left margin in pixels that holds the longest of `labels`, cut to `width` cells, in the monospace font."""
    cells = max((columns(short(text, width)) for text in labels), default=0)
    return round(cells * size * 0.61) + 14


def rgb(colour: str) -> tuple[int, int, int]:
    """Red, green and blue (0–255) of a `#RRGGBB` colour."""
    value = colour.lstrip("#")
    return int(value[0:2], 16), int(value[2:4], 16), int(value[4:6], 16)


def mix(first: str, second: str, share: float) -> str:
    """The colour `share` of the way from `first` to `second`, as `#RRGGBB`."""
    pairs = zip(rgb(first), rgb(second), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)


def faded(colour: str, alpha: float) -> str:
    """`colour` with opacity `alpha`, in the form that Plotly and CSS read."""
    red, green, blue = rgb(colour)
    return f"rgba({red},{green},{blue},{alpha:g})"


def luminance(colour: str) -> float:
    """Relative luminance of `colour`, 0 (black) to 1 (white), as WCAG 2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, 1 to 21, as WCAG 2 defines it; text needs 4.5."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def readable_on(background: str) -> str:
    """Black or white, whichever reads better on `background`."""
    return max(("#FFFFFF", "#000000"), key=lambda ink: contrast(ink, background))


def colourscale(colours: tuple[str, ...] | list[str]) -> list[list[Any]]:
    """Evenly spaced Plotly colour scale from a palette's `sequential` or `diverging` colours."""
    last = len(colours) - 1
    return [[index / last, colour] for index, colour in enumerate(colours)]


def at(colours: tuple[str, ...] | list[str], share: float) -> str:
    """The colour at `share` (0–1) of the way along `colours`."""
    place = min(max(share, 0.0), 1.0) * (len(colours) - 1)
    index = min(int(place), len(colours) - 2)
    return mix(colours[index], colours[index + 1], place - index)


def figure(palette: Palette, height: int, *, left: int = 8, right: int = 8, top: int = 8, bottom: int = 8) -> go.Figure:
    """An empty figure in the common look, `height` pixels high, with the given margins in pixels."""
    return go.Figure(
        layout={
            "template": go.layout.Template(),
            "height": height,
            "margin": {"l": left, "r": right, "t": top, "b": bottom, "pad": 0},
            "paper_bgcolor": palette.paper,
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": SANS, "size": TEXT_SIZE, "color": palette.ink},
            "showlegend": False,
            "hovermode": "closest",
            "dragmode": False,
            "hoverlabel": {
                "bgcolor": palette.panel,
                "bordercolor": palette.line,
                "font": {"family": MONO, "size": SMALL_SIZE, "color": palette.ink},
                "align": "left",
            },
            "separators": ".,",
            "bargap": 0.3,
        }
    )


def bare_axis(**changes: Any) -> dict[str, Any]:
    """An axis without line, grid, ticks or zoom; `changes` override."""
    axis: dict[str, Any] = {
        "showgrid": False,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "showticklabels": False,
        "fixedrange": True,
        "automargin": False,
    }
    return axis | changes


def value_axis(palette: Palette, **changes: Any) -> dict[str, Any]:
    """A numeric axis with hairline grid and muted tabular tick labels; `changes` override."""
    axis: dict[str, Any] = {
        "showgrid": True,
        "gridcolor": palette.line,
        "gridwidth": 1,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "tickfont": {"family": MONO, "size": SMALL_SIZE, "color": palette.muted},
        "title": {"font": {"family": SANS, "size": SMALL_SIZE, "color": palette.muted}},
        "fixedrange": True,
        "automargin": False,
    }
    return axis | changes


def token_axis(palette: Palette, ticks: list[str], **changes: Any) -> dict[str, Any]:
    """A numeric axis with one position (0, 1, 2, …) per entry of `ticks`, already literal Plotly text.

    Positions are integers, so the same token twice stays two rows and no text is taken for a date.
    """
    return (
        bare_axis(
            showticklabels=True,
            type="linear",
            tickmode="array",
            tickvals=list(range(len(ticks))),
            ticktext=ticks,
            tickfont={"family": MONO, "size": TEXT_SIZE, "color": palette.ink},
        )
        | changes
    )


def title_above(fig: go.Figure, palette: Palette, text: str, *, left: int, up: int) -> None:
    """Name the vertical axis above it, upright: easier to read than turned on its side, and it costs no width.

    text: literal already. left, up: pixels from the top of the axis.
    """
    fig.add_annotation(
        x=0,
        y=1,
        xref="paper",
        yref="paper",
        xanchor="left",
        yanchor="bottom",
        xshift=-left,
        yshift=up,
        showarrow=False,
        text=text,
        font={"size": SMALL_SIZE, "color": palette.muted},
    )
