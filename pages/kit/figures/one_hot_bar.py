"""A one-hot vector drawn to scale: a bar as long as the vocabulary, with one mark."""

import json

from pages.kit.figures import style
from pages.kit.figures.style import html_text
from pages.kit.palette import Palette


def one_hot_bar(place: int, size: int, palette: Palette, *, text: str, label: str) -> str:
    """The vector as an HTML fragment; all text is escaped.

    place: which of the `size` numbers is 1. text: written at the mark. label: what a screen reader says.

    Raises:
        ValueError: if there is no such place.
    """
    if not 0 <= place < size:
        raise ValueError(f"place {place} of {size}")
    share = 100 * (place + 0.5) / size
    ends = (0, place - 1), (place, place), (place + 1, size - 1)
    spans = [(f"{first}–{last}" if first < last else str(first)) for first, last in ends if first <= last]
    rows: list[list[str | int]] = [["i", "x"]]  # what is saved as a table
    rows += [[span, int(span == str(place))] for span in spans]
    side = "right:calc(100% - var(--at))" if share > 60 else "left:var(--at)"
    return (
        f"<style>{_css(palette)}</style><div class='atlas-one-hot' role='img' aria-label='{html_text(label)}'"
        f" style='--at:{share:.3f}%' data-rows='{html_text(json.dumps(rows))}'>"
        f"<b style='{side}'>{html_text(text)}</b><div><i></i></div>"
        f"<span>0</span><span>{size - 1:,}</span></div>"
    )


def _css(palette: Palette) -> str:
    return f"""
.atlas-one-hot{{display:flex;flex-wrap:wrap;justify-content:space-between;position:relative;padding-top:22px;
font-family:{style.MONO};font-size:12px;color:{palette.muted};overflow:hidden}}
.atlas-one-hot div{{position:relative;flex:0 0 100%;height:20px;background:{palette.panel};
border:1px solid {palette.line};border-radius:3px;box-sizing:border-box}}
.atlas-one-hot i{{position:absolute;left:var(--at);top:-4px;bottom:-1px;width:2px;margin-left:-1px;
background:{palette.accent}}}
.atlas-one-hot b{{position:absolute;top:0;font-weight:600;color:{palette.accent};padding:0 2px;white-space:pre;
max-width:60%;overflow:hidden;text-overflow:ellipsis}}
"""
