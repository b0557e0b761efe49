"""What a caption's buttons download: the picture that is drawn there, and the numbers that are."""

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageColor
from playwright.sync_api import Page, expect

from model.language import LanguageModel
from pages.kit.figures.style import mix
from pages.kit.palette import LIGHT
from pages.kit.prose import COMMON, Prose
from tests.browser.conftest import WAIT_MS, Server, Visits
from tests.pages.visit import traced

expect.set_options(timeout=WAIT_MS)


def saved(page: Page, section: str, kind: str) -> Path:
    """The file that a button in a section downloads."""
    with page.expect_download() as download:
        page.locator(f".st-key-section_{section} [data-save={kind}]").first.click()
    named = download.value.suggested_filename  # after the page, and the figure or its section
    assert re.fullmatch(rf"(\w+-)?{section}(_\w+)?\.{kind}", named), named
    return Path(download.value.path())


def rows(page: Page, section: str) -> list[list[str]]:
    text = saved(page, section, "csv").read_text(encoding="utf-8")
    assert text.startswith("\ufeff"), "spreadsheets take it for another encoding without"
    return list(csv.reader(io.StringIO(text[1:])))


def test_figures_are_saved_as_pictures_and_as_numbers(app: Server, visit: Visits, storyteller: LanguageModel) -> None:
    run = traced(storyteller)
    page = visit(f"{app.url}/next_token?temperature=1")
    expect(page.locator(".st-key-costs .bars")).to_be_attached()
    page.wait_for_function("window.atlasCaptioned")
    own = page.evaluate("atlasCaptioned().map(([figure, caption]) => caption !== null)")
    assert len(own) >= 4
    assert all(own), "each figure has the caption that saves it"

    draw = rows(page, "draw")
    values, best = run.logits[-1].double().softmax(-1).topk(12)
    assert [row[0] for row in draw[1:13]] == [storyteller.tokenizer.label(int(token)) for token in best]
    np.testing.assert_allclose([float(row[1]) for row in draw[1:13]], values, atol=1e-6)
    ledger = rows(page, "ledger")
    assert [float(row[2].replace("−", "-")) for row in ledger[1:4]] == [
        round(float(v), 2) for v in run.logits[-1][best[:3]]
    ]
    costs = rows(page, "costs")
    assert [row[1] for row in costs[1:]] == run.labels
    logprobs = run.logits.double().log_softmax(-1)
    bits = [-float(logprobs[i, token]) / np.log(2) for i, token in enumerate(run.tokens[1:])]
    np.testing.assert_allclose([float(row[2]) for row in costs[2:]], bits, rtol=1e-4)

    with Image.open(saved(page, "draw", "png")) as picture:
        box = page.locator(".atlas-draw").bounding_box()
        assert box
        assert picture.width > 2 * box["width"]
        colours = {colour for _, colour in picture.convert("RGB").getcolors(2**24) or ()}
    assert {ImageColor.getrgb(LIGHT.accent), ImageColor.getrgb(LIGHT.paper)} <= colours
    with Image.open(saved(page, "costs", "png")) as picture:
        assert picture.width > 800

    # A figure in words: a row for each part, whatever stands in it.
    page = visit(f"{app.url}/overview")
    expect(page.locator(".atlas-pass")).to_be_attached()
    page.wait_for_function("window.atlasCaptioned")
    with page.expect_download() as download:
        page.locator("[data-save=csv]").first.click()
    text = Path(download.value.path()).read_text(encoding="utf-8-sig")
    table = list(csv.reader(io.StringIO(text)))
    assert {len(row) for row in table} == {5}
    assert [row[1] for row in table] == [
        *["part", "Tokens", "Embedding", "Norm", "Attention", "Norm", "Feed-forward", "Norm", "Logits", "Probabilities"]
    ]
    assert [row[0] for row in table[1:]] == ["", "", *["6 ×"] * 4, "", "", ""]
    assert table[2][2] == "10 × 256"

    page = visit(f"{app.url}/attention?layer=2&head=1")
    expect(page.locator(".matrices .marks[data-cell]").first).to_be_visible()
    table = rows(page, "matrices")
    table = table[: table.index([])]  # behind it comes the arithmetic of the chosen cell
    pattern = run["blocks.2.attn.hook_pattern"][1].numpy()
    visible = np.tril(np.ones_like(pattern)) > 0
    shown = np.array([float(row[-1] or "nan") for row in table[1:]]).reshape(pattern.shape)
    np.testing.assert_allclose(shown[visible], pattern[visible], atol=1e-6)
    assert np.isnan(shown[~visible]).all(), "masked is not zero"


def test_saved_numbers_keep_their_digits_and_say_whose_they_are(
    app: Server, visit: Visits, storyteller: LanguageModel
) -> None:
    page = visit(f"{app.url}/recurrence")
    expect(page.locator(".st-key-section_why sup")).to_have_count(1)
    page.wait_for_function("window.atlasCaptioned")
    reach = [float(row[2]) for row in rows(page, "reach")[1:] if row[0] == "RNN"]
    assert len(reach) == 128
    assert 0 < min(reach) < 1e-20
    assert len({f"{value:.3g}" for value in reach}) > 120, "no value becomes the label of a tick"
    base, digits, power = re.search(r"([\d.]+)\^127 = ([\d.]+)·10⁻([⁰-⁹¹²³]+)", rows(page, "why")[-1][-1]).groups()
    exponent = "".join(str("⁰¹²³⁴⁵⁶⁷⁸⁹".index(digit)) for digit in power)
    assert float(base) ** 127 == pytest.approx(float(f"{digits}e-{exponent}"), rel=0.05)

    page = visit(f"{app.url}/embeddings")
    expect(page.locator(".st-key-section_map .js-plotly-plot .scatterlayer .point").first).to_be_attached()
    token = traced(storyteller).tokens[-1]
    assert rows(page, "row")[:4] == [["i", "x"], [f"0–{token - 1}", "0"], [f"{token}", "1"], [f"{token + 1}–8191", "0"]]
    names = [row[0] for row in rows(page, "map")[1:]]
    assert all(names)
    assert any(name.startswith("·cat") for name in names)

    page = visit(f"{app.url}/heads?layer=2&head=1&scale=log&threshold=0.1")
    expect(page.locator(".lines canvas").first).to_be_visible()
    page.wait_for_function("window.atlasCaptioned")
    index = page.evaluate(
        """() => {
            const [, caption] = atlasCaptioned().find(([figure]) => figure.shadowRoot?.querySelector(".lines"));
            return [...document.querySelectorAll("[data-save=csv]")].findIndex((button) => caption.contains(button));
        }"""
    )
    with page.expect_download() as download:
        page.locator("[data-save=csv]").nth(index).click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    weights = [float(row[2] or "nan") for row in list(csv.reader(io.StringIO(text)))[1:]]
    run = traced(storyteller)
    pattern = run["blocks.2.attn.hook_pattern"][1].flatten().numpy()
    np.testing.assert_allclose(np.nan_to_num(weights), pattern, atol=1e-6)

    # Of all heads at once the browser has no more than shades; their numbers are the run's.
    expect(page.locator(".st-key-all_heads .matrices canvas").first).to_be_attached()
    with page.expect_download() as download:
        page.locator("[data-save=csv]").first.click()
    assert download.value.suggested_filename == "heads-all_heads.csv"
    text = Path(download.value.path()).read_text(encoding="utf-8-sig")
    _, *cells = csv.reader(io.StringIO(text))
    patterns = np.stack([run[f"blocks.{layer}.attn.hook_pattern"].numpy() for layer in range(6)])
    assert len(cells) == np.tril(np.ones_like(patterns)).sum(), "masked cells have no number"
    for layer, head, query, key, weight in cells:
        assert np.float32(weight) == patterns[int(layer), int(head), int(query), int(key)]


_FIGURE = """
import streamlit as st
from pages.kit import figures, saving, show
from pages.kit.figures import RowToken, Term, TokenRow
from pages.kit.palette import LIGHT
from pages.kit.prose import COMMON, Prose

with st.container(key="section_table"):
    row = TokenRow("1,234", "=1+1", ("1,234", "−1,234"))
    names = ("−5", "@SUM(1)", "-", "+1", "-2+3", "\\"", "=\\"a,b\\"")
    rows = [row, *(TokenRow("0", name, ("−5", "2.5·10⁻³")) for name in names)]
    st.html(figures.token_table(rows, LIGHT, columns=["#", "+token", "text", "1,000"], label=""))
    show.caption(show.Kind.MEASURED, "measured", "a table")
with st.container(key="section_row", width=150):
    st.html(figures.token_row([RowToken("a" + "👩‍👩‍👧😀é" * 12, 0.5, "−0.5")], LIGHT, description=""))
    show.caption(show.Kind.MEASURED, "measured", "a row")
with st.container(key="section_wide", width=260):
    names = ["", *["a title"] * 9]
    st.html(figures.number_table(names, [(f"row {i}", ["1"] * 9) for i in range(8)], LIGHT, scrolls=True))
    st.html(show.caption_html(show.Kind.MEASURED, "measured", "a table that scrolls", left_out="out", palette=LIGHT))
with st.container(key="section_late"), st.container(key="part_of_code__draw"):
    st.html("<div id='late'></div>")
    show.caption(show.Kind.MEASURED, "measured", "a figure that is drawn later")
with st.container(key="section_apart"):
    st.header("A heading")
    left, right = st.columns(2)
    with right:
        st.markdown("**A name**")
        st.html(figures.arithmetic([Term("high")], [], LIGHT))
    with left:
        st.html("<div style='height:900px'></div>")
    st.html(figures.arithmetic([Term("low")], [], LIGHT))
    st.plotly_chart({"data": [{"y": [1, 2]}], "layout": {"height": 200}}, key="chart")
    show.caption(show.Kind.MEASURED, "measured", "what stands apart")
saving.attend(Prose(COMMON))
"""


def test_texts_stay_as_they_are_and_what_fails_is_told(serve: Callable[[str], Server], visit: Visits) -> None:
    page = visit(serve(_FIGURE).url)
    page.wait_for_function("window.atlasCaptioned")
    table = rows(page, "table")
    assert table[0] == ["#", "'+token", "text", "1,000"], "a title is no value"
    assert table[1] == ["1234", "'=1+1", "1,234", "-1234"], "numerals are read in columns of values alone"
    names = ["−5", "'@SUM(1)", "'-", "+1", "'-2+3", '"', '\'="a,b"']
    assert table[2:] == [["0", name, "−5", "0.0025"] for name in names], "no spreadsheet runs a token"

    # Broken over several lines, an emoji or a letter with its marks stays whole.
    page.evaluate(
        """window.painted = [], CanvasRenderingContext2D.prototype.fillText = (text) => painted.push(text), 0"""
    )
    saved(page, "row", "png")
    painted = page.evaluate("painted")
    assert painted[:4] == ["a", "👩‍👩‍👧", "😀", "é"]
    assert painted[:-4] == ["a", *["👩‍👩‍👧", "😀", "é"] * 12]
    assert painted[-3:] == ["measured", "a", "row"], "the caption is part of the picture"
    assert rows(page, "row") == [["a" + "👩‍👩‍👧😀é" * 12, "-0.5"]]

    # A table that scrolls is saved whole, without the shades that say so; its caption with its dots.
    seen = page.locator(".st-key-section_wide .atlas-table")
    assert seen.evaluate("table => table.scrollWidth > table.clientWidth + 100")
    cells = seen.locator("tr:last-child td").all()
    edges = [cell.evaluate("cell => cell.getBoundingClientRect().right") for cell in cells]
    start = seen.evaluate("table => table.getBoundingClientRect().left")
    height = seen.evaluate("table => table.clientHeight")
    with Image.open(saved(page, "wide", "png")) as picture:
        assert picture.width > 3 * (edges[-1] - start)
        pixels = np.asarray(picture.convert("RGB"))
    paper, dot = (ImageColor.getrgb(colour) for colour in (LIGHT.paper, mix(LIGHT.paper, LIGHT.muted, 0.55)))
    for edge in edges[:-1]:
        between = pixels[: 3 * height, 3 * round(12 + edge - start)]
        assert (between == paper).all(-1).mean() > 0.8, "all but lines is paper"
    assert (pixels[3 * height :] == dot).all(-1).sum() > 100

    # Style sheets that may not be read, and fonts that are no file, keep no chart from being saved.
    page.evaluate(
        """() => new Promise((loaded) => {
            const font = document.createElement("style");
            font.textContent = "@font-face { font-family: 'sans-serif'; src: local('Arial'); }";
            const sheet = document.createElement("link");
            sheet.rel = "stylesheet";
            sheet.media = "print"; // else it would load fonts
            sheet.href = document.querySelector("link[rel=stylesheet]").href.replace("127.0.0.1", "localhost");
            sheet.onload = () => loaded();
            document.head.append(font, sheet);
        })"""
    )
    # One picture of all that a caption speaks of, under its heading and name, without the page's empty room.
    expect(page.locator(".st-key-section_apart .js-plotly-plot .scatterlayer .point").first).to_be_attached()
    page.evaluate("painted.length = 0")
    with Image.open(saved(page, "apart", "png")) as picture:
        assert picture.height < 3 * 700
        assert (31, 119, 180) in {colour for _, colour in picture.convert("RGB").getcolors(2**24) or ()}, "the chart"
    words = ["A", "heading", "A", "name", "high", "low", "measured", "what", "stands", "apart"]
    assert page.evaluate("painted") == words
    assert rows(page, "apart")[:4] == [["A name"], ["high"], [], ["low"]]

    # Looked at before its figure is there, a button wakes when it is.
    button = page.locator(".st-key-section_late [data-save=csv]")
    button.hover()
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", Prose(COMMON).plain("save_csv"))
    page.mouse.move(0, 0)
    page.evaluate("late.outerHTML = '<div class=\"atlas-late\">drawn</div>'")
    button.hover()
    expect(button).to_be_enabled()
    assert rows(page, "late") == [["drawn"]]

    page.evaluate("HTMLCanvasElement.prototype.toBlob = (then) => then(null), 0")
    page.locator(".st-key-section_row [data-save=png]").click()
    expect(page.get_by_role("alert")).to_have_text([Prose(COMMON).plain("save_failed")])
    assert "no picture" in visit.errors.pop(), "the console knows why"
