"""What a caption's buttons download: the picture that is drawn there, and the numbers that are."""

import csv
import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageColor
from playwright.sync_api import Page, expect

from model.language import LanguageModel
from pages.kit.palette import LIGHT
from tests.browser.conftest import Server, Visits
from tests.pages.visit import traced


def saved(page: Page, section: str, kind: str) -> Path:
    """The file that a button in a section downloads."""
    with page.expect_download() as download:
        page.locator(f".st-key-section_{section} [data-save={kind}]").first.click()
    assert download.value.suggested_filename.endswith(f".{kind}")
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

    page = visit(f"{app.url}/attention?layer=2&head=1")
    expect(page.locator(".matrices .marks[data-cell]").first).to_be_visible()
    table = rows(page, "matrices")
    table = table[: table.index([])]  # behind it comes the arithmetic of the chosen cell
    pattern = run["blocks.2.attn.hook_pattern"][1].numpy()
    visible = np.tril(np.ones_like(pattern)) > 0
    shown = np.array([float(row[-1] or "nan") for row in table[1:]]).reshape(pattern.shape)
    np.testing.assert_allclose(shown[visible], pattern[visible], atol=1e-6)
    assert np.isnan(shown[~visible]).all(), "masked is not zero"
