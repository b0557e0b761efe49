"""The same word in two runs: where it stands, and its cosine by layer against torch's."""

import pytest
import torch

from model.analysis.context import compare, find_word, layer_vectors, other_words, word_vectors
from model.language import LanguageModel
from tests.model.tiny import tiny


def held(run, word):
    return [run.token_strings[position] for position in find_word(run, word)]


@pytest.mark.parametrize(
    ("text", "word", "found"),
    [
        ("The dog began to bark", "bark", [" bark"]),
        ("bark, bark and bark again", "bark", [" bark"]),
        ("The start of art", "art", [" art"]),
        ("The start", "art", []),
        ("artful", "art", []),
        ("The Bark of the tree", "bark", [" B", "ark"]),
        ("bark at the Bark", "bark", None),
        ("园子里开着一朵花", "花", ["花"]),
        ("a猫b", "猫", None),
        ("nothing here", "bark", []),
        ("anything", "  ", []),
        ("a.b", "a.b", None),
        ("aXb", "a.b", []),
    ],
)
def test_a_word_is_found_where_it_stands(storyteller, text, word, found):
    run = storyteller.trace(text)
    positions = find_word(run, word)
    assert list(positions) == sorted(positions)
    if found is None:
        assert word.lower() in "".join(held(run, word)).lower()
    else:
        assert held(run, word) == found


def test_the_last_occurrence_counts_and_capitals_only_at_need(storyteller):
    run = storyteller.trace("bark, bark and bark at the Bark")
    (position,) = find_word(run, "bark")
    assert run.token_strings[position] == " bark"
    assert position == max(i for i, text in enumerate(run.token_strings) if text == " bark")


def test_a_character_of_several_tokens_is_found_whole(storyteller):
    run = storyteller.trace("a 👩‍👩‍👧 family")
    positions = find_word(run, "👩‍👩‍👧")
    data = b"".join(storyteller.tokenizer.token_bytes(run.tokens[p]) for p in positions)
    assert "👩‍👩‍👧" in data.decode()
    assert len(positions) > 3


@pytest.mark.parametrize("place", ["pre", "post"])
def test_steps_are_those_of_the_stream(storyteller, place):
    run = LanguageModel("tiny", tiny(norm_place=place), storyteller.tokenizer).trace([3, 14, 15, 9])
    steps = layer_vectors(run)
    assert steps.shape == (3, 4, 32)
    assert torch.equal(steps[0], run["hook_embed"])
    assert torch.equal(steps[1], run["blocks.1.hook_resid_pre"])
    last = run["blocks.1.hook_resid_post"]
    assert torch.equal(steps[2], last if place == "pre" else run.module("blocks.1.ln2")(last[None])[0])
    torch.testing.assert_close(word_vectors(run, (1, 3)), (steps[:, 1] + steps[:, 3]) / 2)


def test_cosines_are_torchs(storyteller):
    one, other = storyteller.trace("The dog began to bark"), storyteller.trace("The old tree had thick bark")
    places = find_word(one, "bark"), find_word(other, "bark")
    compared = compare(one, places[0], other, places[1])
    names = ["hook_embed", *(f"blocks.{i}.hook_resid_post" for i in range(6))]
    assert len(compared.meetings) == 7
    for name, met, cosine in zip(names, compared.meetings, compared.cosines, strict=True):
        a, b = one[name][places[0][0]], other[name][places[1][0]]
        assert cosine == pytest.approx(float(torch.cosine_similarity(a, b, dim=0)), abs=1e-5)
        assert met.dot == pytest.approx(float(a @ b), rel=1e-4, abs=1e-3)
        assert (met.first, met.second) == pytest.approx((float(a.norm()), float(b.norm())), rel=1e-5)
    assert compared.cosines[0] == pytest.approx(1, abs=1e-9)
    assert compared.cosines[-1] < 0.9
    assert torch.equal(compared.first[3], one["blocks.2.hook_resid_post"][places[0][0]])


def test_what_stands_behind_changes_nothing_in_a_decoder_and_something_in_an_encoder(storyteller):
    for kind in ("decoder", "encoder"):
        model = LanguageModel("tiny", tiny(kind=kind), storyteller.tokenizer)
        one, other = model.trace([3, 14, 15]), model.trace([3, 14, 9])
        same = compare(one, (1,), other, (1,)).cosines
        assert (min(same) > 1 - 1e-6) == (kind == "decoder")
        before = compare(one, (2,), model.trace([4, 14, 15]), (2,)).cosines
        assert before[0] == pytest.approx(1)
        assert before[-1] < 1 - 1e-4


def test_other_words_are_all_pairs_of_different_tokens(storyteller):
    model = LanguageModel("tiny", tiny(), storyteller.tokenizer)
    one, other = model.trace([3, 14, 15]), model.trace([14, 9])
    a, b = layer_vectors(one)[1], layer_vectors(other)[1]
    pairs = [(i, j) for i in range(3) for j in range(2) if one.tokens[i] != other.tokens[j]]
    expected = sum(float(torch.cosine_similarity(a[i], b[j], dim=0)) for i, j in pairs) / len(pairs)
    assert float(other_words(one, other)[1]) == pytest.approx(expected, abs=1e-5)
    assert bool(other_words(model.trace([3]), model.trace([3])).isnan().all())
