"""The page on recurrent networks: its numbers are those of the model room, and it trains while it is watched."""

import html
import json
import re
import time

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from model.analysis.recall_task import CHANCE, EVERY, STEPS, Recall, Task
from model.analysis.recurrence import KINDS, Build, renumbered
from model.analysis.recurrence_reach import gradient_reach, step_factor, survival
from model.analysis.recurrence_time import LENGTHS, TimeRace
from model.language import LanguageModel
from pages.kit import recurrence_recall
from pages.kit.limits import MAX_TOKENS
from pages.kit.numbers import percent, three_digits
from pages.kit.prose import PLACEHOLDER, Prose, sections
from pages.kit.sitemap import SITEMAP
from tests.cases import TEXTS
from tests.pages.reading import array, read
from tests.pages.visit import remarks, selection, turn_to, visit, well

SMALL = {"cell_length": "16", "cell_hidden": "16"}
NAMES = ["RNN", "LSTM", "GRU", "Attention"]


@pytest.fixture(autouse=True)
def _nobody_has_finished() -> None:
    recurrence_recall.finished.clear()


def opened(**parameters: str) -> AppTest:
    return well(visit("recurrence", **parameters))


def fragments(app: AppTest) -> list[str]:
    return [element.proto.body for element in app.main.get("html")]


def figure(app: AppTest, key: str) -> dict:
    (chart,) = [c.proto for c in app.main.get("plotly_chart") if c.proto.id.endswith(f"-{key}")]
    return json.loads(chart.spec)


def curves(app: AppTest, key: str) -> dict[str, np.ndarray]:
    """By name, those that begin at the beginning: what leads a name to the margin does not."""
    drawn = [(trace["name"], array(trace["y"]).astype(float)) for trace in figure(app, key)["data"]]
    return {name: values for name, values in drawn if np.isfinite(values[0])}


def captions(app: AppTest) -> list[tuple[str, str]]:
    bodies = [body for body in fragments(app) if 'class="atlas-caption"' in body]
    return [(re.findall('data-source="(.*?)"', body)[0], " ".join(read(body).texts)) for body in bodies]


def rows(app: AppTest) -> dict[str, list[str]]:
    """The table of the recall task, which is the last one."""
    body = [body for body in fragments(app) if "class='atlas-numbers'" in body][-1]
    return {
        html.unescape(re.sub("<.*?>", "", name)).removeprefix("▸\u00a0"): re.findall("<td>(.*?)</td>", cells)
        for name, cells in re.findall(r"<th scope='row'>(.*?)</th>(.*?)</tr>", body)
    }


def arithmetic(app: AppTest) -> str:
    (box,) = [body for body in fragments(app) if "atlas-arithmetic'" in body]
    return html.unescape(re.sub("<[^>]*>", " ", box.split("</style>")[1]))


def said(app: AppTest) -> str:
    return "\n".join(element.value for element in app.main.markdown).replace("\\", "")


def test_it_stands_behind_positions_at_the_end_of_the_input() -> None:
    assert SITEMAP[0].pages[-2:] == ("positions", "recurrence")


def test_it_opens_on_a_gradient_that_fades_and_one_that_does_not() -> None:
    shown = curves(opened(), "reach")
    assert list(shown) == NAMES
    assert {len(values) for values in shown.values()} == {128}
    assert shown["RNN"][-1] < 1e-30
    assert shown["RNN"][-1] < shown["GRU"][-1] < shown["LSTM"][-1] < 1
    assert shown["Attention"][-1] > 1e-4


@pytest.mark.parametrize(
    ("chosen", "build"),
    [
        ({"cell": "rnn", "cell_gain": "3"}, Build(16, gate_bias=2, gain=3.0)),
        ({"cell": "lstm", "gate_bias": "0"}, Build(16)),
        ({"cell": "gru", "gate_bias": "4", "cell_seed": "3"}, Build(16, gate_bias=4)),
    ],
)
def test_curves_and_factors_are_the_measured_ones(chosen: dict[str, str], build: Build) -> None:
    app, seed = opened(**SMALL, **chosen), int(chosen.get("cell_seed", 0))
    reach, left = curves(app, "reach"), curves(app, "left")
    for kind, name in zip(KINDS, NAMES, strict=True):
        np.testing.assert_allclose(reach[name], gradient_reach(kind, build, None, 16, seed=seed).relative, rtol=1e-4)
        np.testing.assert_allclose(left[name], survival(kind, build, None, 16, seed=seed).ratios, rtol=1e-4)
    for figure_, solid in (("reach", chosen["cell"]), ("left", chosen["cell"])):
        dashes = {t["name"]: t["line"]["dash"] for t in figure(app, figure_)["data"]}
        assert {name for name in NAMES if dashes[name] == "solid"} == {solid.upper(), "Attention"}
    kind = chosen["cell"]
    factor, measured = step_factor(kind, build, None, 16, seed=seed), gradient_reach(kind, build, None, 16, seed=seed)
    box = arithmetic(app)
    parts = (
        (factor.slope, factor.radius, factor.slope * factor.radius) if kind == "rnn" else (factor.gate, factor.widest)
    )
    for value in (*parts, measured.factor):
        assert three_digits(value) in box
    assert ("grows" in said(app)) == (measured.relative[-1] > 1)


def test_where_the_gradient_is_0_it_is_said_and_not_drawn() -> None:
    app = opened(cell_length="256", cell_hidden="16")
    found = gradient_reach("rnn", Build(16, gate_bias=2), None, 256)
    assert found.first_zero is not None
    shown = curves(app, "reach")["RNN"]
    assert np.isfinite(shown).sum() == found.first_zero
    assert np.isnan(shown[found.first_zero :]).all()
    assert f"From {found.first_zero} steps back the gradient in the **RNN** is exactly 0" in said(app)


def test_the_readers_text_can_be_what_is_read(storyteller: LanguageModel) -> None:
    text = "The cat saw the cat"
    ids = tuple(storyteller.tokenizer.encode(text)[:MAX_TOKENS])
    app = opened(text=text, cell_length="0", cell_hidden="16")
    expected = gradient_reach("rnn", Build(16, gate_bias=2), renumbered(ids), len(ids))
    np.testing.assert_allclose(curves(app, "reach")["RNN"], expected.relative, rtol=1e-4)
    assert any(f"your {len(ids)} tokens" in text for _, text in captions(app))


def test_rounds_are_followed_through_the_network(storyteller: LanguageModel) -> None:
    app = opened(**SMALL, cell="gru", text="The little cat sat on the mat")
    n = min(10, len(storyteller.tokenizer.encode("The little cat sat on the mat")))
    cell = np.stack([array(t["z"])[0] for t in figure(app, "rounds_gru")["data"]])
    np.testing.assert_array_equal(cell, np.tril(np.ones((n, n))))
    attention = np.stack([array(t["z"])[0] for t in figure(app, "rounds_attention")["data"]])
    np.testing.assert_array_equal(attention, np.ones((1, n)))
    assert f"needs {n} rounds and **attention** 1." in said(app)


def test_turning_changes_what_is_shown_and_the_address() -> None:
    app = opened(**SMALL)
    before = curves(app, "reach")["LSTM"]
    app.button_group(key="choose_cell").set_value("lstm")
    well(app.run())
    assert "f_s" in said(app)
    app.button_group(key="choose_gate_bias").set_value(4)
    well(app.run())
    assert curves(app, "reach")["LSTM"][-1] > before[-1]
    app.button_group(key="choose_cell_length").set_value(32)
    app.button_group(key="choose_distance").set_value(50)
    well(app.run())
    assert len(curves(app, "reach")["LSTM"]) == 32
    app.number_input(key="choose_cell_seed").set_value(7)
    well(app.run())
    chosen = {"cell": "lstm", "gate_bias": "4", "cell_length": "32", "distance": "50", "cell_seed": "7"}
    for name, value in chosen.items():
        assert app.query_params[name] == value
    assert selection(app).distance == 50


def trained(app: AppTest) -> recurrence_recall.Lesson:
    return app.session_state["atlas_recall"]


def test_the_four_are_trained_to_the_end_and_shown_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence_recall.Lesson.tick, "__defaults__", (1.0,))  # few runs of the page
    app = opened(**SMALL, distance="5", gate_bias="2")
    assert [cells[2] for cells in rows(app).values()] == ["0"] * 4, "before: nobody has learned anything"
    assert "recall_losses" not in [c.proto.id.rsplit("-", 1)[-1] for c in app.main.get("plotly_chart")]
    well(app.button(key="recall_start").click().run())
    deadline = time.monotonic() + 100
    while trained(app).running:
        assert time.monotonic() < deadline
        well(app.run())
    expected = Recall(Task(5, Build(16, gate_bias=2)))
    while not expected.done:
        expected.advance()
    accuracies, losses = curves(app, "recall_accuracies"), curves(app, "recall_losses")
    for (kind, learner), name in zip(expected.learners.items(), NAMES, strict=True):
        tests = len(learner.steps)
        np.testing.assert_allclose(losses[name][:tests], learner.losses, rtol=1e-3)
        np.testing.assert_allclose(accuracies[name][:tests], learner.accuracies)
        assert np.isnan(losses[name][tests:]).all()
        assert len(losses[name]) == STEPS // EVERY + 1
        cells = rows(app)[name]
        assert cells[:4] == [f"{learner.width}", f"{learner.parameters:,}", f"{learner.trained}", "100.0%"], kind
        assert cells[5] == f"{learner.learned_at}"
    np.testing.assert_allclose(accuracies["guessing"], CHANCE)
    np.testing.assert_allclose(losses["guessing"], np.log(8))
    assert f"{percent(CHANCE)} of the time" in said(app)
    assert "all of them learn it" in said(app)
    # Whoever asks for the same is shown it at once.
    other = opened(**SMALL, distance="5", gate_bias="2")
    np.testing.assert_array_equal(curves(other, "recall_losses")["GRU"], losses["GRU"])


def test_training_is_drawn_while_it_runs_and_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence_recall.Lesson.tick, "__defaults__", (0.0,))  # one step a run
    app = opened(**SMALL, distance="50")
    well(app.button(key="recall_start").click().run())

    def steps() -> int:
        return sum(learner.trained for learner in trained(app).recall.learners.values())

    first = steps()
    assert 0 < first < 10
    assert curves(app, "recall_losses")["RNN"][0] > 0
    well(app.button(key="recall_stop").click().run())
    stopped = steps()
    assert stopped <= first + 2
    well(app.run())
    assert steps() == stopped, "nothing is learned behind the reader's back"
    assert "What the networks have learned so far is kept" in " ".join(caption.value for caption in app.main.caption)
    well(app.button(key="recall_on").click().run())
    assert steps() > stopped
    app.button_group(key="choose_distance").set_value(5)
    well(app.run())
    assert [cells[2] for cells in rows(app).values()] == ["0"] * 4, "another task begins anew"


def test_a_training_that_its_reader_leaves_waits_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence_recall.Lesson.tick, "__defaults__", (0.0,))
    app = opened(**SMALL, distance="50")
    well(app.button(key="recall_start").click().run())
    app.button_group(key="choose_distance").set_value(5)
    well(app.run())
    steps = trained(app).recall.steps
    waits = Prose("recurrence").html("recall_waiting", steps=steps, distance=50)
    assert waits in remarks(app)
    assert not trained(app).running
    app.button_group(key="choose_distance").set_value(50)
    well(app.run())
    assert trained(app).recall.steps == steps, "nothing goes on by itself"
    assert waits not in remarks(app)
    assert any("because you chose something else" in caption.value for caption in app.main.caption)
    well(app.button(key="recall_on").click().run())
    assert trained(app).running
    turn_to(app, "heads")
    steps = trained(app).recall.steps
    well(turn_to(app, "recurrence"))
    assert (trained(app).running, trained(app).recall.steps) == (False, steps)
    assert any("while you were on another page" in caption.value for caption in app.main.caption)


def test_training_pauses_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence_recall, "MAX_SECONDS", 0.0)
    app = opened(**SMALL, distance="100")
    well(app.button(key="recall_start").click().run())
    assert not trained(app).running
    assert trained(app).stopped == "time"


def test_finished_trainings_are_kept_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence_recall, "KEPT", 2)
    store = recurrence_recall.Finished()
    recalls = [Recall(Task(1, Build(8), seed), ("rnn",)) for seed in range(3)]
    for recall in recalls:
        store.add(recall)
    assert store.get(recalls[0].task) is None
    assert store.get(Task(1, Build(8), 2)) is recalls[2]


def test_time_is_measured_length_by_length_and_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimeRace.advance, "__kwdefaults__", {"seconds": 0.0, "most": 1})
    monkeypatch.setattr("model.analysis.recurrence_time.LENGTHS", (4, 8))
    app = opened(**SMALL)
    well(app.button(key="times_start").click().run())
    race = app.session_state["atlas_recurrence_times"].race
    while app.session_state["atlas_recurrence_times"].running:
        well(app.run())
    for what in ("forward", "backward"):
        shown = curves(app, f"times_{what}")
        for kind, name in zip(KINDS, NAMES, strict=True):
            np.testing.assert_allclose(shown[name], 1e3 * np.array(race.of(kind, what)))
    assert "twice the length" in said(app)
    monkeypatch.setattr("model.analysis.recurrence_time.LENGTHS", LENGTHS)
    well(app.button(key="times_start").click().run())
    well(app.button(key="times_stop").click().run())
    timing = app.session_state["atlas_recurrence_times"]
    points = len(timing.race.points)
    assert 4 <= points < timing.race.count
    well(app.run())
    assert len(timing.race.points) == points
    assert any("Stopped after" in caption.value for caption in app.main.caption)
    well(app.button(key="times_start").click().run())
    turn_to(app, "heads")
    points = len(app.session_state["atlas_recurrence_times"].race.points)
    well(turn_to(app, "recurrence"))
    assert len(app.session_state["atlas_recurrence_times"].race.points) == points, "it does not go on by itself"
    assert any(f"Stopped after {points}" in caption.value for caption in app.main.caption)
    app.button_group(key="choose_cell_hidden").set_value(32)
    well(app.run())
    assert not [c for c in app.main.get("plotly_chart") if "times_" in c.proto.id], "measured on other networks"


@pytest.mark.parametrize(
    "parameters",
    [{"cell": "x"}, {"cell_length": "7"}, {"cell_hidden": "1000"}, {"gate_bias": "-1"}, {"cell_gain": "nan"},
     {"distance": "10000"}, {"cell_seed": "1000"}, {"cell_seed": "<b>"}],
)  # fmt: skip
def test_a_link_that_asks_for_what_there_is_not_is_brought_into_it(parameters: dict[str, str]) -> None:
    app = opened(**{"cell_length": "16", **parameters})
    assert remarks(app)
    (name,) = parameters
    assert getattr(selection(app), name) in (getattr(type(selection(app)), name), 999)


def test_every_figure_says_where_it_is_from() -> None:
    app = opened(**SMALL)
    kinds = captions(app)
    assert [text.split()[0] for _, text in kinds] == [kind for kind, _ in kinds]
    assert {kind for kind, _ in kinds} == {"measured"}
    assert len(kinds) >= len(app.main.get("plotly_chart"))


def test_chinese_says_all_that_english_says() -> None:
    english, chinese = sections("recurrence", "en"), sections("recurrence", "zh")
    assert list(chinese) == list(english)
    for section, text in english.items():
        assert set(PLACEHOLDER.findall(chinese[section])) == set(PLACEHOLDER.findall(text)), section


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(storyteller: LanguageModel, text: str, lang: str) -> None:
    app = opened(text=text, lang=lang, cell_length="0", cell_hidden="16")
    (shown, *_) = curves(app, "reach").values()
    n = len(storyteller.tokenizer.encode(text)[:MAX_TOKENS]) or 1
    assert len(shown) == n
    assert shown[0] == pytest.approx(1)
