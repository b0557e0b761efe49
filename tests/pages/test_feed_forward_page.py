"""The page on the feed-forward network: every number on it is recomputed here from what one run recorded."""

import json
import re

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest
from torch.nn import functional

from model.analysis.neuron_index import load_index
from model.language import LanguageModel
from model.zoo.catalog import CATALOG
from pages.kit import switches
from pages.kit.numbers import power_of_ten, probability, signed_digits, three_digits
from tests.pages.feed_forward import PLACE, caption, opened, shaded, shown, ticks
from tests.pages.reading import array, box, chosen_rows, drawn, figure_with_alt, number, said, tables, without_colour
from tests.pages.visit import TEXT, traced, turn_to


def test_every_neuron_lies_on_the_models_curve(storyteller: LanguageModel) -> None:
    run, page = traced(storyteller), opened(**PLACE)
    spec = figure_with_alt(page, "Curves of ReLU")
    x = torch.tensor(array(spec["data"][0]["x"]))
    curves = (functional.relu, functional.gelu, lambda x: functional.gelu(x, approximate="tanh"), functional.silu)
    assert [trace["name"] for trace in spec["data"][:4]] == ["ReLU", "GELU (erf)", "GELU (tanh)", "SiLU"]
    for trace, curve in zip(spec["data"], curves, strict=False):
        np.testing.assert_allclose(array(trace["y"]), curve(x), rtol=1e-9, atol=1e-12)
    own = [trace["line"]["dash"] == "solid" for trace in spec["data"][:4]]
    assert own == [False, False, False, True]
    others, chosen = spec["data"][4:]
    pre = run["blocks.4.mlp.hook_pre"][8]
    inputs = np.empty(704)
    values = np.empty(704)
    for trace in (others, chosen):
        inputs[array(trace["customdata"])] = array(trace["x"])
        values[array(trace["customdata"])] = array(trace["y"])
    np.testing.assert_allclose(inputs, pre, rtol=1e-6)
    np.testing.assert_allclose(values, functional.silu(pre), rtol=1e-5, atol=1e-7)
    assert array(chosen["customdata"]).tolist() == [167]
    post = run["blocks.4.mlp.hook_post"].double()
    expected = functional.silu(run["blocks.4.mlp.hook_pre"].double()) * run["blocks.4.mlp.hook_pre_linear"].double()
    printed = caption(page, "against the formula of SiLU").split("difference ")[1].strip()
    assert printed == power_of_ten(float((post - expected).abs().max()))
    assert number(printed) <= 1e-5


def test_the_arithmetic_of_the_neuron(storyteller: LanguageModel) -> None:
    run, page = traced(storyteller), opened(**PLACE)
    pre, linear, post = (float(run[f"blocks.4.mlp.hook_{n}"][8, 167]) for n in ("pre", "pre_linear", "post"))
    text, row = box(page), run.module("blocks.4.mlp").W_out.weight[:, 167]
    assert f"= {signed_digits(pre)}" in text
    assert f"{signed_digits(pre)} ÷ (1 + e^{signed_digits(-pre)})" in text
    assert f"= {signed_digits(linear)}" in text
    assert f"= {signed_digits(post)}" in text
    assert f"{signed_digits(abs(post))} × {three_digits(float(row.norm()))}" in text
    scale, gain = run["ln_final.hook_scale"][8], run.module("ln_final").weight
    pushed = (row * gain / scale) @ storyteller.transformer.embed.weight.T
    token = int(run.logits[8].argmax())
    effect = post * float(pushed[token] - pushed.mean())
    assert f"= {'' if effect < 0 else '+'}{signed_digits(effect)}" in text
    assert f"on the logit of {storyteller.tokenizer.labels([token])[0]}" in text
    compared = tables(page)[0]
    assert list(compared) == ["ReLU", "GELU (erf)", "GELU (tanh)", "SiLU"]
    assert chosen_rows(page)[0] == ["SiLU"]
    assert compared["SiLU"] == [signed_digits(post / linear), signed_digits(post)]
    assert compared["ReLU"][0] == signed_digits(max(0.0, pre))


@pytest.mark.parametrize("order", ["effect", "size"])
def test_the_ranking(storyteller: LanguageModel, order: str) -> None:
    run, page = traced(storyteller), opened(**PLACE | {"ranked_by": order})
    rows = run.module("blocks.4.mlp").W_out.weight.T
    added = run["blocks.4.mlp.hook_post"][8][:, None] * rows
    if order == "effect":
        out = (
            added * run.module("ln_final").weight / run["ln_final.hook_scale"][8]
        ) @ storyteller.transformer.embed.weight.T
        values = (out - out.mean(1, keepdim=True))[:, int(run.logits[8].argmax())]
    else:
        values = added.norm(dim=1)
    spec = figure_with_alt(page, "The neurons of layer 4")
    first = values.abs().argsort(descending=True)[:8]
    assert ticks(spec) == [f"neuron {i}" for i in first.tolist()]
    np.testing.assert_allclose(array(spec["data"][0]["x"]), values[first].abs(), rtol=1e-3)
    for text, value in zip(spec["data"][0]["text"], values[first].tolist(), strict=True):
        assert number(drawn(without_colour(text))) == pytest.approx(value, rel=6e-3)
    total = re.findall(r"together (\S+)", caption(page, "straight through" if order == "effect" else "output row ·"))
    assert number(total[0].rstrip(";")) == pytest.approx(float(values.sum()), rel=6e-3)


def test_the_whole_way_sums_up(storyteller: LanguageModel) -> None:
    run, page = traced(storyteller), opened(**PLACE)
    strips = {t["name"]: array(t["z"])[0] for t in figure_with_alt(page, "Input, activations and output")["data"]}
    names = {"gate": "hook_pre", "second number": "hook_pre_linear", "activation": "hook_post"}
    for name, hook in names.items():
        np.testing.assert_allclose(strips[name], run[f"blocks.4.mlp.{hook}"][8], rtol=1e-6)
    np.testing.assert_allclose(strips["output"], run["blocks.4.hook_mlp_out"][8], rtol=1e-6)
    stream = run["blocks.4.hook_resid_mid"]
    normed = functional.rms_norm(stream, (256,), run.module("blocks.4.ln2").weight, 1e-5)
    np.testing.assert_allclose(strips["input"], normed[8], rtol=1e-5, atol=1e-6)
    summed = run["blocks.4.mlp.hook_post"].double() @ run.module("blocks.4.mlp").W_out.weight.double().T
    difference = float((summed - run["blocks.4.hook_mlp_out"].double()).abs().max())
    text = caption(page, "summed up")
    assert number(text.split("difference ")[1].split(" ")[0]) == pytest.approx(difference, rel=0.06)
    assert difference <= 1e-5 * float(run["blocks.4.hook_mlp_out"].abs().max())


def test_how_many_are_active(storyteller: LanguageModel) -> None:
    run, page = traced(storyteller), opened(**PLACE)
    (bars,) = figure_with_alt(page, "Share of active neurons in layer 4")["data"]
    shares = 100 * (run["blocks.4.mlp.hook_pre"] > 0).double().mean(1)
    np.testing.assert_allclose(array(bars["y"]), shares)
    place, rows = next((place, table) for place, table in enumerate(tables(page)) if "layer 4" in table)
    assert chosen_rows(page)[place] == ["layer 4"]
    assert rows["layer 4"][:2] == [f"{shares[8]:.0f}%", f"{shares.mean():.0f}%"]
    assert len(rows) == 6


def test_key_and_value(storyteller: LanguageModel) -> None:
    run, page = traced(storyteller), opened(**PLACE)
    index = load_index(CATALOG["storyteller"].folder)
    assert index is not None
    here, highest, lowest = shaded(page)  # this neuron goes further up than down
    own = run["blocks.4.mlp.hook_post"][:, 167]
    assert here[0][0] == pytest.approx(float(own[8]), rel=6e-3)
    np.testing.assert_allclose(here[0][1], own, atol=6e-4)
    for rows, end in ((highest, "highest"), (lowest, "lowest")):
        contexts = index.contexts(4, 167, end)[: len(rows)]
        for (printed, values), context in zip(rows, contexts, strict=True):
            assert printed == pytest.approx(context.activation, rel=6e-3)
            assert min(abs(value - context.activation) for value in values) < 1e-3
    assert (len(highest), len(lowest)) == (5, 3)
    text = caption(page, "sentences:")
    for count in (index.n_sentences, index.n_written, index.n_sentences - index.n_written):
        assert f"{count:,}" in text
    assert number(text.split("difference ")[1].split(" ")[0]) <= 1e-4
    row = run.module("blocks.4.mlp").W_out.weight[:, 167] * run.module("ln_final").weight
    logits = storyteller.transformer.embed.weight @ (row / run["ln_final.hook_scale"][8])
    unit = logits - logits.mean()
    for name, order in (("raises", unit.argsort(descending=True)), ("lowers", unit.argsort())):
        spec = figure_with_alt(page, f"Tokens whose logit neuron 167 {name}")
        assert ticks(spec) == [storyteller.tokenizer.labels([i])[0] for i in order[:8].tolist()]
        np.testing.assert_allclose(array(spec["data"][0]["x"]), unit[order[:8]].abs(), rtol=1e-3)
    assert f"the activation is {signed_digits(float(own[8]))}" in said(page)


def test_the_end_that_goes_further_comes_first() -> None:
    index = load_index(CATALOG["storyteller"].folder)
    assert index is not None
    _, first, second = shaded(opened(layer="5", neuron="448", token="8"))
    assert [printed for printed, _ in first] == pytest.approx(
        [context.activation for context in index.contexts(5, 448, "lowest")], rel=6e-3
    )
    assert len(second) == 3
    assert second[0][0] == pytest.approx(index.contexts(5, 448, "highest")[0].activation, rel=6e-3)


def expected_off(lm: LanguageModel, off: list[tuple[int, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities after token 8 as they are, and with neurons at 0."""

    def silence(x: torch.Tensor, name: str) -> torch.Tensor:
        for layer, neuron in off:
            if name == f"blocks.{layer}.mlp.hook_post":
                x[:, :, neuron] = 0
        return x

    with lm.edit({f"blocks.{layer}.mlp.hook_post": silence for layer, _ in off}):
        after = traced(lm).logits[8]
    return traced(lm).logits[8].softmax(0), after.softmax(0)


def shows_off(page: AppTest, lm: LanguageModel, off: list[tuple[int, int]]) -> None:
    before, after = figure_with_alt(page, "Probabilities of the likeliest tokens")["data"]
    p, q = expected_off(lm, off)
    ids = sorted({*p.topk(7).indices.tolist(), *q.topk(7).indices.tolist(), lm.tokenizer.encode(TEXT)[9]})
    ids.sort(key=lambda token: -float(p[token]))
    np.testing.assert_allclose(array(before["x"]), p[ids], rtol=1e-4)
    np.testing.assert_allclose(array(after["x"]), q[ids], rtol=1e-3)
    printed = [
        drawn(note["text"])
        for note in figure_with_alt(page, "Probabilities of the likeliest tokens")["layout"]["annotations"]
    ]
    assert printed == [f"{probability(float(p[i]))} → {probability(float(q[i]))}" for i in ids]
    assert f"neurons off: {len(off)}" in caption(page, "Kullback")


def test_turning_neurons_off_moves_the_bars(storyteller: LanguageModel) -> None:
    page = opened(**PLACE)
    shows_off(page, storyteller, [(4, 167)])  # opens with the one that is shown
    page.toggle[0].set_value(False)
    shown(page.run())
    assert page.query_params["off"] == ""
    shows_off(page, storyteller, [])
    page.button(key="turn_more_off").click()
    shown(page.run())
    off = switches.read(page.query_params["off"])
    assert len(off) == 10
    assert {layer for layer, _ in off} == {4}
    shows_off(page, storyteller, off)
    page.number_input[0].set_value(3)
    shown(page.run())
    page.toggle[0].set_value(True)
    shown(page.run())
    assert switches.read(page.query_params["off"]) == [*off, (4, 3)]
    shows_off(page, storyteller, [*off, (4, 3)])
    list_ = next(group for group in page.button_group if "off_list" in group.key)
    list_.set_value([*off[1:], (4, 3)])
    shown(page.run())
    shows_off(page, storyteller, [*off[1:], (4, 3)])
    page.button(key="all_on").click()
    shown(page.run())
    shows_off(page, storyteller, [])


def test_direct_and_measured_change(storyteller: LanguageModel) -> None:
    page = opened(**PLACE)
    before, after = (p.log() for p in expected_off(storyteller, [(4, 167)]))
    raised = (after - before) - (after - before).mean()
    rows = next(table for table in tables(page) if len(next(iter(table.values()))) == 2 and "ReLU" not in table)
    run = traced(storyteller)
    row = run.module("blocks.4.mlp").W_out.weight[:, 167] * run.module("ln_final").weight
    logits = storyteller.transformer.embed.weight @ (row / run["ln_final.hook_scale"][8])
    direct = -float(run["blocks.4.mlp.hook_post"][8, 167]) * (logits - logits.mean())
    top = int(before.argmax())
    cells = rows[storyteller.tokenizer.labels([top])[0]]
    assert number(cells[0]) == pytest.approx(float(raised[top]), rel=2e-2, abs=2e-4)
    assert number(cells[1]) == pytest.approx(float(direct[top]), rel=2e-2, abs=2e-4)


def test_nothing_edited_remains(storyteller: LanguageModel) -> None:
    """Neither on the next page of this reader nor for another one."""
    off = "-".join(f"{layer}.{n}" for layer in range(6) for n in range(10))
    mine = opened(off=off, text=TEXT)
    assert "neurons off: 60" in caption(mine, "Kullback")
    other = opened(off="", text=TEXT)
    shows = array(figure_with_alt(other, "Probabilities of the likeliest tokens")["data"][1]["x"])
    np.testing.assert_allclose(
        shows, array(figure_with_alt(other, "Probabilities of the likeliest tokens")["data"][0]["x"])
    )
    turn_to(mine, "overview")
    probabilities = traced(storyteller).logits[-1].softmax(0)
    (bars,) = [c for c in mine.get("plotly_chart") if "next" in c.proto.alt.lower() or "after" in c.proto.alt.lower()]
    values = array(json.loads(bars.proto.spec)["data"][0]["x"])
    np.testing.assert_allclose(values, probabilities.topk(len(values)).values, rtol=1e-5)
