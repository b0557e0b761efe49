"""A small table of numbers: names down, what was measured across."""

import html
from collections.abc import Sequence

from pages.kit.figures import style
from pages.kit.palette import Palette


def number_table(
    columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], palette: Palette, *, description: str = ""
) -> str:
    """The table as an HTML fragment with its own style; all text is escaped.

    columns: title of the names, then one per number. rows: name and numbers, already formatted; a name may have a
    second line after a line break, drawn muted. description: what a screen reader says about the table.

    Raises ValueError if a row has not one number per column.
    """
    head = "".join(f"<th scope='col'>{_text(title)}</th>" for title in columns)
    body = []
    for name, cells in rows:
        if len(cells) != len(columns) - 1:
            raise ValueError(f"{name!r} has {len(cells)} numbers for {len(columns) - 1} columns")
        title, _, note = name.partition("\n")
        small = f"<small>{_text(note)}</small>" if note else ""
        numbers = "".join(f"<td>{_text(cell)}</td>" for cell in cells)
        body.append(f"<tr><th scope='row'>{_text(title)}{small}</th>{numbers}</tr>")
    label = f" aria-label='{_text(description)}'" if description else ""
    return (
        f"<style>{_css(palette)}</style><table class='atlas-numbers'{label}><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def _text(text: str) -> str:
    return html.escape(style.visible(text), quote=True)


def _css(palette: Palette) -> str:
    return f"""
.atlas-numbers{{width:100%;border-collapse:collapse;font-family:{style.SANS};font-size:14px;color:{palette.ink};margin:0}}
.atlas-numbers th,.atlas-numbers td{{border:0;border-bottom:1px solid {palette.line};padding:5px 10px;font-weight:400;
text-align:right;vertical-align:middle;line-height:1.35}}
.atlas-numbers th:first-child{{padding-left:0;text-align:left}}
.atlas-numbers td:last-child,.atlas-numbers thead th:last-child{{padding-right:0}}
.atlas-numbers thead th{{color:{palette.muted};font-size:13px;vertical-align:bottom}}
.atlas-numbers thead th+th{{white-space:nowrap}}
.atlas-numbers td{{font-variant-numeric:tabular-nums;white-space:nowrap}}
.atlas-numbers small{{display:block;color:{palette.muted};font-size:12px;line-height:1.3}}
.atlas-numbers tbody tr:last-child>*{{border-bottom:0}}
"""
