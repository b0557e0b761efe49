"""Who may look at whom, and what a changed token changes: in the bundled models, and against references."""

import pytest
import torch

from model import load
from model.analysis.sight import CHANGED, change, changed, last_vectors, replaced, sight
from model.masks import MaskRule

TEXT = "The little cat sat on the mat"


@pytest.fixture(scope="module")
def reader():
    return load("reader", device="cpu")


@pytest.fixture(scope="module")
def translator():
    return load("translator", device="cpu")


def translated(translator, source, target="这只猫坐在垫子上"):
    return translator.trace(target, source=source)


def test_rows_of_an_encoder_see_the_future_and_those_of_a_decoder_do_not(reader, storyteller, translator):
    run = translated(translator, TEXT)
    for both in (sight(reader.trace(TEXT)), sight(run, "encoder.")):
        assert not both.hidden.any()
        assert bool((both.weights > 0).all())
        assert both.ahead > 0.2
    for past in (sight(storyteller.trace(TEXT)), sight(run)):
        future = torch.ones_like(past.hidden).triu(1)
        assert torch.equal(past.hidden, future)
        assert float(past.weights[future].abs().max()) == 0
        assert past.ahead == 0
    for one in (sight(reader.trace(TEXT)), sight(storyteller.trace(TEXT)), sight(run), sight(run, "encoder.")):
        torch.testing.assert_close(one.weights.sum(-1), torch.ones(len(one.weights)))


def test_cross_attention_rows_sum_to_one_over_the_source(translator):
    run = translated(translator, TEXT)
    across = sight(run, cross=True)
    assert across.weights.shape == across.hidden.shape == (len(run.tokens), len(run.source))
    assert not across.hidden.any()
    assert across.ahead is None
    assert across.row_error < 1e-5
    for layer in range(translator.config.n_layers):
        pattern = run[f"blocks.{layer}.cross_attn.hook_pattern"]
        torch.testing.assert_close(pattern.sum(-1), torch.ones(pattern.shape[:2]))


def test_the_mean_is_over_all_heads_and_the_mask_is_the_runs_own(storyteller):
    run = storyteller.trace(TEXT, rule=MaskRule(causal=True, window=3))
    patterns = torch.stack([run[f"blocks.{i}.attn.hook_pattern"] for i in range(storyteller.config.n_layers)])
    found = sight(run)
    torch.testing.assert_close(found.weights, patterns.mean((0, 1)))
    assert torch.equal(found.hidden, patterns[0, 0] == 0)


def test_last_vectors_are_what_the_logits_are_made_of(reader, storyteller, translator):
    run = translated(translator, TEXT)
    for one in (storyteller.trace(TEXT), reader.trace(TEXT), run):
        matrix = one.module("embed").weight
        torch.testing.assert_close(last_vectors(one) @ matrix.T, one.logits, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        expected = translator.transformer.encode(torch.tensor([run.source]))[0]
    torch.testing.assert_close(last_vectors(run, "encoder."), expected)


@pytest.mark.parametrize("position", [0, 3, 6])
def test_what_one_token_changes(reader, storyteller, translator, position):
    ids = storyteller.ids(TEXT)
    one, other = (storyteller.trace(row) for row in (ids, replaced(ids, position, ids[position] + 7)))
    assert changed(change(one, other)).tolist() == [place >= position for place in range(len(ids))]
    assert float(change(one, other)[:position].sum()) <= CHANGED
    ids = reader.ids(TEXT)
    one, other = (reader.trace(row) for row in (ids, replaced(ids, position + 1, ids[position + 1] + 7)))
    assert bool(changed(change(one, other)).all())
    source = translator.ids(TEXT)
    one, other = (translated(translator, row) for row in (source, replaced(source, position, source[position] + 7)))
    assert bool(changed(change(one, other, "encoder.")).all())
    assert bool(changed(change(one, other)).all())


def test_a_written_token_does_not_change_the_source_nor_what_was_written_before(translator):
    source, target = translator.ids(TEXT), translator.target_ids("这只猫坐在垫子上")
    one, other = (translator.trace(row, source=source) for row in (target, replaced(target, 4, target[1])))
    assert not changed(change(one, other, "encoder.")).any()
    assert changed(change(one, other)).tolist() == [place >= 4 for place in range(len(target))]


def test_runs_that_cannot_be_compared(storyteller):
    with pytest.raises(ValueError, match="same number"):
        change(storyteller.trace([1, 2]), storyteller.trace([1]))
    with pytest.raises(IndexError):
        replaced([1, 2], 2, 3)
