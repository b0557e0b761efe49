"""What the model expects after each token, against a softmax of our own in double precision."""

import numpy as np
import pytest

from model.analysis.guesses import follower_probabilities, guesses, surest_and_most_surprised

TEXT = "Tom has a red ball. Ben has a blue car. Tom has a red"


def softmax(run):
    logits = run.logits.numpy().astype(np.float64)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def test_the_likeliest_tokens_are_those_of_the_softmax(storyteller):
    run = storyteller.trace(TEXT)
    expected = softmax(run)
    for position in (0, 7, len(run.tokens) - 1):
        found = guesses(run, position, 8)
        order = np.argsort(-expected[position], kind="stable")
        np.testing.assert_allclose(found.probabilities, expected[position][order[:8]], rtol=1e-5)
        np.testing.assert_allclose(expected[position][list(found.ids)], found.probabilities, rtol=1e-5)
        assert list(found.probabilities) == sorted(found.probabilities, reverse=True)
        bits = -(expected[position] * np.log2(expected[position])).sum()
        assert found.entropy == pytest.approx(bits, rel=1e-5)


def test_the_follower_is_the_next_token_of_the_text_with_its_rank(storyteller):
    run = storyteller.trace(TEXT)
    expected = softmax(run)
    for position in range(len(run.tokens) - 1):
        follower = guesses(run, position).follower
        actual = run.tokens[position + 1]
        assert follower.id == actual
        assert follower.probability == pytest.approx(expected[position, actual], rel=1e-4)
        assert list(np.argsort(-expected[position], kind="stable"))[follower.rank] == actual
    assert guesses(run, len(run.tokens) - 1).follower is None


def test_surest_and_most_surprised(storyteller):
    run = storyteller.trace(TEXT)
    expected = softmax(run)
    given = np.array([expected[i, token] for i, token in enumerate(run.tokens[1:])])
    np.testing.assert_allclose(follower_probabilities(run), given, rtol=1e-4)
    assert surest_and_most_surprised(run) == (given.argmax(), given.argmin())


def test_a_single_token_and_a_position_outside(storyteller):
    run = storyteller.trace("a")
    assert len(run.tokens) == 1
    assert surest_and_most_surprised(run) is None
    assert guesses(run, 0, 3).follower is None
    for position in (-1, 1):
        with pytest.raises(IndexError, match="1 tokens"):
            guesses(run, position)
