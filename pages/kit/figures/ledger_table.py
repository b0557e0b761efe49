"""The sampling ledger: one row per candidate, every step from logit to final probability, as an HTML table."""

from collections.abc import Sequence
from dataclasses import dataclass

from pages.kit.figures import style
from pages.kit.figures.style import html_text
from pages.kit.figures.table import table
from pages.kit.palette import Palette

FADE = 30  # pixels


@dataclass(frozen=True)
class LedgerRow:
    """One candidate token.

    label: the token as people read it. cells: the numbers between the token and the verdict, already formatted,
    one per entry of `columns`. verdict: the words of the filter column ("kept", "cut by top-p").
    kept: False greys the row. final: the final probability, 0–1. drawn: True for the token that was drawn.
    printed: the final probability as it is printed; default: three decimals.
    """

    label: str
    cells: tuple[str, ...]
    verdict: str
    kept: bool
    final: float
    drawn: bool = False
    printed: str = ""


def ledger_table(
    rows: Sequence[LedgerRow],
    palette: Palette,
    *,
    token_title: str,
    columns: Sequence[str],
    verdict_title: str,
    final_title: str,
    description: str = "",
) -> str:
    """The table as an HTML fragment with its own style; all text is escaped.

    columns: titles of `LedgerRow.cells`. description: what a screen reader says about the table.
    The bars of the last column share one scale from 0 to the largest final probability.
    On a narrow screen token and final probability stay in sight, and what is between them scrolls sideways; at their
    edges it fades out, so that nobody takes the visible half of a number for a number.
    Raises ValueError if a row lacks cells.
    """
    top = max((row.final for row in rows), default=0.0) or 1.0
    heads = "".join(
        f'<th scope="col" class="{kind}">{html_text(title)}</th>'
        for kind, title in (
            ("token", token_title),
            *(("number", title) for title in columns),
            ("verdict", verdict_title),
            ("number final", final_title),
        )
    )
    body = []
    for row in rows:
        if len(row.cells) != len(columns):
            raise ValueError(f"{row.label!r} has {len(row.cells)} cells for {len(columns)} columns")
        state = " ".join(name for name, on in (("cut", not row.kept), ("drawn", row.drawn)) if on)
        numbers = "".join(f'<td class="number">{html_text(cell)}</td>' for cell in row.cells)
        bar = f'<i style="width:{100 * row.final / top:.2f}%"></i>' if row.final > 0 else ""
        current = ' aria-current="true"' if row.drawn else ""
        body.append(
            f'<tr class="{state}"{current}><th scope="row" class="token">{html_text(style.short(row.label, 24))}</th>'
            f'{numbers}<td class="verdict">{html_text(row.verdict)}</td>'
            f'<td class="number final">{html_text(row.printed or f"{row.final:.3f}")}</td>'
            f'<td class="bar">{bar}</td></tr>'
        )
    rows_html, css = f"<tbody>{''.join(body)}</tbody>", _css(palette)
    head = f'{heads}<td class="bar"></td>'
    return table("ledger", head, rows_html, palette, css, label=description, scrolls=True)


def _css(palette: Palette) -> str:
    wash = style.mix(palette.paper, palette.accent, 0.1)
    edge = style.faded(palette.ink, 0.16)
    grey = style.mix(palette.paper, palette.muted, 0.92)
    return f"""
.atlas-table:has(.atlas-ledger){{container-type:inline-size}}
.atlas-ledger{{min-width:640px;line-height:1.3}}
.atlas-ledger th,.atlas-ledger td{{padding:5px 10px;text-align:right;white-space:pre;background:none}}
.atlas-ledger thead th{{font-weight:600}}
.atlas-ledger .token{{text-align:left}}
.atlas-ledger tbody .token,.atlas-ledger td.number{{font-family:{style.MONO};font-variant-numeric:tabular-nums}}
.atlas-ledger tbody .token{{position:sticky;left:0;background:{palette.paper};unicode-bidi:isolate}}
.atlas-ledger td.bar{{width:26%;min-width:110px;text-align:left}}
.atlas-ledger i{{display:block;height:13px;min-width:2px;border-radius:3px;background:{palette.accent}}}
@container (max-width:640px){{
.atlas-ledger{{min-width:0}}
.atlas-ledger .bar{{display:none}}
.atlas-ledger thead .token{{position:sticky;left:0}}
.atlas-ledger .final{{position:sticky;right:0}}
.atlas-ledger .token,.atlas-ledger .final{{z-index:1;background:{palette.paper}}}
.atlas-ledger :is(.token,.final)::after{{content:"";position:absolute;top:0;bottom:0;width:{FADE}px;pointer-events:none;
box-shadow:inset 1px 0 {edge};background:linear-gradient(to right,var(--ground,{palette.paper}) 8px,transparent)}}
.atlas-ledger .token::after{{left:100%}}
.atlas-ledger .final::after{{right:100%;transform:scaleX(-1)}}
.atlas-ledger tr.drawn{{--ground:{wash}}}
.atlas-ledger .token+*{{padding-left:{FADE}px}}
.atlas-ledger .verdict{{padding-right:{FADE}px}}
}}
.atlas-ledger tr.cut td,.atlas-ledger tr.cut th{{color:{grey}}}
.atlas-ledger tr.drawn td,.atlas-ledger tbody tr.drawn .token{{background:{wash};font-weight:600}}
"""
