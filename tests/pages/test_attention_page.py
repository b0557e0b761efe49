"""The page on self-attention: every number on it is recomputed here from what one run recorded."""

import math

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from model.analysis.attention_steps import MASK_KINDS, mask_choice
from model.analysis.interest import most_interesting
from model.language import LanguageModel
from model.trace import Trace
from pages.kit.limits import MAX_TOKENS
from pages.kit.numbers import probability, signed, three_digits
from tests.cases import TEXTS
from tests.pages.component_io import pick, sent
from tests.pages.reading import array, box, captions, figure_with_alt, fragments, number, read, said, tables
from tests.pages.visit import TEXT, visit, well

TITLES = ("How does one token look at the others?", "一个词元怎样看其他词元？")
CELL = {"layer": "3", "head": "2", "token": "8", "key": "7"}


def opened(**parameters: str) -> AppTest:
    return shown(visit("attention", **parameters))


def shown(page: AppTest) -> AppTest:
    assert well(page).title[0].value in TITLES
    return page


def matrices(page: AppTest) -> list[np.ndarray]:
    """Scores, scaled, masked, pattern as they are sent, NaN where hatched."""
    return sent(page, "matrices")[1]


def chosen(page: AppTest) -> tuple[int, int]:
    header, _ = sent(page, "matrices")
    return header["query"], header["key"]


def traced(lm: LanguageModel, text: str = TEXT, mask: str = "causal") -> Trace:
    ids = lm.tokenizer.encode(text)[:MAX_TOKENS]
    choice = mask_choice(mask, len(ids))
    return lm.trace(ids, rule=choice.rule, padding=choice.padding)


def dots(run: Trace, layer: int, head: int) -> np.ndarray:
    """(T, T) q·k of a head, in fp64, from the recorded queries and keys."""
    name, group = f"blocks.{layer}.attn", run.config.n_heads // run.config.n_kv_heads
    q = run[f"{name}.hook_rot_q"][:, head].double().numpy()
    k = run[f"{name}.hook_rot_k"][:, head // group].double().numpy()
    return q @ k.T


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - np.nanmax(scores, axis=-1, keepdims=True))
    return weights / np.nansum(weights, axis=-1, keepdims=True)


def arithmetic(page: AppTest) -> tuple[str, list[str], str]:
    """Of the box: what it is of, the four calculations, the sentence below."""
    who, *steps, note = box(page).splitlines()
    return who, steps[1::2], note


def checks(page: AppTest) -> dict[str, list[str]]:
    """Rows of all tables of numbers."""
    return {name: cells for table in tables(page) for name, cells in table.items()}


def bars(page: AppTest, token: str) -> np.ndarray:
    return array(figure_with_alt(page, f"Attention of {token}")["data"][0]["x"])


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (3, 2), (5, 7)])
def test_the_four_matrices_are_the_runs(storyteller: LanguageModel, layer: int, head: int) -> None:
    run, (scores, scaled, masked, pattern) = traced(storyteller), matrices(opened(layer=str(layer), head=str(head)))
    expected, future = dots(run, layer, head), np.triu(np.ones(scores.shape, dtype=bool), 1)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(scaled, expected / math.sqrt(32), rtol=1e-4, atol=1e-4)
    for cells, name in ((masked, "hook_attn_scores"), (pattern, "hook_pattern")):
        np.testing.assert_array_equal(np.isnan(cells), future)
        own = run[f"blocks.{layer}.attn.{name}"][head].numpy()
        np.testing.assert_allclose(cells[~future], own[~future], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.nansum(pattern, axis=-1), 1, atol=1e-6)


@pytest.mark.parametrize("mask", MASK_KINDS)
@pytest.mark.parametrize("scaling", ["1", "0"])
def test_every_mask_is_the_run_of_the_whole_model(storyteller: LanguageModel, mask: str, scaling: str) -> None:
    page = opened(mask=mask, scaling=scaling, **CELL)
    run = traced(storyteller, mask=mask)
    scores, scaled, masked, pattern = matrices(page)
    hidden = np.isneginf(run["blocks.3.attn.hook_attn_scores"][2].numpy())
    expected = dots(run, 3, 2)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
    root = math.sqrt(32) if scaling == "1" else 1
    np.testing.assert_allclose(scaled, expected / root, rtol=1e-4, atol=1e-4)
    for cells in (masked, pattern):
        np.testing.assert_array_equal(np.isnan(cells), hidden)
    np.testing.assert_allclose(pattern, softmax(np.where(hidden, np.nan, expected / root)), atol=1e-5)
    np.testing.assert_allclose(np.nansum(pattern, axis=-1), 1, atol=1e-6)
    # Every other panel is of that same run.
    strips = figure_with_alt(page, "x ·it, x ·because")["data"]
    for trace, position in zip(strips, (8, 7), strict=True):
        stream = run["blocks.3.hook_resid_pre"]
        x = run.module("blocks.3.ln1")(stream[None])[0, position]
        np.testing.assert_allclose(array(trace["z"])[0], x.numpy(), rtol=1e-5, atol=1e-5)
    z = array(figure_with_alt(page, f"{np.nanmax(pattern[8]):.3f}")["data"][-1]["z"])[0]
    values = run["blocks.3.attn.hook_v"][:, 1].numpy()
    np.testing.assert_allclose(z, np.nan_to_num(pattern[8]) @ values, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(bars(page, "·it"), np.sort(pattern[8][~hidden[8]])[::-1][:8], atol=1e-6)
    # And it is said what the figures are.
    remarks = [body for body in fragments(page) if "atlas-remark" in body]
    assert (f"Mask “{mask}”" in "".join(remarks)) == (mask != "causal")
    (stage,) = [(kind, text) for kind, text in captions(page) if "Scores" in text]
    assert stage[0] == ("measured" if scaling == "1" else "computed")
    assert ("kernel “flash”" in stage[1]) == (scaling == "1")
    assert (f"mask “{mask}”" in stage[1]) == (mask != "causal")
    assert ("masked" in stage[1]) == bool(hidden.any())
    assert ("never leaves out" in "".join(remarks)) == (scaling == "0")


@pytest.mark.parametrize("mask", MASK_KINDS)
@pytest.mark.parametrize("scaling", ["1", "0"])
def test_the_shown_checks_hold(mask: str, scaling: str) -> None:
    page = opened(mask=mask, scaling=scaling)
    rows = checks(page)
    for step in ("1 · Scores", "2 · Scaled", "3 · Masked", "4 · Pattern", "5 · Mixed values"):
        largest, difference = map(number, rows[step])
        assert difference <= 1e-5 * max(1, largest / 10), step
    assert number(rows["All steps one by one against torch's fused kernel, which does them in one go"][0]) <= 1e-5
    assert number(rows["Sum of each row of the pattern against 1"][0]) <= 1e-6
    (code,) = page.code
    assert len([line for line in code.value.splitlines() if line.startswith("    ") and "=" in line]) <= 8
    assert max(map(len, code.value.splitlines())) <= 80


def test_the_lines_that_are_shown_are_the_lines_that_run(storyteller: LanguageModel) -> None:
    page = opened(**CELL)
    shown: dict = {}
    exec(page.code[0].value, shown)  # it defines all that it uses
    run, (_, _, _, pattern) = traced(storyteller), matrices(page)
    name = "blocks.3.attn"
    q, k = run[f"{name}.hook_rot_q"][:, 2].tolist(), run[f"{name}.hook_rot_k"][:, 1].tolist()
    v, mask = run[f"{name}.hook_v"][:, 1].tolist(), np.where(np.isnan(pattern), -math.inf, 0.0).tolist()
    ours = [shown["attention"](query, k, v, row, 32) for query, row in zip(q, mask, strict=True)]
    np.testing.assert_allclose([of[3] for of in ours], np.nan_to_num(pattern), atol=1e-5)
    np.testing.assert_allclose([of[4] for of in ours], run[f"{name}.hook_z"][:, 2].numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("text", [TEXT, "Tom has a red ball. Ben has a blue car. Tom has a red"])
def test_it_opens_on_a_head_that_does_something(storyteller: LanguageModel, text: str) -> None:
    place = most_interesting(traced(storyteller, text))
    page = opened(text=text)
    assert chosen(page) == (place.query, place.key)
    assert page.button_group(key="choose_layer").value == place.layer
    assert page.button_group(key="choose_head").value == place.head
    assert matrices(page)[3][place.query, place.key] > 0.5


@pytest.mark.parametrize("scaling", ["1", "0"])
def test_the_arithmetic_of_the_cell(scaling: str) -> None:
    page = opened(scaling=scaling, **CELL)
    who, (product, scaled, masked, share), note = arithmetic(page)
    dot, after, _, weight = (cells[8, 7] for cells in matrices(page))
    row = matrices(page)[2][8]
    assert who == "“·it” → “·because”"
    assert product == f"q·k = {signed(float(dot))}"
    assert scaled == (f"÷ √32 = {signed(float(after))}" if scaling == "1" else f"not divided = {signed(float(after))}")
    assert masked == f"{signed(float(after))} in reach"
    top, powers = float(np.nanmax(row)), np.exp(row - np.nanmax(row))
    difference = f"{signed(float(after))} − {signed(top)}"
    assert share == f"e^{difference} ÷ {np.nansum(powers):.4f} = {probability(float(weight))}"
    assert "here 9" in note


def test_a_masked_cell_is_not_a_zero() -> None:
    page = opened(layer="3", head="2", token="3", key="7")
    who, (product, scaled, masked, share), note = arithmetic(page)
    assert who == "“·sat” → “·because”"
    assert product == f"q·k = {signed(float(matrices(page)[0][3, 7]))}"
    assert scaled == f"÷ √32 = {signed(float(matrices(page)[1][3, 7]))}"
    assert masked == "−∞"
    assert share.startswith("e^−∞ ÷ ")
    assert share.endswith(" = 0")
    assert "may not look at" in note
    assert any("<li class=masked>" in body for body in fragments(page))
    # A small weight that is not masked has no hatching and is not said to be 0.
    visible = opened(layer="3", head="2", token="8", key="0")
    assert not any("<li class=masked>" in body for body in fragments(visible))
    assert arithmetic(visible)[1][3].endswith(probability(float(matrices(visible)[3][8, 0])))


def test_a_pick_moves_the_whole_page() -> None:
    page = opened(layer="3", head="2")
    shown(pick(page, "matrices", query=5, key=2))
    assert chosen(page) == (5, 2)
    assert arithmetic(page)[0] == "“·the” → “·cat”"
    assert sent(page, "matrices")[0]["labels_q"][5] == "·the"
    np.testing.assert_allclose(bars(page, "·the"), np.sort(matrices(page)[3][5, :6])[::-1], atol=1e-6)
    # The future can be picked too: that is where the masked cells are.
    shown(pick(page, "matrices", query=5, key=9, number=2))
    assert arithmetic(page)[1][2] == "−∞"


def test_bars_are_the_row_and_say_what_they_leave_out(storyteller: LanguageModel) -> None:
    text = "Once upon a time there was a little girl. She liked to play with her red ball in the park."
    n = len(storyteller.tokenizer.encode(text))
    page = opened(text=text, layer="1", head="0", token=str(n - 1))
    row = np.sort(matrices(page)[3][n - 1])[::-1]
    shown = bars(page, sent(page, "matrices")[0]["labels_q"][n - 1])
    np.testing.assert_allclose(shown, row[:8], atol=1e-6)
    rest = probability(float(row[8:].astype(np.float64).sum()))
    assert any(f"the 8 largest of {n} keys in reach; the others hold {rest}" in text for _, text in captions(page))


def test_mask_and_scaling_outlive_a_page_change() -> None:
    page = opened()
    shown(page.button_group(key="choose_mask").set_value("window").run())
    shown(page.button_group(key="choose_scaling").set_value(False).run())
    changed = matrices(page)
    page.switch_page("pages/heads.py").run()
    assert not page.exception
    page.switch_page("pages/attention.py").run()
    shown(page)
    assert page.button_group(key="choose_mask").value == "window"
    assert page.button_group(key="choose_scaling").value is False
    for before, after in zip(changed, matrices(page), strict=True):
        np.testing.assert_array_equal(before, after)
    # The cell stays where it is when the mask changes, so that it can be compared.
    cell = chosen(page)
    shown(page.button_group(key="choose_mask").set_value("causal").run())
    assert chosen(page) == cell


def test_an_unknown_mask_in_a_link_is_said() -> None:
    page = opened(mask="sideways")
    assert page.button_group(key="choose_mask").value == "causal"
    assert any("“Mask” could not be read" in body for body in fragments(page))


@pytest.mark.parametrize("mask", [kind for kind in MASK_KINDS if kind != "causal"])
def test_what_the_mask_leaks_is_measured(storyteller: LanguageModel, mask: str) -> None:
    base, other = traced(storyteller), traced(storyteller, mask=mask)
    targets = torch.tensor(base.tokens[1:])
    costs = [
        torch.nn.functional.cross_entropy(run.logits[:-1], targets, reduction="none").double().numpy() / math.log(2)
        for run in (base, other)
    ]
    counted = np.arange(len(targets)) >= other.padding
    in_sight = ~np.isneginf(other["blocks.0.attn.hook_attn_scores"][0].diagonal(1).numpy()) & counted
    page = opened(mask=mask)
    means = [f"{cost[counted].mean():.2f}" for cost in costs]
    assert f"a token of this text then costs {means[0]} bits on average; now it is {means[1]}" in said(page)
    chart = figure_with_alt(page, "Cost of each token")["data"]
    for trace, cost in zip(chart, costs, strict=True):
        np.testing.assert_allclose(array(trace["y"]).astype(float), np.where(counted, cost, np.nan), rtol=1e-4)
    assert (f"With **{mask}** no token sees its answer" in said(page)) == (not in_sight.any())
    if in_sight.any():
        seen = [f"{cost[in_sight].mean():.2f}" for cost in costs]
        assert f"goes from {seen[0]} bits with **causal** to {seen[1]} with **{mask}**" in said(page)
        cheaper = costs[1][in_sight].mean() < costs[0][in_sight].mean()
        assert ("That is reading, not guessing" in said(page)) == cheaper
    # With the model's own mask the page compares with none at all.
    if mask == "none":
        sentence = f"a token of this text then costs {means[1]} bits on average instead of {means[0]}"
        assert sentence in said(opened())


def test_what_scaling_does_to_this_head_is_measured(storyteller: LanguageModel) -> None:
    page, run = opened(**CELL), traced(storyteller)
    visible = np.tril(np.ones((10, 10), dtype=bool))
    rows = checks(page)
    for column, root in ((1, math.sqrt(32)), (0, 1)):
        scores = np.where(visible, dots(run, 3, 2) / root, np.nan)
        p = np.nan_to_num(softmax(scores))
        entropy = -np.where(p > 0, p * np.log2(np.where(p > 0, p, 1)), 0).sum(-1)
        jacobians = [np.diag(row) - np.outer(row, row) for row in p]
        gradient = np.array([np.linalg.norm(jacobian) for jacobian in jacobians])
        assert number(rows["Variance of the scores in reach"][column]) == pytest.approx(np.nanvar(scores), rel=0.01)
        assert number(rows["Mean entropy of the rows, bits"][column]) == pytest.approx(entropy.mean(), rel=0.01)
        assert number(rows["Mean gradient of the rows"][column]) == pytest.approx(gradient.mean(), rel=0.01)
        assert rows["Largest share of ·it"][column] == probability(float(p[8].max()))
        assert number(rows["Gradient of the row of ·it"][column]) == pytest.approx(gradient[8], rel=0.02, abs=1e-6)
        assert three_digits(float(gradient.mean())) in said(page)


def test_random_vectors_are_an_illustration_and_nothing_else_is() -> None:
    kinds = [(kind, text) for kind, text in captions(opened())]
    assert [text.split()[0] for _, text in kinds] == [kind for kind, _ in kinds]
    assert ["no model" in text for _, text in kinds] == [kind == "illustration" for kind, _ in kinds]
    assert sum(kind == "illustration" for kind, _ in kinds) == 1
    assert sum(kind == "measured" for kind, _ in kinds) >= 6


def test_what_a_head_adds(storyteller: LanguageModel) -> None:
    run, page = traced(storyteller), opened(**CELL)
    added = run["blocks.3.attn.hook_result"][8, 2].numpy()
    np.testing.assert_allclose(
        array(figure_with_alt(page, "this head")["data"][0]["z"])[0], added, rtol=1e-4, atol=1e-5
    )
    stream = run["blocks.3.hook_resid_pre"][8].numpy()
    lengths = f"length {three_digits(np.linalg.norm(added))}, added to a stream vector of length "
    assert any(lengths + three_digits(np.linalg.norm(stream)) in text for _, text in captions(page))


def test_the_longest_text_sends_one_head_and_checks_a_part() -> None:
    page = opened(text="The quick brown fox jumps over the lazy dog. " * 60, token="200")
    assert [cells.shape for cells in matrices(page)] == [(MAX_TOKENS, MAX_TOKENS)] * 4
    assert any(f"of {MAX_TOKENS}" in text and "to 200 of" in text for _, text in captions(page))
    charts = [len(chart.proto.spec) for chart in page.get("plotly_chart")]
    assert sum(charts) < 150_000


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(storyteller: LanguageModel, text: str, lang: str) -> None:
    page = opened(text=text, lang=lang)
    n = min(MAX_TOKENS, max(1, len(storyteller.tokenizer.encode(text[:4_000]))))
    header, cells = sent(page, "matrices")
    assert len(header["labels_q"]) == n
    assert all(matrix.shape == (n, n) for matrix in cells)
    np.testing.assert_allclose(np.nansum(cells[3], axis=-1), 1, atol=1e-5)
    for body in fragments(page):
        if "atlas-arithmetic'" in body or "atlas-numbers'" in body:
            allowed = {"style", "div", "p", "ol", "li", "span", "code", "sup", "b"}
            allowed |= {"table", "thead", "tbody", "tr", "th", "td", "small"}
            assert {tag for tag, _ in read(body).tags} <= allowed


@pytest.mark.parametrize("mask", MASK_KINDS)
@pytest.mark.parametrize("text", ["a", "我", "two words", ""])
def test_the_shortest_texts_under_every_mask(text: str, mask: str) -> None:
    page = opened(text=text, mask=mask, scaling="0")
    header, cells = sent(page, "matrices")
    np.testing.assert_allclose(np.nansum(cells[3], axis=-1), 1, atol=1e-5)
    if len(header["labels_q"]) == 1:
        assert "alone, a token can only look at itself" in said(page)
        assert "no next one to guess" in said(page)
