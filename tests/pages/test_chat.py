"""The switch "as a chat message": the template's tokens on every page, and no effect on a model without one."""

import json
import re

import pytest
import transformers as hf
from tokenizers import Tokenizer as Library

from model.chat import REASONS
from model.zoo.catalog import CATALOG
from pages.kit import limits, loading
from pages.kit.prose import COMMON, LANGUAGES, Prose, sections
from pages.kit.selection import to_parameters
from pages.kit.sitemap import PAGES
from tests.model.test_chat import CHATML
from tests.model.test_parity_families import GROUPED
from tests.model.tiny import randomise
from tests.pages.component_io import sent
from tests.pages.reading import fragments, said
from tests.pages.visit import WITHOUT_STRIP, remarks, selection, turn_to, visit, well

STORYTELLER = CATALOG["storyteller"].folder
MARKS = ["<|im_start|>", "<|im_end|>", "<|im_start|>", "<|im_end|>", "<|im_start|>"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An operator's folder: two tiny models with a chat template, of which one is broken."""
    path = tmp_path_factory.mktemp("models")
    library = Library.from_file(str(STORYTELLER / "tokenizer.json"))
    library.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    options = GROUPED | {"vocab_size": library.get_vocab_size(), "max_position_embeddings": 200, "eos_token_id": 8_193}
    theirs = randomise(hf.LlamaForCausalLM(hf.LlamaConfig(**options)))
    for name, source in {"assistant": CHATML, "broken": "{{ summon() }}"}.items():
        theirs.save_pretrained(path / name)
        (path / name / "tokenizer.json").write_text(library.to_str())
        (path / name / "tokenizer_config.json").write_text(json.dumps({"chat_template": source}))
    return path


@pytest.fixture(autouse=True)
def operator(folder, monkeypatch):
    monkeypatch.setenv("ATLAS_MODELS", str(folder))


def switches(app):
    return [one for one in app.sidebar.toggle if "chat" in one.key]


@pytest.mark.parametrize("page", [name for name in PAGES if name not in WITHOUT_STRIP])
def test_every_page_shows_the_template_around_the_text(page):
    app = well(visit(page, model="assistant", chat="1", text="Who are you?"))
    assert selection(app).chat
    header = sent(app, "strip")[0]
    special = [piece for piece in header["pieces"] if piece["special"]]
    assert [piece["label"] for piece in special] == MARKS
    say = Prose(COMMON)
    assert {piece["label"]: piece["meaning"] for piece in special} == {
        "<|im_start|>": say.plain("special_turn"),
        "<|im_end|>": say.plain("special_turn_end"),
    }
    assert [p["meaning"] for p in header["pieces"] if not p["special"]] == [""] * (len(header["pieces"]) - 5)
    assert header["n_tokens"] == len(loading.model("assistant").chat_ids("Who are you?"))


def test_special_tokens_that_a_count_leaves_out_are_said():
    app = well(visit("tokenization", model="assistant", chat="1", text="Who are you?"))
    n = sent(app, "strip")[0]["n_tokens"]
    (caption,) = [text for text in fragments(app) if "joined again" in text]
    tokens, special = (int(found) for found in re.search(r"(\d+) tokens .*not counted here: (\d+)", caption).groups())
    assert (tokens + special, special) == (n, len(MARKS))
    assert f"{n} tokens" in "".join(element.proto.body for element in app.sidebar.get("html"))
    app = well(app.toggle(key="show_special").set_value(True).run())
    for name in ("wordpiece", "unigram"):
        shown = sent(app, f"chips_{name}")[0]
        special = sum(len(piece["ids"]) for piece in shown["pieces"] if piece["special"])
        assert special
        told = f"{shown['n_tokens'] - special} tokens · special tokens, not counted here: {special}"
        assert len([text for text in said(app).splitlines() if told in text]) == 1


def test_the_switch_turns_it_on_and_off_and_is_in_the_link():
    app = well(visit("overview", model="assistant", text="Who are you?"))
    plain = loading.run_ids(selection(app))
    (switch,) = switches(app)
    assert not switch.value
    app = well(switch.set_value(True).run())
    assert selection(app).chat
    assert to_parameters(selection(app))["chat"] == "1"
    assert len(loading.run_ids(selection(app))) > len(plain)
    app = well(turn_to(app, "attention"))
    (switch,) = switches(app)
    assert switch.value
    app = well(switch.set_value(False).run())
    assert loading.run_ids(selection(app)) == plain
    assert "chat" not in to_parameters(selection(app))


def test_a_model_without_a_template_has_no_switch_and_repairs_the_link():
    app = well(visit("overview", chat="1"))
    assert not selection(app).chat
    assert not switches(app)
    assert "storyteller has no chat template" in remarks(app)
    app = well(visit("overview", model="assistant", chat="1"))
    app = well(app.sidebar.selectbox[0].set_value("storyteller").run())
    assert not selection(app).chat


@pytest.mark.parametrize(("locale", "word"), [("en-US", "could not be used"), ("zh-CN", "没法用")])
def test_a_broken_template_is_told_of_and_the_plain_text_goes_on(locale, word):
    app = well(visit("overview", locale=locale, model="broken", chat="1", text="Who are you?"))
    assert word in remarks(app)
    assert "summon" in remarks(app)
    assert loading.run_ids(selection(app)) == tuple(loading.model("broken").tokenizer.encode("Who are you?"))


PLACES = re.compile(r"\{([a-z]+)[^}]*\}")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_reason_is_said_in_the_reader_s_language(lang):
    for code, words in REASONS.items():
        section = sections(COMMON, lang)[f"chat_{code}"]
        assert set(PLACES.findall(section)) == set(PLACES.findall(words)), code
        assert bool(re.search("[一-鿿]", section)) == (lang == "zh"), code


def test_a_reason_is_chinese_in_the_chinese_interface():
    app = well(visit("overview", locale="zh-CN", model="broken", chat="1", text="Who are you?"))
    assert "它用到了不存在的东西" in remarks(app)
    assert "cannot be used" not in remarks(app)


@pytest.mark.parametrize(("locale", "word"), [("en-US", "as a special token"), ("zh-CN", "特殊词元")])
def test_a_special_token_that_the_reader_types_is_told_of(locale, word):
    text = "Hello<|im_end|> <b>"
    app = well(visit("overview", locale=locale, model="assistant", chat="1", text=text))
    assert "&lt;|im_end|&gt;" in remarks(app)
    assert word in remarks(app)
    assert len([i for i in loading.run_ids(selection(app)) if i == 8_193]) == 3  # one is the reader's
    plain = well(visit("overview", locale=locale, model="assistant", text=text))
    assert "im_end" not in remarks(plain)
    assert 8_193 not in loading.run_ids(selection(plain))


def test_a_long_message_is_cut_and_the_template_stays_whole():
    text = "a cat. " * 100
    app = well(visit("tokenization", model="assistant", chat="1", text=text))
    lm = loading.model("assistant")
    whole, shown = lm.chat_ids(text), loading.run_ids(selection(app))
    assert len(whole) > limits.max_tokens(lm) == 200
    assert len(shown) <= 200
    assert shown[-7:] == tuple(whole[-7:])
    assert "The end of the message is left out" in remarks(app)
    assert f"{len(whole)} tokens" in remarks(app)


def test_an_empty_message_is_a_turn_of_its_own():
    app = well(visit("overview", model="assistant", chat="1", text=" "))
    assert "atlas-remark" not in remarks(app)
    assert loading.run_ids(selection(app)) == tuple(loading.model("assistant").chat_ids(" "))


def test_what_was_written_is_not_framed_again():
    app = well(visit("generation", model="assistant", chat="1", text="Who are you?"))
    ids = (*loading.run_ids(selection(app)), 40)
    app = well(visit("overview", model="assistant", chat="1", text="Who are you?", ids="-".join(map(str, ids))))
    assert loading.run_ids(selection(app)) == ids
    assert app.sidebar.text_area[0].value == "Who are you?"
    (switch,) = switches(app)
    app = well(switch.set_value(False).run())
    assert selection(app).ids is None
