"""One cell's way through a calculation, step by step, as HTML: a formula and its numbers under each step's name."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pages.kit.figures import style
from pages.kit.figures.style import html_text
from pages.kit.palette import Palette

Role = Literal["", "query", "key", "value", "muted", "result"]


@dataclass(frozen=True)
class Term:
    """A piece of a formula. role: gives it a colour, or makes it the result. raised: drawn as an exponent."""

    text: str
    role: Role = ""
    raised: bool = False


@dataclass(frozen=True)
class Step:
    """One step: its `name` above, its `terms` in one line below. masked: hatched, as masked cells are."""

    name: str
    terms: Sequence[Term] = field(default_factory=tuple)
    masked: bool = False


def arithmetic(who: Sequence[Term], steps: Sequence[Step], palette: Palette, *, note: str = "") -> str:
    """The box as an HTML fragment with its own style; all text is escaped, steps wrap where there is less room.

    who: what the calculation is of ("it → because"). note: a sentence below, in muted type.
    """
    items = "".join(
        f"<li{' class=masked' if step.masked else ''}><span>{html_text(step.name)}</span>"
        f"<code>{_terms(step.terms)}</code></li>"
        for step in steps
    )
    below = f"<p class='note'>{html_text(note)}</p>" if note else ""
    return (
        f"<style>{_css(palette)}</style><div class='atlas-arithmetic'><p class='who'>{_terms(who)}</p>"
        f"<ol>{items}</ol>{below}</div>"
    )


def _terms(terms: Sequence[Term]) -> str:
    def one(term: Term) -> str:
        tag = "sup" if term.raised else "b" if term.role == "result" else "span"
        text = html_text(term.text)
        return f"<{tag} class='{term.role}'>{text}</{tag}>" if term.role or term.raised else text

    return "".join(map(one, terms))


def _css(palette: Palette) -> str:
    hatch = style.mix(palette.panel, palette.muted, 0.3)
    return f"""
.atlas-arithmetic{{border-left:3px solid {palette.accent};border-radius:0 8px 8px 0;background:{palette.panel};
padding:12px 18px 13px;color:{palette.ink};font-family:{style.SANS};font-size:14px;line-height:1.45}}
.atlas-arithmetic p{{margin:0;overflow-wrap:anywhere}}
.atlas-arithmetic .who{{font-family:{style.MONO};font-size:16px;white-space:pre-wrap;font-weight:600}}
.atlas-arithmetic ol{{display:flex;flex-wrap:wrap;gap:10px 22px;list-style:none;margin:9px 0 0;padding:0}}
.atlas-arithmetic li{{margin:0;padding:0;min-width:0}}
.atlas-arithmetic li>span{{display:block;color:{palette.muted};font-size:12.5px;line-height:1.3}}
.atlas-arithmetic code{{display:inline-block;font-family:{style.MONO};font-size:15px;line-height:1.7;padding:0;
margin:0;background:none;color:inherit;white-space:pre-wrap;font-variant-numeric:tabular-nums}}
.atlas-arithmetic li.masked code{{padding:0 8px;border-radius:4px;
background:repeating-linear-gradient(135deg,{hatch} 0 1px,{palette.panel} 1px 5px)}}
.atlas-arithmetic sup{{font-size:0.74em;line-height:0;vertical-align:baseline;position:relative;top:-0.45em}}
.atlas-arithmetic .query{{color:{palette.query}}}
.atlas-arithmetic .key{{color:{palette.key}}}
.atlas-arithmetic .value{{color:{palette.value}}}
.atlas-arithmetic .muted{{color:{palette.muted};font-weight:400}}
.atlas-arithmetic .note{{margin-top:9px;color:{palette.muted};font-size:13px}}
"""
