"""A visit to the page on the feed-forward network, and what is read from it."""

import re

from streamlit.testing.v1 import AppTest

from tests.pages.reading import captions, drawn, fragments, number, without_colour
from tests.pages.visit import visit, well

PLACE = {"layer": "4", "neuron": "167", "token": "8"}


TITLES = ("What is stored between the attentions?", "两次注意力之间，存着什么？")


def opened(**parameters: str) -> AppTest:
    return shown(visit("feed_forward", **parameters))


def shown(page: AppTest) -> AppTest:
    assert well(page).title[0].value in TITLES
    return page


def caption(page: AppTest, part: str) -> str:
    (text,) = [text for _, text in captions(page) if part in text]
    return text


def shaded(page: AppTest) -> list[list[tuple[float, list[float]]]]:
    """Of each list of shaded texts: every text's printed activation, and its pieces' values."""
    lists = [body.split("</style>")[1] for body in fragments(page) if "<ul class='atlas-shaded'" in body]
    return [
        [
            (number(re.findall("<span class='n'>(.*?)<", row)[0]), [float(v) for v in re.findall("title='(.*?)'", row)])
            for row in body.split("<li>")[1:]
        ]
        for body in lists
    ]


def ticks(spec: dict) -> list[str]:
    return [drawn(without_colour(tick)) for tick in spec["layout"]["yaxis"]["ticktext"]]
