"""The page on the feed-forward network: what can be turned, asked for and typed, with every kind of model."""

import re
import shutil
from pathlib import Path

import pytest

from model.analysis.neuron_index import NeuronIndex
from model.language import LanguageModel
from model.zoo.catalog import CATALOG
from model.zoo.readers import save_checkpoint
from pages.kit import neuron_texts, switches
from pages.kit.prose import sections
from tests.cases import TEXTS
from tests.model.tiny import tiny
from tests.pages.feed_forward import PLACE, caption, opened, shaded, shown, ticks
from tests.pages.reading import box, captions, figure_with_alt, fragments, number, read, said
from tests.pages.visit import TEXT, remarks, visit


def test_it_opens_on_the_neuron_that_pushes_most(storyteller: LanguageModel) -> None:
    page = opened(text=TEXT)
    assert page.button_group(key="choose_layer").value == 1
    assert page.number_input[0].value == 32
    spec = figure_with_alt(page, "The neurons of layer 1")
    assert ticks(spec)[0] == "neuron 32"
    page = opened(text=TEXT, layer="5")
    assert ticks(figure_with_alt(page, "The neurons of layer 5"))[0] == f"neuron {page.number_input[0].value}"


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
    assert f"neuron {second}" in box(page)
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


KINDS = {
    "like-gpt2": {"norm": "layernorm", "activation": "gelu_tanh", "mlp_bias": True, "positions": "learned"},
    "like-neox": {"norm": "layernorm", "activation": "gelu_erf", "mlp_bias": True, "parallel": True},
    "first": {"norm": "layernorm", "norm_place": "post", "activation": "relu", "tied_embeddings": False},
    "gated": {"activation": "geglu"},
    "like-bert": {
        "kind": "encoder",
        "norm": "layernorm",
        "norm_place": "post",
        "activation": "gelu_erf",
        "mlp_bias": True,
        "positions": "learned",
        "head": "mlm",
        "embedding_norm": True,
    },
    "vectors": {"kind": "encoder", "norm": "layernorm", "norm_place": "post", "activation": "gelu_erf", "head": "none"},
}


@pytest.mark.parametrize("name", list(KINDS))
def test_every_kind_of_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Models of the operator's own, random and small."""
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path))
    save_checkpoint(tmp_path / name, tiny(vocab_size=8192, bos_id=0, eos_id=0, **KINDS[name]))
    shutil.copyfile(CATALOG["storyteller"].folder / "tokenizer.json", tmp_path / name / "tokenizer.json")
    page = opened(model=name, text=TEXT)
    curve = {"relu": "ReLU", "gelu_tanh": "GELU (tanh)", "geglu": "GELU (tanh)", "gelu_erf": "GELU (erf)"}
    printed = caption(page, f"against the formula of {curve[KINDS[name]['activation']]}").split("difference ")[1]
    assert number(printed.strip()) <= 1e-5
    assert number(caption(page, "summed up").split("difference ")[1].split(" ")[0]) <= 1e-5
    assert ("and the bias" in caption(page, "summed up")) == KINDS[name].get("mlp_bias", False)
    alts = [chart.proto.alt for chart in page.get("plotly_chart")]
    head = KINDS[name].get("head", "linear")
    assert any(alt.startswith("Tokens whose logit") for alt in alts) == (head == "linear")
    assert any(alt.startswith("Probabilities") for alt in alts) == (head != "none")
    assert "on the logit of" in box(page) or head != "linear"
    assert len(shaded(page)) == 1
    assert ("no index" in page.info[0].value) == (KINDS[name].get("kind", "decoder") == "decoder")
    if head == "mlm":
        assert "in the place of" in said(page)


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
    figure_with_alt(page, "Tokens whose logit neuron 167 raises")


def test_a_damaged_index_stays_in_its_section(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(folder: object) -> NeuronIndex | None:
        raise ValueError("damaged")

    monkeypatch.setattr(neuron_texts, "load_index", damaged)
    neuron_texts._index.clear()
    page = visit("feed_forward", **PLACE)
    neuron_texts._index.clear()
    assert not page.exception
    assert [error.value for error in page.error] == [sections("feed_forward", "en")["texts_failed"]]
    figure_with_alt(page, "Probabilities of the likeliest tokens")


def test_every_figure_says_where_it_is_from() -> None:
    page = opened()
    kinds = captions(page)
    assert [text.split()[0] for _, text in kinds] == [kind for kind, _ in kinds]
    computed = [text for kind, text in kinds if kind == "computed"]
    assert len(computed) == 3  # ranking by effect, other curves, tokens
    assert len(kinds) >= len(page.get("plotly_chart"))


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(text: str, lang: str) -> None:
    page = opened(text=text, lang=lang)
    assert len(shaded(page)) == 3
    difference = caption(page, "summed up" if lang == "en" else "加起来").split(
        "difference " if lang == "en" else "相差 "
    )[1]
    assert number(re.split("[ （]", difference)[0]) <= 1e-4
    for body in fragments(page):
        if "atlas-shaded" in body or "atlas-arithmetic'" in body:
            allowed = {"style", "div", "p", "ol", "ul", "li", "span", "code", "sup", "b", "small"}
            assert {tag for tag, _ in read(body).tags} <= allowed
