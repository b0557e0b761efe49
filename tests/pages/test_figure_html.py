"""The figures that are HTML: every row and part there, in order, escaped, linked."""

import html
import re

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
