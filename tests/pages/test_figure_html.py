"""The figures that are HTML: every row and part there, in order, escaped, linked."""

import html
import re
from typing import Any

import pytest

from pages.kit import figures
from pages.kit.figures import style
from pages.kit.palette import DARK, LIGHT, Palette
from tests.pages.reading import AWKWARD, read


def ledger(rows: list[figures.LedgerRow]) -> str:
    return figures.ledger_table(
        rows, LIGHT, token_title="token", columns=["logit"], verdict_title="filter", final_title="final"
    )


def test_ledger_rows_escaped_greyed_and_marked() -> None:
    rows = [
        figures.LedgerRow(
            text, ("1.0",), "cut by top-p" if index % 2 else "kept", index % 2 == 0, 0.01 * index, index == 4
        )
        for index, text in enumerate(AWKWARD)
    ]
    reader = read(ledger(rows))
    assert {tag for tag, _ in reader.tags} <= {"style", "div", "table", "thead", "tbody", "tr", "th", "td", "i"}
    body = [attrs for tag, attrs in reader.tags if tag == "tr"][1:]
    assert len(body) == len(AWKWARD)
    assert [(attrs["class"] or "").split() for attrs in body[3:5]] == [["cut"], ["drawn"]]
    for text in AWKWARD:
        assert style.short(text, 24) in reader.texts
    widths = [re.search(r"[\d.]+", attrs["style"] or "") for tag, attrs in reader.tags if tag == "i"]
    assert max(float(width[0]) for width in widths if width) == 100
    assert len(widths) == len(AWKWARD) - 1, "no bar for probability 0"
    with pytest.raises(ValueError, match="cells"):
        ledger([figures.LedgerRow("a", (), "kept", True, 1.0)])


def bar(labels: list[str], shares: list[float], palette: Palette = LIGHT, **rest: Any) -> str:
    return figures.draw_bar(labels, shares, palette, alt="a <bar>", **rest)


def parts(text: str) -> list[tuple[float, float]]:
    """Where each part of the bar begins, and how long it is, in percent."""
    found = re.findall(r"class='part[a-z ]*' style='left:([\d.]+)%;width:([\d.]+)%'", text)
    return [(float(left), float(width)) for left, width in found]


def test_draw_bar_covers_zero_to_one() -> None:
    text = bar(["a", "a", "</s>"], [0.4, 0.25, 0.25], rest_label="+ 9 more", u=0.5, drawn=1, mark_text="u = 0.5 <i>")
    assert parts(text) == [(0, 40), (40, 25), (65, 25), (90, 10)]
    (frame,) = [attrs for _, attrs in read(text).tags if attrs.get("role") == "img"]
    assert frame["aria-label"] == "a <bar>"
    assert re.findall(r"<p [^>]*><bdi>(.*?)</bdi>", text) == ["a", "a", "&lt;/s&gt;", "+ 9 more"]
    assert [colour.upper() for colour in re.findall(r"background:(#\w+);color", text)][1] == LIGHT.accent
    assert "<div class='mark around' style='left:50.0000%'>" in text
    assert "0.4000 – 0.6500" in text
    assert "u = 0.5 <i>" in read(text).texts
    assert parts(bar(["a"], [1.0])) == [(0, 100)], "nothing is left over"


@pytest.mark.parametrize("shares", [[0.2, 0.4], [0.9, 0.2], [1.2, -0.2]])
def test_draw_bar_refuses_what_is_no_sorted_distribution(shares: list[float]) -> None:
    with pytest.raises(ValueError, match="probabilities"):
        bar(["a", "b"], shares)


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_draw_bar_labels_are_readable(palette: Palette) -> None:
    text = bar([str(i) for i in range(12)], [1 / 16] * 12, palette, rest_label="rest", drawn=4)
    pairs = re.findall(r"<p style='background:(#\w+);color:(#\w+)'", text)
    assert len(pairs) == 13
    for fill, ink in pairs:
        assert style.contrast(fill, ink) >= 4.5


def test_draw_bar_keeps_awkward_labels_text() -> None:
    texts = read(bar(list(AWKWARD), [1 / len(AWKWARD)] * len(AWKWARD))).texts
    for label in AWKWARD:
        assert texts.count(style.short(label, 24)) >= 2, "in the bar, and where it is pointed at"


def diagram(name: str = "Attention", palette: Palette = LIGHT) -> str:
    norm = figures.Part("Norm", "10 × 256", small=True)
    attention = figures.Part(name, "8 × 10 × 10", "0.4 ms", "197 K", "/attention?a=1&b=2", "attention", 0.3)
    block = figures.Block(
        "6 ×",
        (
            figures.Branch((norm, attention)),
            figures.Branch((norm, figures.Part("Feed-forward"))),
        ),
        "blocks",
    )
    stream = figures.Stream((figures.Part("Embedding"), block, norm, figures.Part("Logits", href="/next_token")))
    return figures.pass_diagram([stream], palette, description="the pass", stream_word="10 × 256")


def test_diagram_holds_every_part_in_order_with_its_link() -> None:
    reader = read(diagram())
    names = [
        reader.texts[i] for i in range(len(reader.texts)) if reader.texts[i] in
        ("Embedding", "Norm", "Attention", "Feed-forward", "Logits")
    ]  # fmt: skip
    assert names == ["Embedding", "Norm", "Attention", "Norm", "Feed-forward", "Norm", "Logits"]
    links = [attrs for tag, attrs in reader.tags if tag == "a"]
    assert [link["href"] for link in links] == ["/attention?a=1&b=2", "/next_token"]
    assert links[0]["data-page"] == "attention"
    assert [attrs.get("class") for tag, attrs in reader.tags if tag == "i"].count("plus") == 2
    assert any("width:30.0%" in (attrs.get("style") or "") for _, attrs in reader.tags)


@pytest.mark.parametrize("text", AWKWARD)
def test_diagram_escapes(text: str) -> None:
    assert [tag for tag, _ in read(diagram(text)).tags] == [tag for tag, _ in read(diagram()).tags]
    assert html.escape(style.visible(text)) in diagram(text)


def test_html_follows_the_palette() -> None:
    assert LIGHT.accent in diagram()
    assert DARK.accent in diagram(palette=DARK)
    assert LIGHT.accent not in diagram(palette=DARK)
