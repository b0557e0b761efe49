"""The page on the KV cache: the race, the grid, the measured ways and the sizes, against what is computed here."""

import gc
import time
import weakref

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from model.analysis.smaller_caches import CacheChoice, cache_cost
from model.cache import KVCache
from model.language import LanguageModel
from model.sampling import SamplingSettings
from pages.kit import choices, limits, loading, numbers, racing, tickets
from pages.kit.figures import Lane, cache_grid, lane, style
from pages.kit.limits import MAX_TOKENS
from pages.kit.loading import ModelCache, run_ids
from pages.kit.palette import DARK, LIGHT
from pages.kit.prose import Prose
from tests.cases import TEXTS
from tests.pages.reading import AWKWARD, array, boxes, captions, drawn, figure, fragments, read, said, tables
from tests.pages.visit import remarks, selection, visit, well

TEXT = "One day, a little dog"


def opened(**parameters: object) -> AppTest:
    """The page when the race is over; in the browser that part of the page runs itself."""
    app = well(visit("kv_cache", **parameters))
    deadline = time.monotonic() + 100
    while "atlas_cache_race" in app.session_state and state(app).running:
        assert time.monotonic() < deadline
        well(app.run())
    return app


def state(app: AppTest) -> racing.Racing:
    racing = tickets.value(app.session_state["atlas_cache_race"])
    assert racing is not None
    return racing


def test_both_lanes_write_the_greedy_text(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT, race=12)
    race = state(app).race
    steps = storyteller.generate(TEXT, 12, SamplingSettings(temperature=0))
    assert race.text == [step.id for step in steps]
    lanes = [read(body.split("</style>")[1]).texts for body in fragments(app) if "atlas-lane'" in body]
    whole = storyteller.tokenizer.decode([*race.prompt, *race.text])
    assert [f"{one[-2]}{one[-1]}" for one in lanes] == [whole, whole]
    assert [one[1] for one in lanes] == ["12 of 12 tokens"] * 2
    prompt = len(race.prompt)
    assert lanes[0][-3] == f"{prompt + 11}"
    assert lanes[1][-3] == f"{sum(prompt + i for i in range(12))}"
    assert f"**{race.ratio:.1f} times**" in said(app)
    assert "at 12 of 12 places" in said(app)
    assert race.largest_difference < 1e-3
    assert numbers.power_of_ten(race.largest_difference) in said(app)


def test_a_model_that_leaves_is_held_by_no_race_of_an_idle_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    models = ModelCache(limit=1)
    monkeypatch.setattr(loading, "models", lambda: models)
    app = opened(text=TEXT, race=4)
    text = state(app).race.text
    old = weakref.ref(models.get("storyteller").transformer)
    models.get("reader")  # somebody else's, and there is room for one
    gc.unfreeze()
    gc.collect()
    assert old() is None
    assert tickets.value(app.session_state["atlas_cache_race"]) is None
    while well(app.run()) and state(app).running:
        pass
    assert state(app).race.text == text


def test_the_curves_are_the_measured_times() -> None:
    app = opened(text=TEXT, race=12)
    race = state(app).race
    dots = figure(app, "race_times")["data"]
    assert [len(array(trace["x"])) for trace in dots] == [12] * 4
    assert array(dots[0]["x"])[0] == len(race.prompt)
    for trace, values in zip(
        dots,
        (race.uncached.milliseconds, race.cached.milliseconds, race.uncached.typical, race.cached.typical),
        strict=True,
    ):
        np.testing.assert_allclose(array(trace["y"]).astype(float), values)
    assert [trace["mode"] for trace in dots] == ["markers", "markers", "lines", "lines"]


def test_the_grid_is_the_cache(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT, race=8, layer=2, head=5, token=3)
    race = state(app).race
    keys, values = (array(trace["z"]) for trace in figure(app, "race_grid")["data"])
    run = storyteller.trace([*race.prompt, *race.text[:-1]])
    np.testing.assert_allclose(keys, run["blocks.2.attn.hook_rot_k"][:, 2], atol=1e-4)
    np.testing.assert_allclose(values, run["blocks.2.attn.hook_v"][:, 2], atol=1e-4)
    assert app.main.button_group(key="choose_kv_head").value == 2
    (text,) = [text for _, text in captions(app) if "rows filled" in text]
    assert f"{len(keys)} of {len(race.prompt) + 8} rows filled" in text


def test_the_formula_is_the_bytes_allocated(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT, race=10)
    room = len(state(app).race.prompt) + 10
    allocated = KVCache(storyteller.config, room=room).nbytes
    assert state(app).race.cached.cache.nbytes == allocated
    box = boxes(app)[0]
    assert f"2·6·4·32·{room}·4 = {allocated:,} B" in box
    assert box.endswith(f"{allocated:,} B")


def test_it_is_drawn_while_it_runs_and_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing.Racing.tick, "__defaults__", (0.0,))  # one token a run
    app = well(visit("kv_cache", text=TEXT, race="30"))

    def written() -> int:
        return state(app).race.cached.written + state(app).race.uncached.written

    first = written()
    assert 0 < first < 10
    shown = figure(app, "race_times")["data"]
    assert sum(np.isfinite(array(trace["y"]).astype(float)).sum() for trace in shown[:2]) == first
    well(app.run())
    assert written() == first + 1
    well(app.button(key="race_stop").click().run())
    stopped = written()
    assert stopped <= first + 2
    well(app.run())
    assert written() == stopped, "nothing is written behind the reader's back"
    assert "You stopped the race" in " ".join(caption.value for caption in app.main.caption)
    assert "Press *Go on*" in said(app)
    well(app.button(key="race_on").click().run())
    assert written() > stopped
    assert state(app).running


def test_it_pauses_by_itself_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing, "MAX_SECONDS", 0.0)
    app = well(visit("kv_cache", text=TEXT, race="200"))
    assert not state(app).running
    assert state(app).stopped == "time"
    monkeypatch.setattr(racing, "MAX_SECONDS", 60.0)
    well(app.button(key="race_on").click().run())
    assert state(app).running
    well(app.button(key="race_again").click().run())
    assert state(app).race.cached.written < 200


def test_another_text_or_length_begins_another_race() -> None:
    app = opened(text=TEXT, race=8)
    before = state(app)
    app.main.button_group(key="choose_layer").set_value(3)
    assert state(well(app.run())) is before
    app.slider(key="choose_race").set_value(9)
    well(app.run())
    assert state(app) is not before
    assert state(app).race.n == 9
    assert app.query_params["race"] == "9"


def test_the_ways_are_measured(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT * 6, race=8, kv_heads=2, bits=4, window=5)
    run = storyteller.trace(TEXT * 6)
    table = tables(app)[0]
    whole = cache_cost(run, storyteller.transformer, CacheChoice(4))
    wanted = {
        "full cache": CacheChoice(4),
        "INT8": CacheChoice(4, 8),
        "INT4": CacheChoice(4, 4),
        "2 KV heads": CacheChoice(2),
        "1 KV head (MQA)": CacheChoice(1),
        "window 8": CacheChoice(4, None, 8),
        "2 KV heads, INT4, window 5": CacheChoice(2, 4, 5),
    }
    assert set(wanted) <= set(table)
    for name, choice in wanted.items():
        cost = cache_cost(run, storyteller.transformer, choice)
        cells = table[name]
        assert cells[:2] == [f"{cost.per_token:,.0f}", f"{cost.nbytes:,}"]
        assert cells[2] == numbers.percent(cost.nbytes / whole.nbytes)
        errors = [cost.key_error, cost.value_error]
        assert cells[3:5] == ["–" if error is None else numbers.percent(error, 2) for error in errors]
        assert float(cells[5].split()[0]) == pytest.approx(cost.loss, abs=0.00051)
        if choice != CacheChoice(4):
            change = cells[5].split("(")[1].rstrip(")").replace("−", "-")
            assert float(change) == pytest.approx(cost.loss - whole.loss, abs=0.00051)
    losses = array(figure(app, "cache_losses")["data"][0]["x"])
    assert losses[0] == pytest.approx(whole.loss, abs=1e-4)
    assert list(figure(app, "cache_losses")["layout"]["yaxis"]["ticktext"])[-1].count("your choice") == 1
    assert len(losses) == len(table) == len(array(figure(app, "cache_sizes")["data"][0]["x"]))


@pytest.mark.parametrize(("text", "lang"), [(TEXT, "en"), ("那只小猫坐在垫子上", "zh")])
def test_too_short_a_text_gives_way_to_a_story(storyteller: LanguageModel, text: str, lang: str) -> None:
    """In the language of the text; a small window then costs something, which on a few tokens it need not."""
    app = opened(text=text, race=8, window=4)
    assert "Your text has" in said(app)
    run = storyteller.trace(Prose("kv_cache", lang).plain("passage"))
    table = tables(app)[0]
    whole, window = (cache_cost(run, storyteller.transformer, CacheChoice(4, None, window)) for window in (None, 4))
    assert table["full cache"][1] == f"{whole.nbytes:,}"
    assert table["window 4"][1] == f"{window.nbytes:,}"
    assert float(table["full cache"][5]) == pytest.approx(whole.loss, abs=0.00051)
    assert window.loss > whole.loss + 0.1
    assert f"1 to {len(run.tokens)};" in app.main.number_input(key="choose_window").label
    assert run.text in [element.value for element in app.main.text]
    long = opened(text=TEXT * 6, race=8)
    assert "Your text has" not in said(long) and not long.main.expander


def test_what_is_said_of_the_times_is_what_they_show() -> None:
    words = said(opened(text=TEXT, race=8))
    assert "With 8 tokens in both lanes it does not show yet" in words
    assert "Let more tokens be written, and it may show." in words
    app = opened(text=TEXT, race=30)
    race = state(app).race
    for milliseconds, sentence in (([2.0] * 30, "growth is still lost"), ([2.0] * 15 + [9.0] * 15, "longer the text")):
        race.uncached.milliseconds[:] = milliseconds
        words = said(well(app.run()))
        assert sentence in words
        for value in (*race.uncached.thirds(30), *race.cached.thirds(30)):
            assert f"{numbers.three_digits(value)} ms" in words


def test_more_tokens_are_advised_only_where_more_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(choices.RANGES, "race", (8, 8))
    words = said(opened(text=TEXT, race=8))
    assert "it does not show yet" in words and "Let more" not in words
    monkeypatch.setitem(choices.RANGES, "race", (8, 9))
    assert "Let more" in said(opened(text=TEXT, race=8))
    lm = loading.model("storyteller")
    monkeypatch.setattr(lm.transformer, "config", lm.config.replace(max_positions=3 + 8))
    words = said(opened(ids="5-6-7", race=8))
    assert "it does not show yet" in words and "Let more" not in words


def test_turning_the_ways_is_in_the_address() -> None:
    app = opened(text=TEXT, race=8)
    app.main.button_group(key="choose_kv_heads").set_value(1)
    app.main.button_group(key="choose_bits").set_value(8)
    app.main.number_input(key="choose_window").set_value(3)
    well(app.run())
    assert (selection(app).kv_heads, selection(app).bits, selection(app).window) == (1, 8, 3)
    assert {name: app.query_params[name] for name in ("kv_heads", "bits", "window")} == {
        "kv_heads": "1",
        "bits": "8",
        "window": "3",
    }
    assert "1 KV head (MQA), INT8, window 3" in tables(app)[0]


def test_published_sizes() -> None:
    app = opened(text=TEXT, race=8)
    table = tables(app)[1]
    nbsp = {name: [cell.replace("\u00a0", " ") for cell in cells] for name, cells in table.items()}
    assert nbsp["Llama 2 7B"] == ["4,096", "512 KiB", "2.00 GiB", "2.00 GiB", "512 MiB", "64.0 MiB"]
    assert nbsp["GPT-3"][:3] == ["2,048", "4.50 MiB", "9.00 GiB"]
    assert nbsp["Llama 3.1 70B"] == ["131,072", "320 KiB", "40.0 GiB", "320 GiB", "40.0 GiB", "5.00 GiB"]
    assert nbsp["GPT-2"][4] == "–"
    # The loaded model keeps 32 bits, as in the sum above the table, until the reader chooses others for all.
    assert nbsp["storyteller"] == ["512", "6.00 KiB", "3.00 MiB", "6.00 MiB", "–", "768 KiB"]
    app.main.button_group(key="choose_plan_cache").set_value(8)
    rows = tables(well(app.run()))[1]
    assert rows["storyteller"][1:3] == ["1.88\u00a0KiB", "960\u00a0KiB"]
    assert rows["Llama 2 7B"][2] == "1.25\u00a0GiB"


def test_the_formula_with_a_models_numbers() -> None:
    app = opened(text=TEXT, race=8, plan="llama2_7b")
    assert "2·32·32·128·4,096·2 = 2,147,483,648 B = 2.00\u00a0GiB" in boxes(app)[-1]
    app.main.selectbox(key="choose_plan_kv").set_value(8)
    app.main.button_group(key="choose_plan_cache").set_value(4)
    app.main.number_input(key="choose_plan_context").set_value(8192)
    well(app.run())
    assert "2·32·8·128·8,192·0.75 = 402,653,184 B = 384\u00a0MiB" in boxes(app)[-1]
    assert "changed by you" in boxes(app)[-1]
    app.main.selectbox(key=app.main.selectbox[0].key).set_value("gpt3")
    well(app.run())
    assert selection(app).plan_kv is selection(app).plan_context is selection(app).plan_cache is None
    assert "2·96·96·128·2,048·2 = 9,663,676,416 B = 9.00\u00a0GiB" in boxes(app)[-1]


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"race": "5"}, "“Tokens to write” cannot be 5"),
        ({"race": "x"}, "“Tokens to write”"),
        ({"bits": "5"}, "“Numbers kept in”"),
        ({"kv_heads": "3"}, "“Key/value heads” cannot be 3"),
        ({"window": "-2"}, "cannot be −2"),
        ({"plan": "<b>"}, "“Model to calculate for”"),
        ({"plan_context": "99999999999"}, "“Tokens of text n” cannot be"),
        ({"plan_kv": "3"}, "cannot share 3 key/value heads"),
        ({"plan_cache": "3"}, "“Bits in the cache”"),
    ],
)
def test_a_link_that_asks_for_what_there_is_not(parameters: dict[str, str], sentence: str) -> None:
    app = well(visit("kv_cache", **{"text": TEXT, "race": "8"} | parameters))
    assert sentence in remarks(app)


def test_without_room_the_rest_of_the_page_stays(monkeypatch: pytest.MonkeyPatch, storyteller: LanguageModel) -> None:
    app = opened(ids="-".join(["5"] * (MAX_TOKENS - 8)), race=8)
    assert state(app).race.done
    lm = loading.model("storyteller")
    short = lm.config.replace(max_positions=9)
    monkeypatch.setattr(lm.transformer, "config", short)
    app = well(visit("kv_cache", ids="-".join(["5"] * 9)))
    assert "fills the 9 tokens" in " ".join(fragments(app))
    assert len(tables(app)) == 2
    app = opened(ids="5-6-7", race=50)
    assert "only 6 more fit" in " ".join(fragments(app))
    assert state(app).race.n == 6


def test_a_large_model_reads_the_beginning_of_a_long_text(
    monkeypatch: pytest.MonkeyPatch, storyteller: LanguageModel
) -> None:
    parameters = storyteller.nbytes // 4
    monkeypatch.setattr(limits, "MEASURED_PRODUCTS", 40 * parameters)
    ids = tuple(range(100, 150))
    app = opened(ids="-".join(map(str, ids)), race=8)
    assert any("only the first 40 of your 50 tokens" in caption.value for caption in app.caption)
    whole = cache_cost(storyteller.trace(ids[:40]), storyteller.transformer, CacheChoice(4))
    assert f"{whole.nbytes:,}" in " ".join(fragments(app))
    assert f"{whole.loss:.3f}" in " ".join(fragments(app))
    monkeypatch.setattr(limits, "MEASURED_PRODUCTS", 50 * parameters)
    assert not [caption for caption in opened(ids="-".join(map(str, ids)), race=8).caption if "first" in caption.value]


def test_an_encoder_is_told_that_it_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = loading.model("storyteller")
    monkeypatch.setattr(lm.transformer, "config", lm.config.replace(kind="encoder"))
    app = well(visit("kv_cache", text=TEXT))
    assert "keeps no cache" in " ".join(fragments(app)) and "keeps no cache" in said(app)
    assert len(tables(app)) == 1


def test_every_figure_says_where_it_is_from() -> None:
    kinds = captions(opened(text=TEXT, race=8))
    assert [text.split()[0] for _, text in kinds] == [kind for kind, _ in kinds]
    assert {kind for kind, _ in kinds} == {"measured", "computed"}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(text: str, lang: str) -> None:
    app = opened(text=text, lang=lang, race=8, kv_heads=1, bits=4)
    say = Prose("kv_cache", lang)
    assert app.title[0].value == say.plain("title")
    if len(run_ids(selection(app))) == loading.model("storyteller").config.max_positions:
        assert say.plain("no_room", limit=512, model="storyteller") in " ".join(fragments(app))
        return
    race = state(app).race
    assert race.done
    assert race.agreed == race.n == race.compared
    for body in fragments(app):
        if "atlas-lane'" in body:
            tags = {tag for tag, _ in read(body).tags}
            assert tags <= {"style", "section", "header", "b", "span", "div", "i", "dl", "dt", "dd", "p"}


@pytest.mark.parametrize("palette", [LIGHT, DARK])
@pytest.mark.parametrize(("filled", "slots"), [(0, 4), (3, 5), (31, 31), (31, 456)])
def test_cache_grid(palette, filled: int, slots: int) -> None:
    labels = (AWKWARD * 2)[:filled]
    keys, values = np.random.default_rng(0).normal(size=(2, filled, 6))
    fig = cache_grid(labels, keys, values, slots, palette, names=("<b>K", "V"), free="free", highlight=1)
    for trace, half in zip(fig.data, (keys, values), strict=True):
        np.testing.assert_allclose(np.asarray(trace.z).reshape(half.shape), half, rtol=1e-6)
        assert trace.zmin == -trace.zmax
    ticks = fig.layout.yaxis
    assert len(ticks.ticktext) == len(ticks.tickvals)
    assert fig.layout.height < 1000
    assert [drawn(text) for text in ticks.ticktext] == [style.short(labels[place], 12) for place in ticks.tickvals]
    with pytest.raises(ValueError, match="do not fit"):
        cache_grid(["a"], keys, values, 0, palette, names=("K", "V"), free="")


@pytest.mark.parametrize("text", AWKWARD)
def test_lane_is_text_alone(text: str) -> None:
    body = lane(Lane(text, text, 0.5, {text: text}, text, text, LIGHT.accent), LIGHT)
    assert not {"script", "img", "br"} & {tag for tag, _ in read(body).tags}
    assert "width:50.0%" in body
