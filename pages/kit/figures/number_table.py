"""A small table of numbers: names down, what was measured across."""

from collections.abc import Sequence

from pages.kit.figures.style import html_text
from pages.kit.figures.table import table
from pages.kit.palette import Palette

MARK = "▸\u00a0"  # before the name of a row


def number_table(
    columns: Sequence[str],
    rows: Sequence[tuple[str, Sequence[str]]],
    palette: Palette,
    *,
    description: str = "",
    scrolls: bool = False,
    mark: str = "",
) -> str:
    """The table as an HTML fragment with its own style; all text is escaped.

    columns: title of the names, then one per number. rows: name and numbers, already formatted; a name may have a
    second line after a line break, drawn muted. description: what a screen reader says about the table.
    scrolls: where there is not enough room it scrolls sideways in its frame. mark: what it means that a name begins
    with `MARK`, for screen readers and pointers; the caption has to say it too.

    Raises ValueError if a row has not one number per column, or a mark has no meaning.
    """
    head = "".join(f"<th scope='col'>{html_text(title)}</th>" for title in columns)
    body = []
    for name, cells in rows:
        if len(cells) != len(columns) - 1:
            raise ValueError(f"{name!r} has {len(cells)} numbers for {len(columns) - 1} columns")
        title, _, note = name.partition("\n")
        sign = ""
        if title.startswith(MARK):
            if not mark:
                raise ValueError(f"{name!r} is marked, and nothing says why")
            words, title = html_text(mark), title.removeprefix(MARK)
            sign = f"<span role='img' aria-label='{words}' title='{words}'>▸</span>\u00a0"
        small = f"<small>{html_text(note)}</small>" if note else ""
        numbers = "".join(f"<td>{html_text(cell)}</td>" for cell in cells)
        body.append(f"<tr><th scope='row'>{sign}{html_text(title)}{small}</th>{numbers}</tr>")
    rows_html = f"<tbody>{''.join(body)}</tbody>"
    return table("numbers", head, rows_html, palette, _css(palette), label=description, scrolls=scrolls)


def _css(palette: Palette) -> str:
    return f"""
.atlas-numbers th,.atlas-numbers td{{padding:5px 10px;text-align:right;line-height:1.35}}
.atlas-numbers th:first-child{{padding-left:0;text-align:left}}
.atlas-numbers td:last-child,.atlas-numbers thead th:last-child{{padding-right:0}}
.atlas-numbers thead th{{vertical-align:bottom}}
.atlas-numbers thead th+th{{white-space:nowrap}}
.atlas-numbers td{{font-variant-numeric:tabular-nums;white-space:nowrap}}
.atlas-numbers small{{display:block;color:{palette.muted};font-size:12px;line-height:1.3}}
.atlas-numbers tbody tr:last-child>*{{border-bottom:0}}
"""
