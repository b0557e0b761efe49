"""Texts whose tokens have a number each, shown as their ground on one diverging scale, as HTML."""

from collections.abc import Sequence
from dataclasses import dataclass

from pages.kit.figures import style
from pages.kit.figures.style import html_text
from pages.kit.palette import Palette


@dataclass(frozen=True)
class ShadedText:
    """One text. number: printed in front; pieces: what each piece says and its value; peak: the piece to frame.

    note: a few words below the number.
    """

    number: str
    pieces: Sequence[tuple[str, float]]
    peak: int | None = None
    note: str = ""


def shaded_texts(texts: Sequence[ShadedText], palette: Palette, *, limit: float, description: str = "") -> str:
    """The texts below each other; all text is escaped, whitespace is kept.

    limit: the value at either end of the scale (positive). Hovering a piece tells its value.

    Raises ValueError for a scale without extent.
    """
    if not limit > 0:
        raise ValueError(f"a scale needs an end above 0, not {limit}")
    rows = "".join(
        f"<li><span class='n'>{html_text(one.number)}"
        f"{f'<small>{html_text(one.note)}</small>' if one.note else ''}</span>"
        f"<p>{''.join(_piece(one, index, palette, limit) for index in range(len(one.pieces)))}</p></li>"
        for one in texts
    )
    label = f" aria-label='{html_text(description)}'" if description else ""
    return f"<style>{_css(palette)}</style><ul class='atlas-shaded'{label}>{rows}</ul>"


def _piece(of: ShadedText, index: int, palette: Palette, limit: float) -> str:
    said, value = of.pieces[index]
    share = min(1.0, abs(value) / limit)
    low, middle, high = palette.diverging
    ground = style.mix(middle, high if value >= 0 else low, share)
    look = f"background:{ground};color:{style.readable_on(ground)}" if share >= 0.04 else ""
    name = " class='peak'" if index == of.peak else ""
    word = said.lstrip(" ") or said
    return f"{said[: len(said) - len(word)]}<span{name} style='{look}' title='{value:.3f}'>{html_text(word)}</span>"


def _css(palette: Palette) -> str:
    return f"""
.atlas-shaded.atlas-shaded{{list-style:none;margin:0;padding:0;font-family:{style.SANS};font-size:15px;
color:{palette.ink}}}
.atlas-shaded.atlas-shaded li{{display:grid;grid-template-columns:3.4rem minmax(0,1fr);gap:0 14px;margin:0;
padding:6px 0;
border-bottom:1px solid {palette.line}}}
.atlas-shaded.atlas-shaded li:last-child{{border-bottom:0}}
.atlas-shaded .n{{font-family:{style.MONO};font-size:13px;line-height:1.6;text-align:right;
font-variant-numeric:tabular-nums}}
.atlas-shaded small{{display:block;font-family:{style.SANS};font-size:12px;line-height:1.25;color:{palette.muted}}}
.atlas-shaded p{{margin:0;line-height:1.6;white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:plaintext}}
.atlas-shaded p span{{border-radius:3px;padding:1px 0}}
.atlas-shaded .peak{{outline:1.5px solid {palette.ink};outline-offset:1px}}
"""
