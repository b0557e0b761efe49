"""Several heads together, and attention without the first token."""

import numpy as np
import pytest
import torch

from model.analysis.mixing import (
    at_least,
    layer_patterns,
    masked_cells,
    mean_pattern,
    without_first,
)
from model.language import LanguageModel
from tests.model.tiny import tiny

TEXT = "The little cat sat on the mat because it was"


@pytest.fixture(scope="module")
def run(storyteller):
    return storyteller.trace(TEXT)


@pytest.fixture(scope="module")
def stack(run):
    """(layers, heads, T, T), from queries and keys with a plain formula."""
    layers = []
    for i in range(run.config.n_layers):
        q, k = (run[f"blocks.{i}.attn.hook_rot_{name}"].double().numpy() for name in "qk")
        k = k.repeat(run.config.n_heads // run.config.n_kv_heads, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(run.config.d_head)
        scores[:, ~np.tril(np.ones(scores.shape[1:], dtype=bool))] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        layers.append(weights / weights.sum(-1, keepdims=True))
    return np.stack(layers)


def test_layers_come_one_by_one_and_whole(run, stack):
    np.testing.assert_allclose(torch.stack(list(layer_patterns(run))), stack, atol=2e-6)


@pytest.mark.parametrize(
    "heads", [[(3, 2)], [(0, 0), (0, 7)], [(5, 1), (0, 3), (2, 2)], [(1, h) for h in range(8)],
              [(i, h) for i in range(6) for h in range(8)]],
)  # fmt: skip
def test_the_mix_is_the_mean(run, stack, heads):
    mean = mean_pattern(run, heads)
    np.testing.assert_allclose(mean, np.mean([stack[i, h] for i, h in heads], axis=0), atol=2e-6)
    np.testing.assert_allclose(mean.sum(-1), 1, atol=1e-6)


def test_one_head_is_its_traced_pattern(run):
    assert torch.equal(mean_pattern(run, [(3, 2)]), run["blocks.3.attn.hook_pattern"][2])


def test_heads_that_cannot_be_averaged_are_refused(run):
    for heads in ([], [(0, 1), (0, 1)]):
        with pytest.raises(ValueError, match="at least one"):
            mean_pattern(run, heads)
    for head in ((6, 0), (0, 8), (-1, 0)):
        with pytest.raises(IndexError, match="6 layers of 8"):
            mean_pattern(run, [head])


def test_without_the_first_token_rows_sum_to_one_again(run, stack):
    hidden = masked_cells(run)
    for i, h in ((0, 0), (3, 2), (5, 7)):
        view = without_first(mean_pattern(run, [(i, h)]), hidden)
        rest = stack[i, h].copy()
        rest[:, 0] = 0
        expected = rest[1:] / rest[1:].sum(-1, keepdims=True)
        np.testing.assert_allclose(view.weights[1:], expected, atol=1e-4)
        np.testing.assert_allclose(view.weights[1:].sum(-1), 1, atol=1e-6)
        assert view.hidden[:, 0].all()
        assert view.hidden[0].all()
        assert torch.equal(view.hidden[1:, 1:], hidden[1:, 1:])
        assert not view.weights[view.hidden].any()


def test_a_row_that_gave_all_to_the_first_token_is_hidden_not_a_number():
    weights = torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [0.5, 0.2, 0.3]])
    hidden = ~torch.tril(torch.ones(3, 3, dtype=torch.bool))
    view = without_first(weights, hidden)
    assert torch.isfinite(view.weights).all()
    assert view.weights.tolist()[1] == [0, 0, 0]
    torch.testing.assert_close(view.weights[2], torch.tensor([0.0, 0.4, 0.6]))
    stacked = without_first(weights.expand(4, 3, 3), hidden)
    assert torch.equal(stacked.weights[3], view.weights)
    assert torch.equal(hidden, ~torch.tril(torch.ones(3, 3, dtype=torch.bool))), "the mask given is not changed"


def test_masked_cells_are_the_future_for_a_decoder_and_none_for_an_encoder(run, storyteller):
    n = len(run.tokens)
    assert torch.equal(masked_cells(run), torch.ones(n, n, dtype=torch.bool).triu(1))
    encoder = LanguageModel("tiny", tiny(kind="encoder"), storyteller.tokenizer)
    assert not masked_cells(encoder.trace([1, 2, 3, 4])).any()
    assert masked_cells(storyteller.trace(TEXT, padding=2))[:, :2].all()


def test_at_least_keeps_the_threshold_itself_and_what_is_above():
    weights = torch.tensor([[0.05, 0.0499, 0.5, 0.0]])
    assert torch.equal(at_least(weights, 0.05), torch.tensor([[0.05, 0, 0.5, 0]]))
    assert torch.equal(at_least(weights, 0), weights)
