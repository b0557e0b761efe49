"""The whole forward pass as one picture: parts on a residual stream, with branches that leave it and add back.

HTML and CSS instead of a chart: text stays text, every part is a link, and the picture turns from a row into a
column where its container is too narrow for it. How narrow that is follows from the texts, so it is estimated here.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pages.kit.figures import style
from pages.kit.figures.style import html_text
from pages.kit.palette import Palette


@dataclass(frozen=True)
class Part:
    """One step of the pass; all texts come formatted and translated.

    name: "Attention". shape: of what it hands on, "10 × 256". time, size: "0.42 ms", "1.6 M".
    href: where a click leads ("/attention?text=…"; "" for no link); page: the page's name, for `show.pass_diagram`.
    share: its part of the whole time, 0–1, drawn as a hairline bar. small: a norm, drawn narrower.
    """

    name: str
    shape: str = ""
    time: str = ""
    size: str = ""
    href: str = ""
    page: str = ""
    share: float = 0.0
    small: bool = False


@dataclass(frozen=True)
class Branch:
    """Parts that read the stream one after another and add their result back.

    source: what else it reads, for cross-attention ("from the encoder"); "" for none.
    """

    parts: tuple[Part, ...]
    source: str = ""


@dataclass(frozen=True)
class Block:
    """Branches that repeat; title: "6 ×", note: what the foot of the block says ("blocks, 9.8 ms in all")."""

    title: str
    branches: tuple[Branch, ...]
    note: str = ""


@dataclass(frozen=True)
class Stream:
    """One way through, in order; title: only where there are two ("encoder", "decoder")."""

    items: tuple[Part | Block, ...]
    title: str = ""


def pass_diagram(
    streams: Sequence[Stream],
    palette: Palette,
    *,
    description: str,
    stream_word: str = "",
    columns: Sequence[str] = ("", "", "", "", ""),
) -> str:
    """The picture as an HTML fragment with its own style; all text is escaped.

    streams: one for an encoder or a decoder, two for an encoder–decoder, top to bottom.
    description: what a screen reader announces. stream_word: written on the line inside a block.
    columns: titles of the table that is saved: where a part is, its name, shape, time and size.
    """
    rows = [list(columns), *(row for stream in streams for row in _rows(stream))]
    body = "".join(_stream(stream, stream_word) for stream in streams)
    full = max((_width(stream, 7.7, 7.25, 18) for stream in streams), default=0)
    dense = max((_width(stream, 7.2, 6.95, 14) for stream in streams), default=0)
    compact = max((_width(stream, 7.2, 6.95, 14, small=False) for stream in streams), default=0)
    return (
        f"<style>{_css(palette, full, dense, compact)}</style>"
        f'<div class="atlas-pass" role="group" aria-label="{html_text(description)}"'
        f' data-rows="{html_text(json.dumps(rows, ensure_ascii=False))}">{body}</div>'
    )


def _width(stream: Stream, name: float, number: float, padding: int, *, small: bool = True) -> int:
    """Pixels that `stream` needs as a row; `name`, `number`: the width of a character of each kind of text. `padding`:
    of a card, both sides; `small`: whether small parts show their numbers."""

    def card(part: Part) -> float:
        numbers = (part.shape, part.time, part.size) if small or not part.small else ()
        cells = max((style.columns(text) for text in numbers), default=0)
        return max(style.columns(part.name) * name, cells * number) + padding

    total = 8.0
    for item in stream.items:
        total += 18
        if isinstance(item, Block):
            total += 22 + sum(52 + sum(card(part) + 8 for part in branch.parts) for branch in item.branches)
        else:
            total += card(item)
    return round(total)


def _rows(stream: Stream) -> list[list[str]]:
    """A row for each part."""

    def row(part: Part, *where: str) -> list[str]:
        return [" · ".join(filter(None, (stream.title, *where))), part.name, part.shape, part.time, part.size]

    rows: list[list[str]] = []
    for item in stream.items:
        if isinstance(item, Block):
            parts = [part for branch in item.branches for part in branch.parts]
            rows += [row(part, item.title) for part in parts]
        else:
            rows.append(row(item))
    return rows


def _stream(stream: Stream, stream_word: str) -> str:
    title = f'<p class="way">{html_text(stream.title)}</p>' if stream.title else ""
    items = []
    previous: Part | Block | None = None
    for item in stream.items:
        wide = isinstance(item, Block) or isinstance(previous, Block)
        join = "" if previous is None else " wide" if wide else " thin"
        if isinstance(item, Block):
            items.append(f'<li class="block{join}">{_block(item, stream_word)}</li>')
        else:
            items.append(f'<li class="part{join}">{_card(item)}</li>')
        previous = item
    return f'<section>{title}<ol class="flow">{"".join(items)}</ol></section>'


def _block(block: Block, stream_word: str) -> str:
    branches = []
    for branch in block.branches:
        source = f'<span class="source">{html_text(branch.source)}</span>' if branch.source else ""
        cards = "".join(_card(part) for part in branch.parts)
        joints = '<i class="dot"></i><i class="plus">+</i>'
        branches.append(f'<div class="branch"><div class="cards">{cards}</div>{source}{joints}</div>')
    word = f'<span class="word">{html_text(stream_word)}</span>' if stream_word else ""
    note = f'<span class="note">{html_text(block.note)}</span>' if block.note else ""
    foot = f'<p class="foot"><b>{html_text(block.title)}</b>{note}{word}</p>'
    return f'<div class="branches">{"".join(branches)}</div>{foot}'


def _card(part: Part) -> str:
    rows = "".join(
        f'<span class="{kind}">{html_text(text)}</span>'
        for kind, text in (("shape", part.shape), ("time", part.time), ("size", part.size))
        if text
    )
    share = min(max(part.share, 0.0), 1.0)
    bar = f'<i class="share"><i style="width:{100 * share:.1f}%"></i></i>' if part.share > 0 else ""
    kind = "card small" if part.small else "card"
    hint = " · ".join(text for text in (part.name, part.shape, part.time, part.size) if text)
    inner = f'<span class="name">{html_text(part.name)}</span>{rows}{bar}'
    if not part.href:
        return f'<span class="{kind}" title="{html_text(hint)}">{inner}</span>'
    page = f' data-page="{html_text(part.page)}"' if part.page else ""
    return f'<a class="{kind}" title="{html_text(hint)}" href="{html_text(part.href)}" target="_self"{page}>{inner}</a>'


def _css(palette: Palette, full: int, dense: int, compact: int) -> str:
    stream = style.mix(palette.paper, palette.accent, 0.42)
    path = style.mix(palette.paper, palette.accent, 0.42)
    sheet = style.mix(palette.line, palette.paper, 0.3)
    return f"""
.atlas-pass{{container-type:inline-size;color:{palette.ink};font-family:{style.SANS};font-size:13px;line-height:1.3}}
.atlas-pass *{{box-sizing:border-box}}
.atlas-pass p,.atlas-pass ol,.atlas-pass li{{margin:0;padding:0;list-style:none;font-size:inherit}}
.atlas-pass section+section{{margin-top:26px}}
.atlas-pass .way{{color:{palette.muted};font-weight:600;margin:0 0 8px}}
.atlas-pass .flow{{display:flex;align-items:flex-end;gap:18px;--line:60px;padding:4px 8px 12px 0}}
.atlas-pass .flow>li{{position:relative;flex:1 1 auto;min-width:min-content}}
.atlas-pass .flow>li.block{{flex:4 1 auto}}
.atlas-pass .card{{position:relative;display:flex;flex-direction:column;justify-content:center;gap:2px;overflow:hidden;
min-height:120px;padding:8px 8px 14px;border:1px solid {palette.line};border-radius:10px;background:{palette.panel};
color:{palette.ink};text-decoration:none;text-align:center;z-index:1}}
.atlas-pass .name{{font-weight:600;font-size:14px;line-height:1.25;white-space:nowrap}}
.atlas-pass .shape,.atlas-pass .time,.atlas-pass .size{{font-family:{style.MONO};font-size:12px;
font-variant-numeric:tabular-nums;white-space:nowrap}}
.atlas-pass .time,.atlas-pass .size{{color:{palette.muted}}}
.atlas-pass a.card .name{{color:{palette.accent}}}
.atlas-pass a.card:hover,.atlas-pass a.card:focus-visible{{border-color:{palette.accent};
box-shadow:0 0 0 1px {palette.accent};outline:none}}
.atlas-pass .share{{position:absolute;left:10px;right:10px;bottom:6px;height:3px;border-radius:2px;
background:{palette.line}}}
.atlas-pass .share i{{display:block;height:3px;min-width:2px;border-radius:2px;background:{palette.accent}}}
.atlas-pass .flow>li.thin::before,.atlas-pass .flow>li.wide::before{{content:"";position:absolute;left:-18px;width:18px;
bottom:calc(var(--line) - 2px);height:4px;background:{stream}}}
.atlas-pass .flow>li.thin::before{{height:2px;bottom:calc(var(--line) - 1px);width:14px}}
.atlas-pass .flow>li.thin::after{{content:"";position:absolute;left:-8px;bottom:calc(var(--line) - 5px);
border:5px solid transparent;border-left:7px solid {stream};border-right:0}}
.atlas-pass .flow>li.block.wide::before{{left:-19px;bottom:calc(var(--line) - 3px)}}
.atlas-pass .block{{border:1px solid {palette.line};border-radius:14px;
background:{style.mix(palette.paper, palette.panel, 0.5)};
box-shadow:4px 4px 0 -1px {palette.paper},4px 4px 0 0 {sheet},8px 8px 0 -1px {palette.paper},8px 8px 0 0 {sheet}}}
.atlas-pass .block::after{{content:"";position:absolute;left:-1px;right:-1px;bottom:calc(var(--line) - 3px);height:4px;
background:{stream}}}
.atlas-pass .branches{{display:flex;gap:8px;align-items:flex-end;padding:12px 10px 0;
margin-bottom:calc(var(--line) - 1px)}}
.atlas-pass .branch{{position:relative;flex:1 1 auto;padding:0 22px 26px}}
.atlas-pass .cards{{display:flex;gap:8px;align-items:stretch}}
.atlas-pass .cards .card{{flex:1 1 auto;min-height:104px}}
.atlas-pass .branch::before{{content:"";position:absolute;left:8px;right:12px;bottom:0;top:calc((100% - 26px) / 2);
border:2px solid {path};border-bottom:0;border-radius:12px 12px 0 0}}
.atlas-pass .dot,.atlas-pass .plus{{position:absolute;z-index:2;font-style:normal}}
.atlas-pass .dot{{left:4px;bottom:-5px;width:10px;height:10px;border-radius:50%;background:{palette.accent}}}
.atlas-pass .plus{{right:2px;bottom:-11px;width:22px;height:22px;border-radius:50%;line-height:18px;text-align:center;
font-weight:600;font-size:16px;color:{palette.accent};background:{palette.panel};border:2px solid {palette.accent}}}
.atlas-pass .source{{position:absolute;left:50%;bottom:2px;transform:translateX(-50%);color:{palette.key};
font-size:12px;white-space:nowrap}}
.atlas-pass .foot{{position:absolute;left:14px;right:14px;bottom:9px;display:flex;gap:8px;align-items:baseline;
color:{palette.muted};font-size:12px;white-space:nowrap}}
.atlas-pass .foot b{{color:{palette.accent};font-size:19px;font-weight:700}}
.atlas-pass .word{{margin-left:auto}}
@container (max-width: {full}px){{
.atlas-pass .shape,.atlas-pass .time,.atlas-pass .size{{font-size:11.5px}}
.atlas-pass .name{{font-size:13px}}
.atlas-pass .card{{padding-left:6px;padding-right:6px}}
}}
@container (max-width: {dense}px){{
.atlas-pass .small .shape,.atlas-pass .small .time,.atlas-pass .small .size{{display:none}}
.atlas-pass .small,.atlas-pass .cards .small{{min-height:44px;align-self:center;padding-bottom:8px}}
.atlas-pass .part .small{{margin-bottom:calc(var(--line) - 22px)}}
}}
@container (max-width: {compact}px){{
.atlas-pass .flow{{flex-direction:column;align-items:stretch;gap:18px;padding:0 9px 10px 0;max-width:560px}}
.atlas-pass .shape,.atlas-pass .time,.atlas-pass .size{{font-size:12px}}
.atlas-pass .small .shape,.atlas-pass .small .time,.atlas-pass .small .size{{display:inline}}
.atlas-pass .name{{font-size:14px}}
.atlas-pass .small,.atlas-pass .cards .small{{align-self:auto}}
.atlas-pass .part .small{{margin-bottom:0}}
.atlas-pass .card,.atlas-pass .cards .card{{display:grid;grid-template-columns:1fr auto;gap:1px 12px;min-height:0;
text-align:left;padding:8px 14px 13px}}
.atlas-pass .share{{left:14px;right:14px}}
.atlas-pass .time,.atlas-pass .size{{text-align:right}}
.atlas-pass .name{{grid-column:1;grid-row:1}}
.atlas-pass .time{{grid-column:2;grid-row:1}}
.atlas-pass .shape{{grid-column:1;grid-row:2}}
.atlas-pass .size{{grid-column:2;grid-row:2}}
.atlas-pass .flow>li.thin::before,.atlas-pass .flow>li.wide::before{{left:26px;width:4px;height:20px;top:-19px;
bottom:auto}}
.atlas-pass .flow>li.thin::before{{left:27px;width:2px;height:14px}}
.atlas-pass .flow>li.thin::after{{left:23px;top:-8px;bottom:auto;border:5px solid transparent;
border-top:7px solid {stream};border-bottom:0}}
.atlas-pass .flow>li.block.wide::before{{left:25px;top:-20px}}
.atlas-pass .block::after{{left:25px;right:auto;width:4px;top:-1px;bottom:-1px;height:auto}}
.atlas-pass .branches{{flex-direction:column;align-items:stretch;gap:20px;padding:22px 12px 14px 0;margin:0}}
.atlas-pass .branch{{padding:22px 0 22px 60px}}
.atlas-pass .cards{{flex-direction:column;gap:12px}}
.atlas-pass .branch::before{{left:28px;right:auto;width:74px;top:0;bottom:0;border:2px solid {path};border-left:0;
border-radius:0 12px 12px 0}}
.atlas-pass .dot{{left:23px;top:-4px;bottom:auto}}
.atlas-pass .plus{{left:17px;right:auto;bottom:-10px}}
.atlas-pass .source{{left:auto;right:4px;transform:none}}
.atlas-pass .foot{{position:static;padding:0 14px 10px 60px;flex-wrap:wrap}}
}}
"""
