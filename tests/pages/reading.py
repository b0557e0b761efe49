"""Awkward labels, and helpers that read a page, a figure or a fragment of HTML as the browser would."""

import base64
import html
import json
import re
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any

import numpy as np
from streamlit.testing.v1 import AppTest

from pages.kit.figures import Tiles, pool_patterns, shaded

AWKWARD = [
    "</s>", "<br>", "a<b<c", "<script>alert(1)</script>", "&lt;", "&amp;amp;", '"quoted"', "it's", "$x^2$", "$5 and $6",
    "%{x}", "%{customdata[0]}", "100%", "{y:.2f}", "\x00", "\x1b[31m", "\u202eabc", "\ud83d", "·the", "·the", "猫",
    "猫 1/3", "2017-06-12", "NaN", "1e-5", "👩‍👩‍👧‍👦", "e\u0301", "Z" + "\u0335" * 300, "x" * 400, "line\nbreak",
    "\u200b",
]  # fmt: skip


def array(value: Any) -> np.ndarray:
    """A numeric array of a figure, whether plotly keeps it as it was or packed for the browser."""
    if isinstance(value, dict):
        flat = np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"])
        shape = tuple(int(n) for n in str(value["shape"]).split(",")) if "shape" in value else flat.shape
        return flat.reshape(shape)
    return np.asarray(value)


def drawn(text: str) -> str:
    """What plotly draws for `text`: numeric entities decoded (it knows few named ones), nothing else touched."""
    return re.sub(r"&#(\d+);", lambda match: chr(int(match[1])), text)


def without_colour(tick: str) -> str:
    return re.sub(r"</?(span|b)\b[^>]*>", "", tick)


def patterns(layers: int, heads: int, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Causal patterns (layers, heads, T, T) whose rows sum to 1, and their mask (True = hidden)."""
    hidden = ~np.tril(np.ones((size, size), dtype=bool))
    scores = np.random.default_rng(seed).gumbel(size=(layers, heads, size, size))
    weights = np.where(hidden, 0.0, np.exp(scores))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32), hidden


def tile_patterns(
    patterns: Iterable[np.ndarray],
    *,
    masked: np.ndarray | None = None,
    limit: int = 48,
    scale: str = "linear",
    floor: float = 1e-4,
) -> Tiles:
    """Patterns shrunk to tiles in one step."""
    return shaded(pool_patterns(patterns, masked=masked, limit=limit), scale=scale, floor=floor)


class Reader(HTMLParser):
    """Collects the elements and the text of a fragment as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(fragment: str) -> Reader:
    reader = Reader()
    reader.feed(fragment)
    return reader


# --- a page under AppTest, from top to bottom


def markdown(app: AppTest) -> str:
    """All Markdown of the main part as it was written, one piece a line."""
    return "\n".join(element.value for element in app.main.markdown)


def said(app: AppTest) -> str:
    """All Markdown of the main part without the backslashes that keep characters from being markup."""
    return markdown(app).replace("\\", "")


def fragments(app: AppTest) -> list[str]:
    """Every piece of HTML, also of the sidebar."""
    return [element.proto.body for element in app.get("html")]


def captions(app: AppTest) -> list[tuple[str, str]]:
    """Of each line under a figure: where its numbers are from ("measured", …), and its text."""
    bodies = [body for body in fragments(app) if 'class="atlas-caption"' in body]
    return [(re.findall('data-source="(.*?)"', body)[0], " ".join(read(body).texts)) for body in bodies]


def figure(app: AppTest, key: str) -> dict:
    """The Plotly figure with this key, which there is once."""
    (chart,) = [chart.proto for chart in app.get("plotly_chart") if chart.proto.id.endswith(f"-{key}")]
    return json.loads(chart.spec)


def figure_with_alt(app: AppTest, start: str) -> dict:
    """The Plotly figure whose text for screen readers starts like this; there is one."""
    (chart,) = [chart.proto for chart in app.get("plotly_chart") if chart.proto.alt.startswith(start)]
    return json.loads(chart.spec)


def boxes(app: AppTest) -> list[str]:
    """Of each box of arithmetic, a line each: what it is of, then name and calculation of every step, then the note.

    An exponent stands after ^.
    """
    found = []
    for body in fragments(app):
        if "class='atlas-arithmetic'" in body:
            lined = re.sub("</p>|</code>|</span>(?=<code>)", "\n", body.split("</style>")[1].replace("<sup", "^<sup"))
            found.append(html.unescape(re.sub("<[^>]*>", "", lined)).removesuffix("\n"))
    return found


def box(app: AppTest) -> str:
    """The one box of arithmetic that there is."""
    (only,) = boxes(app)
    return only


def tables(app: AppTest, *, notes: bool = False) -> list[dict[str, list[str]]]:
    """Of each table of numbers: every row's name to its cells.

    The name is its first line, without the ▸ of a chosen row (see `chosen_rows`) and with plain spaces; `notes` adds
    " / " and the second line.
    """
    found = []
    for rows in _number_rows(app):
        names = [name.removeprefix("▸ ") + (f" / {note}" if notes and note else "") for name, note, _ in rows]
        found.append(dict(zip(names, (cells for _, _, cells in rows), strict=True)))
        assert len(found[-1]) == len(rows), "two rows with one name"
    return found


def chosen_rows(app: AppTest) -> list[list[str]]:
    """Of each table of numbers: the names of the rows with a ▸."""
    return [[name[2:] for name, _, _ in rows if name.startswith("▸ ")] for rows in _number_rows(app)]


def _number_rows(app: AppTest) -> list[list[tuple[str, str, list[str]]]]:
    """Of each table of numbers, every row: name, note, cells."""
    found = []
    for body in fragments(app):
        if "class='atlas-numbers'" in body:
            rows = re.findall(r"<th scope='row'>(.*?)(?:<small>(.*?)</small>)?</th>(.*?)</tr>", body)
            found.append(
                [
                    (_plain(name), _plain(note), [html.unescape(cell) for cell in re.findall("<td>(.*?)</td>", cells)])
                    for name, note, cells in rows
                ]
            )
    return found


def _plain(text: str) -> str:
    return html.unescape(re.sub("<.*?>", "", text)).replace("\u00a0", " ")


def shares(app: AppTest) -> dict[str, int]:
    """The rows of the table of parameters, and its sum."""
    (body,) = [body for body in fragments(app) if "class='atlas-shares'" in body]
    rows = re.findall(r"<th scope='row'>(.*?)(?:<small>.*?)?</th>.*?<td class='n'>(.*?)</td>", body)
    return {name: int(count.replace(",", "")) for name, count in rows}


def facts(app: AppTest) -> dict[str, str]:
    """The list of facts: name to value."""
    (body,) = [body for body in fragments(app) if "class='atlas-facts'" in body]
    return {
        html.unescape(name): html.unescape(value) for name, value in re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", body)
    }


def number(printed: str) -> float:
    """A printed number: 1,024 or −0.5 or 1.9·10⁻⁶."""
    plain = printed.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")).replace(",", "")
    digits, _, exponent = plain.partition("·10")
    return float(digits) * 10.0 ** int(exponent or 0)
