"""The generation page: its texts are those of `lm.generate`, and a token of them can become every page's run."""

import gc
import html
import re
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from model.analysis.beam_continuation import BeamContinuation
from model.analysis.continuations import Continuation
from model.config import TransformerConfig
from model.language import LanguageModel
from model.sampling import SamplingSettings
from pages.kit import limits, loading, tickets
from pages.kit.choices import Selection
from pages.kit.loading import ModelCache
from pages.kit.prose import Prose, code
from pages.kit.writing import MAX_BRANCHES, Row, Writing
from tests.cases import TEXTS
from tests.pages.component_io import message, pick, sent, unpack
from tests.pages.reading import array, facts, figure, fragments, markdown, said
from tests.pages.visit import remarks, selection, turn_to, visit, well

TEXT = "One day, a little dog"


def opened(**parameters: object) -> AppTest:
    """The page when all is written, without beam search unless it is asked for."""
    return written(visit("generation", **({"beams": 0} | parameters)))


def written(app: AppTest) -> AppTest:
    """Run until nothing is being written; in the browser that part of the page runs itself."""
    deadline = time.monotonic() + 100
    while well(app) and working(app):
        assert time.monotonic() < deadline
        app.run()
    return app


def working(app: AppTest) -> bool:
    return any(row["writing"] for row in rows(app))


def rows(app: AppTest) -> list[dict]:
    return unpack(message(app, "texts").bytes)[0]["rows"]


def ids(app: AppTest) -> list[list[int]]:
    return [[chip["id"] for chip in row["chips"]] for row in rows(app)]


def state(app: AppTest) -> Writing:
    work = tickets.value(app.session_state["atlas_writing"])
    assert work is not None
    return work


def generated(
    lm: LanguageModel, prompt: str | tuple[int, ...], n: int, use_cache: bool = True, **settings
) -> list[int]:
    return [step.id for step in lm.generate(prompt, n, SamplingSettings(**settings), use_cache=use_cache)]


def test_the_texts_are_those_of_generate(storyteller: LanguageModel) -> None:
    settings = {"temperature": 0.8, "top_p": 0.9, "top_k": 60, "min_p": 0.01}
    app = opened(text=TEXT, seed=7, penalty=1.2, length=15, samples=2, **settings)
    assert [row["title"] for row in rows(app)] == ["Greedy", "Seed 7", "Seed 8"]
    settings["repetition_penalty"] = 1.2
    expected = [generated(storyteller, TEXT, 15, **settings | changes) for changes in ({"temperature": 0}, {"seed": 7})]
    assert ids(app)[:2] == expected
    assert ids(app)[2] == generated(storyteller, TEXT, 15, use_cache=False, **settings, seed=8)


def test_the_chips_join_to_the_decoded_text_and_tell_the_models_numbers(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT, seed=3, length=12, samples=1)
    steps = list(storyteller.generate(TEXT, 12, SamplingSettings(seed=3)))
    row = rows(app)[1]
    assert state(app).rows[1].text.text == "".join(step.text for step in steps)
    for chip, step in zip(row["chips"], steps, strict=True):
        raw = step.ledger.logits.softmax(-1)
        assert chip["p"] == pytest.approx(float(raw[step.id]), abs=1e-5)
        assert chip["rank"] == f"{int((raw > raw[step.id]).sum()) + 1:,}"
        assert float(chip["final"].removeprefix("< ")) == pytest.approx(step.probability, abs=0.00051)
        top = raw.topk(5)
        assert [label for label, _ in chip["instead"]] == [storyteller.tokenizer.label(i) for i in top.indices.tolist()]
        assert float(chip["instead"][0][1]) == pytest.approx(float(top.values[0]), abs=0.00051)


def test_a_text_is_written_token_by_token_and_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writing.tick, "__defaults__", (0.0,))  # one token a run
    app = visit("generation", text=TEXT, length="30", samples="1", beams="0")
    first = [len(row) for row in ids(well(app))]
    assert working(app)
    app.run()
    assert [len(row) for row in ids(app)] == [n + 1 for n in first]
    n = len(ids(app)[0])
    well(app.button(key="stop").click().run())
    assert not working(app)
    assert len(ids(app)[0]) <= n + 1
    stopped = ids(app)
    app.run()
    assert ids(app) == stopped, "nothing is written behind the reader's back"


def test_what_was_stopped_goes_on_as_if_it_never_had(
    storyteller: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slow:
        slow.setattr(Writing.tick, "__defaults__", (0.0,))
        app = visit("generation", text=TEXT, length="20", samples="1", seed="2", beams="0")
        well(app.button(key="stop").click().run())
    assert app.button(key="go_on").label == "Go on"
    written(app.button(key="go_on").click().run())
    assert ids(app) == [generated(storyteller, TEXT, 20, temperature=0), generated(storyteller, TEXT, 20, seed=2)]
    assert app.button(key="go_on").label == "Write 20 more"
    written(app.button(key="go_on").click().run())
    assert ids(app) == [generated(storyteller, TEXT, 40, temperature=0), generated(storyteller, TEXT, 40, seed=2)]


def test_two_runs_of_the_page_take_turns(storyteller: LanguageModel) -> None:
    """One that was broken off may still be at its last token when the next one begins."""
    prompt = tuple(storyteller.tokenizer.encode(TEXT))
    kinds = [Continuation(storyteller, prompt, SamplingSettings(seed=1)), BeamContinuation(storyteller, prompt, 3, 0.6)]
    work = Writing(storyteller, Selection(), prompt, [Row(kind) for kind in kinds], 30)
    with ThreadPoolExecutor(2) as pool:
        for run in [pool.submit(work.tick, 60.0) for _ in range(2)]:
            run.result()
    assert [row.text.length for row in work.rows] == [30, 30]
    assert list(kinds[0].ids[len(prompt) :]) == generated(storyteller, TEXT, 30, seed=1)


def test_a_token_is_looked_at(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT, length=10, samples=1)
    row, place = 1, 4
    well(pick(app, "texts", query=place, key=row))
    header = unpack(message(app, "texts").bytes)[0]
    assert (header["row"], header["place"]) == (row, place)
    step = list(storyteller.generate(TEXT, 10, Selection().sampling))[place]
    label = storyteller.tokenizer.labels(step.ids)[-1]
    assert f"Token {place + 1} of “Seed {Selection().seed}”: {code(label)}" in [h.value for h in app.header]
    values = facts(app)
    assert values["random number u"] == f"{step.draw.u:.4f}"
    assert values["position in the text"] == str(len(step.ids) - 1)
    raw = step.ledger.logits.softmax(-1)
    shown = raw.topk(5).indices.tolist()
    shown += [step.id] if step.id not in shown else []
    assert array(figure(app, "choice")["data"][0]["x"]) == pytest.approx(raw[shown].tolist(), rel=1e-4)


def test_at_first_the_boldest_token_is_looked_at() -> None:
    app = opened(text=TEXT, length=10, samples=2)
    header = unpack(message(app, "texts").bytes)[0]
    least = min(chip["p"] for row in rows(app) for chip in row["chips"])
    assert rows(app)[header["row"]]["chips"][header["place"]]["p"] == least


def test_rewinding_makes_it_every_pages_run(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT, length=10, samples=1)
    well(pick(app, "texts", query=6, key=1))
    before = rows(app)
    app.button(key="rewind").click().run()
    steps = list(storyteller.generate(TEXT, 7, Selection().sampling))
    assert selection(well(app)).ids == steps[-1].ids
    assert [[c["id"] for c in row["chips"]] for row in before] == ids(app), "the texts stay"
    assert f"Every page now shows the text up to token 7 of **Seed {Selection().seed}**" in said(app)
    assert app.text_area[0].value == storyteller.tokenizer.decode(steps[-1].ids)
    for page in ("overview", "attention", "heads", "next_token", "generation"):
        well(turn_to(app, page))
        strip = sent(app, "strip")[0]
        assert [i for piece in strip["pieces"] for i in piece["ids"]] == list(steps[-1].ids)
    assert [[c["id"] for c in row["chips"]] for row in before] == ids(app), "also after a walk"
    well(app.button(key="back_here").click().run())
    assert selection(app).ids is None
    assert app.text_area[0].value == TEXT
    assert [[c["id"] for c in row["chips"]] for row in before] == ids(app)


def test_from_a_rewound_text_it_writes_on(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT, length=8, samples=1)
    well(pick(app, "texts", query=3, key=0))
    app.button(key="rewind").click().run()
    written(well(app).button(key="write_on").click().run())
    start = tuple(storyteller.tokenizer.encode(TEXT)) + tuple(generated(storyteller, TEXT, 4, temperature=0))
    assert selection(app).ids == start
    assert ids(app)[1] == generated(storyteller, start, 8, seed=selection(app).seed)


def test_branching_takes_another_token_and_goes_on(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT, length=10, samples=1, temperature=0.7, seed=5)
    well(pick(app, "texts", query=2, key=1))
    chip = rows(app)[1]["chips"][2]
    step = list(storyteller.generate(TEXT, 3, SamplingSettings(temperature=0.7, seed=5)))[-1]
    other = next(token for token, _ in step.alternatives if token != step.id)
    assert step.id == chip["id"]
    written(app.button(key=f"branch_{other}").click().run())
    start = (*step.ids[:-1], other)
    assert ids(app)[2] == [*ids(app)[1][:2], other, *generated(storyteller, start, 7, temperature=0.7, seed=5)]
    assert rows(app)[2]["title"] == "Branch of Seed 5 at token 3"
    assert rows(app)[2]["chips"][2]["by_reader"]
    header = unpack(message(app, "texts").bytes)[0]
    assert (header["row"], header["place"]) == (2, 2)


def test_of_many_branches_the_oldest_goes() -> None:
    app = opened(text=TEXT, length=5, samples=0)
    for place in range(MAX_BRANCHES + 2):
        well(pick(app, "texts", query=place, key=0, number=place + 1))
        taken = rows(app)[0]["chips"][place]["id"]
        buttons = [b for b in app.main.button if (b.key or "").startswith("branch_") and b.key != f"branch_{taken}"]
        written(buttons[0].click().run())
    titles = [row["title"] for row in rows(app)]
    kept = range(3, MAX_BRANCHES + 3)
    assert titles == ["Greedy", *(f"Branch of Greedy at token {place}" for place in kept)]


@pytest.mark.parametrize("change", ["text", "temperature", "seed", "length", "samples"])
def test_nothing_stale_is_shown(storyteller: LanguageModel, change: str) -> None:
    app = opened(text=TEXT, length=6, samples=1)
    new = {"text": "The moon was", "temperature": 0.5, "seed": 3, "length": 9, "samples": 2}
    if change == "text":
        app.text_area[0].set_value(new["text"]).run()
    elif change == "samples":
        app.button_group(key="choose_samples").set_value(2).run()
    elif change == "seed":
        app.number_input(key="choose_seed").set_value(3).run()
    else:
        app.slider(key=f"choose_{change}").set_value(new[change]).run()
    written(app)
    before = {"text": TEXT, "temperature": 1.0, "seed": Selection().seed, "length": 6, "samples": 1}
    now = before | {change: new[change]}
    expected = [generated(storyteller, now["text"], now["length"], temperature=0)]
    for number in range(now["samples"]):
        sampling = {"temperature": now["temperature"], "seed": now["seed"] + number}
        expected.append(generated(storyteller, now["text"], now["length"], **sampling))
    assert ids(app) == expected


def test_texts_survive_a_page_change() -> None:
    app = opened(text=TEXT, length=6)
    before = rows(app)
    turn_to(app, "heads")
    well(turn_to(app, "generation"))
    assert rows(app) == before
    assert selection(app).length == 6


def test_a_change_of_the_model_loads_only_the_new_one_and_lets_the_old_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[tuple[str, ...]] = []
    load, models = loading._load, ModelCache(limit=1)  # one model at a time
    monkeypatch.setattr(loading, "_load", lambda *asked: loads.append(asked) or load(*asked))
    monkeypatch.setattr(loading, "models", lambda: models)
    app = opened(text=TEXT, length=4)
    assert loads == [("storyteller", "float32", "auto")]
    assert state(app).lm is models.get("storyteller")
    old = weakref.ref(state(app).lm)
    app = written(app.sidebar.button_group(key="choose_weights").set_value("int8").run())
    assert loads[1:] == [("storyteller", "int8", "auto")]
    assert state(app).lm is models.get("storyteller", "int8")
    well(app.run())  # Streamlit keeps what a session had before until its next run begins
    gc.unfreeze()  # as loading does it before the next model
    gc.collect()
    assert old() is None


def test_a_model_that_leaves_is_let_go_by_those_who_are_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    models = ModelCache(limit=1)
    monkeypatch.setattr(loading, "models", lambda: models)
    app = opened(text=TEXT, length=4)
    ticket = app.session_state["atlas_writing"]
    assert tickets.value(ticket) is not None
    models.get("reader")  # somebody else's, and there is room for one
    assert tickets.value(ticket) is None
    assert ids(written(app.run())) == ids(opened(text=TEXT, length=4))


def test_a_model_that_leaves_is_held_by_no_reader_who_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    models = ModelCache(limit=1)
    monkeypatch.setattr(loading, "models", lambda: models)
    app = opened(text=TEXT, length=4)
    assert tickets.value(app.session_state["atlas_writing"]).lm is models.get("storyteller")
    assert app._fragment_storage._fragments, "kept until this reader's next run"
    old = weakref.ref(models.get("storyteller"))
    models.get("reader")  # somebody else's, and there is room for one
    gc.unfreeze()
    gc.collect()
    assert old() is None


def test_a_model_that_left_the_memory_and_came_back_writes_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(text=TEXT, length=4)
    before, texts = state(app), ids(app)
    assert state(app.run()) is before
    models = ModelCache()
    monkeypatch.setattr(loading, "models", lambda: models)
    app = written(app.run())
    assert state(app) is not before
    assert state(app).lm is models.get("storyteller") is not before.lm
    assert ids(app) == texts


def test_one_click_is_enough_where_the_texts_have_left_with_their_model(
    storyteller: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = ModelCache(limit=1)
    monkeypatch.setattr(loading, "models", lambda: models)
    app = opened(text=TEXT, length=4, samples=1, seed=2)
    written(app.button(key="go_on").click().run())
    for n in (12, 16):
        gc.collect()
        models.get("reader")  # somebody else's, and there is room for one
        assert app.button(key="go_on").label == "Write 4 more"
        written(app.button(key="go_on").click().run())
        assert ids(app) == [generated(storyteller, TEXT, n, temperature=0), generated(storyteller, TEXT, n, seed=2)]
    well(pick(app, "texts", query=9, key=1))
    token = state(app).rows[1].text.written[9]
    other = next(one.id for one in token.alternatives if one.id != token.id)
    models.get("reader")
    written(app.button(key=f"branch_{other}").click().run())
    start = (*storyteller.ids(TEXT), *ids(app)[1][:9], other)
    assert ids(app)[2] == [*ids(app)[1][:9], other, *generated(storyteller, start, 6, seed=2)]
    start = (*storyteller.ids(TEXT), *ids(app)[2][:10])
    assert (selection(app).ids, tuple(state(app).rows[2].text.ids[: len(start)])) == (None, start)
    models.get("reader")
    well(app.button(key="rewind").click().run())
    assert selection(app).ids == start


def test_at_temperature_0_there_is_one_text() -> None:
    app = opened(text=TEXT, temperature=0, length=5, samples=3)
    assert [row["title"] for row in rows(app)] == ["Greedy"]
    assert any("every text would be the same" in caption.value for caption in app.caption)
    assert app.button_group(key="choose_samples").disabled


def test_the_end_of_the_text_is_a_chip_and_the_last_one(storyteller: LanguageModel) -> None:
    eos = storyteller.config.eos_id
    ended = next(
        seed
        for seed in range(200)
        if eos in generated(storyteller, "They lived happily ever after.", 12, temperature=0.8, seed=seed)
    )
    app = opened(text="They lived happily ever after.", length=12, samples=1, temperature=0.8, seed=ended)
    row = rows(app)[1]
    assert [chip["id"] for chip in row["chips"]].index(eos) == len(row["chips"]) - 1
    assert row["chips"][-1]["special"]
    assert not any(chip["special"] for chip in row["chips"][:-1])
    assert row["note"].endswith("ended")
    n = len(row["chips"])
    state(app).go_on(5)
    written(app.run())
    assert len(rows(app)[1]["chips"]) == n
    well(pick(app, "texts", query=n - 1, key=1))
    assert "end-of-text token" in said(app)


class Small:
    """The storyteller with a context of `limit` tokens."""

    def __init__(self, lm: LanguageModel, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
        small: TransformerConfig = replace(lm.config, max_positions=limit)
        monkeypatch.setattr(lm.transformer, "config", small)


@pytest.fixture
def app_model() -> LanguageModel:
    """The model that the pages use."""
    return loading.model("storyteller")


def test_when_all_has_ended_the_page_says_what_can_be_done(
    app_model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = generated(app_model, TEXT, 1, temperature=0)
    monkeypatch.setattr(app_model.transformer, "config", replace(app_model.config, eos_id=first))
    app = opened(text=TEXT, length=3, samples=2, top_k=1)
    assert [row["note"] for row in rows(app)] == ["1 token · ended"] * 3
    assert "Every text has come to its end" in said(app)
    assert "go_on" not in [button.key for button in app.main.button]
    seed = selection(app).seed
    written(app.button(key="draw_others").click().run())
    assert [row["title"] for row in rows(app)] == ["Greedy", f"Seed {seed + 2}", f"Seed {seed + 3}"]
    again = opened(text=TEXT, length=3, temperature=0)
    assert "Every text has come to its end" in said(again)
    assert "draw_others" not in [button.key for button in again.main.button], "nothing is drawn there"


def test_no_more_is_written_than_the_model_can_read(app_model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    n = len(app_model.tokenizer.encode(TEXT))
    Small(app_model, n + 7, monkeypatch)
    app = opened(text=TEXT, length=30, samples=1)
    assert app.slider(key="choose_length").max == 7
    assert [len(row) for row in ids(app)] == [7, 7]
    assert f"Your text has {n} tokens and storyteller reads at most {n + 7}, so at most 7 fit" in remarks(app)
    assert all(row["note"].endswith("context full") for row in rows(app))
    assert "nothing fits behind these texts" in said(app)
    assert "go_on" not in [button.key for button in app.main.button]
    assert selection(app).length == 30, "the reader's wish is kept for a shorter text"


def test_a_full_context_is_said_kindly(app_model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    n = len(app_model.tokenizer.encode(TEXT))
    Small(app_model, n, monkeypatch)
    app = well(visit("generation", text=TEXT))
    assert "nothing fits behind it" in remarks(app)
    assert sent(app, "strip")[0]["n_tokens"] == n


def test_a_text_longer_than_the_pages_show_cannot_be_rewound_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_TOKENS", 12)
    app = opened(text=TEXT, length=10, samples=0)
    well(pick(app, "texts", query=9, key=0))
    assert app.button(key="rewind").disabled
    assert any("at most 12 tokens" in caption.value for caption in app.caption)


def test_what_to_try_is_measured() -> None:
    app = opened(text=TEXT, length=12, samples=1, seed=1)
    greedy, drawn = rows(app)
    pairs = list(zip(greedy["chips"], drawn["chips"], strict=False))
    place = next(i for i, (a, b) in enumerate(pairs) if a["id"] != b["id"])
    words = markdown(app)
    if place:
        assert f"begin with the same {place} tokens" in words
    assert code(pairs[place][0]["label"]) in words
    assert code(pairs[place][1]["label"]) in words
    for row in (greedy, drawn):
        mean = sum(chip["p"] for chip in row["chips"]) / len(row["chips"])
        assert f"{mean:.3f}".replace(".", "\\.") in words


def test_what_cannot_be_picked_is_ignored() -> None:
    app = opened(text=TEXT, length=5, samples=1)
    before = unpack(message(app, "texts").bytes)[0]
    for number, (query, key) in enumerate([(None, None), (99, 0), (0, 7), ("x", 0), (-1, 0)], start=1):
        well(pick(app, "texts", query=query, key=key, number=number))
        now = unpack(message(app, "texts").bytes)[0]
        assert (now["row"], now["place"]) == (before["row"], before["place"])


def test_the_page_says_that_its_numbers_are_measured() -> None:
    app = opened(text=TEXT, length=5)
    bodies = " ".join(fragments(app))
    assert set(re.findall(r'data-source="(\w+)"', bodies)) == {"measured"}
    assert "ms a token" in html.unescape(bodies)


def test_a_row_knows_where_it_began(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT, length=5, samples=1)
    work = state(app)
    assert isinstance(work.rows[0], Row)
    prompt = tuple(storyteller.tokenizer.encode(TEXT))
    assert work.rewound(prompt) is None
    assert work.rewound((*prompt, *ids(app)[1][:2])) in {(0, 1), (1, 1)}
    assert work.rewound((*prompt[:-1], 5, *ids(app)[1])) is None


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(text: str, lang: str, storyteller: LanguageModel) -> None:
    if len(limits.excerpt(storyteller, text).ids) == storyteller.config.max_positions:
        app = well(visit("generation", text=text, lang=lang))
        says = Prose("generation", lang).html("no_room", limit=512, model="storyteller")
        assert says in "".join(element.proto.body for element in app.main.get("html"))
        return
    app = opened(text=text, lang=lang, length=6, samples=1, seed=2)
    prompt = tuple(i for piece in sent(app, "strip")[0]["pieces"] for i in piece["ids"])
    assert ids(app) == [generated(storyteller, prompt, 6, temperature=0), generated(storyteller, prompt, 6, seed=2)]
    assert all(chip["label"] for row in rows(app) for chip in row["chips"])
    for row in state(app).rows:
        new = [token.id for token in row.text.written if token.id != storyteller.config.eos_id]
        assert row.text.text == storyteller.tokenizer.decode(new)
