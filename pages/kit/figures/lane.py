"""One way of writing while it runs: name, how far it is, what it did, and the text as it grows (HTML)."""

import html
from collections.abc import Mapping
from dataclasses import dataclass

from pages.kit.figures import style
from pages.kit.palette import Palette


@dataclass(frozen=True)
class Lane:
    """name and note: what it is. share: done, 0 to 1. facts: names and values. prompt, written: the text."""

    name: str
    note: str
    share: float
    facts: Mapping[str, str]
    prompt: str
    written: str
    colour: str


def lane(of: Lane, palette: Palette) -> str:
    """The lane as an HTML fragment with its own style; all text is escaped and keeps its spaces."""
    facts = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in of.facts.items())
    percent = 100 * min(max(of.share, 0.0), 1.0)
    return (
        f"<style>{_css(palette)}</style><section class='atlas-lane'>"
        f"<header><b style='color:{of.colour}'>{_text(of.name)}</b><span>{_text(of.note)}</span></header>"
        f"<div class='bar'><i style='width:{percent:.1f}%;background:{of.colour}'></i></div><dl>{facts}</dl>"
        f"<div class='text'><p><span>{_text(of.prompt)}</span>{_text(of.written)}</p></div></section>"
    )


def _text(text: str) -> str:
    return html.escape(style.visible(text), quote=True)


def _css(palette: Palette) -> str:
    return f"""
.atlas-lane{{border:1px solid {palette.line};border-radius:8px;background:{palette.panel};padding:11px 14px 12px;
font-family:{style.SANS};color:{palette.ink}}}
.atlas-lane header{{display:flex;flex-wrap:wrap;justify-content:space-between;gap:2px 12px;align-items:baseline}}
.atlas-lane header b{{font-size:15px}}
.atlas-lane header span{{color:{palette.muted};font-size:13px}}
.atlas-lane .bar{{height:6px;border-radius:3px;background:{palette.line};margin:8px 0 9px;overflow:hidden}}
.atlas-lane .bar i{{display:block;height:6px}}
.atlas-lane dl{{display:flex;flex-wrap:wrap;gap:4px 26px;margin:0;padding:0}}
.atlas-lane dt{{margin:0;color:{palette.muted};font-size:12.5px;font-weight:400;line-height:1.3}}
.atlas-lane dd{{margin:0;font-family:{style.MONO};font-size:15px;font-variant-numeric:tabular-nums}}
.atlas-lane .text{{display:flex;flex-direction:column-reverse;height:84px;overflow-y:auto;scrollbar-width:thin;
margin-top:9px}}
.atlas-lane p{{margin:0 0 auto;font-size:14px;line-height:1.5;white-space:pre-wrap;overflow-wrap:anywhere}}
.atlas-lane p span{{color:{palette.muted}}}
"""
