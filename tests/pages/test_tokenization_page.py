"""The tokenization page: what is drawn is what the tokenizers do."""

import html
import re

import pytest
from streamlit.testing.v1 import AppTest

from model.analysis import tokenizer_kinds as kinds
from model.language import LanguageModel
from pages.kit import tokenizer_training
from pages.kit.figures import ByteGroup, Cell, MergeRow, TokenRow, byte_strip, merge_rows, one_hot_bar, token_table
from pages.kit.palette import DARK, LIGHT, Palette
from pages.kit.prose import Prose
from pages.kit.tokenizer_training import Lesson
from tests.cases import TEXTS
from tests.pages.component_io import sent
from tests.pages.reading import AWKWARD, fragments, read
from tests.pages.visit import visit, well

TEXT = "Tom has a red ball. 小猫在垫子上。"


def opened(**parameters: str) -> AppTest:
    return well(visit("tokenization", **parameters))


def fragment(page: AppTest, name: str) -> str:
    (body,) = [one for one in fragments(page) if re.search(rf"class=['\"]{name}['\"]", one)]
    return body


def strip(page: AppTest, key: str = "strip") -> list[dict]:
    return sent(page, key)[0]["pieces"]


def merge_parts(page: AppTest) -> list[list[str]]:
    rows = re.findall(r"<li.*?</li>", fragment(page, "atlas-merges"))
    return [[html.unescape(part) for part in re.findall(r"<i class='\w+'>(.*?)</i>", row)] for row in rows]


def test_the_strip_has_the_runs_ids(storyteller: LanguageModel) -> None:
    page = opened(text=TEXT)
    ids = storyteller.tokenizer.encode(TEXT)
    assert [i for piece in strip(page) for i in piece["ids"]] == ids
    data = bytes.fromhex("".join(piece["bytes"] for piece in strip(page)))
    assert data.decode() == TEXT


def test_bytes_are_those_of_the_text() -> None:
    body = fragment(opened(text=TEXT), "atlas-bytes")
    data = bytes.fromhex("".join(re.findall(r"<i class='b'>(\w\w)</i>", body)))
    assert data.decode() == TEXT


def test_merges_end_in_the_tokenizers_tokens(storyteller: LanguageModel) -> None:
    page = opened(text=TEXT)
    assert page.text_input(key="merge_word").value == "unhappiness"
    tokenizer = storyteller.tokenizer
    for word in ("unhappiness", " hello world", "猫咪", "👩‍👩‍👧", "<|endoftext|>", "$x^2$ `a` <b>", "x" * 60):
        well(page.text_input(key="merge_word").set_value(word).run())
        shown = word[:48]
        last = merge_parts(page)[-1]
        assert last == tokenizer.labels(tokenizer.encode(shown))
        assert len(merge_parts(page)[0]) == len(shown.encode())


def test_stepping_through_merges() -> None:
    page = opened()
    full = merge_parts(page)
    well(page.button(key="step_back").click().run())
    assert merge_parts(page) == full[:-1]
    well(page.slider(key="merge_step").set_value(0).run())
    assert merge_parts(page) == full[:1]
    assert page.button(key="step_back").disabled
    well(page.button(key="step_on").click().run())
    assert merge_parts(page) == full[:2]
    well(page.text_input(key="merge_word").set_value("a").run())
    assert merge_parts(page) == [["a"]]
    well(page.text_input(key="merge_word").set_value("").run())
    well(page.button(key="try_word_2").click().run())
    assert page.text_input(key="merge_word").value == " unhappiness"


def test_kinds_are_counted(storyteller: LanguageModel) -> None:
    page = opened(text=TEXT)
    body = "".join(fragments(page))
    coders = [storyteller.tokenizer, *(kinds.bundled(kind) for kind in kinds.KINDS)]
    say = Prose("tokenization")
    passages = [say.plain(f"example_passage_{lang}_text") for lang in ("english", "chinese")]
    for coder in coders:
        n = len(coder.encode(TEXT, add_special=False))
        ratios = [len(coder.encode(one, add_special=False)) / len(one) for one in passages]
        unknown = kinds.read(coder, TEXT).n_unknown
        cells = ["8,192", f"{n}", f"{n / len(TEXT):.2f}", f"{unknown}", *(f"{ratio:.2f}" for ratio in ratios)]
        assert "".join(f"<td>{cell}</td>" for cell in cells) in body


def test_special_tokens_on_request() -> None:
    page = opened(text="a cat")
    assert [piece["special"] for piece in strip(page, "chips_wordpiece")] == [False, False]
    well(page.toggle(key="show_special").set_value(True).run())
    assert [piece["label"] for piece in strip(page, "chips_wordpiece")] == ["[CLS]", "a", "cat", "[SEP]"]
    assert [piece["special"] for piece in strip(page, "chips_own")] == [True, False, False]
    assert strip(page, "chips_unigram")[-1]["label"] == "</s>"


def test_what_is_lost_is_said() -> None:
    said = [m.value for m in opened(text="The Café").markdown if "not the same text" in m.value]
    assert len(said) == 1
    assert "capital letters, accents" in said[0].replace("\\", "")
    assert "the cafe" in said[0]


def test_vocabulary_rows(storyteller: LanguageModel) -> None:
    page = opened()
    for query in ("the", "猫", "*", "<", "394"):
        well(page.text_input(key="vocabulary_query").set_value(query).run())
        bodies = [body for body in fragments(page) if "Tokens found in the vocabulary" in body]
        rows = re.findall(r"<tr><td>(\d+)</td><th scope='row'>(.*?)</th>", bodies[0])
        assert 0 < len(rows) <= 50
        for number, label in rows:
            assert html.unescape(label) == storyteller.tokenizer.label(int(number))
            data = storyteller.tokenizer.token_bytes(int(number))
            assert (
                query.encode() in data or query == number or query in (storyteller.tokenizer.token(int(number)) or "")
            )
    well(page.text_input(key="vocabulary_query").set_value("zqxj").run())
    assert any("No token holds" in m.value for m in page.markdown)


def test_training_on_the_readers_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_training, "TICK_MERGES", 10_000)
    monkeypatch.setattr(tokenizer_training, "TICK_SECONDS", 60.0)
    page = opened(text="tick tock tick tock tick")
    well(page.button(key="training_take").click().run())
    assert page.text_area(key="training_text").value == "tick tock tick tock tick"
    well(page.select_slider(key="training_size").set_value(264).run())
    well(page.button(key="train").click().run())
    lesson = page.session_state["atlas_bpe"]
    assert lesson.training.text == "tick tock tick tock tick"
    assert not lesson.running
    place = page.slider(key="training_place").value
    assert place == len(lesson.training.merges) > 0
    well(page.slider(key="training_place").set_value(1).run())
    drawn = [i for piece in strip(page, "chips_learned") for i in piece["ids"]]
    assert drawn == lesson.training.tokenizer(1).encode(lesson.training.text)
    well(page.text_area(key="training_text").set_value("").run())
    well(page.button(key="train").click().run())
    assert page.session_state["atlas_bpe"].training.merges == []


def test_training_can_be_stopped_and_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened()
    well(page.select_slider(key="training_size").set_value(2048).run())
    page.button(key="train").click()
    monkeypatch.setattr(Lesson, "tick", lambda self: self.training.advance() and None)
    well(page.run())
    lesson = page.session_state["atlas_bpe"]
    assert lesson.running
    well(page.button(key="training_stop").click().run())
    n = len(lesson.training.merges)
    well(page.run())
    assert not lesson.running
    assert len(lesson.training.merges) == n < 100
    well(page.button(key="training_on").click().run())
    assert len(lesson.training.merges) > n


def test_training_stops_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1_000))  # a look at the clock takes a second
    monkeypatch.setattr(tokenizer_training.time, "perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr(tokenizer_training, "MAX_SECONDS", 6.0)
    monkeypatch.setattr(tokenizer_training, "TICK_SECONDS", 1.5)
    text = " ".join(f"{a}{b}" for a in "abcdefghijklmnopqrst" for b in "uvwxyz" for _ in range(3))
    lesson = Lesson(tokenizer_training.BpeTraining(text, 2048))
    ticks = 0
    while lesson.running:
        ticks += 1
        lesson.tick()
    assert ticks == 3, "two merges and three seconds a tick, and the third is past the limit"
    assert not lesson.training.done
    assert lesson.stopped == "time"
    assert len(lesson.training.merges) == 6
    lesson.go_on()
    assert lesson.running, "the reader may give it the time again"


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(text: str, lang: str) -> None:
    page = opened(text=text, lang=lang)
    sources = re.findall(r'data-source="(\w+)"', "".join(fragments(page)))
    assert set(sources) == {"measured", "computed"}
    well(page.toggle(key="show_special").set_value(True).run())
    well(page.text_input(key="merge_word").set_value(text[:48]).run())
    well(page.text_input(key="vocabulary_query").set_value(text[:40]).run())


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("text", AWKWARD)
def test_figures_keep_any_label_as_text(text: str, palette: Palette) -> None:
    drawn = [
        byte_strip([ByteGroup((Cell(text, 1),), b"a", (Cell(text, 1),))], palette, words=(text,) * 3, label=text),
        merge_rows([MergeRow(text, (text, text), 0, 0, text)], palette, label=text),
        token_table([TokenRow(text, text, (text,))], palette, columns=[text] * 3, label=text),
        one_hot_bar(1, 4, palette, text=text, label=text),
    ]
    known = {"style", "div", "span", "i", "b", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"}
    for one in drawn:
        assert {tag for tag, _ in read(one).tags} <= known


def test_figures_refuse_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="bytes"):
        byte_strip([ByteGroup((Cell("a", 1),), b"ab", (Cell("1", 2),))], LIGHT, words=("", "", ""), label="")
    for row in (MergeRow("", ("a",), joined=1), MergeRow("", ("a",), next_pair=0)):
        with pytest.raises(ValueError, match="part"):
            merge_rows([row], LIGHT, label="")
    with pytest.raises(ValueError, match="columns"):
        token_table([TokenRow("1", "a", ())], LIGHT, columns=["a"], label="")
    with pytest.raises(ValueError, match="place"):
        one_hot_bar(4, 4, LIGHT, text="", label="")
