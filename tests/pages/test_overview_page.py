"""The overview: its numbers are those of the run and of the loaded weights, and its links go where they say."""

import html
import json
import re

import numpy as np
import pytest
import torch
from safetensors import safe_open
from streamlit.testing.v1 import AppTest

from model.language import LanguageModel
from model.zoo.catalog import CATALOG
from pages.kit import limits
from pages.kit.numbers import memory
from pages.kit.prose import Prose, escape
from tests.cases import TEXTS
from tests.conftest import REPOSITORY
from tests.pages.component_io import message
from tests.pages.reading import array, drawn, facts, read, shares
from tests.pages.visit import visit, well

TEXT = "Tom has a red ball. Ben has a blue car. Tom has a red"


def opened(**parameters: str) -> AppTest:
    return well(visit("overview", **parameters))


def bars(page: AppTest) -> tuple[list[str], np.ndarray]:
    """Names and lengths of the bars of the next tokens."""
    (chart,) = page.get("plotly_chart")
    figure = json.loads(chart.proto.spec)
    names = [drawn(re.sub("<[^>]*>", "", tick)) for tick in figure["layout"]["yaxis"]["ticktext"]]
    return names, array(figure["data"][0]["x"])


def cards(page: AppTest) -> list[tuple[str, list[str], str | None]]:
    """The parts of the pass: name, its lines, and the page that it links to."""
    fragment = json.loads(message(page, "pass").json)
    found = []
    for tag, attributes, inner in re.findall(r'<(a|span) (class="card[^>]*)>(.*?)</\1>(?=<|$)', _joined(fragment)):
        texts = [html.unescape(text) for text in re.findall(r"<b>(.*?)</b>", inner)]
        link = re.search(r'data-page="(\w+)"', attributes)
        found.append((texts[0], texts[1:], link[1] if tag == "a" and link else None))
    return found


def _joined(fragment: str) -> str:
    """Inner spans as <b>, so that a card ends at its own tag."""
    return re.sub(r'<span class="(?:name|shape|time|size)">(.*?)</span>', r"<b>\1</b>", fragment)


def expected(lm: LanguageModel, text: str) -> np.ndarray:
    """(T, V) probabilities, from a pass of the module and a softmax in fp64."""
    ids = torch.tensor([lm.tokenizer.encode(text)])
    with torch.no_grad():
        logits = lm.transformer(ids)[0].double().numpy()
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def test_bars_are_the_softmax_of_the_last_logits(storyteller: LanguageModel) -> None:
    names, lengths = bars(opened(text=TEXT))
    probabilities = expected(storyteller, TEXT)[-1]
    top = np.argsort(-probabilities)[: len(names)]
    np.testing.assert_allclose(lengths, probabilities[top], rtol=1e-4)
    assert names == [storyteller.tokenizer.labels([int(i)])[0] for i in top]


def test_stepping_shows_the_guess_after_each_token(storyteller: LanguageModel) -> None:
    probabilities = expected(storyteller, TEXT)
    ids = storyteller.tokenizer.encode(TEXT)
    labels = storyteller.tokenizer.labels(ids)
    page = opened(text=TEXT)
    for position in (len(ids) - 1, len(ids) - 2, len(ids) - 3):
        assert any(f"after `{labels[position]}`" in heading.value for heading in page.header)
        np.testing.assert_allclose(
            bars(page)[1], np.sort(probabilities[position])[: -len(bars(page)[1]) - 1 : -1], rtol=1e-4
        )
        if position + 1 < len(ids):
            said = [m.value for m in page.markdown if m.value.startswith("The text goes on")]
            given = probabilities[position, ids[position + 1]]
            assert said
            assert escape(f"{given:.3f}") in said[0]
        page.button(key="step_back").click().run()
    page.button(key="step_on").click().run()
    assert any(f"after `{labels[-3]}`" in heading.value for heading in page.header)


def test_the_first_token_has_none_before_it(storyteller: LanguageModel) -> None:
    page = opened(text=TEXT, token="0")
    assert page.button(key="step_back").disabled
    assert not page.button(key="step_on").disabled


def test_at_the_end_the_first_guess_is_written(storyteller: LanguageModel) -> None:
    page = opened(text=TEXT)
    best = int(expected(storyteller, TEXT)[-1].argmax())
    page.button(key="write").click().run()
    longer = [*storyteller.tokenizer.encode(TEXT), best]
    np.testing.assert_allclose(
        bars(page)[1][0], expected(storyteller, storyteller.tokenizer.decode(longer))[-1].max(), rtol=1e-4
    )
    assert cards(page)[0][1] == [str(len(longer))]


def test_a_full_text_cannot_be_written_on() -> None:
    assert opened(text="the cat " * 400).button(key="write").disabled


def test_parameters_are_those_of_the_weights_file() -> None:
    with safe_open(CATALOG["storyteller"].folder / "model.safetensors", framework="np") as file:
        sizes = {name: int(np.prod(file.get_slice(name).get_shape())) for name in file.keys()}  # noqa: SIM118
    counts = shares(opened())
    assert counts.pop("all") == sum(sizes.values())
    assert counts == {
        "Embedding": sizes["model.embed_tokens.weight"],
        "Attention": sum(size for name, size in sizes.items() if "self_attn" in name),
        "Feed-forward": sum(size for name, size in sizes.items() if "mlp" in name),
        "Norms": sum(size for name, size in sizes.items() if "norm" in name),
    }


def test_shapes_are_those_of_the_weights_and_the_text(storyteller: LanguageModel) -> None:
    n = len(storyteller.tokenizer.encode(TEXT))
    with safe_open(CATALOG["storyteller"].folder / "model.safetensors", framework="np") as file:
        vocab_size, d_model = file.get_slice("model.embed_tokens.weight").get_shape()
        d_ff = file.get_slice("model.layers.0.mlp.up_proj.weight").get_shape()[0]
    shapes = {name: lines[0] for name, lines, _ in cards(opened(text=TEXT))}
    assert shapes == {
        "Tokens": f"{n}",
        "Embedding": f"{n} × {d_model}",
        "Norm": f"{n} × {d_model}",
        "Attention": f"{storyteller.config.n_heads} × {n} × {n}",
        "Feed-forward": f"{n} × {d_ff}",
        "Logits": f"{n} × {vocab_size:,}",
        "Probabilities": f"{vocab_size:,}",
    }


def test_times_are_shown_for_what_was_timed() -> None:
    timed = {name for name, lines, _ in cards(opened()) if any(line.endswith(" ms") for line in lines)}
    assert timed == {"Embedding", "Attention", "Feed-forward", "Logits"}


def test_the_machine_is_told(storyteller: LanguageModel) -> None:
    found = facts(opened(text=TEXT))
    run = storyteller.trace(TEXT)
    assert found["device"] == "CPU"
    assert found["number format"] == "fp32"
    assert found["attention kernel"] == ", ".join(sorted(set(run.kernels.values())))
    stored = sum(t.nbytes for t in {id(p): p for p in storyteller.transformer.parameters()}.values())
    assert found["weights in memory"] == f"{stored / 2**20:.1f}\u00a0MiB"
    assert found["this run's recorded activations"] == memory(run.nbytes)


def test_parts_link_to_pages_that_exist_and_keep_the_text() -> None:
    page = opened(text=TEXT)
    links = {name: link for name, _, link in cards(page) if link}
    of_input = {"Tokens": "tokenization", "Embedding": "embeddings"}
    of_blocks = {"Norm": "residual", "Attention": "attention", "Feed-forward": "feed_forward"}
    assert links == of_input | of_blocks | {"Logits": "next_token", "Probabilities": "next_token"}
    assert all((REPOSITORY / "pages" / f"{link}.py").is_file() for link in links.values())
    addresses = [a.get("href") or "" for tag, a in read(json.loads(message(page, "pass").json)).tags if tag == "a"]
    assert len(addresses) == len(links) + 2, "there are three norms"
    assert all("?text=Tom+has+a+red+ball." in address for address in addresses)


def test_what_to_try_is_measured(storyteller: LanguageModel) -> None:
    ids, probabilities = storyteller.tokenizer.encode(TEXT), expected(storyteller, TEXT)
    given = np.array([probabilities[i, token] for i, token in enumerate(ids[1:])])
    page = opened(text=TEXT)
    labels = storyteller.tokenizer.labels(ids)
    for key, position in (("go_surest", given.argmax()), ("go_surprised", given.argmin())):
        assert f"`{labels[position]}`" in page.button(key=key).label
    page.button(key="go_surprised").click().run()
    assert any(f"after `{labels[given.argmin()]}`" in heading.value for heading in page.header)


def test_an_example_is_a_click_away() -> None:
    page = opened()
    page.button_group(key="choose_front_example").set_value("chinese").run()
    assert page.text_area[0].value == "那只小猫坐在垫子上，因为它"
    assert not page.error


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(text: str, lang: str) -> None:
    page = opened(text=text, lang=lang)
    names, lengths = bars(page)
    assert all(names)
    assert len(names) == len(lengths)
    assert np.all(np.isfinite(lengths))
    assert np.all(lengths > 0)
    n = int(cards(page)[0][1][0])
    assert 1 <= n <= limits.MAX_TOKENS


def test_a_token_that_is_part_of_a_character_is_explained_where_its_name_stands() -> None:
    def explained(**parameters: str) -> list[str]:
        return [caption.value for caption in opened(**parameters).caption if "in pieces" in caption.value]

    assert explained(text=TEXT) == []
    meant = Prose("overview")("part_of_character", label="垫 1–2/3", character="垫", places="1–2", of="3")
    told = explained(text="那只小猫坐在垫子上，因为它")
    assert told == [meant]
