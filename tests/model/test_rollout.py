"""Attention rollout against its definition in NumPy, and what it must do on patterns made by hand."""

import numpy as np
import pytest
import torch

from model.analysis import rollout as module
from model.analysis.rollout import rollout
from model.language import LanguageModel
from tests.model.tiny import tiny

TEXT = "The little cat sat on the mat because it was"


@pytest.fixture(scope="module", params=["decoder", "encoder"])
def run(request, storyteller):
    if request.param == "decoder":
        return storyteller.trace(TEXT)
    return LanguageModel("tiny", tiny(kind="encoder", vocab_size=8192), storyteller.tokenizer).trace(TEXT)


def reference(run, last):
    """Equation by equation: A = ½·mean of heads + ½·I, normalised; rollout = A_last · … · A_0."""
    product = None
    for layer in range(last + 1):
        heads = run[f"blocks.{layer}.attn.hook_pattern"].double().numpy()
        a = 0.5 * heads.mean(axis=0) + 0.5 * np.identity(heads.shape[-1])
        a = a / a.sum(axis=-1)[:, np.newaxis]
        product = a if product is None else np.matmul(a, product)
    return product


def test_it_is_the_product_of_the_layers(run):
    for layer in range(run.config.n_layers):
        found = rollout(run, layer)
        np.testing.assert_allclose(found.weights, reference(run, layer), atol=1e-7)
        np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-12)
        torch.testing.assert_close(found.read + found.kept, found.weights)
        assert (found.weights >= 0).all()


def test_both_halves_of_the_last_step(run):
    below, found = rollout(run, 0).weights, rollout(run, 1)
    mean = run["blocks.1.attn.hook_pattern"].double().mean(0)
    torch.testing.assert_close(found.kept, below / 2)
    torch.testing.assert_close(found.read, mean @ below / 2, atol=1e-7, rtol=1e-6)


def made(monkeypatch, *layers):
    """The rollout of a run with these patterns (T, T), one head a layer."""
    patterns = [torch.tensor(layer).float()[None] for layer in layers]
    run = type("Run", (), {"tokens": [0] * patterns[0].shape[-1]})()
    run.config = type("Config", (), {"n_layers": len(layers)})()
    monkeypatch.setattr(module, "layer_patterns", lambda _: iter(patterns))
    return rollout(run, len(layers) - 1).weights


def test_patterns_made_by_hand(monkeypatch):
    itself = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    before = [[1, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert made(monkeypatch, itself, itself).tolist() == itself
    assert made(monkeypatch, before).tolist() == [[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]]
    # Two steps back need two layers: a quarter of what token 2 holds is token 0's.
    assert made(monkeypatch, before, before).tolist() == [[1, 0, 0], [0.75, 0.25, 0], [0.25, 0.5, 0.25]]


def test_a_row_without_any_key_keeps_what_it_holds(monkeypatch):
    found = made(monkeypatch, [[0, 0, 0], [0, 1, 0], [0, 0.5, 0.5]], [[0, 0, 0], [0, 1, 0], [0, 1, 0]])
    assert found[0].tolist() == [1, 0, 0]
    torch.testing.assert_close(found.sum(-1), torch.ones(3, dtype=torch.float64))


def test_a_layer_that_is_not_there_is_refused(run):
    for layer in (-1, run.config.n_layers):
        with pytest.raises(IndexError, match="no layer"):
            rollout(run, layer)
