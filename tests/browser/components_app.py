"""A small app of the components alone; the address says what it shows. Not a test: the tests run it as a server."""

import time

import numpy as np
import streamlit as st

from model.tokenizer import Piece
from pages.kit import components
from pages.kit.components import Panel, Picked, Shade
from tests.pages.component_io import MARKUP

LABELS = ["The", "·cat", "·sat", "·on", "·the", "·mat"]
WORDS = {
    "label": "attention", "help": "arrow keys move", "query": "Frage", "key": "Antwort", "masked": "verdeckt",
    "weight": "Gewicht", "position": "Stelle", "id": "Nummer", "bytes": "Bytes", "special": "Sonderzeichen",
    "next": "weiter", "hint": "Umschalt: Antwort",
}  # fmt: skip

asked = st.query_params
n = int(asked.get("n", 6))
labels = {"markup": MARKUP, "same": ["·the"] * n, "chinese": ["小猫"] * n}.get(
    asked.get("labels", ""), [LABELS[i % 6] for i in range(n)]
)
n = len(labels)
left_out = "weggelassen" if "left_out" in asked else ""
hidden = ~np.tril(np.ones((n, n), dtype=bool)) if "causal" in asked else np.zeros((n, n), dtype=bool)
hidden[:, 0] |= bool(left_out)
# Cell (q, k) has the value (q n + k) / n²: every cell has its own, and the first is 0.
values = np.arange(n * n, dtype=np.float32).reshape(n, n) / (n * n)


def choose(picked: Picked) -> None:
    st.session_state["chosen"] = picked


st.title("Components")
time.sleep(float(asked.get("slow", 0)))
query, key = st.session_state.setdefault("chosen", (0, 0))
shown = asked.get("show", "matrices")
if shown == "matrices":
    panels = [
        Panel("first", values, 1.0, "sub", masked=hidden, digits=4, note="note", left_out=left_out),
        Panel("second", values - 0.5, 0.5, scale="diverging", digits=2),
        Panel("third", values, 1.0, log_from=0.001),
    ]
    result = components.matrices(
        panels[: int(asked.get("panels", 3))], labels, labels, query, key, key="it", words=WORDS, on_change=choose
    )
elif shown == "lines":
    result = components.lines(
        values,
        labels,
        labels,
        query,
        key,
        key="it",
        words=WORDS,
        masked=hidden,
        threshold=float(asked.get("threshold", 0)),
        left_out=left_out,
        on_change=choose,
    )
else:
    pieces = [
        Piece(i, i + 1, text.replace("·", " "), text, (100 + i,), text.replace("·", " ").encode(), text == "</s>")
        for i, text in enumerate(labels)
    ]
    pieces.append(Piece(n, n + 3, "猫", "猫", (7, 8, 9), "猫".encode(), False))
    losses = Shade("loss, nats", [0.0, 4.0, *[None] * (n - 1)], 4.0, 2) if "shade" in asked else None
    result = components.chips(pieces, query, key, key="it", words=WORDS, shade=losses, ask_next=True, on_change=choose)
query, key = st.session_state["chosen"]
st.write(f"chosen {query} {key}" + (f", returned {result.query} {result.key}" if result else ""))
