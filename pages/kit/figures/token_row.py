"""Tokens in a row, each with a number below it as its ground, as HTML that wraps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pages.kit.figures import style
from pages.kit.figures.style import html_text
from pages.kit.palette import Palette

Mark = Literal["", "chosen", "new", "apart"]


@dataclass(frozen=True)
class RowToken:
    """One token. share: 0 to 1 of the sequential scale for its ground; None: no number is there, and no ground.

    number: printed below. mark: "chosen" is framed, "new" underlined in the accent, "apart" muted (what is left out).
    """

    label: str
    share: float | None = None
    number: str = ""
    mark: Mark = ""


def token_row(tokens: Sequence[RowToken], palette: Palette, *, description: str) -> str:
    """The tokens in reading order; all text is escaped. description: what a screen reader says first.

    Raises:
        ValueError: for a share outside of 0 to 1.
    """
    cells = "".join(_cell(token, palette) for token in tokens)
    return f"<style>{_css(palette)}</style><ul class='atlas-tokens' aria-label='{html_text(description)}'>{cells}</ul>"


def _cell(token: RowToken, palette: Palette) -> str:
    if token.share is not None and not 0 <= token.share <= 1:
        raise ValueError(f"{token.label!r} has the share {token.share}; it must be between 0 and 1")
    look = ""
    if token.share:
        ground = style.at(palette.sequential, token.share)
        look = f" style='background:{ground};color:{style.readable_on(ground)}'"
    name = f" class='{token.mark}'" if token.mark else ""
    number = f"<small>{html_text(token.number)}</small>" if token.number else ""
    return f"<li{name}{look}><span>{html_text(token.label)}</span>{number}</li>"


def _css(palette: Palette) -> str:
    return f"""
.atlas-tokens.atlas-tokens{{display:flex;flex-wrap:wrap;gap:4px;list-style:none;margin:0;padding:2px;
font-family:{style.SANS};color:{palette.ink}}}
.atlas-tokens.atlas-tokens li{{margin:0;padding:3px 8px 2px;border:1px solid {palette.line};border-radius:6px;
font-size:15px;line-height:1.4;text-align:center;max-width:100%;overflow-wrap:anywhere}}
.atlas-tokens li>span{{white-space:pre-wrap;unicode-bidi:isolate}}
.atlas-tokens small{{display:block;font-size:11.5px;line-height:1.35;font-variant-numeric:tabular-nums}}
.atlas-tokens .chosen{{border-color:{palette.query};box-shadow:0 0 0 1px {palette.query}}}
.atlas-tokens .new{{border-bottom:3px solid {palette.accent}}}
.atlas-tokens.atlas-tokens .apart{{border-color:transparent;color:{palette.muted};padding:3px 1px}}
"""
