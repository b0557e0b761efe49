"""The draw: final probabilities laid end to end from 0 to 1, and the random number that falls on one of them.

HTML, because it is drawn again with every move of a slider: as a plotly figure it took as long as all of the page.
"""

import json
from collections.abc import Sequence

import numpy as np

from pages.kit import numbers
from pages.kit.figures import style
from pages.kit.figures.style import html_text
from pages.kit.palette import Palette

_NARROW = 0.004


def draw_bar(
    labels: Sequence[str],
    probabilities: Sequence[float] | np.ndarray,
    palette: Palette,
    *,
    alt: str,
    rest_label: str = "",
    u: float | None = None,
    drawn: int | None = None,
    mark_text: str = "",
) -> str:
    """The cumulative bar of final probabilities with the draw as a mark on it, as an HTML fragment with its own style.

    labels, probabilities: the largest first, as many as there is reason to name; what is left to 1 becomes one
        segment called `rest_label` (for example "+ 212 more"). alt: what a screen reader says.
    u: the random number in [0, 1); `mark_text` is written below it. drawn: the index of the token that it hits.
    Labels show only where they fit; hovering names every segment, with its interval. All text is escaped.
    Raises ValueError if probabilities are negative, rise, or sum to more than 1.
    """
    shares = np.asarray(probabilities, dtype=np.float64)
    if shares.shape != (len(labels),):
        raise ValueError(f"{len(labels)} labels for probabilities of shape {shares.shape}")
    if shares.size and (shares.min() < 0 or np.any(np.diff(shares) > 1e-9) or shares.sum() > 1 + 1e-6):
        raise ValueError("probabilities must be non-negative, sorted from the largest, and sum to at most 1")
    rest = max(0.0, 1.0 - float(shares.sum()))
    widths, names = shares.tolist(), [style.short(text, 24) for text in labels]
    fills = [palette.accent if index == drawn else _fill(palette, index) for index in range(len(widths))]
    inks = [style.readable_on(fill) for fill in fills]
    if rest > 1e-6:
        widths.append(rest)
        names.append(style.short(rest_label or "…", 28))
        fills.append(style.mix(palette.paper, palette.line, 0.75))
        inks.append(palette.ink)
    segments, low = [], 0.0
    rows: list[list[str | float]] = [["", "p", "≥", "<"]]  # what is saved as a table
    for name, width, fill, ink in zip(names, widths, fills, inks, strict=True):
        segments.append(_segment(name, low, width, fill, ink))
        rows.append([name, round(width, 6), round(low, 6), round(low + width, 6)])
        low += width
    if u is not None:
        rows.append(["u", round(u, 6)])
    mark = "" if u is None else _mark(u, mark_text)
    return (
        f"<style>{_css(palette)}</style><div class='atlas-draw' role='img' aria-label='{html_text(alt)}'"
        f" data-rows='{html_text(json.dumps(rows, ensure_ascii=False))}'>"
        f"{''.join(segments)}{mark}</div>"
    )


def _segment(name: str, low: float, width: float, fill: str, ink: str) -> str:
    thin = " thin" if width <= _NARROW else ""
    side = " left" if low + width / 2 < 0.5 else ""
    return (
        f"<div class='part{thin}{side}' style='left:{100 * low:.4f}%;width:{100 * width:.4f}%'>"
        f"<p style='background:{fill};color:{ink}'><bdi>{html_text(name)}</bdi></p>"
        f"<div class='tip'><bdi>{html_text(name)}</bdi><br>p = {numbers.probability(width)}<br>"
        f"{low:.4f} – {low + width:.4f}</div></div>"
    )


def _mark(u: float, text: str) -> str:
    anchor = "from" if u < 0.3 else "to" if u > 0.7 else "around"
    return (
        f"<div class='mark {anchor}' style='left:{100 * u:.4f}%'><u></u><i>▲</i>"
        f"<b><bdi>{html_text(style.short(text, 48))}</bdi></b></div>"
    )


def _css(palette: Palette) -> str:
    """The first line of a part is as high as its bar: a name that does not fit goes to the second, out of sight."""
    return f"""
.atlas-draw{{position:relative;height:92px;margin:0 2px;font-family:{style.MONO};font-size:{style.SMALL_SIZE}px}}
.atlas-draw .part{{position:absolute;top:10px;height:37px;padding-right:2px}}
.atlas-draw .thin{{padding-right:0}}
.atlas-draw p{{display:flex;flex-wrap:wrap;height:100%;margin:0;overflow:hidden;font-size:inherit;line-height:37px}}
.atlas-draw p::before{{content:"";width:0;height:37px}}
.atlas-draw p bdi{{padding:0 6px;white-space:pre}}
.atlas-draw .tip{{display:none;position:absolute;z-index:3;top:100%;right:0;padding:3px 7px;background:{palette.panel};
border:1px solid {palette.line};color:{palette.ink};line-height:1.35;white-space:pre;pointer-events:none}}
.atlas-draw .left .tip{{right:auto;left:0}}
.atlas-draw .part:hover .tip{{display:block}}
.atlas-draw .mark{{position:absolute;top:6px;width:0;color:{palette.ink};pointer-events:none;
font-size:{style.TEXT_SIZE}px}}
.atlas-draw u{{position:absolute;left:-1px;width:2px;height:46px;background:{palette.ink}}}
.atlas-draw i{{position:absolute;top:43px;left:-10px;width:20px;text-align:center;font:15px/16px {style.SANS}}}
.atlas-draw .mark b{{position:absolute;top:58px;white-space:pre;line-height:1.4}}
.atlas-draw .to b{{right:0}}
.atlas-draw .around b{{transform:translateX(-50%)}}
"""


def _fill(palette: Palette, index: int) -> str:
    """Fill of the segment `index`: the accent stepping back toward the paper, so that neighbours differ."""
    return style.mix(palette.accent, palette.paper, min(0.18 + 0.09 * index, 0.72))
