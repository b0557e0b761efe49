"""What all tables of the kit have in common: rows on hairlines, muted titles, a frame that scrolls."""

from pages.kit.figures import style
from pages.kit.figures.style import html_text
from pages.kit.palette import Palette


def table(
    kind: str,
    head: str,
    body: str,
    palette: Palette,
    css: str,
    *,
    label: str = "",
    scrolls: bool = False,
    height: int = 0,
) -> str:
    """The table as an HTML fragment with its own style.

    kind: its class is `atlas-<kind>`, which the selectors of `css` begin with. head: the cells of the titles. body:
    all that follows (`tbody`, `tfoot`), escaped already. label: what a screen reader says. scrolls: it may be wider
    than its place; then it scrolls in its frame, which the tab key reaches. height: pixels beyond which it scrolls.
    """
    frame = " tabindex='0' role='region'" if scrolls or height else ""
    frame += f" style='max-height:{height}px'" if height else ""
    name = f" aria-label='{html_text(label)}'" if label else ""
    return (
        f"<style>{_css(palette)}{css}</style><div class='atlas-table'{frame}{name if frame else ''}>"
        f"<table class='atlas-{kind}'{'' if frame else name}><thead><tr>{head}</tr></thead>{body}</table></div>"
    )


def _css(palette: Palette) -> str:
    # Where there is more to the left or right the edge is in the shade; covers that move with the table hide it at the
    # table's own ends.
    shade, cover = style.mix(palette.ink, palette.paper, 0.8), f"{palette.paper} 50%"
    grounds = [
        f"linear-gradient({angle},{colours},transparent) {side} 0/{width} 100% no-repeat {moves}"
        for colours, width, moves in ((cover, "40px", "local"), (shade, "14px", "scroll"))
        for angle, side in (("90deg", "0"), ("-90deg", "100%"))
    ]
    return f"""
.atlas-table[tabindex]{{overflow:auto;scrollbar-width:thin;background:{",".join(grounds)}}}
.atlas-table:focus-visible{{outline:2px solid {palette.accent};outline-offset:2px}}
.atlas-table table{{width:100%;border-collapse:collapse;margin:0;color:{palette.ink};font-family:{style.SANS};
font-size:14px}}
.atlas-table th,.atlas-table td{{border:0;border-bottom:1px solid {palette.line};font-weight:400;vertical-align:middle}}
.atlas-table th{{word-break:keep-all}}
.atlas-table thead th{{color:{palette.muted};font-size:13px}}
"""
