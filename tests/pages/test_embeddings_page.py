"""The page on embeddings: every number on it is found again in the weights or in a run of its own."""

import json
import math
import re

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from model.analysis.projection import pca, tsne
from model.language import LanguageModel
from pages.kit.limits import MAX_TOKENS
from pages.kit.prose import Prose
from tests.cases import TEXTS
from tests.pages.reading import (
    array,
    box,
    captions,
    drawn,
    figure_with_alt,
    fragments,
    read,
    said,
    tables,
    without_colour,
)
from tests.pages.visit import TEXT, remarks, selection, visit, well

SAY = Prose("embeddings")


def opened(**parameters: str) -> AppTest:
    return well(visit("embeddings", **parameters))


def alts(page: AppTest) -> list[str]:
    return [chart.proto.alt for chart in page.get("plotly_chart")]


def table(page: AppTest) -> dict[str, list[str]]:
    """The pairs: names to numbers."""
    (found,) = tables(page)
    return found


def weight(lm: LanguageModel) -> np.ndarray:
    return lm.transformer.embed.weight.detach().double().numpy()


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))


@pytest.mark.parametrize("token", ["2", "9"])
def test_the_strip_is_the_weight_row(storyteller: LanguageModel, token: str) -> None:
    page = opened(text=TEXT, token=token)
    id_ = storyteller.tokenizer.encode(TEXT)[int(token)]
    rows = figure_with_alt(page, "Rows of the embedding table")["data"]
    np.testing.assert_array_equal(array(rows[-1]["z"])[0], weight(storyteller)[id_].astype(np.float32))
    assert rows[-1]["name"] == SAY.plain("row_word")
    for row in rows[:-1]:
        number = int(re.match(r"#(\d+) ", drawn(row["name"]))[1])
        np.testing.assert_array_equal(array(row["z"])[0], weight(storyteller)[number].astype(np.float32))
    ticks = [drawn(without_colour(t)) for t in figure_with_alt(page, "Rows")["layout"]["yaxis"]["ticktext"]]
    assert [tick for tick in ticks if tick.startswith("1 × ")] == [f"1 × #{id_} {storyteller.tokenizer.label(id_)}"]
    assert sum(tick.startswith("0 × ") for tick in ticks) == len(rows) - 2
    (caption,) = [text for kind, text in captions(page) if "from the row" in text and kind == "measured"]
    assert "row: 0 ·" in caption
    assert "began with: 0" in caption
    assert f"has the id {id_:,}" in said(page)


def test_pairs_are_those_of_the_weights(storyteller: LanguageModel) -> None:
    page = opened()
    rows = {word: weight(storyteller)[storyteller.tokenizer.encode(f" {word}")[0]] for word in ("cat", "dog", "money")}
    names = list(rows)
    every = weight(storyteller)
    lengths = np.linalg.norm(every, axis=1)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        a, b = rows[names[one]], rows[names[other]]
        cells = table(page)[f"{names[one]} – {names[other]}"]
        angle = cosine(a, b)
        nearer = int(((every @ a) / (lengths * np.linalg.norm(a)) > angle + 1e-7).sum()) - 1  # all but itself
        expected = [f"{math.sqrt(2):.3f}", f"{math.sqrt(2 - 2 * angle):.3f}", f"{angle:.3f}"]
        assert cells == [*expected, f"{np.linalg.norm(a - b):.3f}", f"{nearer:,}"]
    unit = every / lengths[:, None]
    mean = float((unit.sum(0) @ unit.sum(0) - 8192) / (8192 * 8191))
    assert f"a cosine of {mean:.2f} on average" in said(page)
    assert "`cat` and `dog` are the closest pair" in said(page)


def test_triangles_have_the_distances_of_the_table() -> None:
    page = opened()
    for alt, column in (("The one-hot vectors", 0), ("The embeddings of", 1)):
        sides = figure_with_alt(page, alt)["data"][:3]
        lengths = [math.dist(*zip(array(side["x"]), array(side["y"]), strict=True)) for side in sides]
        printed = [float(cells[column]) for cells in table(page).values()]
        np.testing.assert_allclose(lengths, printed, atol=6e-4)
        texts = [one["text"] for one in figure_with_alt(page, alt)["layout"]["annotations"]]
        assert [float(re.sub("</?b>", "", text)) for text in texts[:3]] == printed
        assert texts[3:] == ["cat", "dog", "money"]
    spans = [figure_with_alt(page, alt)["layout"]["yaxis"]["range"] for alt in ("The one-hot", "The embeddings")]
    assert spans[0] == spans[1], "one scale"


def test_a_word_of_several_tokens_is_an_average(storyteller: LanguageModel) -> None:
    page = well(opened().button(key="try_third").click().run())
    ids = storyteller.tokenizer.encode(" economics")
    vector, cat = weight(storyteller)[ids].mean(0), weight(storyteller)[storyteller.tokenizer.encode(" cat")[0]]
    assert table(page)["cat – economics"][0] == "1.414"
    assert table(page)["cat – economics"][2] == f"{cosine(vector, cat):.3f}"
    assert f"`economics` is {len(ids)} tokens for this model, and its vector is the average" in said(page)
    assert page.query_params["words"] == "cat, dog, economics"


def test_words_that_are_nothing_or_the_same() -> None:
    page = opened(words="cat,cat,#99999")
    assert "No token of this model stands for `#99999`" in said(page)
    assert table(page)["cat – cat"] == ["0.000", "0.000", "1.000", "0.000", "0"]
    assert not [alt for alt in alts(page) if "triangle" in alt]
    page = opened(words="cat,cat,dog")
    assert "less where two words share a token" in " ".join(text for _, text in captions(page))
    assert "Type at least two words" in said(opened(words=""))


@pytest.mark.parametrize("asked", ["", "猫", "economics", "#0", "</s>"])
def test_neighbours_are_those_of_a_brute_force_search(storyteller: LanguageModel, asked: str) -> None:
    page = opened(near=asked) if asked else opened(text=TEXT, token="2")
    bare, spaced = (storyteller.tokenizer.encode(text) for text in (asked, f" {asked}"))
    ids = {"": [1043], "#0": [0]}.get(asked) or (spaced if len(spaced) <= len(bare) else bare)
    every = weight(storyteller)
    vector = every[ids].mean(0)
    scores = {i: cosine(row, vector) for i, row in enumerate(every) if i not in ids}
    best = sorted(scores, key=lambda i: -scores[i])[:12]
    (bar,) = figure_with_alt(page, "The tokens nearest to")["data"]
    np.testing.assert_allclose(array(bar["x"]), [scores[i] for i in best], atol=1e-6)
    details = [drawn(text) for text in bar["customdata"]]
    assert details == [f"{storyteller.tokenizer.label(i)} · id {i:,}" for i in best]
    values = np.array(list(scores.values()))
    assert f"comes first with {scores[best[0]]:.3f}" in said(page)
    clear = (scores[best[0]] - values.mean()) / values.std() >= 3.5
    assert ("stands out clearly" in said(page)) == clear
    assert (f"{values.std():.2f}" in said(page)) and f"{values.mean():.2f}".replace("-", "−") in said(page)


@pytest.mark.parametrize(("kind", "make"), [("pca", pca), ("tsne", tsne)])
@pytest.mark.parametrize("dims", [2, 3])
def test_the_map_is_the_projection_of_the_rows(storyteller: LanguageModel, kind: str, make, dims: int) -> None:
    words = ["dog", "bird", "economics", "mat", "猫"]
    page = opened(
        text="The cat sat on the mat", mapped="dog, bird、economics,mat;猫,,dog", projection=kind, dims=str(dims)
    )
    encode = storyteller.tokenizer.encode
    ids = [(i,) for i in dict.fromkeys(encode("The cat sat on the mat"))]
    ids += [tuple(encode("猫" if word == "猫" else f" {word}")) for word in words if word != "mat"]
    vectors = torch.stack([storyteller.transformer.embed.weight[list(one)].mean(0) for one in ids])
    found = make(torch.nn.functional.normalize(vectors, dim=1), dims)
    traces = figure_with_alt(page, "Map of")["data"]
    shown = np.concatenate([np.stack([array(t[axis]) for axis in "xyz"[:dims]], axis=1) for t in traces])
    np.testing.assert_allclose(shown, found.points, atol=1e-5)
    details = [drawn(text) for t in traces for text in t["customdata"]]
    assert details[1] == "·cat · id 1,043"
    assert details[-2].startswith("economics · average of ids 333, ")
    assert len(details) == len(ids)
    assert f"Of the 5 nearest vectors of each point, {100 * found.kept:.0f}% are" in said(page)
    if kind == "pca":
        assert f"has {100 * sum(found.shares):.0f}% of their variance" in said(page)
        axes = figure_with_alt(page, "Map of")["layout"]
        title = (axes if dims == 2 else axes["scene"])["xaxis"]["title"]["text"]
        assert f"{100 * found.shares[0]:.1f}%" in drawn(title)
    else:
        assert "means nothing" in said(page)


def test_a_long_text_and_a_long_list_are_bounded_and_said(storyteller: LanguageModel) -> None:
    words = ",".join(storyteller.tokenizer.decode([i]).strip() for i in range(1000, 1060))[:399]
    page = opened(ids="-".join(map(str, range(300, 400))), mapped=words, token="89")
    first, second = figure_with_alt(page, "Map of")["data"]
    assert len(first["customdata"]) == 60
    assert len(second["customdata"]) <= 40
    assert drawn(first["customdata"][-1]).endswith("id 389"), "the chosen token is never left out"
    assert "40 more tokens of the text are not drawn" in " ".join(text for _, text in captions(page))


def test_the_context_curves_are_the_runs(storyteller: LanguageModel) -> None:
    page = opened(layer="3")
    sentences = SAY.plain("first_sentences").split("\n")
    runs = [storyteller.trace(sentence) for sentence in sentences]
    names = ["hook_embed", *(f"blocks.{i}.hook_resid_post" for i in range(6))]
    curves = figure_with_alt(page, "Cosine of the vectors")["data"]
    for curve, run in zip(curves, runs[1:], strict=False):  # the word stands last in every sentence
        expected = [float(torch.cosine_similarity(runs[0][n][-1], run[n][-1], dim=0)) for n in names]
        np.testing.assert_allclose(array(curve["y"]), expected, atol=1e-5)
    assert len(curves) == 3
    strips = figure_with_alt(page, "The vectors of bark")["data"]
    for strip, run in zip(strips, runs, strict=False):
        np.testing.assert_allclose(array(strip["z"])[0], run["blocks.3.hook_resid_post"][-1], atol=1e-5)
    assert f"has a cosine of {array(curves[0]['y'])[4]:.3f} with the one in sentence 2" in said(page)
    assert f"= {array(curves[0]['y'])[4]:.3f}" in box(page)


def test_what_is_said_of_the_context_fits_the_numbers() -> None:
    verdicts = {name: SAY.plain(f"context_{name}") for name in ("apart", "alike", "reversed")}
    for number in ("", "1", "2", "3"):
        page = opened()
        if number:
            page = well(page.button(key=f"context_{number}").click().run())
            assert selection(page).word == SAY.plain(f"example_word_{number}")
        other, same = (array(curve["y"])[1:] for curve in figure_with_alt(page, "Cosine of the vectors")["data"][:2])
        layer = int(np.abs(same - other).argmax())
        (blocks,) = [group for group in page.button_group if group.key.startswith("choose_layer")]
        assert blocks.value == layer
        gap = same[layer] - other[layer]
        wanted = "apart" if gap > 0.1 else "reversed" if gap < -0.1 else "alike"
        assert [name for name, text in verdicts.items() if text in said(page)] == [wanted]


def test_a_third_sentence_may_be_missing_a_word_may_not() -> None:
    page = opened(word="cat", sentences="The cat\nA big cat")
    assert "`cat` in sentence 2 has a cosine of" in said(page)
    assert len(figure_with_alt(page, "Cosine of the vectors")["data"]) == 2
    page = opened(word="cat", sentences="The dog\nA cat\nconcatenate")
    assert "`cat` does not stand in sentence 1, 3" in said(page)
    assert not [alt for alt in alts(page) if alt.startswith("Cosine of")]
    assert "Type a word that stands in all sentences" in said(opened(word=""))
    page = opened(word="cat", sentences="cat\nThe cat")
    assert "not the same tokens in all sentences" in said(page)


def test_what_is_typed_in_several_boxes_before_the_page_is_drawn_again_all_stays() -> None:
    page = opened()
    page.text_input(key="choose_compared_a").set_value("king")
    page.text_input(key="choose_compared_b").set_value("queen")
    page.text_input(key="choose_sentence_1").set_value("The cat sat.")
    page.text_input(key="choose_sentence_3").set_value("My cat ran.")
    well(page.run())
    assert selection(page).words == "king, queen, money"
    first, _, third = selection(page).sentences.split("\n")
    assert (first, third) == ("The cat sat.", "My cat ran.")


def test_turning_changes_what_is_shown_and_the_address() -> None:
    page = opened()
    page.button_group(key="choose_projection").set_value("tsne")
    page.button_group(key="choose_dims").set_value(3)
    well(page.run())
    assert (page.query_params["projection"], page.query_params["dims"]) == ("tsne", "3")
    assert [alt for alt in alts(page) if alt.startswith("Map of") and "3 dimensions by t-SNE" in alt]
    well(page.text_input(key="choose_compared_b").set_value("queen").run())
    assert page.query_params["words"] == "cat, queen, money"
    assert "cat – queen" in table(page)
    well(page.text_input(key="choose_near").set_value("king").run())
    assert page.query_params["near"] == "king"
    well(page.text_input(key="choose_near").set_value("").run())
    assert "near" not in page.query_params
    well(page.text_input(key="choose_mapped").set_value("king, queen").run())
    assert page.query_params["mapped"] == "king, queen"
    well(page.text_input(key="choose_sentence_2").set_value("A tree has bark").run())
    assert page.query_params["sentences"].split("\n")[1] == "A tree has bark"
    well(page.button(key="near_0").click().run())
    assert page.query_params["near"] == "seven"


@pytest.mark.parametrize(
    "parameters",
    [
        {"projection": "umap"},
        {"projection": "<b>"},
        {"dims": "4"},
        {"dims": "x"},
        {"words": "x" * 999},
        {"near": "y" * 41},
        {"mapped": "z" * 401},
        {"word": "w" * 41},
        {"sentences": "s\n" * 400},
    ],
)
def test_a_link_that_asks_for_what_there_is_not_is_brought_into_it(parameters: dict[str, str]) -> None:
    assert remarks(opened(**parameters))


@pytest.mark.parametrize(
    "junk", ["\x00\u202e<script>&amp;$x$", "{name} %{x} `a` **b**", "👩‍👩‍👧", " ", ",,,,", "\n\n\n\n"]
)
def test_any_words_are_taken_as_text(junk: str) -> None:
    page = opened(words=f"{junk},{junk},cat", near=junk, mapped=junk, word=junk, sentences=f"{junk}\n{junk}\n{junk}")
    assert not [tag for body in fragments(page) for tag, _ in read(body).tags if tag in ("script", "img")]


def test_every_figure_says_where_it_is_from() -> None:
    kinds = captions(opened())
    assert [text.split()[0] for _, text in kinds] == [kind for kind, _ in kinds]
    assert len(kinds) >= len(alts(opened()))
    assert [text for kind, text in kinds if kind == "computed"] == ["computed every distance is √2 = 1.414"]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(storyteller: LanguageModel, text: str, lang: str) -> None:
    page = opened(text=text, lang=lang)
    charts = [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]
    assert len(charts) == 7
    (row,) = [chart for chart, alt in zip(charts, alts(page), strict=True) if ("Rows of" in alt or "嵌入表中" in alt)]
    ids = (storyteller.tokenizer.encode(text[:4000]) or [0])[:MAX_TOKENS]
    np.testing.assert_array_equal(array(row["data"][-1]["z"])[0], weight(storyteller)[ids[-1]].astype(np.float32))
