"""The embedding table: rows, distances, neighbours, against brute force."""

import math

import numpy as np
import pytest
import torch

from model.analysis.embeddings import EmbeddingTable, triangle
from model.analysis.one_hot import difference_from_run, look_up
from model.language import LanguageModel
from tests.model.tiny import tiny


@pytest.fixture(scope="module")
def table(storyteller) -> EmbeddingTable:
    return EmbeddingTable(storyteller.transformer, storyteller.tokenizer)


@pytest.fixture(scope="module")
def rows(storyteller) -> np.ndarray:
    return storyteller.transformer.embed.weight.detach().double().numpy()


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b)))


@pytest.mark.parametrize("token", [0, 307, 1043, 8191])
def test_the_looked_up_row_is_the_weight_row(storyteller, table, token):
    weight = storyteller.transformer.embed.weight
    assert torch.equal(table.token(token).vector, weight[token])
    assert torch.equal(table.rows((token,))[0], weight[token])
    one_hot = torch.nn.functional.one_hot(torch.tensor(token), 8192).float()
    torch.testing.assert_close(table.token(token).vector, one_hot @ weight)
    assert torch.equal(look_up(storyteller.transformer, token).row, weight[token])


@pytest.mark.parametrize("scale", [False, True])
def test_the_run_begins_with_the_row(storyteller, scale):
    model = LanguageModel("tiny", tiny(scale_embeddings=scale), storyteller.tokenizer)
    run = model.trace([3, 14, 15])
    assert difference_from_run(run, 1) == 0
    torch.testing.assert_close(run["hook_embed"][1], model.transformer.embed.weight[14] * (32**0.5 if scale else 1))
    with model.edit({"hook_embed": lambda x, _: x + 0.5}):
        assert difference_from_run(model.trace([3, 14, 15]), 1) == pytest.approx(0.5, abs=1e-5)


def test_a_word_is_read_as_inside_a_sentence(storyteller, table):
    encode = storyteller.tokenizer.encode
    assert table.word("cat").ids == tuple(encode(" cat")) == (1043,)
    assert table.word(" cat").ids == (1043,)
    assert table.word("猫").ids == tuple(encode("猫"))
    assert table.word("#1043").ids == (1043,)
    assert table.word("#1043").labels == ("·cat",)
    for nothing in ("", "#8192", "#999999999"):
        assert table.word(nothing) is None
    assert table.word("#12345678901").ids == tuple(encode("#12345678901")), "too long for an id: a text"
    assert table.word("  ").ids == tuple(encode("  "))
    with pytest.raises(ValueError, match="no token 8192"):
        table.token(8192)


def test_several_tokens_are_averaged(storyteller, table):
    word = table.word("economics")
    assert storyteller.tokenizer.decode(word.ids) == " economics"
    assert len(word.ids) > 1
    expected = sum(storyteller.transformer.embed.weight[i] for i in word.ids) / len(word.ids)
    torch.testing.assert_close(word.vector, expected)


@pytest.mark.parametrize("text", ["cat", "猫", "economics", "#0"])
def test_neighbours_are_those_of_a_brute_force_search(storyteller, table, rows, text):
    word = table.word(text)
    vector = np.mean([rows[i] for i in word.ids], axis=0)
    every = {i: cosine(vector, rows[i]) for i in range(len(rows)) if i not in word.ids}
    best = sorted(every, key=lambda i: -every[i])[:10]
    found = table.neighbours(word, 10)
    assert [one.id for one in found.nearest] == best
    assert [one.label for one in found.nearest] == [storyteller.tokenizer.label(i) for i in best]
    np.testing.assert_allclose([one.cosine for one in found.nearest], [every[i] for i in best], atol=1e-6)
    values = np.array(list(every.values()))
    assert (found.mean, found.spread) == pytest.approx((values.mean(), values.std()), abs=1e-5)
    assert found.count == len(every)
    other = table.word("dog")
    mark = cosine(vector, rows[other.ids[0]])
    assert table.nearer(word, other) == sum(value > mark + 1e-7 for i, value in every.items() if i not in other.ids)


def test_rows_without_a_token_are_no_neighbours(storyteller):
    wide = tiny(vocab_size=8200)
    wide.embed.weight[8195] = wide.embed.weight[7]
    wide.embed.weight[3] = 0
    table = EmbeddingTable(wide, storyteller.tokenizer)
    found = table.neighbours(table.token(7), 9000)
    assert found.count == len(found.nearest) == 8191
    assert 8195 not in {one.id for one in found.nearest}
    assert {one.id: one.cosine for one in found.nearest}[3] == 0
    assert table.word("#8195") is None


def test_the_mean_cosine_is_that_of_all_pairs(storyteller):
    small = tiny(vocab_size=60)
    table = EmbeddingTable(small, storyteller.tokenizer)
    rows = small.embed.weight.double().numpy()
    pairs = [cosine(rows[i], rows[j]) for i in range(60) for j in range(60) if i != j]
    assert table.mean_cosine == pytest.approx(sum(pairs) / len(pairs), abs=1e-9)


def test_one_hot_vectors_are_root_two_apart(table):
    cat, dog, economics = map(table.word, ("cat", "dog", "economics"))
    for pair in (table.pair(cat, dog), table.pair(cat, economics), table.pair(dog, economics)):
        assert pair.one_hot == pytest.approx(math.sqrt(2), abs=1e-12)
    assert table.pair(cat, cat).one_hot == 0
    shared = table.pair(table.word("#5"), table.word("#5"))
    assert (shared.one_hot, shared.distance) == (0, 0)


def test_a_pair_against_a_calculation_by_hand(table, rows):
    cat, dog = table.word("cat"), table.word("dog")
    a, b = rows[cat.ids[0]], rows[dog.ids[0]]
    pair = table.pair(cat, dog)
    assert pair.cosine == pytest.approx(cosine(a, b), abs=1e-6)
    assert pair.distance == pytest.approx(math.sqrt(2 - 2 * cosine(a, b)), abs=1e-6)
    assert pair.raw_distance == pytest.approx(math.sqrt(sum((a - b) ** 2)), abs=1e-5)
    directions = table.directions([cat, dog])
    torch.testing.assert_close(directions.norm(dim=1), torch.ones(2))
    assert float(directions[0] @ directions[1]) == pytest.approx(pair.cosine, abs=1e-6)


@pytest.mark.parametrize(
    "sides", [(2**0.5, 2**0.5, 2**0.5), (1.0, 1.3, 1.2), (3.0, 4.0, 5.0), (1.0, 1.0, 2.0), (0, 1, 1)]
)
def test_a_triangle_has_its_sides(sides):
    a, b, c = triangle(*sides).double()
    assert [float((x - y).norm()) for x, y in ((a, b), (a, c), (b, c))] == pytest.approx(list(sides), abs=1e-6)
    assert c[1] >= 0
