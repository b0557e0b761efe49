"""Names and values in two columns: what a run ran on."""

from collections.abc import Mapping

from pages.kit.figures import style
from pages.kit.figures.style import html_text
from pages.kit.palette import Palette


def fact_list(facts: Mapping[str, str], palette: Palette) -> str:
    """The facts as an HTML description list, name before value, in the order given. All text is escaped."""
    rows = "".join(f"<div><dt>{html_text(name)}</dt><dd>{html_text(value)}</dd></div>" for name, value in facts.items())
    return f"<style>{_css(palette)}</style><dl class='atlas-facts'>{rows}</dl>"


def _css(palette: Palette) -> str:
    return f"""
.atlas-facts.atlas-facts{{margin:0;padding:0;font-family:{style.SANS};font-size:14px;color:{palette.ink}}}
.atlas-facts div{{display:flex;justify-content:space-between;gap:16px;padding:5px 0;
border-bottom:1px solid {palette.line}}}
.atlas-facts div:last-child{{border-bottom:0}}
.atlas-facts dt{{margin:0;color:{palette.muted};font-weight:400}}
.atlas-facts dd{{margin:0;font-family:{style.MONO};font-size:13px;font-variant-numeric:tabular-nums;
text-align:right;flex:none;max-width:65%;overflow-wrap:anywhere}}
"""
