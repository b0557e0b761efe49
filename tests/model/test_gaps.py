"""A hidden token: the guesses are the softmax of the model's own logits, and the token to open on is as defined."""

import math

import pytest
import torch

from model import load
from model.analysis.gaps import gap, mask_id, telling_gap, with_gap

TEXT = "The little cat sat on the mat because it was"


@pytest.fixture(scope="module")
def reader():
    return load("reader", device="cpu")


def test_the_guesses_are_the_softmax_at_the_gap(reader):
    ids = reader.ids(TEXT)
    hidden = with_gap(reader, ids, 3)
    assert hidden[3] == mask_id(reader) == reader.tokenizer.encode("[MASK]", parse_special=True, add_special=False)[0]
    assert [a for a in zip(ids, hidden, strict=True) if a[0] != a[1]] == [(ids[3], hidden[3])]
    found = gap(reader.trace(hidden), 3, ids[3], count=5)
    with torch.no_grad():
        expected = reader.transformer(torch.tensor([hidden]))[0, 3].double().softmax(-1)
    values, best = expected.topk(5)
    assert list(found.ids) == best.tolist()
    assert found.probabilities == pytest.approx(values.tolist(), rel=1e-4)
    assert found.probability == pytest.approx(float(expected[ids[3]]), rel=1e-4)
    assert found.rank == int((expected > expected[ids[3]]).sum())


def test_what_is_behind_the_gap_counts_too(reader):
    """An encoder sees both sides: the same words before the gap, another word after it, another guess."""
    one, other = (reader.ids(text) for text in ("He [MASK] milk.".replace("[MASK]", "x"), "He x music."))
    rows = [gap(reader.trace(with_gap(reader, ids, 2)), 2, ids[2], 50) for ids in (one, other)]
    assert rows[0].ids != rows[1].ids


def test_it_opens_on_a_right_guess_that_is_not_sure(reader):
    ids = reader.ids(TEXT)
    positions = list(range(1, len(ids) - 1))
    rated = {}
    for position in positions:  # one at a time, without a batch
        found = gap(reader.trace(with_gap(reader, ids, position)), position, ids[position])
        if found.rank == 0:
            rated[position] = -found.probability * math.log(found.probability)
    assert telling_gap(reader, ids, positions) == max(rated, key=rated.get)
    wrong = [position for position in positions if position not in rated]
    best = max(wrong, key=lambda p: gap(reader.trace(with_gap(reader, ids, p)), p, ids[p]).probability)
    assert telling_gap(reader, ids, wrong) == best


def test_what_does_not_fit_is_said(reader, storyteller):
    assert mask_id(storyteller) is None
    with pytest.raises(ValueError, match="fills no gaps"):
        with_gap(storyteller, [1, 2], 0)
    with pytest.raises(IndexError):
        with_gap(reader, [1, 2], 2)
    with pytest.raises(ValueError, match="no token to hide"):
        telling_gap(reader, [1, 2], [])
