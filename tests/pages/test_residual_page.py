"""The page on the residual stream: every number on it is recomputed here from what one run recorded."""

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from model.analysis.depth import DEPTHS, PLACEMENTS, measure_depth
from model.analysis.norm_steps import NORMS
from model.language import LanguageModel
from pages.kit.figures import stacked_bars
from pages.kit.numbers import signed_digits, three_digits
from pages.kit.palette import DARK, LIGHT
from tests.cases import TEXTS
from tests.pages.reading import (
    array,
    boxes,
    captions,
    drawn,
    figure_with_alt,
    fragments,
    number,
    read,
    said,
    tables,
    without_colour,
)
from tests.pages.visit import traced, visit, well

TITLES = ("Why does depth not blow up?", "层数多了，为什么不会失控？")
PLACE = {"layer": "3", "half": "attention", "token": "8"}


def opened(**parameters: str) -> AppTest:
    return shown(visit("residual", **parameters))


def shown(page: AppTest) -> AppTest:
    assert well(page).title[0].value in TITLES
    return page


def test_lengths_and_shares_are_the_runs(storyteller: LanguageModel) -> None:
    run, page = traced(storyteller), opened(**PLACE)
    chosen, mean, attention, feed_forward = (
        array(t["y"]) for t in figure_with_alt(page, "Length of the stream")["data"]
    )
    names = ["blocks.0.hook_resid_pre"]
    names += [f"blocks.{i}.hook_resid_{half}" for i in range(6) for half in ("mid", "post")]
    lengths = torch.stack([run[name].norm(dim=-1) for name in names]).numpy()
    np.testing.assert_allclose(chosen.astype(float), lengths[:, 8], rtol=1e-5)
    np.testing.assert_allclose(mean.astype(float), lengths.mean(1), rtol=1e-5)
    for drawn_, hook, first in ((attention, "hook_attn_out", 1), (feed_forward, "hook_mlp_out", 2)):
        expected = [float(run[f"blocks.{i}.{hook}"][8].norm()) for i in range(6)]
        np.testing.assert_allclose(drawn_.astype(float)[first::2], expected, rtol=1e-5)
        assert np.isnan(drawn_.astype(float)).sum() == 7
    parts = np.stack([array(t["x"]) for t in figure_with_alt(page, "For each layer")["data"]])
    np.testing.assert_allclose(parts.sum(0), 1, atol=1e-6)
    for i in range(6):
        out = run[f"blocks.{i}.hook_resid_post"][8].double()
        hooks = ("hook_resid_pre", "hook_attn_out", "hook_mlp_out")
        expected = [float(run[f"blocks.{i}.{hook}"][8].double() @ out / (out @ out)) for hook in hooks]
        np.testing.assert_allclose(parts[:, i], expected, atol=1e-5)


def test_the_sum_of_every_block_is_shown_and_holds(storyteller: LanguageModel) -> None:
    run, page = traced(storyteller), opened(**PLACE)
    sums = tables(page)[0]
    assert len(sums) == 6
    for i, cells in enumerate(sums.values()):
        hooks = ("hook_resid_pre", "hook_attn_out", "hook_mlp_out", "hook_resid_post")
        vectors = [run[f"blocks.{i}.{hook}"].double() for hook in hooks]
        assert cells[:4] == [three_digits(float(vector[8].norm())) for vector in vectors]
        difference = float((vectors[0] + vectors[1] + vectors[2] - vectors[3]).abs().max())
        assert number(cells[4]) == pytest.approx(difference, rel=0.06, abs=1e-9)
        assert difference <= 1e-5 * float(vectors[3].abs().max())
    (worst,) = [text for _, text in captions(page) if "over all blocks" in text]
    assert number(worst.split(": ")[1].split(" · ")[0]) <= 1e-5


@pytest.mark.parametrize("half", ["attention", "feed_forward"])
def test_both_norms_of_the_vector(storyteller: LanguageModel, half: str) -> None:
    run, page = traced(storyteller), opened(**PLACE | {"half": half, "number": "5"})
    hook, ln = ("hook_resid_pre", "ln1") if half == "attention" else ("hook_resid_mid", "ln2")
    x = run[f"blocks.3.{hook}"][8]
    module = run.module(f"blocks.3.{ln}")
    layer_norm, rms_norm = (
        {t["name"]: array(t["z"])[0] for t in figure_with_alt(page, f"The vector on its way through {name}")["data"]}
        for name in ("LayerNorm", "RMSNorm")
    )
    np.testing.assert_allclose(layer_norm["x"], x)
    np.testing.assert_allclose(layer_norm["normalised"], torch.nn.functional.layer_norm(x, (256,)), atol=1e-5)
    np.testing.assert_allclose(rms_norm["out"], module(x[None])[0], atol=1e-5)
    np.testing.assert_allclose(rms_norm["γ"], module.weight)
    assert "γ" not in layer_norm
    checked = [kind for kind, text in captions(page) if "torch's " in text]
    assert checked == ["computed", "measured"]
    (other,) = [(kind, text) for kind, text in captions(page) if "γ = 1" in text]
    assert other[0] == "computed"
    assert "layer_norm" in other[1]
    mean, variance = tables(page)[1]["Mean"], tables(page)[1]["Variance"]
    assert mean[0] == signed_digits(float(x.double().mean()))
    assert abs(number(mean[1])) < 1e-6
    assert number(variance[1]) == pytest.approx(1, abs=1e-3)
    assert number(tables(page)[2]["Mean of the squares"][1]) == pytest.approx(1, abs=1e-3)
    first, second = boxes(page)
    assert f"{signed_digits(float(x[5]))} − " in first
    assert f"÷ {three_digits(float((x.square().mean() + 1e-5).sqrt()))}" in second
    assert signed_digits(float(module(x[None])[0, 5])) in second


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_stacks_are_measured(norm: str, placement: str) -> None:
    page = opened(norm=norm, placement=placement, depth="6")
    curves = figure_with_alt(page, "Size of the stream")["data"]
    slopes = figure_with_alt(page, "Gradient of each block")["data"]
    for one, size, slope in zip(PLACEMENTS, curves, slopes, strict=True):
        found = measure_depth(norm, one, 6)
        np.testing.assert_allclose(array(size["y"]).astype(float), found.sizes, rtol=1e-5)
        np.testing.assert_allclose(array(slope["y"]).astype(float), found.gradients, rtol=1e-5)
        assert ("markers" in size["mode"]) == (one == placement)
        assert signed_digits(found.growth) in said(page)
        ends = [signed_digits(found.gradients[i]) for i in (0, -1)]
        assert f"{ends[0]} to {ends[1]}" in said(page)
    rows = list(tables(page)[-1].values())
    for depth, cells in zip(DEPTHS, rows, strict=True):
        found = measure_depth(norm, placement, depth)
        first, last = found.gradients[0], found.gradients[-1]
        assert cells == [signed_digits(value) for value in (found.growth, first, last, first / last)]


def test_it_opens_on_the_half_that_writes_most(storyteller: LanguageModel) -> None:
    page = opened()
    parts = np.stack([array(t["x"]) for t in figure_with_alt(page, "For each layer")["data"]])[1:]
    half, layer = divmod(int(parts.argmax()), 6)
    assert page.button_group(key="choose_layer").value == layer
    assert page.button_group(key="choose_half").value == ("attention", "feed_forward")[half]
    assert f"In layer {layer}, the" in said(page)


def test_turning_changes_what_is_shown_and_the_address() -> None:
    page = opened()
    page.button_group(key="choose_layer").set_value(4)
    shown(page.run())
    assert page.query_params["layer"] == "4"
    page.button_group(key="choose_placement").set_value("none")
    page.button_group(key="choose_depth").set_value(12)
    shown(page.run())
    assert page.query_params["placement"] == "none"
    assert page.query_params["depth"] == "12"
    assert "After 12 layers" in said(page)
    page.number_input(key=page.number_input[0].key).set_value(7)
    shown(page.run())
    assert page.query_params["number"] == "7"
    assert "x[7]" in boxes(page)[0]
    page.button(key="go_to_busy").click()
    shown(page.run())
    assert page.query_params["layer"] == "0"


@pytest.mark.parametrize(
    "parameters",
    [
        {"depth": "5"},
        {"depth": "x"},
        {"norm": "b"},
        {"placement": "<b>"},
        {"half": "c"},
        {"number": "-1"},
        {"number": "999"},
    ],
)
def test_a_link_that_asks_for_what_there_is_not_is_brought_into_it(parameters: dict[str, str]) -> None:
    page = opened(**parameters)
    assert any("atlas-remark" in body for body in fragments(page))


def test_every_figure_says_where_it_is_from() -> None:
    kinds = captions(opened())
    assert [text.split()[0] for _, text in kinds] == [kind for kind, _ in kinds]
    assert len(kinds) >= len(opened().get("plotly_chart"))
    assert sum(kind == "computed" for kind, _ in kinds) == 1


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(storyteller: LanguageModel, text: str, lang: str) -> None:
    page = opened(text=text, lang=lang, depth="2")
    assert len(tables(page)[0]) == 6
    assert number(tables(page)[1]["Mean" if lang == "en" else "平均值"][1]) == pytest.approx(0, abs=1e-6)
    for body in fragments(page):
        if "atlas-arithmetic'" in body or "atlas-numbers'" in body:
            allowed = {"style", "div", "p", "ol", "li", "span", "code", "sup", "b"}
            assert {tag for tag, _ in read(body).tags} <= allowed | {
                "table",
                "thead",
                "tbody",
                "tr",
                "th",
                "td",
                "small",
            }


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_stacked_bars(palette) -> None:
    values = np.array([[0.2, 0.3, 0.5], [1.1, -0.15, 0.05]])
    fig = stacked_bars(["<b>a", "b"], ["in", "$x$", "c"], values, palette, highlight=0)
    np.testing.assert_array_equal(np.stack([t.x for t in fig.data], axis=1), values)
    assert fig.data[1].text == ("30%", "−15%")
    assert fig.data[2].text == ("50%", ""), "no room for five percent"
    low, high = fig.layout.xaxis.range
    assert low <= -0.15
    assert high >= 1.15
    assert drawn(without_colour(fig.layout.yaxis.ticktext[0])) == "<b>a"
    with pytest.raises(ValueError, match="shape"):
        stacked_bars(["a"], ["in", "b"], values, palette)
