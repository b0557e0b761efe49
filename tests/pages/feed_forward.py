"""A visit to the page on the feed-forward network, and what is read from it."""

import html
import json
import re

from streamlit.testing.v1 import AppTest

from model.language import LanguageModel
from model.trace import Trace
from pages.kit.limits import MAX_TOKENS
from tests.pages.reading import drawn, read, without_colour
from tests.pages.visit import visit, well

TEXT = "The little cat sat on the mat because it was"


PLACE = {"layer": "4", "neuron": "167", "token": "8"}


TITLES = ("What is stored between the attentions?", "两次注意力之间，存着什么？")


def opened(**parameters: str) -> AppTest:
    return shown(visit("feed_forward", **parameters))


def shown(page: AppTest) -> AppTest:
    assert well(page).title[0].value in TITLES
    return page


def traced(lm: LanguageModel, text: str = TEXT) -> Trace:
    return lm.trace(lm.tokenizer.encode(text)[:MAX_TOKENS])


def fragments(page: AppTest) -> list[str]:
    return [element.proto.body for element in page.get("html")]


def captions(page: AppTest) -> list[tuple[str, str]]:
    bodies = [body for body in fragments(page) if 'class="atlas-caption"' in body]
    return [(re.findall('data-source="(.*?)"', body)[0], " ".join(read(body).texts)) for body in bodies]


def caption(page: AppTest, part: str) -> str:
    (text,) = [text for _, text in captions(page) if part in text]
    return text


def tables(page: AppTest) -> list[dict[str, list[str]]]:
    return [
        {
            html.unescape(re.sub("<small>.*?</small>", "", name)): re.findall("<td>(.*?)</td>", cells)
            for name, cells in re.findall(r"<th scope='row'>(.*?)</th>(.*?)</tr>", body)
        }
        for body in fragments(page)
        if "class='atlas-numbers'" in body
    ]


def arithmetic(page: AppTest) -> str:
    (box,) = [body for body in fragments(page) if "atlas-arithmetic'" in body]
    return " ".join(html.unescape(re.sub("<[^>]*>", "", box.split("</style>")[1].replace("<sup", "^<sup"))).split())


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


def number(printed: str) -> float:
    plain = printed.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")).replace(",", "").replace("+", "")
    digits, _, exponent = plain.partition("·10")
    return float(digits) * 10.0 ** int(exponent or 0)


def figure(page: AppTest, alt: str) -> dict:
    (chart,) = [chart.proto for chart in page.get("plotly_chart") if chart.proto.alt.startswith(alt)]
    return json.loads(chart.spec)


def ticks(spec: dict) -> list[str]:
    return [drawn(without_colour(tick)) for tick in spec["layout"]["yaxis"]["ticktext"]]


def said(page: AppTest) -> str:
    return "\n".join(element.value for element in page.markdown).replace("\\", "")
