"""Tokens as a table: id, token, bytes, as an HTML fragment that scrolls in its frame."""

from collections.abc import Sequence
from dataclasses import dataclass

from pages.kit.figures import style
from pages.kit.figures.style import html_text
from pages.kit.figures.table import table
from pages.kit.palette import Palette


@dataclass(frozen=True)
class TokenRow:
    """One row: a number in front, the token as people read it, then texts, and a count as the last cell."""

    number: str
    label: str
    cells: tuple[str, ...]


def token_table(
    rows: Sequence[TokenRow], palette: Palette, *, columns: Sequence[str], label: str, height: int = 330
) -> str:
    """The table; all text is escaped.

    columns: titles of number, token and further cells. label: what a screen reader says. height: pixels beyond which
    it scrolls.

    Raises:
        ValueError: if a row has not one cell per column.
    """
    head = "".join(f"<th scope='col'>{html_text(title)}</th>" for title in columns)
    body = []
    for row in rows:
        if len(row.cells) + 2 != len(columns):
            raise ValueError(f"{row.label!r} has {len(row.cells) + 2} cells for {len(columns)} columns")
        texts = "".join(f"<td class='text'>{html_text(cell)}</td>" for cell in row.cells[:-1])
        counts = "".join(f"<td>{html_text(cell)}</td>" for cell in row.cells[-1:])
        body.append(
            f"<tr><td>{html_text(row.number)}</td><th scope='row'>{html_text(row.label)}</th>{texts}{counts}</tr>"
        )
    rows_html = f"<tbody>{''.join(body)}</tbody>"
    return table("tokens", head, rows_html, palette, _css(palette), label=label, height=height)


def _css(palette: Palette) -> str:
    return f"""
.atlas-tokens th,.atlas-tokens td{{padding:4px 12px 4px 0;text-align:left;vertical-align:top}}
.atlas-tokens thead th{{position:sticky;top:0;background:{palette.paper}}}
.atlas-tokens tbody th,.atlas-tokens td{{font-family:{style.MONO};font-size:13px;font-variant-numeric:tabular-nums;
overflow-wrap:anywhere;unicode-bidi:isolate}}
.atlas-tokens tbody th{{font-weight:600;white-space:pre-wrap;overflow-wrap:break-word}}
.atlas-tokens td:first-child{{color:{palette.muted};white-space:nowrap}}
.atlas-tokens tbody tr:last-child>*{{border-bottom:0}}
"""
