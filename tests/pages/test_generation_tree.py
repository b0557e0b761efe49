"""The generation page with beam search: its texts are those of `lm.search`, and the tree goes to any of them."""

import math
import re

import pytest
from streamlit.testing.v1 import AppTest

from model.language import LanguageModel
from pages.kit import limits, writing_tree
from pages.kit.choices import OPTIONS, Selection
from pages.kit.components.tree import KINDS
from pages.kit.prose import code, escape
from pages.kit.writing import Writing
from tests.cases import TEXTS
from tests.pages.component_io import MARKUP, message, pick, sent, unpack
from tests.pages.reading import fragments, markdown, said
from tests.pages.test_generation_page import generated, ids, rows, state, working, written
from tests.pages.visit import selection, turn_to, visit, well

TEXT = "The little cat sat on the mat because it was"


def opened(**parameters: object) -> AppTest:
    """The page when all is written; greedy and beam search alone unless more is asked for."""
    asked = {"text": TEXT, "length": 8, "samples": 0, "beams": 3} | parameters
    return written(visit("generation", **asked))


def tree(app: AppTest) -> dict:
    return unpack(message(app, "tree").bytes)[0]


def found(lm: LanguageModel, prompt: str | tuple[int, ...], n: int, beam: int = 3, **options) -> tuple[int, ...]:
    (*_, last) = lm.search(prompt, n, beam=beam, **options)
    return last.best.ids


def tables(app: AppTest) -> str:
    return " ".join(body for body in fragments(app) if "atlas-numbers" in body)


def placed(app: AppTest, new: tuple[int, ...]) -> int:
    """The serial of the place in the tree."""
    return state(app).serials[new]


def test_the_ways_are_compared(storyteller: LanguageModel) -> None:
    app = opened(samples=1, seed=3, alpha=1.2)
    assert [row["title"] for row in rows(app)] == ["Greedy", "Seed 3", "Beam 3"]
    assert ids(app)[0] == generated(storyteller, TEXT, 8, temperature=0)
    assert ids(app)[1] == generated(storyteller, TEXT, 8, seed=3, use_cache=False)
    assert tuple(ids(app)[2]) == found(storyteller, TEXT, 8, alpha=1.2, use_cache=False)
    assert [chip["final"] for chip in rows(app)[2]["chips"]] == ["–"] * 8, "nothing was drawn there"


@pytest.mark.parametrize(("greedy", "samples", "beams"), [(0, 0, 2), (0, 1, 0), (1, 0, 0), (0, 0, 0)])
def test_every_way_can_be_left_out(greedy: int, samples: int, beams: int) -> None:
    app = opened(greedy=greedy, samples=samples, beams=beams, length=3) if greedy + samples + beams else None
    if app is None:
        app = well(visit("generation", text=TEXT, greedy="0", samples="0", beams="0"))
        assert any("No way of writing is chosen" in info.value for info in app.info)
        assert not app.get("header")
        return
    assert len(rows(app)) == greedy + samples + bool(beams)
    assert len(tree(app)["twigs"]) >= 3


def test_changing_a_way_begins_anew(storyteller: LanguageModel) -> None:
    app = opened()
    before = state(app)
    app.button_group(key="choose_beams").set_value(4).run()
    assert tuple(ids(written(app))[1]) == found(storyteller, TEXT, 8, 4)
    assert state(app) is not before
    app.slider(key="choose_alpha").set_value(1.5).run()
    assert state(written(app)).searched.alpha == 1.5
    app.button_group(key="choose_beams").set_value(0).run()
    assert len(rows(written(app))) == 1
    assert not [slider for slider in app.slider if "alpha" in (slider.key or "")]
    assert OPTIONS["beams"][0] == 0


def test_beam_search_is_written_step_by_step_and_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writing.tick, "__defaults__", (0.0,))  # one token a run
    monkeypatch.setattr(writing_tree, "TREE_SECONDS", 0.0)
    monkeypatch.setattr(writing_tree, "TREE_SHARE", 0)
    app = well(visit("generation", text=TEXT, length="30", samples="0", beams="3"))
    assert working(app)
    n = len(state(app).searched.steps)
    app.run()
    assert len(state(app).searched.steps) == n + 1
    assert max(twig["column"] for twig in tree(app)["twigs"]) == n + 1
    assert tree(app)["writing"]
    n = len(state(app).searched.steps)
    well(app.button(key="stop").click().run())
    assert not working(app)
    assert len(state(app).searched.steps) <= n + 1
    stopped = ids(app)
    app.run()
    assert ids(app) == stopped
    assert not tree(app)["writing"]


def test_going_to_a_text_while_it_writes_stops_nothing(
    storyteller: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slow:
        slow.setattr(Writing.tick, "__defaults__", (0.0,))
        app = well(visit("generation", text=TEXT, length=10, samples=0, beams=3).run())
        new = state(app).searched.steps[1].dropped[0].ids
        well(pick(app, "tree", query=placed(app, new), key=0))
        assert selection(app).ids == (*storyteller.tokenizer.encode(TEXT), *new)
        assert working(well(app.run()))
    assert tuple(ids(written(app))[1]) == found(storyteller, TEXT, 10)
    assert selection(app).ids is not None


def test_a_text_typed_while_it_writes_is_the_one_that_is_written(
    storyteller: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slow:
        slow.setattr(Writing.tick, "__defaults__", (0.0,))
        app = well(visit("generation", text=TEXT, length=10, samples=0, beams=3).run())
        app.text_area[0].set_value("The dog was").run()
        assert working(well(app))
    assert tuple(ids(written(app))[1]) == found(storyteller, "The dog was", 10)
    assert app.text_area[0].value == "The dog was"


def test_what_was_stopped_goes_on_as_if_it_never_had(
    storyteller: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slow:
        slow.setattr(Writing.tick, "__defaults__", (0.0,))
        app = visit("generation", text=TEXT, length="10", samples="0", beams="3")
        well(app.button(key="stop").click().run())
    written(app.button(key="go_on").click().run())
    assert tuple(ids(app)[1]) == found(storyteller, TEXT, 10)
    written(app.button(key="go_on").click().run())
    assert tuple(ids(app)[1]) == found(storyteller, TEXT, 20)


def test_the_tree_shows_the_texts_and_what_beam_search_dropped(storyteller: LanguageModel) -> None:
    app = opened(samples=2)
    drawn, texts = tree(app), ids(app)
    by_serial = {serial: new for new, serial in state(app).serials.items()}
    shown = {by_serial[twig["s"]]: twig for twig in drawn["twigs"]}
    for row, chips in zip(texts, (row["chips"] for row in rows(app)), strict=True):
        total = 0.0
        for n, chip in enumerate(chips, start=1):
            twig = shown[tuple(row[:n])]
            total += math.log(chip["p"])
            assert twig["kind"] == "text"
            assert twig["p"] == pytest.approx(chip["p"], abs=1e-5)
            assert (twig["label"], twig["spaces"]) == (chip["label"], chip["spaces"])
            assert float(twig["total"].replace("−", "-")) == pytest.approx(total, abs=0.02)
            assert float(twig["mean"].replace("−", "-")) == pytest.approx(total / n, abs=0.02)
    beam = state(app).searched
    for h in beam.steps[-1].dropped:
        assert shown[h.ids]["kind"] == "dropped"
    for h in beam.steps[-1].kept[1:]:
        assert shown[h.ids]["kind"] in ("kept", "text")
    assert {twig["kind"] for twig in drawn["twigs"]} == set(KINDS)
    leaves = [leaf["text"] for leaf in drawn["leaves"]]
    for name in ("Greedy", "Seed 6", "Seed 7", "Beam 3", "No. 2 in the beam"):
        assert sum(name in leaf for leaf in leaves) == 1
    forks = {twig["parent"] for twig in drawn["twigs"]}
    assert all(leaf["parent"] not in forks for leaf in drawn["leaves"] if leaf["kind"] == "dropped")
    assert sum(leaf["kind"] == "dropped" for leaf in drawn["leaves"]) > 3
    places = [(twig["row"], twig["column"]) for twig in drawn["twigs"]]
    assert len(set(places)) == len(places)


def test_the_search_is_shown_after_any_step() -> None:
    app = opened(greedy=0, length=10)
    whole = tree(app)
    app.slider(key="choose_beam_step").set_value(4).run()
    well(app)
    assert selection(app).beam_step == 4
    beam = state(app).searched
    drawn = tree(app)
    assert max(twig["column"] for twig in drawn["twigs"]) == 4
    by_serial = {serial: new for new, serial in state(app).serials.items()}
    assert {by_serial[t["s"]] for t in drawn["twigs"] if t["kind"] == "kept"} >= {h.ids for h in beam.steps[3].kept[1:]}
    assert "after step 4" in said(app)
    for h in (*beam.steps[3].kept, *beam.steps[3].dropped):
        assert f"{h.logprob:.2f}".replace("-", "−") in tables(app)
        assert f"{h.score(0.6):.2f}".replace("-", "−") in tables(app)
    assert [row["title"] for row in rows(app)] == ["Beam 3"], "the text is not written anew"
    app.slider(key="choose_beam_step").set_value(10).run()
    assert selection(well(app)).beam_step is None
    assert tree(app)["twigs"] == whole["twigs"]


def test_a_place_in_the_tree_becomes_every_pages_run(storyteller: LanguageModel) -> None:
    app = opened(samples=1)
    prompt = tuple(storyteller.tokenizer.encode(TEXT))
    before = ids(app)
    new = tuple(before[2][:5])
    well(pick(app, "tree", query=placed(app, new), key=0))
    assert selection(app).ids == prompt + new
    assert tree(well(app.run()))["here"] == placed(app, new)
    assert "up to token 5 of **Beam 3**" in said(app) or "up to token 5 of **Greedy**" in said(app)
    for page in ("attention", "generation"):
        well(turn_to(app, page))
        strip = sent(app, "strip")[0]
        assert tuple(i for piece in strip["pieces"] for i in piece["ids"]) == prompt + new
    assert ids(app) == before, "the texts stay"
    well(pick(app, "tree", query=0, key=0, number=2))  # the root
    assert selection(app).ids is None
    assert app.text_area[0].value == TEXT, "what was typed is there again"
    assert ids(well(app.run())) == before


def test_a_dropped_hypothesis_can_be_gone_to_and_written_on(storyteller: LanguageModel) -> None:
    app = opened(greedy=0)
    prompt = tuple(storyteller.tokenizer.encode(TEXT))
    lost = state(app).searched.steps[-1].dropped[-1].ids
    well(pick(app, "tree", query=placed(app, lost), key=0))
    assert selection(app).ids == prompt + lost
    app.run()
    assert "a text that **Beam 3** considered" in said(well(app))
    assert [row["title"] for row in rows(app)] == ["Beam 3"]
    assert not working(app)
    written(app.button(key="write_on").click().run())
    assert tuple(ids(app)[0]) == found(storyteller, prompt + lost, 8)


def test_without_the_figure_the_same_can_be_done(storyteller: LanguageModel) -> None:
    app = opened()
    prompt = tuple(storyteller.tokenizer.encode(TEXT))
    box = app.selectbox(key="go_to_text")
    assert box.options[:2] == ["Greedy", "Beam 3"]
    box.select_index(1).run()
    app.number_input(key="go_to_token_8").set_value(3).run()
    well(app.button(key="go_to_button").click().run())
    assert selection(app).ids == prompt + tuple(ids(app)[1][:3])


def test_a_text_too_long_for_the_pages_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(greedy=0)
    monkeypatch.setattr(limits, "MAX_TOKENS", 12)
    new = tuple(ids(app)[0][:6])
    well(pick(app, "tree", query=placed(app, new), key=0))
    assert selection(app).ids is None
    assert any("at most 12 tokens" in caption.value for caption in app.caption)


@pytest.mark.parametrize("query", [None, 100_000, -1, "x"])
def test_what_cannot_be_picked_is_ignored(query: object) -> None:
    app = opened(greedy=0, length=3)
    well(pick(app, "tree", query=query, key=0))
    assert selection(app).ids is None


def test_a_branch_of_beam_search_is_beam_search(storyteller: LanguageModel) -> None:
    app = opened(greedy=0)
    well(pick(app, "texts", query=2, key=0))
    taken = ids(app)[0][2]
    button = next(b for b in app.main.button if (b.key or "").startswith("branch_") and b.key != f"branch_{taken}")
    other = int(button.key.removeprefix("branch_"))
    start = (*storyteller.tokenizer.encode(TEXT), *ids(app)[0][:2], other)
    written(button.click().run())
    assert rows(app)[1]["title"] == "Branch of Beam 3 at token 3"
    assert tuple(ids(app)[1][3:]) == found(storyteller, start, 5)
    assert any("Branch of Beam 3" in leaf["text"] for leaf in tree(app)["leaves"])


def _shared(app: AppTest) -> tuple[int, list[list[float]]]:
    logs = [[math.log(chip["p"]) for chip in row["chips"]] for row in rows(app)]
    return next(i for i, (a, b) in enumerate(zip(*ids(app), strict=True)) if a != b), logs


def test_the_lesson_is_told_with_the_runs_numbers() -> None:
    app = opened(length=40, beams=4)
    place, (greedy, beam) = _shared(app)
    assert sum(beam) > sum(greedy)
    assert greedy[place] > beam[place]
    words = markdown(app)
    a, b = (code(row["chips"][place]["label"]) for row in rows(app))
    assert f"At token {place + 1}, **Greedy** takes {a} with a probability of" in words
    assert f"**Beam 4** takes {b}, which had only {escape(f'{math.exp(beam[place]):.3f}')}" in words
    for logs in (greedy, beam):
        for value in (sum(logs[:place]), logs[place], sum(logs[place + 1 :]), sum(logs)):
            assert any(abs(float(n.replace("−", "-")) - value) < 0.02 for n in re.findall(r"−\d+\.\d\d", tables(app)))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"length": 2}, "found the same text"),
        ({"text": "那只小猫坐在垫子上，因为它", "length": 40, "beams": 2}, "as a whole the greedy one is 3"),
        ({"length": 40, "beams": 4, "penalty": 1.5}, "times as probable"),
        ({"text": "Everyone was happy.", "length": 30, "alpha": 0, "beams": 4}, "The texts are not equally long"),
    ],
)
def test_what_happened_is_said_as_it_was(asked: dict, says: str) -> None:
    app = opened(**asked)
    assert says in said(app)


def test_the_length_penalty_lets_long_texts_win() -> None:
    asked = {"text": "Everyone was happy.", "length": 30, "beams": 4, "greedy": 0}
    short, long = opened(**asked, alpha=0), opened(**asked, alpha=2)
    assert len(ids(short)[0]) < len(ids(long)[0])
    assert not any("does not change the order" in fragment for fragment in fragments(short))
    assert any("does not change the order" in fragment for fragment in fragments(opened(length=2)))


def test_sampling_settings_leave_beam_search_alone(storyteller: LanguageModel) -> None:
    app = opened(temperature=0.5, top_k=3, penalty=1.4)
    assert tuple(ids(app)[1]) == found(storyteller, TEXT, 8)
    assert any("Beam search draws nothing" in caption.value for caption in app.caption)
    assert not any("Beam search draws nothing" in caption.value for caption in opened().caption)


def test_the_choices_come_from_the_address() -> None:
    app = opened(greedy=0, beams=2, alpha=1.5, beam_step=3, length=5)
    chosen = selection(app)
    assert (chosen.greedy, chosen.beams, chosen.alpha, chosen.beam_step) == (False, 2, 1.5, 3)
    chosen = selection(well(visit("generation", beams="7", alpha="9", greedy="x", beam_step="0", length="2")))
    assert (chosen.greedy, chosen.beams, chosen.alpha) == (True, Selection.beams, 2.0)
    assert chosen.beam_step == 1


@pytest.mark.parametrize("text", [*MARKUP, "`a` *b* _c_"])
def test_markup_stays_text(text: str) -> None:
    app = opened(text=text, length=3, beams=2)
    label = tree(app)["root"]
    assert "<img" not in tables(app)
    assert label


# The longest one fills the model's context; what is said then is in test_generation_page.py.
SHORTER = [(name, text) for name, text in TEXTS if name != "long_text"]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in SHORTER], ids=[name for name, _ in SHORTER])
def test_every_text(text: str, lang: str, storyteller: LanguageModel) -> None:
    if len(limits.excerpt(storyteller, text).ids) == storyteller.config.max_positions:
        app = well(visit("generation", text=text, lang=lang))
        assert "atlas_writing" not in app.session_state, "nothing fits behind it"
        return
    app = opened(text=text, lang=lang, length=4, beams=2)
    prompt = tuple(i for piece in sent(app, "strip")[0]["pieces"] for i in piece["ids"])
    assert tuple(ids(app)[1]) == found(storyteller, prompt, 4, 2)
    assert all(twig["label"] for twig in tree(app)["twigs"])
    row = state(app).rows[1].text
    new = [token.id for token in row.written if token.id != storyteller.config.eos_id]
    assert row.text == storyteller.tokenizer.decode(new)
