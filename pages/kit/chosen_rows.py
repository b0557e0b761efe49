"""Some tokens' rows of an attention pattern, chosen by the reader, drawn without the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st

from model.analysis.interest import Place
from model.analysis.mixing import View
from pages.kit import selection
from pages.kit.components import Picked
from pages.kit.figures import style
from pages.kit.page import Page


def choose(page: Page) -> None:
    """Which tokens' rows are drawn large: all, unless the reader names some."""
    say, sel, place, labels = page.say, page.sel, page.place, page.run.labels

    def changes(new: list[int]) -> Mapping[str, object]:
        # The head that is shown stays, and a query that is shown too. The control keeps the order of choosing.
        kept = {"layer": place.layer, "head": place.head, "rows": tuple(new) or None}
        return kept if place.query in new or not new else kept | {"query": min(new), "key": None}

    with st.container(key="controls_rows"):
        st.multiselect(
            say.label("rows"),
            range(len(labels)),
            key=selection.widget("rows", list(sel.rows or ()), changes),
            format_func=lambda place: say.plain("row_option", place=place, token=style.short(labels[place], 24)),
            placeholder=say.plain("rows_all"),
            width=420,
        )


@dataclass(frozen=True)
class Rows:
    """The rows of a view that are drawn large; `places` are the positions of their tokens."""

    places: Sequence[int]
    weights: np.ndarray
    hidden: np.ndarray

    def labels(self, page: Page) -> list[str]:
        return [page.run.labels[place] for place in self.places]

    def index(self, position: int) -> int | None:
        """Which row is that of a token."""
        return self.places.index(position) if position in self.places else None

    def pick(self, shown: Place, picked: Picked) -> None:
        """Take over a cell; the head it was seen in, that of `shown`, is chosen with it."""
        query = shown.query if picked.query is None else self.places[picked.query]
        selection.update(layer=shown.layer, head=shown.head, query=query, key=picked.key)


def of(page: Page, view: View) -> Rows:
    """The rows that the reader wants to see of a view."""
    places = sorted(page.sel.rows or range(len(page.run.labels)))
    return Rows(places, view.weights.numpy()[places], view.hidden.numpy()[places])


def visible(page: Page, view: View) -> Place:
    """The cell that is told of: the chosen one, or where its row is not drawn the strongest of the first that is."""
    place, rows = page.place, page.sel.rows
    if not rows or place.query in rows:
        return place
    return place._replace(query=min(rows), key=int(view.weights[min(rows)].argmax()))


def note(page: Page) -> str:
    """What a caption says about rows that are left out; "" if none is."""
    n = len(page.sel.rows or ())
    return "" if not n else page.say.plain("caption_rows_one") if n == 1 else page.say.plain("caption_rows", n=n)
