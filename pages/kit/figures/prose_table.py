"""A table whose cells are words: names down, lines that wrap."""

from collections.abc import Sequence

from pages.kit.figures.style import html_text
from pages.kit.figures.table import table
from pages.kit.palette import Palette


def prose_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], palette: Palette, *, description: str = ""
) -> str:
    """The table as an HTML fragment that scrolls sideways where there is no room; all text is escaped.

    columns: their titles. rows: one cell each, the first names the row; what stands behind a line break is muted.

    Raises:
        ValueError: if a row has not one cell per column.
    """
    head = "".join(f"<th scope='col'>{html_text(title)}</th>" for title in columns)
    body = []
    for name, *cells in rows:
        if len(cells) != len(columns) - 1:
            raise ValueError(f"{name!r} has {len(cells) + 1} cells for {len(columns)} columns")
        row = "".join(f"<td>{_lines(cell)}</td>" for cell in cells)
        body.append(f"<tr><th scope='row'>{_lines(name)}</th>{row}</tr>")
    rows_html = f"<tbody>{''.join(body)}</tbody>"
    return table("prose", head, rows_html, palette, _css(palette), label=description, scrolls=True)


def _lines(text: str) -> str:
    first, _, rest = text.partition("\n")
    return html_text(first) + (f"<small>{html_text(rest)}</small>" if rest else "")


def _css(palette: Palette) -> str:
    return f"""
.atlas-prose th,.atlas-prose td{{padding:8px 14px 8px 0;text-align:left;line-height:1.45;min-width:8.5rem;
vertical-align:top}}
.atlas-prose tbody th{{font-weight:600;min-width:7rem}}
.atlas-prose small{{display:block;color:{palette.muted};font-size:12.5px;font-weight:400;line-height:1.4}}
.atlas-prose tbody tr:last-child>*{{border-bottom:0}}
"""
