"""Byte-pair merges as rows of boxes: one row a step, the two parts that were joined marked."""

from collections.abc import Sequence
from dataclasses import dataclass

from pages.kit.figures import style
from pages.kit.figures.style import html_text
from pages.kit.palette import Palette


@dataclass(frozen=True)
class MergeRow:
    """One step. title: before the boxes. parts: names of all parts after it. joined: the part that this step made, or
    None. next_pair: the first of the two parts that the next step joins, or None. note: behind the boxes."""

    title: str
    parts: tuple[str, ...]
    joined: int | None = None
    next_pair: int | None = None
    note: str = ""


def merge_rows(rows: Sequence[MergeRow], palette: Palette, *, label: str) -> str:
    """The steps so far, from the top, as an HTML fragment; the last one stands out. All text is escaped.

    Raises:
        ValueError: if a mark names no part.
    """
    body = []
    for place, row in enumerate(rows):
        if row.joined is not None and not 0 <= row.joined < len(row.parts):
            raise ValueError(f"part {row.joined} of {len(row.parts)}")
        if row.next_pair is not None and not 0 <= row.next_pair < len(row.parts) - 1:
            raise ValueError(f"a pair at {row.next_pair} of {len(row.parts)} parts")
        boxes = "".join(f"<i class='{_kind(row, at)}'>{html_text(part)}</i>" for at, part in enumerate(row.parts))
        current = " aria-current='step'" if place == len(rows) - 1 else ""
        body.append(
            f"<li{current}><span class='title'>{html_text(row.title)}</span><span class='parts'>{boxes}</span>"
            f"<span class='note'>{html_text(row.note)}</span></li>"
        )
    return (
        f"<style>{_css(palette)}</style>"
        f"<ol class='atlas-merges' tabindex='0' aria-label='{html_text(label)}'>{''.join(body)}</ol>"
    )


def _kind(row: MergeRow, at: int) -> str:
    if at == row.joined:
        return "joined"
    return "next" if row.next_pair is not None and at - row.next_pair in (0, 1) else "part"


def _css(palette: Palette) -> str:
    wash = style.mix(palette.paper, palette.accent, 0.2)
    return f"""
.atlas-merges.atlas-merges{{list-style:none;margin:0;padding:2px;max-height:520px;overflow:auto;color:{palette.ink};
font-family:{style.SANS};font-size:14px;scrollbar-width:thin}}
.atlas-merges:focus-visible{{outline:2px solid {palette.accent};outline-offset:2px}}
.atlas-merges li{{display:grid;grid-template-columns:3.2em minmax(0,1fr) minmax(0,17em);gap:2px 12px;align-items:center;
margin:0;padding:4px 0;border-bottom:1px solid {palette.line}}}
.atlas-merges li:last-child{{border-bottom:0}}
.atlas-merges .title,.atlas-merges .note{{color:{palette.muted};font-size:13px;font-variant-numeric:tabular-nums}}
.atlas-merges .note{{overflow-wrap:anywhere}}
.atlas-merges .parts{{display:flex;flex-wrap:wrap;gap:3px;font-family:{style.MONO}}}
.atlas-merges i{{font-style:normal;white-space:pre;padding:1px 7px;border:1px solid {palette.line};border-radius:5px;
background:{palette.panel};unicode-bidi:isolate;max-width:100%;overflow:hidden;text-overflow:ellipsis}}
.atlas-merges i.joined{{background:{wash};border-color:{palette.accent}}}
.atlas-merges i.next{{border-color:{palette.accent};border-style:dashed}}
.atlas-merges li[aria-current] .title,.atlas-merges li[aria-current] .note{{color:{palette.ink}}}
.atlas-merges li[aria-current] i{{font-weight:650}}
@media(max-width:640px){{.atlas-merges li{{grid-template-columns:2.4em minmax(0,1fr)}}
.atlas-merges .note{{grid-column:2}}}}
"""
