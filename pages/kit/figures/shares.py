"""Parts of a whole as a small table: name, bar, exact count, percent, and their sum."""

from collections.abc import Sequence
from dataclasses import dataclass

from pages.kit import numbers
from pages.kit.figures import style
from pages.kit.figures.style import html_text
from pages.kit.figures.table import table
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
    head = (
        f"<th scope='col'>{html_text(part_title)}</th><td></td><th scope='col' class='n'>{html_text(count_title)}</th>"
        "<td></td>"
    )
    foot = (
        f"<tfoot><tr><th scope='row'>{html_text(total)}</th><td></td><td class='n'>{whole:,}</td>"
        "<td class='n p'></td></tr></tfoot>"
    )
    return table("shares", head, f"<tbody>{rows}</tbody>{foot}", palette, _css(palette))


def _row(share: Share, whole: int, largest: int) -> str:
    printed = numbers.percent(share.count / (whole or 1))
    note = f"<small>{html_text(share.note)}</small>" if share.note else ""
    return (
        f"<tr><th scope='row'>{html_text(share.name)}{note}</th>"
        f"<td class='b'><i style='width:{100 * share.count / largest:.2f}%'></i></td>"
        f"<td class='n'>{share.count:,}</td><td class='n p'>{html_text(printed)}</td></tr>"
    )


def _css(palette: Palette) -> str:
    return f"""
.atlas-shares th,.atlas-shares td{{padding:5px 8px;text-align:left}}
.atlas-shares th:first-child{{padding-left:0}}
.atlas-shares td:last-child{{padding-right:0}}
.atlas-shares small{{display:block;color:{palette.muted};font-size:12px;line-height:1.2}}
.atlas-shares .b{{width:34%}}
.atlas-shares .b i{{display:block;height:13px;min-width:2px;border-radius:3px;background:{palette.accent}}}
.atlas-shares .n{{text-align:right;font-family:{style.MONO};font-size:13px;font-variant-numeric:tabular-nums;
white-space:nowrap}}
.atlas-shares thead .n{{font-family:{style.SANS}}}
.atlas-shares .p{{color:{palette.muted}}}
.atlas-shares tfoot th,.atlas-shares tfoot td{{border-bottom:0;font-weight:650}}
"""
