"""The heads page: every cell that is sent to the browser is the traced pattern, as the settings draw it."""

import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from model.analysis.interest import most_interesting
from model.language import LanguageModel
from pages.kit.figures.tiles import EMPTY, FIRST_LEVEL, TOP_LEVEL
from pages.kit.limits import MAX_TOKENS
from tests.cases import TEXTS
from tests.pages.component_io import message, pick, sent, unpack_tiles
from tests.pages.reading import captions, fragments
from tests.pages.visit import TEXT, selection, visit

FIGURES = ("one_head", "head_lines", "mixed_heads", "rollout")


def opened(**parameters: str) -> AppTest:
    return well(visit("heads", **parameters))


def well(page: AppTest) -> AppTest:
    assert not page.exception
    assert not page.error
    assert page.title[0].value in ("What do the heads look for?", "这些头在找什么？")
    return page


def weights(page: AppTest, key: str) -> np.ndarray:
    """The weights that a component was given, NaN where masked."""
    _, (cells,) = sent(page, key)
    return cells


def patterns(lm: LanguageModel, text: str = TEXT) -> np.ndarray:
    """(layers, heads, T, T), traced by us, NaN where the future is."""
    run = lm.trace(lm.tokenizer.encode(text)[:MAX_TOKENS])
    stack = np.stack([run[f"blocks.{i}.attn.hook_pattern"].numpy() for i in range(lm.config.n_layers)])
    return np.where(np.tril(np.ones(stack.shape[2:], dtype=bool)), stack, np.nan)


def without_first(pattern: np.ndarray) -> np.ndarray:
    """What a pattern is without its first key, NaN where nothing may be looked at."""
    rest = pattern.astype(np.float64).copy()
    rest[:, 0] = np.nan
    sums = np.nansum(rest, axis=-1, keepdims=True)
    return np.where(sums > 0, rest / np.where(sums > 0, sums, 1), np.nan)


def tiles(page: AppTest, size: int) -> np.ndarray:
    """(layers, heads, size, size) levels of the picture of all heads."""
    _, levels = unpack_tiles(message(page, "all_heads").bytes)
    assert levels.shape[2:] == (size, size)
    return levels


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (2, 5), (5, 7)])
def test_every_cell_is_the_traced_pattern(storyteller: LanguageModel, layer: int, head: int) -> None:
    page = opened(layer=str(layer), head=str(head))
    traced = patterns(storyteller)[layer, head]
    for key in ("one_head", "head_lines"):
        np.testing.assert_allclose(weights(page, key), traced, atol=1e-6)
    assert any(f"layer {layer}, head {head}" in caption and "“flash”" in caption for _, caption in captions(page))
    assert any(heading.value == f"Layer {layer}, head {head}" for heading in page.header)


def test_all_heads_are_on_one_scale(storyteller: LanguageModel) -> None:
    levels = tiles(opened(), 10)
    traced = patterns(storyteller)
    assert levels.shape == traced.shape
    hidden = np.isnan(traced)
    assert np.all((levels == EMPTY) == hidden)
    shown = (levels - float(FIRST_LEVEL)) / (TOP_LEVEL - FIRST_LEVEL)
    np.testing.assert_allclose(shown[~hidden], traced[~hidden], atol=0.51 / (TOP_LEVEL - FIRST_LEVEL))


def test_a_click_on_a_picture_chooses_its_head(storyteller: LanguageModel) -> None:
    page = well(pick(opened(), "all_heads", query=4, key=6))
    assert (selection(page).layer, selection(page).head) == (4, 6)
    header, _ = unpack_tiles(message(page, "all_heads").bytes)
    assert (header["query"], header["key"]) == (4, 6)
    np.testing.assert_allclose(weights(page, "one_head"), patterns(storyteller)[4, 6], atol=1e-6)


def test_it_opens_on_a_head_that_does_something(storyteller: LanguageModel) -> None:
    place = most_interesting(storyteller.trace(TEXT))
    header, _ = sent(opened(), "one_head")
    assert (header["query"], header["key"]) == (place.query, place.key)
    assert header["panels"][0]["log_from"] is None


def test_hiding_the_first_token_renormalises_the_rows(storyteller: LanguageModel) -> None:
    page = opened(layer="2", head="5")
    well(page.toggle(key="choose_without_first").set_value(True).run())
    traced = patterns(storyteller)
    for key in ("one_head", "head_lines"):
        cells = weights(page, key)
        np.testing.assert_allclose(cells, without_first(traced[2, 5]), atol=1e-4)
        np.testing.assert_allclose(np.nansum(cells[1:], axis=-1), 1, atol=1e-6)
        assert np.isnan(cells[0]).all()
        assert np.isnan(cells[:, 0]).all()
    np.testing.assert_allclose(weights(page, "mixed_heads"), without_first(np.mean(traced[2], axis=0)), atol=1e-4)
    levels = tiles(page, 10)
    assert np.all(levels[:, :, :, 0] == EMPTY)
    said = [caption for _, caption in captions(page) if "first token left out" in caption]
    assert len(said) == 5, "every figure of a pattern says so"
    whole = [caption for _, caption in captions(page) if "the first token included" in caption]
    assert len(whole) == 4, "and every map of roles on this text that there it is counted"
    assert "without The" in sent(page, "one_head")[0]["panels"][0]["subtitle"]
    for key in ("one_head", "mixed_heads", "rollout"):
        assert sent(page, key)[0]["panels"][0]["left_out"] == "left out"
    assert sent(page, "head_lines")[0]["left_out"] == "left out"
    legends = [caption for _, caption in captions(page) if "masked" in caption]
    assert len(legends) == 4
    assert all(caption.split("masked")[1].lstrip().startswith("left out") for caption in legends)
    assert any(text.value.startswith("Of its attention to the rest, without `The`") for text in page.markdown)


def test_nothing_is_left_out_unless_the_reader_wants_it() -> None:
    page = opened(layer="2", head="5")
    assert sent(page, "one_head")[0]["panels"][0]["left_out"] == sent(page, "head_lines")[0]["left_out"] == ""
    assert not any("left out" in caption for _, caption in captions(page))
    page = opened(layer="2", head="5", without_first="1", token="4", key="0")
    assert sum("is left out here" in text.value for text in page.markdown) == 2, "the head and the rollout"


def test_what_is_told_is_of_a_row_that_is_drawn(storyteller: LanguageModel) -> None:
    page = opened(layer="2", head="5", rows="8-3", token="5")
    row = patterns(storyteller)[2, 5][3]
    best = int(np.nanargmax(row))
    labels = storyteller.tokenizer.labels(storyteller.tokenizer.encode(TEXT))
    told = next(text.value for text in page.markdown if "of its attention" in text.value)
    assert f"`{labels[3]}`" in told
    assert f"`{labels[best]}`" in told
    assert f"**{row[best]:.3f}**" in told.replace("\\", "")
    for key in FIGURES:
        assert (sent(page, key)[0]["query"], sent(page, key)[0]["key"]) == (0, best)
    (box,) = [body for body in fragments(page) if "atlas-arithmetic'" in body]
    assert f">{labels[3]}<" in box
    assert f">{labels[5]}<" not in box


def test_rows_of_chosen_tokens_only(storyteller: LanguageModel) -> None:
    page = opened(layer="2", head="5")
    well(page.multiselect(key="choose_rows").set_value([8, 3]).run())
    traced = patterns(storyteller)
    labels = storyteller.tokenizer.labels(storyteller.tokenizer.encode(TEXT))
    for key, expected in (("one_head", traced[2, 5]), ("head_lines", traced[2, 5]), ("mixed_heads", traced[2].mean(0))):
        np.testing.assert_allclose(weights(page, key), expected[[3, 8]], atol=1e-6)
        header, _ = sent(page, key)
        assert (header["labels_q"], header["labels_k"]) == ([labels[3], labels[8]], labels)
    assert page.query_params["rows"] == "8-3", "in the order of choosing"
    assert sum("rows of 2 chosen tokens" in caption for _, caption in captions(page)) == len(FIGURES)
    assert selection(page).query in (3, 8)
    well(pick(page, "head_lines", query=1, key=2))
    assert (selection(page).query, selection(page).key) == (8, 2)
    assert sent(page, "one_head")[0]["query"] == 1, "the second row is that of token 8"
    well(page.multiselect(key="choose_rows").set_value([]).run())
    assert weights(page, "one_head").shape == (10, 10)
    assert "rows" not in page.query_params


def test_what_is_done_is_not_asked_for() -> None:
    def asks(page: AppTest) -> bool:
        return any(element.value.startswith("Hide the first token") for element in page.main.markdown)

    page = opened()
    assert asks(page)
    well(page.toggle(key="choose_without_first").set_value(True).run())
    assert not asks(page)


def test_the_mix_is_the_mean(storyteller: LanguageModel) -> None:
    traced = patterns(storyteller)
    page = opened(layer="4", head="1")
    np.testing.assert_allclose(weights(page, "mixed_heads"), traced[4].mean(0), atol=1e-6)
    well(page.button_group(key="choose_mix_kind").set_value("all").run())
    np.testing.assert_allclose(weights(page, "mixed_heads"), traced.mean((0, 1)), atol=1e-6)
    assert any("mean of 48 heads" in caption for _, caption in captions(page))
    well(page.button_group(key="choose_mix_kind").set_value("picked").run())
    np.testing.assert_allclose(weights(page, "mixed_heads"), traced[4, 1], atol=1e-6)
    well(page.multiselect(key="choose_mix_heads").set_value([(4, 1), (0, 3), (5, 5)]).run())
    expected = (traced[4, 1] + traced[0, 3] + traced[5, 5]) / 3
    np.testing.assert_allclose(weights(page, "mixed_heads"), expected, atol=1e-6)


def test_heads_of_a_link_that_do_not_exist_are_left_out_and_it_is_said(storyteller: LanguageModel) -> None:
    page = opened(mix="0.3-9.9")
    np.testing.assert_allclose(weights(page, "mixed_heads"), patterns(storyteller)[0, 3], atol=1e-6)
    assert any("averages heads that this model does not have" in body for body in fragments(page))


def test_threshold_and_logarithm_change_the_drawing_not_the_numbers(storyteller: LanguageModel) -> None:
    page = opened(layer="2", head="5", threshold="0.1")
    traced = patterns(storyteller)
    np.testing.assert_allclose(weights(page, "one_head"), traced[2, 5], atol=1e-6)
    assert sent(page, "one_head")[0]["panels"][0]["threshold"] == pytest.approx(0.1)
    assert sent(page, "head_lines")[0]["threshold"] == pytest.approx(0.1)
    levels, hidden = tiles(page, 10), np.isnan(traced)
    assert np.all(levels[~hidden & (traced < 0.0999)] == FIRST_LEVEL)
    assert np.all(levels[~hidden & (traced > 0.1001)] > FIRST_LEVEL)
    assert sum("below 0.1 not drawn" in caption for _, caption in captions(page)) == 5
    well(page.button_group(key="choose_scale").set_value("log").run())
    np.testing.assert_allclose(weights(page, "one_head"), traced[2, 5], atol=1e-6)
    assert sent(page, "one_head")[0]["panels"][0]["log_from"] == pytest.approx(1e-4)
    levels = tiles(page, 10)
    share = 1 - np.log10(np.clip(traced, 1e-4, 1)) / -4
    drawn = ~hidden & (traced > 0.1001)
    shown = (levels - float(FIRST_LEVEL)) / (TOP_LEVEL - FIRST_LEVEL)
    np.testing.assert_allclose(shown[drawn], share[drawn], atol=0.01)
    assert sum("0.0001" in caption for _, caption in captions(page)) == 4, "the scale's foot, wherever there is a scale"


def test_a_picked_cell_is_picked_everywhere() -> None:
    page = opened(layer="2", head="5")
    well(pick(page, "mixed_heads", query=7, key=3))
    for key in FIGURES:
        header, _ = sent(page, key)
        assert (header["query"], header["key"]) == (7, 3)
    assert "`·because`" in next(text.value for text in page.markdown if "of its attention" in text.value)
    page.switch_page("pages/overview.py").run()
    assert any("after `·because`" in heading.value for heading in page.header)


def test_settings_outlive_a_page_change(storyteller: LanguageModel) -> None:
    page = opened(layer="2", head="5", mix="0.3-5.5", scale="log", without_first="1", threshold="0.05")
    before = {key: weights(page, key) for key in FIGURES}
    page.switch_page("pages/overview.py").run()
    well(page.switch_page("pages/heads.py").run())
    assert page.toggle(key="choose_without_first").value is True
    assert page.button_group(key="choose_scale").value == "log"
    assert page.select_slider(key="choose_threshold").value == pytest.approx(0.05)
    assert page.multiselect(key="choose_mix_heads").value == [(0, 3), (5, 5)]
    for key in FIGURES:
        np.testing.assert_array_equal(weights(page, key), before[key])


def test_a_long_text_is_pooled_in_the_picture_of_all_heads_and_whole_elsewhere(storyteller: LanguageModel) -> None:
    text = "the cat sat on the mat " * 100
    page = opened(text=text, layer="1", head="2")
    traced = patterns(storyteller, text)
    assert traced.shape[-1] == MAX_TOKENS
    np.testing.assert_allclose(weights(page, "one_head"), traced[1, 2], atol=1e-6)
    (pooled,) = [caption for _, caption in captions(page) if "their largest weight" in caption]
    block = int(re.search(r"a cell is (\d+) ×", pooled)[1])
    assert block > 1
    levels = tiles(page, -(-MAX_TOKENS // block))
    corner = np.nanmax(traced[1, 2][:block, :block])
    assert (levels[1, 2][0, 0] - FIRST_LEVEL) / (TOP_LEVEL - FIRST_LEVEL) == pytest.approx(corner, abs=0.01)


def test_what_to_try_is_measured(storyteller: LanguageModel) -> None:
    traced = patterns(storyteller)
    first = traced[:, :, 1:, 0].mean(-1)
    said = " ".join(text.value for text in opened().markdown)
    layer, head = divmod(int(first.argmax()), 8)
    assert f"give {first.mean():.0%}".replace("%", r"\%") in said
    assert f"head {head} of layer {layer} gives it {first.max():.0%}".replace("%", r"\%") in said
    pale = np.mean(traced[~np.isnan(traced)] < 0.05)
    assert f"{pale:.0%}".replace("%", r"\%") in said


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(text: str, lang: str) -> None:
    page = opened(text=text, lang=lang)
    n = weights(page, "one_head").shape[0]
    for key in FIGURES:
        header, (cells,) = sent(page, key)
        assert cells.shape == (n, n)
        assert len(header["labels_q"]) == n
        assert all(header["labels_q"])
        np.testing.assert_allclose(np.nansum(cells, axis=-1), 1, atol=1e-5)
    page.toggle(key="choose_without_first").set_value(True).run()
    well(page)
