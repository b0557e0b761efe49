"""The page on three architectures: every number on it is recomputed here with the models themselves."""

import html
import json
import re
import shutil
from collections.abc import Iterator

import numpy as np
import pytest
import streamlit as st
import torch
from streamlit.testing.v1 import AppTest

from model import load
from model.analysis.alignment import Written, align, clearest_head
from model.analysis.gaps import with_gap
from model.analysis.model_card import translation_scores
from model.language import LanguageModel
from model.sampling import SamplingSettings
from model.trace import Trace
from model.zoo.catalog import CATALOG
from pages.kit import continuing, figures, loading, sidebar
from pages.kit.figures import RowToken
from pages.kit.numbers import probability, three_digits
from pages.kit.palette import DARK, LIGHT, Palette
from pages.kit.prose import Prose
from pages.kit.three_models import MAX_TOKENS
from tests.cases import TEXTS
from tests.model.test_parity_families import ENCODERS
from tests.model.tiny import randomise
from tests.pages.component_io import pick, sent
from tests.pages.reading import AWKWARD, array, read
from tests.pages.visit import remarks, selection, visit, well

SENTENCE = "She reads a book every day."
PLACE = {"text": SENTENCE, "token": "4"}  # " book"
ROWS = ("change_encoder", "change_decoder", "change_source", "change_target")


@pytest.fixture(scope="module")
def reader() -> LanguageModel:
    return load("reader", device="cpu")


@pytest.fixture(scope="module")
def translator() -> LanguageModel:
    return load("translator", device="cpu")


def opened(**parameters: str) -> AppTest:
    return well(visit("architectures", **parameters))


def figure(page: AppTest, alt: str) -> dict:
    wanted = Prose("architectures").plain(alt)
    (chart,) = [chart.proto for chart in page.get("plotly_chart") if chart.proto.alt == wanted]
    (bars,) = json.loads(chart.spec)["data"]
    return bars


def said(page: AppTest) -> str:
    return "\n".join(element.value for element in page.main.markdown).replace("\\", "")


def rows(page: AppTest) -> dict[str, list[tuple[str, str, str]]]:
    """Of each row of tokens, by what it is called: mark, label and number of each."""
    found = {}
    for element in page.main.get("html"):
        for name, body in re.findall(r"<ul class='atlas-tokens' aria-label='(.*?)'>(.*?)</ul>", element.proto.body):
            cells = re.findall(r"<li(?: class='(\w+)')?[^>]*><span>(.*?)</span>(?:<small>(.*?)</small>)?</li>", body)
            found[html.unescape(name)] = [tuple(map(html.unescape, cell)) for cell in cells]
    return found


def row(page: AppTest, section: str, lang: str = "en") -> list[tuple[str, str, str]]:
    return rows(page)[Prose("architectures", lang).plain(section)]


def translated(lm: LanguageModel, source: str, beam: int = 4) -> Trace:
    """The run that wrote the translation, found by the search itself."""
    ids = lm.ids(source)
    *_, last = lm.search(ids, 2 * len(ids) + 10, beam=beam)
    return lm.trace([0, *last.best.ids[:-1]], source=ids)


def test_the_encoder_fills_the_gap(reader: LanguageModel) -> None:
    page, ids = opened(**PLACE), reader.ids(SENTENCE)
    hidden = reader.tokenizer.labels(ids).index("·book")
    with torch.no_grad():
        logits = reader.transformer(torch.tensor([with_gap(reader, ids, hidden)]))[0, hidden]
    values, best = logits.double().softmax(-1).topk(6)
    np.testing.assert_allclose(array(figure(page, "fill_bars_alt")["x"]), values, rtol=1e-4)
    shown = [mark for mark, _, _ in rows(page)[Prose("architectures").plain("fill_alt", token="·book")]]
    assert shown.index("chosen") == hidden
    own = float(logits.double().softmax(-1)[ids[hidden]])
    assert any(f"probability {probability(own)}" in e.proto.body for e in page.main.get("html"))
    assert len(best) == 6


def test_the_decoder_goes_on_and_guesses_the_gap_from_the_left(storyteller: LanguageModel) -> None:
    page, run = opened(**PLACE), storyteller.trace(SENTENCE)
    expected = run.logits.double().softmax(-1).topk(6).values
    np.testing.assert_allclose(array(figure(page, "continue_bars_alt")["x"]), expected[-1], rtol=1e-4)
    place = run.labels.index("·book")
    np.testing.assert_allclose(array(figure(page, "left_bars_alt")["x"]), expected[place - 1], rtol=1e-4)
    steps = list(storyteller.generate(SENTENCE, 12, SamplingSettings(temperature=0)))
    own = [step for step in steps if step.id not in storyteller.config.eos_ids]
    new = [cell for cell in row(page, "continue_alt") if cell[0] == "new"]
    assert [label for _, label, _ in new] == storyteller.tokenizer.labels([step.id for step in own])
    assert [number for _, _, number in new] == [probability(float(np.exp(step.logprob))) for step in own]
    assert re.findall(r"All that it saw is (.*)", said(page)) == ["`She reads a`"]


def test_a_token_of_the_decoder_that_holds_the_gap_and_more_is_guessed_from_what_stands_before_all_of_it(
    reader: LanguageModel, storyteller: LanguageModel
) -> None:
    text = "那只小猫坐在垫子上，因为它"
    labels = storyteller.tokenizer.labels(storyteller.ids(text))
    assert "因为" in labels
    assert "为" in reader.tokenizer.labels(reader.ids(text))
    page = opened(text=text)
    assert Prose("architectures").plain("fill_alt", token="为") in rows(page), "the page's own choice"
    assert re.findall(r"All that it saw is (.*)", said(page)) == ["`那只小猫坐在垫子上，`"]
    assert (
        "only `为` is hidden from the encoder, which still sees `因`; the decoder has to guess all of `因为`"
        in said(page)
    )


def test_gaps_that_are_the_same_are_not_told_apart() -> None:
    assert "their gaps differ" not in said(opened(**PLACE))


@pytest.mark.parametrize("name", sidebar.EXAMPLES)
def test_of_an_example_that_is_no_sentence_the_translator_gets_another_text_and_it_is_said(name: str) -> None:
    say = Prose("architectures")
    page = opened(text=say.plain(f"example_{name}_text"))
    spare = say.plain("example_spare_text")
    (note,) = [note.value for note in page.info]
    assert spare in note.replace("\\", "")
    assert "reads a sentence of ours" in said(page)
    assert f"`{spare.lower()}` → **" in said(page)
    assert f"In our sentence `{spare}`" in said(page)
    own = opened(**PLACE)
    assert not own.info
    assert "goes through one of each" in said(own)


def test_at_the_first_token_the_decoder_has_only_its_start(storyteller: LanguageModel) -> None:
    page = opened(text=SENTENCE, token="0")
    expected = storyteller.trace([storyteller.config.bos_id]).logits[0].double().softmax(-1).topk(6).values
    np.testing.assert_allclose(array(figure(page, "left_bars_alt")["x"]), expected, rtol=1e-4)
    assert "nothing but its start token" in said(page)


@pytest.mark.parametrize("beam", [1, 4])
def test_the_translation_is_the_models(translator: LanguageModel, beam: int) -> None:
    page, run = opened(text=SENTENCE, translation_beam=str(beam)), translated(translator, SENTENCE, beam)
    assert f"→ **{translator.translate(SENTENCE, beam=beam)}**" in said(page)
    if beam == 1:
        greedy = translator.generate(SENTENCE, 40, SamplingSettings(temperature=0))
        assert [step.id for step in greedy][:-1] == run.tokens[1:]
    probabilities = run.logits.double().softmax(-1)
    cells = row(page, "translate_alt")
    assert [label for _, label, _ in cells] == run.labels[1:]
    expected = [probability(float(probabilities[at, token])) for at, token in enumerate(run.tokens[1:])]
    assert [number for _, _, number in cells] == expected


def test_it_says_what_the_translator_can_and_how_well() -> None:
    scores = translation_scores()
    (limits,) = [c.value.replace("\\", "") for c in opened().caption if "BLEU" in c.value]
    for part in ("simple everyday sentences", "only from English to Chinese", str(scores.bleu), str(scores.chrf)):
        assert part in limits
    assert f"{scores.pairs:,}" in limits


def test_the_masks_are_the_models_own(
    reader: LanguageModel, storyteller: LanguageModel, translator: LanguageModel
) -> None:
    page, run = opened(**PLACE), translated(translator, SENTENCE)
    runs = {"mask_encoder": (reader.trace(SENTENCE), "blocks", "attn"), "mask_source": (run, "encoder.blocks", "attn")}
    runs |= {"mask_decoder": (storyteller.trace(SENTENCE), "blocks", "attn"), "mask_target": (run, "blocks", "attn")}
    runs |= {"mask_cross": (run, "blocks", "cross_attn")}
    for name, (one, blocks, layer) in runs.items():
        _, (drawn,) = sent(page, name)
        n = one.config.n_encoder_layers if blocks.startswith("encoder") else one.config.n_layers
        pattern = torch.stack([one[f"{blocks}.{i}.{layer}.hook_pattern"] for i in range(n)]).mean((0, 1)).numpy()
        future = np.triu(np.ones(drawn.shape, dtype=bool), 1)
        hatched = future if name in ("mask_decoder", "mask_target") else np.zeros_like(future)
        np.testing.assert_array_equal(np.isnan(drawn), hatched)
        np.testing.assert_allclose(drawn[~hatched], pattern[~hatched], atol=1e-6)
        np.testing.assert_allclose(np.nansum(drawn, -1), 1, atol=1e-5)
        choosing = (~hatched).sum(-1) > 1
        (panel,) = sent(page, name)[0]["panels"]
        assert panel["high"] == pytest.approx(np.nanmax(drawn[choosing]), rel=1e-5)
        assert panel["log_from"] is None
        assert any(f"Largest weight: {probability(panel['high'])}." in c.value.replace("\\", "") for c in page.caption)
    told = [caption.value for caption in page.caption if "attention goes" in caption.value]
    assert sum("None of the attention" in text for text in told) == 2
    assert len(told) == 4


def test_a_replaced_token_is_noticed_where_it_is_seen(
    reader: LanguageModel, storyteller: LanguageModel, translator: LanguageModel
) -> None:
    page = opened(**PLACE, instead="letter")
    marks = {name: [mark for mark, _, _ in row(page, name)] for name in ROWS}
    moved = {name: [number != "=" for _, _, number in row(page, name)] for name in ROWS}
    assert all(all(moved[name]) for name in ROWS if name != "change_decoder")
    at = marks["change_decoder"].index("chosen")
    assert moved["change_decoder"] == [place >= at for place in range(len(moved["change_decoder"]))]
    assert "chosen" not in marks["change_target"]
    ids = storyteller.ids(SENTENCE)
    other = [*ids[:at], storyteller.tokenizer.encode(" letter")[0], *ids[at + 1 :]]
    vectors = []
    for tokens in (ids, other):
        with torch.no_grad():
            run = storyteller.trace(tokens)
            vectors.append(run.module("ln_final")(run["blocks.5.hook_resid_post"]))
    expected = [three_digits(float(v)) for v in (vectors[0] - vectors[1]).abs().amax(-1)[at:]]
    assert [number for _, _, number in row(page, "change_decoder")][at:] == expected
    assert f"{len(ids) - at} of {len(ids)} positions changed" in said(page)
    (box,) = [box for box in page.text_input if box.label == Prose("architectures").plain("which_instead")]
    assert box.value == "letter"
    box.set_value("she").run()
    assert page.query_params["instead"] == "she"
    page = well(page.button(key="choose_for_me").click().run())
    assert "instead" not in page.query_params
    assert "token" not in page.query_params


def test_the_cross_attention_is_the_chosen_heads(translator: LanguageModel) -> None:
    page, run = opened(**PLACE), translated(translator, SENTENCE)
    layer, head = clearest_head(run, len(run.tokens) - 1)
    chosen = {"": (layer, head), "0.3": (0, 3), "mean": (None, None)}
    for cross, place in chosen.items():
        page = opened(**PLACE, **({"cross": cross} if cross else {}))
        header, (drawn,) = sent(page, "cross_matrix")
        found = align(run, *place)
        np.testing.assert_allclose(drawn, found.weights, atol=1e-6)
        np.testing.assert_allclose(drawn.sum(-1), 1, atol=1e-5)
        assert header["labels_k"] == run.source_labels
        assert header["labels_q"] == [*run.labels[1:], translator.tokenizer.label(0)]
        assert header["key"] == found.sources[header["query"]]
        aligned = [(label, number) for _, label, number in row(page, "aligned_alt")]
        expected = [run.source_labels[source] for source in found.sources[:-1]]
        assert aligned == list(zip(run.labels[1:], expected, strict=True))
        strong = sum(float(found.weights[at, source]) > 0.5 for at, source in enumerate(found.sources[:-1]))
        many = 2 * strong >= len(aligned)
        assert f"{'' if many else 'Only '}{strong} of {len(aligned)} give this one token more than half" in said(page)
        _, (lines,) = sent(page, "cross_lines")
        np.testing.assert_array_equal(lines, drawn)


def test_one_written_token_at_a_time(translator: LanguageModel) -> None:
    page, run = opened(**PLACE, cross="mean", written="2"), translated(translator, SENTENCE)
    for at in (2, 3):
        alt = Prose("architectures").plain("step_alt", number=at + 1)
        (chart,) = [chart.proto for chart in page.get("plotly_chart") if chart.proto.alt == alt]
        drawn = array(json.loads(chart.spec)["data"][0]["x"])
        np.testing.assert_allclose(drawn, run.logits[at].double().softmax(-1).topk(6).values, rtol=1e-4)
        well(page.button(key="step_after").click().run())
    assert page.query_params["written"] == "4"
    well(pick(page, "cross_matrix", query=5, key=1))
    assert selection(page).written == 5
    assert selection(page).read is None, "another row: its own source"
    pick(page, "cross_matrix", query=5, key=1, number=2)
    assert selection(page).read == 1
    weight = probability(float(align(run).weights[5, 1]))
    assert f"weight **{weight}**" in said(well(page))


def test_it_opens_on_a_gap_and_a_head_that_show_something() -> None:
    page = opened()
    header, _ = sent(page, "strip")
    assert header["query"] is not None
    assert "first guess" in "".join(e.proto.body for e in page.main.get("html"))
    assert page.query_params == {}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(("name", "text"), TEXTS, ids=[name for name, _ in TEXTS])
def test_every_text_works_or_gets_a_sentence(translator: LanguageModel, name: str, text: str, lang: str) -> None:
    page, say = opened(text=text, lang=lang), Prose("architectures", lang)
    told = [note.value.replace("\\", "") for note in page.info]
    if not text.strip():
        assert told == [say("nothing").replace("\\", "")]
        assert [say(f"story_{name}").replace("\\", "") in said(page) for name in ("one", "two")] == [False, False]
        return
    sentence = say.plain("example_spare_text")
    own = name not in ("zh", "zh_short", "zh_order", "zh_mixed", "dates", "combining", "rtl")
    assert any(sentence in note for note in told) == (not own)
    labels = sent(page, "mask_source")[0]["labels_k"]
    read_ = text[:200] if own else sentence
    ids = translator.tokenizer.encode(read_)
    assert labels == translator.tokenizer.labels([*ids[:-1][: MAX_TOKENS - 1], 0])
    cut = len(ids) > MAX_TOKENS
    assert (say.html("cut_tokens", model="translator", n=len(ids) - 1, read=MAX_TOKENS - 1) in remarks(page)) == cut
    assert (str(200) in remarks(page)) == (len(text) > 200)
    assert len(page.get("plotly_chart")) >= 3
    assert all(row(page, name, lang) for name in ("change_encoder", "change_source"))


@pytest.mark.parametrize(
    "parameters",
    [
        {"translation_beam": "3"},
        {"cross": "3.0"},
        {"cross": "<b>"},
        {"written": "-1"},
        {"read": "9999"},
        {"instead": "x" * 99},
    ],
)
def test_a_link_that_asks_for_what_there_is_not_is_brought_into_it(parameters: dict[str, str]) -> None:
    assert remarks(opened(**parameters))


def test_a_place_beyond_source_and_translation_is_their_end_and_that_is_said(translator: LanguageModel) -> None:
    page, run = opened(**PLACE, written="200", read="900", layer="77"), translated(translator, SENTENCE)
    header, _ = sent(page, "cross_matrix")
    last = {"written": len(run.tokens) - 1, "read": len(run.source) - 1}
    assert {"written": header["query"], "read": header["key"]} == last
    for name, asked in (("written", 200), ("read", 900)):
        values = {"asked": asked, "count": last[name] + 1, "used": last[name]}
        assert Prose("architectures").html(f"clamped_{name}", **values) in remarks(page)
        assert page.query_params[name] == str(last[name])
    assert "no layer 77" in remarks(page), "what was said before stays"
    assert "512" not in remarks(page)
    page.sidebar.text_area[0].set_value("The dog sleeps.").run()
    assert remarks(well(page)) == "", "places in another text are no mistake of the reader's"
    assert (selection(page).written, selection(page).read) == (None, None)


def test_places_in_a_translation_that_is_there_no_more_are_forgotten(translator: LanguageModel) -> None:
    text = "When it rains in the evening, the children stay at home and their grandmother tells them long stories."
    page = opened(text=text, translation_beam="1", written="3", read="2")
    assert (selection(page).written, selection(page).read) == (3, 2)
    page.main.button_group(key="choose_translation_beam").set_value(4)
    assert remarks(well(page.run())) == ""
    assert (selection(page).translation_beam, selection(page).written, selection(page).read) == (4, None, None)


def test_places_in_a_rewound_text_are_forgotten_with_it(storyteller: LanguageModel) -> None:
    ids = "-".join(map(str, storyteller.tokenizer.encode(SENTENCE)))
    kept = {"written": "2", "read": "1"}
    for rewound in ({"ids": ids}, {}):
        page = opened(text="The dog sleeps." if rewound else SENTENCE, **rewound, **kept)
        assert (selection(page).written, selection(page).read) == (2, 1)
        page.sidebar.selectbox(key="choose_model").set_value("reader")
        well(page.run())
        assert (selection(page).model, selection(page).ids) == ("reader", None)
        assert (selection(page).written, selection(page).read) == ((None, None) if rewound else (2, 1))


def test_a_token_that_is_not_looked_at_is_said() -> None:
    text = "The cat sat. " * 30
    assert "not part of what is looked at" in remarks(opened(text=text, token="110"))


def test_a_generated_text_is_read_too(storyteller: LanguageModel) -> None:
    ids = storyteller.ids("The dog ran home")
    page = opened(ids="-".join(map(str, ids)), token="1")
    header, _ = sent(page, "mask_encoder")
    assert "·dog" in header["labels_q"]
    assert row(page, "change_decoder")[1][0] == "chosen"


@pytest.fixture
def own_models(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator's folder with two tiny random BERTs: one that fills gaps, one without an output for tokens."""
    tokenizer = CATALOG["reader"].folder / "tokenizer.json"
    for name, family in {"own-bert": "bert, masked", "own-vectors": "bert"}.items():
        model, config, options = ENCODERS[family]
        randomise(model(config(**options | {"vocab_size": 6144}))).save_pretrained(tmp_path / name)
        shutil.copy(tokenizer, tmp_path / name)
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path))


@pytest.mark.usefixtures("own_models")
def test_an_encoder_of_the_readers_own_fills_the_gap() -> None:
    page = opened(text=SENTENCE, model="own-bert", token="5")
    lm = loading.model("own-bert")
    ids = lm.ids(SENTENCE)
    with torch.no_grad():
        logits = lm.transformer(torch.tensor([with_gap(lm, ids, 5)]))[0, 5]
    expected = logits.double().softmax(-1).topk(6).values
    np.testing.assert_allclose(array(figure(page, "fill_bars_alt")["x"]), expected, rtol=1e-4)
    assert "**own\u2060-bert** was trained" in said(page) or "**own-bert** was trained" in said(page)
    assert "**storyteller** was trained" in said(page)
    assert remarks(page) == ""


@pytest.mark.usefixtures("own_models")
def test_a_model_of_vectors_alone_is_told_of_and_replaced() -> None:
    page = opened(text=SENTENCE, model="own-vectors")
    assert "own-vectors turns texts into vectors" in remarks(page)
    assert "**reader** was trained" in said(page)


@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
def test_all_three_models_are_in_the_format_that_the_reader_chose(weights: str) -> None:
    page = opened(**PLACE, weights=weights)
    reader, storyteller, translator = (loading.model(name, weights) for name in ("reader", "storyteller", "translator"))
    expected = storyteller.trace(SENTENCE).logits[-1].float().softmax(-1).topk(6).values
    np.testing.assert_allclose(array(figure(page, "continue_bars_alt")["x"]), expected, rtol=1e-3)
    ids = reader.ids(SENTENCE)
    hidden = reader.tokenizer.labels(ids).index("·book")
    expected = reader.trace(with_gap(reader, ids, hidden)).logits[hidden].float().softmax(-1).topk(6).values
    np.testing.assert_allclose(array(figure(page, "fill_bars_alt")["x"]), expected, rtol=1e-3)
    run = translated(translator, SENTENCE)
    cells = row(page, "translate_alt")
    assert [label for _, label, _ in cells] == run.labels[1:]
    expected = [float(run.logits[at].float().softmax(-1)[token]) for at, token in enumerate(run.tokens[1:])]
    assert [float(number) for _, _, number in cells] == pytest.approx(expected, abs=0.02), "a cache rounds otherwise"
    assert row(page, "change_decoder")[3][2] == "="
    for name in ("reader", "storyteller", "translator"):
        assert f"**{name} · {weights}** was trained" in said(page)


def test_every_figure_says_where_it_is_from() -> None:
    page = opened(**PLACE)
    kinds = [k for e in page.main.get("html") for k in re.findall('data-source="(.*?)"', e.proto.body)]
    assert set(kinds) == {"measured", "computed"}
    assert kinds.count("measured") == 8


def test_the_table_counts_the_loaded_models(reader: LanguageModel, translator: LanguageModel) -> None:
    (table,) = [e.proto.body for e in opened().main.get("html") if "atlas-prose" in e.proto.body]
    for lm in (reader, translator):
        count = sum(p.numel() for p in lm.transformer.parameters()) / 1e6
        assert f"{lm.name}<small>{count:.2f}\u00a0M parameters" in table
    for name in ("BERT", "GPT", "Llama", "T5", "Marian"):
        assert name in table


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_token_rows_and_tables_of_words_are_escaped(palette: Palette) -> None:
    tokens = [RowToken(text, 0.5, text, "chosen") for text in AWKWARD]
    reader = read(figures.token_row(tokens, palette, description="<x>"))
    assert {tag for tag, _ in reader.tags} == {"style", "ul", "li", "span", "small"}
    assert [dict(attrs).get("class") for tag, attrs in reader.tags if tag == "li"] == ["chosen"] * len(AWKWARD)
    with pytest.raises(ValueError, match="between 0 and 1"):
        figures.token_row([RowToken("a", 1.5)], palette, description="")
    table = read(figures.prose_table(["a", "<b>"], [[text, text] for text in AWKWARD], palette, description="<x>"))
    assert {tag for tag, _ in table.tags} <= {"style", "div", "table", "thead", "tbody", "tr", "th", "td", "small"}
    with pytest.raises(ValueError, match="cells for"):
        figures.prose_table(["a", "b"], [["1"]], palette)


def test_a_translation_that_loses_itself_ends_where_characters_do() -> None:
    page = opened(text="<div class=\"a\"><span style='color:red'>&nbsp;x</span></div>\n" * 60)
    (line,) = [text for text in said(page).splitlines() if "→ **" in text and "<div" in text]
    source, target = line.split(" → ")
    assert source.endswith("…`")
    assert target.endswith("…**")
    assert "\ufffd" not in target
    assert Prose("architectures")("translate_too_long") in said(page)
    assert not [label for _, label, _ in row(page, "translate_alt") if "0x" in label]


def test_a_continuation_can_be_stopped_and_written_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    continuing._finished.clear()
    asked, write = [], continuing.writing

    def slowly(*arguments: object) -> Iterator[Written]:
        for written in write(*arguments):
            yield written
            if not asked and len(written.ids) == 3:  # the reader clicks now, and the run is broken off
                asked.append(written)
                st.session_state["atlas_continuing"].stop()
                st.rerun()

    monkeypatch.setattr(continuing, "writing", slowly)
    page = opened(text=SENTENCE)
    stopped = [cell for cell in row(page, "continue_alt") if cell[0] == "new"]
    assert len(stopped) == 3
    assert any("stopped after 3 new tokens" in element.proto.body for element in page.main.get("html"))
    well(page.button(key="continue_again").click().run())
    whole = [cell for cell in row(page, "continue_alt") if cell[0] == "new"]
    assert len(whole) > 3
    assert whole[:3] == stopped
