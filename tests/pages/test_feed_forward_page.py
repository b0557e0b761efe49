"""The page on the feed-forward network: every number on it is recomputed here from what one run recorded."""

import html
import json
import re

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest
from torch.nn import functional

from model.analysis.neuron_index import NeuronIndex, load_index
from model.language import LanguageModel
from model.trace import Trace
from model.zoo.catalog import CATALOG
from pages.kit import neuron_texts, switches
from pages.kit.limits import MAX_TOKENS
from pages.kit.numbers import power_of_ten, probability, signed_digits, three_digits
from pages.kit.prose import PLACEHOLDER, sections
from tests.cases import TEXTS
from tests.pages.reading import array, drawn, read, without_colour
from tests.pages.visit import remarks, turn_to, visit, well

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


def test_every_neuron_lies_on_the_models_curve(storyteller: LanguageModel) -> None:
    run, page = traced(storyteller), opened(**PLACE)
    spec = figure(page, "Curves of ReLU")
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
    text, row = arithmetic(page), run.module("blocks.4.mlp").W_out.weight[:, 167]
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
    assert [name.strip("▸\u00a0") for name in compared] == ["ReLU", "GELU (erf)", "GELU (tanh)", "SiLU"]
    assert compared["▸\u00a0SiLU"] == [signed_digits(post / linear), signed_digits(post)]
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
    spec = figure(page, "The neurons of layer 4")
    first = values.abs().argsort(descending=True)[:8]
    assert ticks(spec) == [f"neuron {i}" for i in first.tolist()]
    np.testing.assert_allclose(array(spec["data"][0]["x"]), values[first].abs(), rtol=1e-3)
    for text, value in zip(spec["data"][0]["text"], values[first].tolist(), strict=True):
        assert number(drawn(without_colour(text))) == pytest.approx(value, rel=6e-3)
    total = re.findall(r"together (\S+)", caption(page, "straight through" if order == "effect" else "output row ·"))
    assert number(total[0].rstrip(";")) == pytest.approx(float(values.sum()), rel=6e-3)


def test_the_whole_way_sums_up(storyteller: LanguageModel) -> None:
    run, page = traced(storyteller), opened(**PLACE)
    strips = {t["name"]: array(t["z"])[0] for t in figure(page, "Input, activations and output")["data"]}
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
    (bars,) = figure(page, "Share of active neurons in layer 4")["data"]
    shares = 100 * (run["blocks.4.mlp.hook_pre"] > 0).double().mean(1)
    np.testing.assert_allclose(array(bars["y"]), shares)
    rows = next(table for table in tables(page) if "▸\u00a0layer 4" in table)
    assert rows["▸\u00a0layer 4"][:2] == [f"{shares[8]:.0f} %", f"{shares.mean():.0f} %"]
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
        spec = figure(page, f"Tokens whose logit neuron 167 {name}")
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
    before, after = figure(page, "Probabilities of the next tokens")["data"]
    p, q = expected_off(lm, off)
    ids = sorted({*p.topk(7).indices.tolist(), *q.topk(7).indices.tolist(), lm.tokenizer.encode(TEXT)[9]})
    ids.sort(key=lambda token: -float(p[token]))
    np.testing.assert_allclose(array(before["x"]), p[ids], rtol=1e-4)
    np.testing.assert_allclose(array(after["x"]), q[ids], rtol=1e-3)
    printed = [
        drawn(note["text"]) for note in figure(page, "Probabilities of the next tokens")["layout"]["annotations"]
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
    shows = array(figure(other, "Probabilities of the next tokens")["data"][1]["x"])
    np.testing.assert_allclose(shows, array(figure(other, "Probabilities of the next tokens")["data"][0]["x"]))
    turn_to(mine, "overview")
    probabilities = traced(storyteller).logits[-1].softmax(0)
    (bars,) = [c for c in mine.get("plotly_chart") if "next" in c.proto.alt.lower() or "after" in c.proto.alt.lower()]
    values = array(json.loads(bars.proto.spec)["data"][0]["x"])
    np.testing.assert_allclose(values, probabilities.topk(len(values)).values, rtol=1e-5)


def test_it_opens_on_the_neuron_that_pushes_most(storyteller: LanguageModel) -> None:
    page = opened(text=TEXT)
    assert page.button_group(key="choose_layer").value == 1
    assert page.number_input[0].value == 32
    spec = figure(page, "The neurons of layer 1")
    assert ticks(spec)[0] == "neuron 32"
    page = opened(text=TEXT, layer="5")
    assert ticks(figure(page, "The neurons of layer 5"))[0] == f"neuron {page.number_input[0].value}"


def test_turning_changes_what_is_shown_and_the_address() -> None:
    page = opened(text=TEXT)
    page.button_group(key="choose_layer").set_value(4)
    shown(page.run())
    assert page.query_params["layer"] == "4"
    page.button_group(key="choose_ranked_by").set_value("size")
    shown(page.run())
    assert page.query_params["ranked_by"] == "size"
    ranked = next(group for group in page.button_group if "top_neuron" in group.key)
    second = int(ranked.options[1])
    ranked.set_value(second)
    shown(page.run())
    assert page.query_params["neuron"] == str(second)
    assert f"neuron {second}" in arithmetic(page)
    page.button_group(key="choose_layer").set_value(2)
    shown(page.run())
    assert "neuron" not in page.query_params, "a number means another neuron in another layer"
    page.button(key="go_to_size").click()
    shown(page.run())
    assert (page.query_params["layer"], page.query_params["neuron"]) == ("5", "591")


@pytest.mark.parametrize(
    "parameters",
    [
        {"neuron": "-1"},
        {"neuron": "704"},
        {"neuron": "x"},
        {"ranked_by": "<b>"},
        {"off": "9.1"},
        {"off": "0.704"},
        {"off": "<script>"},
        {"off": "1.2-1.2"},
    ],
)
def test_a_link_that_asks_for_what_there_is_not_is_brought_into_it(parameters: dict[str, str]) -> None:
    assert "atlas-remark" in remarks(opened(**parameters))


def test_the_word_for_neurons() -> None:
    assert switches.read("") == []
    assert switches.read("3.120-0.7-3.120-x-1.-٣.٤") == [(3, 120), (0, 7), (3, 4)]
    assert switches.written([(3, 120), (0, 7), (3, 120)]) == "3.120-0.7"
    assert switches.repaired("3.120-6.0-0.704-0.703", 6, 704) == "3.120-0.703"
    assert len(switches.read(switches.written([(0, n) for n in range(999)]))) == switches.MAX_OFF


def test_a_model_without_index_shows_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(folder: object) -> NeuronIndex | None:
        return None

    monkeypatch.setattr(neuron_texts, "load_index", none)
    neuron_texts._index.clear()
    page = opened(**PLACE)
    neuron_texts._index.clear()
    assert [len(rows) for rows in shaded(page)] == [1]
    assert "no index" in page.info[0].value
    figure(page, "Tokens whose logit neuron 167 raises")


def test_a_damaged_index_stays_in_its_section(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(folder: object) -> NeuronIndex | None:
        raise ValueError("damaged")

    monkeypatch.setattr(neuron_texts, "load_index", damaged)
    neuron_texts._index.clear()
    page = visit("feed_forward", **PLACE)
    neuron_texts._index.clear()
    assert not page.exception
    assert [error.value for error in page.error] == [sections("feed_forward", "en")["texts_failed"]]
    figure(page, "Probabilities of the next tokens")


def test_every_figure_says_where_it_is_from() -> None:
    page = opened()
    kinds = captions(page)
    assert [text.split()[0] for _, text in kinds] == [kind for kind, _ in kinds]
    computed = [text for kind, text in kinds if kind == "computed"]
    assert len(computed) == 3  # ranking by effect, other curves, tokens
    assert len(kinds) >= len(page.get("plotly_chart"))


def test_chinese_says_all_that_english_says() -> None:
    english, chinese = sections("feed_forward", "en"), sections("feed_forward", "zh")
    assert list(chinese) == list(english)
    for section, text in english.items():
        assert set(PLACEHOLDER.findall(chinese[section])) == set(PLACEHOLDER.findall(text)), section
        assert text.count("{") == len(PLACEHOLDER.findall(text)), section


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(text: str, lang: str) -> None:
    page = opened(text=text, lang=lang)
    assert len(shaded(page)) == 3
    difference = caption(page, "summed up" if lang == "en" else "相加").split(
        "difference " if lang == "en" else "相差 "
    )[1]
    assert number(re.split("[ （]", difference)[0]) <= 1e-4
    for body in fragments(page):
        if "atlas-shaded" in body or "atlas-arithmetic'" in body:
            allowed = {"style", "div", "p", "ol", "ul", "li", "span", "code", "sup", "b", "small"}
            assert {tag for tag, _ in read(body).tags} <= allowed
