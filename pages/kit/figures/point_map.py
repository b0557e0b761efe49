"""Words and tokens as points of a flat or spatial map. Hovering a point tells what it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from pages.kit.figures import style
from pages.kit.palette import Palette

_HEIGHT, _WIDTH = 560, 600  # the width that labels are placed for; on a narrower screen the figure scrolls
_LABEL = 12  # characters
_MARGIN = {"left": 30, "right": 30, "top": 34, "bottom": 34}


@dataclass(frozen=True)
class MapPoint:
    """A point. `label` is written beside it, `detail` is for the hover label, `group` its place among the groups."""

    label: str
    detail: str
    group: int = 0


def point_map(
    points: Sequence[MapPoint],
    places: np.ndarray,
    groups: Sequence[str],
    palette: Palette,
    *,
    axes: Sequence[str] = (),
    highlight: int | None = None,
) -> go.Figure:
    """The map of `places` (n, 2) or (n, 3), all axes to one scale.

    groups: what the kinds of points are called, at most two: dots and diamonds. axes: titles, none where axes have no
    meaning. highlight: the point with a ring. On a flat map a label is left out where it would cover another.
    Raises ValueError if there is not one place per point.
    """
    if places.ndim != 2 or places.shape[0] != len(points) or places.shape[1] not in (2, 3):
        raise ValueError(f"{len(points)} points for places of shape {places.shape}")
    flat = places.shape[1] == 2
    fig = style.figure(palette, _HEIGHT, **(_MARGIN if flat else {"top": 34}))
    sides = _label_sides(points, places, highlight) if flat else ["top center"] * len(points)
    looks = ((palette.accent, "circle"), (palette.key, "diamond"))
    for number, (group, (colour, symbol)) in enumerate(zip(groups, looks, strict=False)):
        own = [place for place, point in enumerate(points) if point.group == number]
        marker: dict[str, Any] = {"color": colour, "symbol": symbol, "size": 6 - number, "opacity": 1}
        if flat:
            rings = [2.5 if place == highlight else 1 for place in own]
            edges = [palette.ink if place == highlight else palette.paper for place in own]
            marker |= {"line": {"width": rings, "color": edges}, "size": [13 if p == highlight else 9 for p in own]}
        write = style.label if flat else _spatial
        texts = [write(points[place].label, _LABEL) if sides[place] else "" for place in own]
        common = {
            "mode": "markers+text",
            "name": style.label(group, 40),
            "marker": marker,
            "text": [f"<b>{text}</b>" if place == highlight else text for place, text in zip(own, texts, strict=True)],
            "textposition": [sides[place] or "top center" for place in own],
            "textfont": {"family": style.MONO, "size": style.SMALL_SIZE, "color": palette.ink},
            "customdata": [style.label(points[place].detail, 90) for place in own],
            "hovertemplate": "%{customdata}<extra></extra>",
            "showlegend": True,
        }
        x, y, *z = places[own].T
        fig.add_trace(go.Scatter(x=x, y=y, **common) if flat else go.Scatter3d(x=x, y=y, z=z[0], **common))
    fig.update_layout(
        showlegend=True,
        legend={
            "orientation": "h",
            "x": 0,
            "y": 1,
            "xanchor": "left",
            "yanchor": "bottom",
            "bgcolor": "rgba(0,0,0,0)",
            "itemclick": False,
            "itemdoubleclick": False,
            "font": {"size": style.TEXT_SIZE, "color": palette.ink},
        },
        meta={"min_width": _WIDTH} if flat else {},
    )
    if flat:
        _flat_axes(fig, palette, axes)
    else:
        _spatial_axes(fig, palette, axes)
    return fig


def _spatial(text: str, width: int = 40) -> str:
    """`text` for a spatial map, which knows a few tags and no entities: a joiner of no width makes a tag none."""
    return style.short(text, width).replace("<", "<\u2060")


def _flat_axes(fig: go.Figure, palette: Palette, axes: Sequence[str]) -> None:
    titles = [{"text": style.literal(text), "standoff": 6} for text in axes] or [{"text": ""}] * 2
    look = {"showticklabels": False, "zeroline": bool(axes), "zerolinecolor": palette.line, "showgrid": False}
    frame = {"showline": True, "mirror": True, "linecolor": palette.line}
    fig.update_xaxes(style.value_axis(palette, **look | frame, title=titles[0]))
    fig.update_yaxes(style.value_axis(palette, **look | frame, title=titles[1], scaleanchor="x", scaleratio=1))
    font = {"size": style.SMALL_SIZE, "color": palette.muted}
    fig.update_xaxes(title={"font": font})
    fig.update_yaxes(title={"font": font})


def _spatial_axes(fig: go.Figure, palette: Palette, axes: Sequence[str]) -> None:
    names = [_spatial(text) for text in axes] or [""] * 3
    scene: dict[str, Any] = {"aspectmode": "data", "dragmode": "turntable", "bgcolor": palette.paper}
    scene["camera"] = {"eye": {"x": 1.3, "y": 1.3, "z": 0.75}}
    for axis, name in zip("xyz", names, strict=True):
        scene[f"{axis}axis"] = {
            "title": {"text": name, "font": {"size": style.SMALL_SIZE, "color": palette.muted}},
            "showticklabels": False,
            "showbackground": False,
            "gridcolor": palette.line,
            "zerolinecolor": palette.muted if axes else palette.line,
            "showspikes": False,
        }
    fig.update_layout(scene=scene)


def _label_sides(points: Sequence[MapPoint], places: np.ndarray, highlight: int | None) -> list[str]:
    """On which side of each point its label has room at the figure's least width; "" where it has none."""
    low, high = places.min(0, initial=0.0), places.max(0, initial=0.0)
    room = (_WIDTH - _MARGIN["left"] - _MARGIN["right"] - 40, _HEIGHT - _MARGIN["top"] - _MARGIN["bottom"] - 40)
    scale = min(side / max(float(extent), 1e-9) for side, extent in zip(room, high - low, strict=True))
    pixels = places * scale
    middle = (low + high) / 2 * scale
    edge = (room[0] / 2 + 20, room[1] / 2 + 20)  # of the frame: a label is not drawn beyond it

    def inside(box: tuple[float, float, float, float]) -> bool:
        ends = ((box[0], box[1]), (box[2], box[3]))
        return all(
            centre - far <= first and last <= centre + far
            for (first, last), centre, far in zip(ends, middle.tolist(), edge, strict=True)
        )

    taken = [(x - 6, x + 6, y - 6, y + 6) for x, y in pixels.tolist()]
    sides = [""] * len(points)
    # The chosen point first, then the readers' words, then from the edge inwards, where there is room.
    order = sorted(range(len(points)), key=lambda place: (place != highlight, -points[place].group))
    for place in order:
        x, y = pixels[place].tolist()
        wide = 7.4 * style.columns(style.short(points[place].label, _LABEL)) + 4
        boxes = {
            "top center": (x - wide / 2, x + wide / 2, y + 7, y + 21),
            "bottom center": (x - wide / 2, x + wide / 2, y - 21, y - 7),
            "middle right": (x + 8, x + 8 + wide, y - 7, y + 7),
            "middle left": (x - 8 - wide, x - 8, y - 7, y + 7),
            "top right": (x + 2, x + 2 + wide, y + 5, y + 19),
            "top left": (x - 2 - wide, x - 2, y + 5, y + 19),
            "bottom right": (x + 2, x + 2 + wide, y - 19, y - 5),
            "bottom left": (x - 2 - wide, x - 2, y - 19, y - 5),
        }
        for side, box in boxes.items():
            others = (other for at, other in enumerate(taken) if at != place)
            if inside(box) and not any(
                box[0] < o[1] and o[0] < box[1] and box[2] < o[3] and o[2] < box[3] for o in others
            ):
                sides[place] = side
                taken.append(box)
                break
    return sides
