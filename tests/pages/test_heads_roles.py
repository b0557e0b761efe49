"""Roles and rollout on the heads page: every number recomputed here, on the text or on the sequence that it names."""

import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from model.analysis.mixing import masked_cells
from model.analysis.roles import ENTROPY, SCORES, measure_roles, repeated_random_tokens
from model.language import LanguageModel
from pages.kit import loading
from tests.pages.component_io import pick, sent
from tests.pages.reading import captions
from tests.pages.test_heads_page import opened, weights, well, without_first
from tests.pages.visit import TEXT, selection

PATTERN = "Tom has a red ball. Ben has a blue car. Tom has a red"


def caption_of(page: AppTest, role: str) -> str:
    shown = [role for role in SCORES if any(f"go_to_{role}" == button.key for button in page.button)]
    (found,) = [
        caption
        for place, caption in enumerate(c for _, c in captions(page) if "spreads evenly" in c)
        if shown[place] == role
    ]
    return " ".join(found.split())


@pytest.mark.parametrize("text", [TEXT, PATTERN])
def test_every_map_is_the_measured_scores(storyteller: LanguageModel, text: str) -> None:
    page = opened(text=text, layer="3", head="2")
    of_text = measure_roles(storyteller.trace(text))
    of_random = measure_roles(storyteller.trace(repeated_random_tokens(storyteller, 256)))
    assert set(SCORES) - set(of_text) == ({"same", "induction"} if text == TEXT else set())
    for role in SCORES:
        expected = of_text.get(role, of_random[role])
        header, (cells,) = sent(page, f"role_{role}")
        np.testing.assert_allclose(cells, expected.scores, atol=1e-6)
        assert (header["query"], header["key"], header["tokens"]) == (3, 2, False)
        caption = caption_of(page, role)
        where = "of the text" if role in of_text else "of the random sequence"
        assert where in caption
        assert f"= {expected.scores[3, 2]:.2f} ·" in caption
        assert f"mean over {len(expected.rows)} tokens" in caption
        even = re.search(r"spreads evenly: ([\d.]+)", caption)
        assert even
        assert float(even[1]) == pytest.approx(expected.even, abs=0.51 * 10.0 ** -len(even[1].split(".")[1]))
        assert header["panels"][0]["high"] == pytest.approx(max(expected.even, 1) if role == ENTROPY else 1)
        layer, head = expected.strongest
        (label,) = [button.label for button in page.button if button.key == f"go_to_{role}"]
        assert f"layer {layer}, head {head}" in re.sub(r"\\", "", label)
    said = " ".join(element.value for element in page.markdown)
    assert ("random tokens, read twice" in said) == (text == TEXT)


def test_a_role_that_hardly_any_head_has_says_so_in_numbers_that_fit_each_other(storyteller: LanguageModel) -> None:
    of_random = measure_roles(storyteller.trace(repeated_random_tokens(storyteller, 256)))
    said = [element.value for element in opened(text=TEXT).markdown if "hardly such a head" in element.value]
    weak = [role for role in ("same", "induction") if float(of_random[role].scores.max()) < 0.2]
    assert len(said) == len(weak) == 2
    for text, role in zip(said, weak, strict=True):
        score, times, even = re.findall(r"\d+\.\d+", text.replace("\\", ""))[:3]
        assert f"{float(score) / float(even):.1f}" == times
        best = float(of_random[role].scores.max())
        assert (float(score), float(even)) == pytest.approx((best, of_random[role].even), abs=0.0051)
        assert "SmolLM2" in text


def test_the_reader_may_measure_all_on_random_tokens(storyteller: LanguageModel) -> None:
    page = opened(text=PATTERN)
    well(page.button_group(key="choose_roles_on").set_value("random").run())
    ids = repeated_random_tokens(storyteller, 256)
    found = measure_roles(storyteller.trace(ids))
    for role in SCORES:
        np.testing.assert_allclose(sent(page, f"role_{role}")[1][0], found[role].scores, atol=1e-6)
        assert "of the random sequence" in caption_of(page, role)
    said = " ".join(element.value for element in page.markdown)
    assert " ".join(storyteller.tokenizer.labels(ids)[:5]) in said
    assert page.query_params["roles_on"] == "random"


def test_the_arithmetic_of_a_short_text_is_printed_in_full(storyteller: LanguageModel) -> None:
    page = opened(text="the cat sat", layer="1", head="0")
    first, second = (float(storyteller.trace("the cat sat")["blocks.1.attn.hook_pattern"][0, q, q - 1]) for q in (1, 2))
    assert f"({first:.2f} + {second:.2f}) ÷ 2 = {(first + second) / 2:.2f}" in caption_of(page, "previous")


def test_a_map_and_a_button_lead_to_the_head(storyteller: LanguageModel) -> None:
    page = opened()
    layer, head = measure_roles(storyteller.trace(TEXT))["previous"].strongest
    (button,) = [button for button in page.button if button.key == "go_to_previous"]
    well(button.click().run())
    assert (selection(page).layer, selection(page).head) == (layer, head)
    traced = storyteller.trace(TEXT)
    hidden = masked_cells(traced).numpy()
    expected = np.where(hidden, np.nan, traced[f"blocks.{layer}.attn.hook_pattern"][head].numpy())
    np.testing.assert_allclose(weights(page, "one_head"), expected, atol=1e-6)
    well(pick(page, "role_induction", query=4, key=5))
    assert (selection(page).layer, selection(page).head) == (4, 5)


def rolled(lm: LanguageModel, last: int) -> np.ndarray:
    run = lm.trace(TEXT)
    product = np.eye(len(run.tokens))
    for layer in range(last + 1):
        mean = run[f"blocks.{layer}.attn.hook_pattern"].double().numpy().mean(0)
        product = (0.5 * mean + 0.5 * np.eye(len(product))) @ product
    return np.where(masked_cells(run).numpy(), np.nan, product)


@pytest.mark.parametrize("layer", [None, 0, 3])
def test_rollout_is_the_product_and_its_rows_sum_to_one(storyteller: LanguageModel, layer: int | None) -> None:
    page = opened(token="8", key="2", **({} if layer is None else {"rollout_to": str(layer)}))
    last = 5 if layer is None else layer
    expected = rolled(storyteller, last)
    np.testing.assert_allclose(weights(page, "rollout"), expected, atol=1e-5)
    np.testing.assert_allclose(np.nansum(weights(page, "rollout"), axis=-1), 1, atol=1e-6)
    (caption,) = [caption for source, caption in captions(page) if source == "computed"]
    assert ("multiplied" in caption) == (last > 0)
    (box,) = [e.proto.body for e in page.get("html") if "atlas-arithmetic'" in e.proto.body]
    assert f"{expected[8, 2]:.3f}" in box
    said = " ".join(element.value for element in page.markdown)
    assert "not something the model computes" in said
    if last:
        before, after = (f"{rolled(storyteller, to)[8, 0]:.0%}".replace("%", r"\%") for to in (0, last))
        assert f"holds {before} of the first token" in said
        assert f"after layer {last}, {after}" in said


def test_rollout_without_the_first_token(storyteller: LanguageModel) -> None:
    page = opened(without_first="1", token="8", key="2", rollout_to="3")
    expected = without_first(rolled(storyteller, 3))
    np.testing.assert_allclose(weights(page, "rollout"), expected, atol=1e-4)
    (box,) = [e.proto.body for e in page.get("html") if "atlas-arithmetic'" in e.proto.body]
    assert f"{expected[8, 2]:.3f}" in box.split("÷")[1]
    well(page.button_group(key="choose_rollout_to").set_value(0).run())
    assert page.query_params["rollout_to"] == "0"


def test_one_token_and_the_most_there_may_be() -> None:
    page = opened(text="a")
    assert {f"go_to_{role}" for role in SCORES} <= {button.key for button in page.button}
    assert weights(page, "rollout").tolist() == [[1.0]]
    assert all("of the random sequence" in c for _, c in captions(page) if "spreads evenly" in c)


def test_a_link_to_a_layer_that_is_not_there_is_mended() -> None:
    page = opened(rollout_to="40", roles_on="nothing")
    assert (selection(page).rollout_to, selection(page).roles_on) == (5, "text")
    assert loading.model("storyteller").config.n_layers == 6


def test_cross_attention_is_one_click_away() -> None:
    page = opened(text="a cat")
    (link,) = [link.proto for link in page.main.get("page_link") if "architectures" in link.proto.page]
    assert link.label == "Three architectures"
    assert "text=a" in link.query_string
