"""One text in several tokenizers: the same character, whatever the tokens; cut texts keep what stands around them."""

import pytest

from model import load
from model.analysis.passages import english_share, passage, passage_of_run, token_for
from tests.cases import TEXTS


@pytest.fixture(scope="module")
def models(storyteller):
    return storyteller, load("reader", device="cpu"), load("translator", device="cpu")


@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text_meets_in_its_characters(models, text):
    for lm in models:
        whole = passage(lm, text, 10**6)
        limit = 40
        cut = passage(lm, text, limit)
        around = len(lm.tokenizer.encode(""))
        assert cut.n_tokens == len(lm.tokenizer.encode(text, add_special=False))
        assert len(cut.ids) == len(cut.spans) == min(limit, cut.n_tokens + around)
        assert cut.cut == (cut.n_tokens + around > limit)
        if not cut.cut:
            assert list(cut.ids) == lm.tokenizer.encode(text)
        if around:
            assert cut.ids[-1] == lm.config.eos_id
        for place in range(len(cut.ids)):
            character = cut.character(place)
            if character is None:
                assert cut.ids[place] in lm.tokenizer.special_ids
                continue
            first = cut.position(character)
            assert first is not None
            assert first <= place
            assert cut.spans[first][0] <= character < cut.spans[first][1]
        if text and not whole.cut:
            assert whole.spans[-1] is None or whole.spans[-1][1] == len(text)
        assert cut.position(len(text)) is None


def test_a_word_is_found_in_each_tokenizer(models):
    text = "The little cat sat"
    for lm in models:
        read = passage(lm, text, 64)
        place = read.position(text.index("cat"))
        assert place is not None
        assert lm.tokenizer.label(read.ids[place]) == "·cat"
        assert read.character(place) == text.index("cat")


@pytest.mark.parametrize(
    ("text", "share"),
    [("Tom!", 1.0), ("我用 Python", 1 / 3), ("猫吃鱼", 0.0), ("2017-06-12", None), ("", None), ("Ünï it", 0.5)],
)
def test_english_words(text, share):
    assert english_share(text) == pytest.approx(share)


def test_tokens_of_a_run_are_found_in_its_text(storyteller):
    text = "The cat 垫 sat"
    own = storyteller.ids(text)
    assert passage_of_run(storyteller, storyteller.trace(own), text) == passage(storyteller, text, 64)
    around = storyteller.ids("User: ") + own + storyteller.ids("\nAnswer:")
    spelled = [token for letter in text for token in storyteller.ids(letter)]
    for ids in (around, spelled):
        run = storyteller.trace(ids)
        found = passage_of_run(storyteller, run, text)
        assert found.ids == tuple(ids)
        for place, span in enumerate(found.spans):
            if span is not None:
                assert text[slice(*span)].startswith(run.token_strings[place])
        for character in range(len(text)):
            place = found.position(character)
            assert text[found.spans[place][0] : found.spans[place][1]]
            assert found.spans[place][0] <= character < found.spans[place][1]
    assert passage_of_run(storyteller, storyteller.trace(around), text).spans[0] is None


def test_a_token_takes_the_place_of_one(models):
    for lm in models:
        ids = lm.ids("The little cat sat, 猫吃鱼")
        labels = lm.tokenizer.labels(ids)
        dog = token_for(lm, ids, labels.index("·cat"), " dog ")
        assert lm.tokenizer.label(dog) == "·dog"
        assert lm.tokenizer.label(token_for(lm, ids, labels.index("吃"), "看见")) in ("看", "看见")
        with pytest.raises(ValueError, match="at least one letter"):
            token_for(lm, ids, 0, " ")
        with pytest.raises(IndexError):
            token_for(lm, ids, len(ids), "dog")
