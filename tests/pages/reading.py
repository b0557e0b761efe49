"""Awkward labels, and helpers that read a figure or a fragment of HTML as the browser would."""

import base64
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np

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
