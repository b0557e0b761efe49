"""A text on three lines that belong together: characters, their UTF-8 bytes, the tokens that take them."""

from collections.abc import Sequence
from dataclasses import dataclass

from pages.kit.figures import style
from pages.kit.figures.style import html_text
from pages.kit.palette import Palette


@dataclass(frozen=True)
class Cell:
    """Something that is `width` bytes wide; `text` is what stands in it."""

    text: str
    width: int


@dataclass(frozen=True)
class ByteGroup:
    """A part of a text whose characters and tokens end at the same byte.

    characters, tokens: cells whose widths add up to the number of `data` bytes each. first: number of the first
    token, which alternates the colours. chosen: the token within the group to mark, or None.
    """

    characters: tuple[Cell, ...]
    data: bytes
    tokens: tuple[Cell, ...]
    first: int = 0
    chosen: int | None = None


def byte_strip(groups: Sequence[ByteGroup], palette: Palette, *, words: tuple[str, str, str], label: str) -> str:
    """The groups in reading order, as an HTML fragment that wraps; all text is escaped.

    words: what the three lines are called (characters, bytes, tokens). label: what a screen reader says first.

    Raises:
        ValueError: if characters or tokens of a group do not add up to its bytes.
    """
    parts = [_group(group) for group in groups]
    legend = "".join(f"<span>{html_text(word)}</span>" for word in words)
    return (
        f"<style>{_css(palette)}</style>"
        f"<div class='atlas-bytes' role='group' tabindex='0' aria-label='{html_text(label)}'>"
        f"<div class='legend' aria-hidden='true'>{legend}</div>{''.join(parts)}</div>"
    )


def _group(group: ByteGroup) -> str:
    size = len(group.data)
    for cells in (group.characters, group.tokens):
        if sum(cell.width for cell in cells) != size or any(cell.width < 1 for cell in cells):
            raise ValueError(f"cells of {[cell.width for cell in cells]} bytes for {size}")
    characters = "".join(_cell(cell, "c") for cell in group.characters)
    data = "".join(f"<i class='b'>{byte:02X}</i>" for byte in group.data)
    tokens = "".join(
        _cell(cell, f"t t{(group.first + place) % 2}{' chosen' if place == group.chosen else ''}")
        for place, cell in enumerate(group.tokens)
    )
    return f"<div class='group' style='--n:{size}'>{characters}{data}{tokens}</div>"


def _cell(cell: Cell, kind: str) -> str:
    return f"<i class='{kind}' style='grid-column:span {cell.width}'>{html_text(cell.text)}</i>"


def _css(palette: Palette) -> str:
    one, other = (style.mix(palette.paper, colour, 0.2) for colour in (palette.query, palette.key))
    return f"""
.atlas-bytes{{display:flex;flex-wrap:wrap;gap:10px 3px;max-height:236px;overflow:hidden auto;scrollbar-width:thin;
font-family:{style.MONO};color:{palette.ink};line-height:1.4;padding:2px}}
.atlas-bytes:focus-visible{{outline:2px solid {palette.accent};outline-offset:2px}}
.atlas-bytes .legend{{display:grid;grid-template-rows:22px 20px 22px;align-items:center;margin-right:10px;
font-family:{style.SANS};font-size:13px;color:{palette.muted}}}
.atlas-bytes .group{{display:grid;grid-template-columns:repeat(var(--n),minmax(25px,auto));
grid-template-rows:22px 20px 22px;max-width:100%;overflow:auto hidden;scrollbar-width:thin}}
.atlas-bytes i{{font-style:normal;text-align:center;white-space:pre;overflow:hidden;text-overflow:ellipsis}}
.atlas-bytes .c{{font-size:15px;unicode-bidi:isolate}}
.atlas-bytes .b{{font-size:12px;color:{palette.muted};line-height:20px}}
.atlas-bytes .t{{font-size:12px;line-height:20px;padding:0 3px;margin:0 1px;border-radius:4px;
border:1px solid transparent;font-variant-numeric:tabular-nums}}
.atlas-bytes .t0{{background:{one}}}
.atlas-bytes .t1{{background:{other}}}
.atlas-bytes .chosen{{border-color:{palette.ink};font-weight:700}}
"""
