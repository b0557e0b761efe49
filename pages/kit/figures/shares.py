"""Parts of a whole as a small table: name, bar, exact count, percent, and their sum."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

from pages.kit import numbers
from pages.kit.figures import style
from pages.kit.palette import Palette


@dataclass(frozen=True)
class Share:
    """One part. note: in muted type behind the name ("also the output")."""

    name: str
    count: int
    note: str = ""


def share_table(shares: Sequence[Share], palette: Palette, *, part_title: str, count_title: str, total: str) -> str:
    """The parts as an HTML table, bars scaled to the largest; `total` names the row of the sum. All text is escaped."""
    whole = sum(share.count for share in shares)
    largest = max((share.count for share in shares), default=0) or 1
    rows = "".join(_row(share, whole, largest) for share in shares)
    return (
        f"<style>{_css(palette)}</style><table class='atlas-shares'><thead><tr><th scope='col'>{_text(part_title)}</th>"
        f"<td></td><th scope='col' class='n'>{_text(count_title)}</th><td></td></tr></thead><tbody>{rows}</tbody>"
        f"<tfoot><tr><th scope='row'>{_text(total)}</th><td></td><td class='n'>{whole:,}</td>"
        f"<td class='n p'></td></tr></tfoot></table>"
    )


def _row(share: Share, whole: int, largest: int) -> str:
    printed = numbers.percent(share.count / (whole or 1))
    note = f"<small>{_text(share.note)}</small>" if share.note else ""
    return (
        f"<tr><th scope='row'>{_text(share.name)}{note}</th>"
        f"<td class='b'><i style='width:{100 * share.count / largest:.2f}%'></i></td>"
        f"<td class='n'>{share.count:,}</td><td class='n p'>{_text(printed)}</td></tr>"
    )


def _text(text: str) -> str:
    return html.escape(style.visible(text), quote=True)


def _css(palette: Palette) -> str:
    return f"""
.atlas-shares{{width:100%;border-collapse:collapse;font-family:{style.SANS};font-size:14px;color:{palette.ink};margin:0}}
.atlas-shares th,.atlas-shares td{{border:0;border-bottom:1px solid {palette.line};padding:5px 8px;text-align:left;
font-weight:400;vertical-align:middle}}
.atlas-shares th:first-child{{padding-left:0}}
.atlas-shares td:last-child{{padding-right:0}}
.atlas-shares small{{display:block;color:{palette.muted};font-size:12px;line-height:1.2}}
.atlas-shares .b{{width:34%}}
.atlas-shares .b i{{display:block;height:13px;min-width:2px;border-radius:3px;background:{palette.accent}}}
.atlas-shares .n{{text-align:right;font-family:{style.MONO};font-size:13px;font-variant-numeric:tabular-nums;
white-space:nowrap}}
.atlas-shares thead th,.atlas-shares thead .n{{color:{palette.muted};font:400 13px {style.SANS}}}
.atlas-shares .p{{color:{palette.muted}}}
.atlas-shares tfoot th,.atlas-shares tfoot td{{border-bottom:0;font-weight:650}}
"""
