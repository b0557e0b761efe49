"""Rows of a head, what they are checked against, and what a mask does to the guesses."""

import math
from dataclasses import replace

import pytest
import torch

from model.analysis import attention_steps
from model.analysis.attention_checks import compare_with_plain, row_sum_error
from model.analysis.attention_rows import largest_weights, written_by_head
from model.analysis.attention_steps import MASK_KINDS, cell_arithmetic, head_steps, mask_choice
from model.analysis.mask_effect import mask_effect
from model.analysis.scaling import head_scaling, softmax_gradient
from model.kernels import attention_pattern, attention_scores
from model.losses import token_losses
from tests.model.test_attention_steps import TOKENS, tiny_run


@pytest.mark.parametrize("kind", MASK_KINDS)
@pytest.mark.parametrize("scaling", [True, False])
def test_plain_python_says_the_same(kind: str, scaling: bool) -> None:
    choice = mask_choice(kind, len(TOKENS))
    steps = head_steps(tiny_run(choice.rule, choice.padding), 1, 3, scaling=scaling)
    check = compare_with_plain(steps, 2)
    assert (check.first, check.last) == (0, len(TOKENS) - 1)
    for difference, largest in zip(check.differences, check.largest, strict=True):
        assert difference <= 1e-5 * max(1.0, largest)
    assert row_sum_error(steps) <= 1e-6


@pytest.mark.parametrize("positions", ["rope", "alibi"])
def test_only_the_scores_of_the_chosen_head_are_computed(monkeypatch: pytest.MonkeyPatch, positions: str) -> None:
    run, asked = tiny_run(positions=positions), []
    pattern = run["blocks.1.attn.hook_pattern"]

    def spy(q: torch.Tensor, *rest: object) -> torch.Tensor:
        asked.append(q.shape[1])
        return attention_scores(q, *rest)

    monkeypatch.setattr(attention_steps, "attention_scores", spy)
    for head in range(run.config.n_heads):
        torch.testing.assert_close(head_steps(run, 1, head).pattern, pattern[head])
    assert set(asked) == {1}


def test_plain_python_has_alibi_too() -> None:
    steps = head_steps(tiny_run(positions="alibi"), 0, 1)
    assert steps.bias.any()
    assert max(compare_with_plain(steps, 0).differences[:4]) <= 1e-5
    cell = cell_arithmetic(steps, 5, 1)
    assert cell.bias < 0
    assert cell.scaled == pytest.approx(cell.dot / math.sqrt(6) + cell.bias, rel=1e-5)


def test_a_difference_would_be_found() -> None:
    steps = head_steps(tiny_run(), 0, 0)
    wrong = steps.pattern.clone()
    wrong[3, 1] += 0.25
    assert compare_with_plain(replace(steps, pattern=wrong), 0).differences[3] == pytest.approx(0.25, abs=1e-5)
    assert row_sum_error(replace(steps, pattern=wrong)) == pytest.approx(0.25, abs=1e-5)
    open_ = steps.masked.clone()
    open_[0, 1] = 1.0
    assert compare_with_plain(replace(steps, masked=open_), 0).differences[2] == math.inf


def test_long_texts_are_compared_around_the_query() -> None:
    steps = head_steps(tiny_run(), 0, 0)
    assert [compare_with_plain(steps, query, cells=14).first for query in (0, 1, 5, 6)] == [0, 0, 4, 5]
    alone = compare_with_plain(steps, 4, cells=1)
    assert (alone.first, alone.last) == (4, 4)
    with pytest.raises(IndexError, match="7 tokens"):
        compare_with_plain(steps, 7)


def test_the_largest_weights_of_a_row() -> None:
    steps = head_steps(tiny_run(), 0, 0)
    pattern = steps.pattern.clone()
    pattern[4] = torch.tensor([0.1, 0.4, 0.1, 0.15, 0.25, 0.0, 0.0])
    row = largest_weights(replace(steps, pattern=pattern), 4, 3)
    assert row.keys == (1, 4, 3)
    assert row.weights == pytest.approx((0.4, 0.25, 0.15))
    assert row.n_visible == 5
    assert row.rest == pytest.approx(0.2)
    # Ties keep the order of reading; masked keys are never listed.
    assert largest_weights(replace(steps, pattern=pattern), 4, 9).keys == (1, 4, 3, 0, 2)
    assert largest_weights(steps, 0, 9).keys == (0,)


def test_what_heads_write_sums_to_what_attention_adds() -> None:
    run = tiny_run()
    written = [written_by_head(run, head_steps(run, 1, head), 5) for head in range(4)]
    torch.testing.assert_close(sum(w.vector for w in written), run["blocks.1.hook_attn_out"][5])
    assert written[0].length == pytest.approx(float(written[0].vector.pow(2).sum().sqrt()))
    assert written[0].stream_length == pytest.approx(float(run["blocks.1.hook_resid_pre"][5].pow(2).sum().sqrt()))


def test_a_heads_own_scaling() -> None:
    run = tiny_run()
    on, off = (head_scaling(head_steps(run, 0, 2, scaling=s), 6) for s in (True, False))
    assert off.variance == pytest.approx(6 * on.variance, rel=1e-4)  # ÷√6 each, squared
    assert off.entropy < on.entropy
    steps = head_steps(run, 0, 2)
    assert on.row_gradient == pytest.approx(float(softmax_gradient(steps.masked[6])), rel=1e-5)
    assert on.row_top == float(steps.pattern[6].max())
    nats = -sum(p * math.log(p) for p in steps.pattern[6].tolist())
    assert on.row_entropy == pytest.approx(nats / math.log(2), rel=1e-4)


def test_a_row_that_may_read_nothing_measures_as_zero() -> None:
    whole = head_steps(tiny_run(), 0, 0)
    masked, visible = whole.masked.clone(), whole.visible.clone()
    masked[1], visible[1] = -torch.inf, False
    steps = replace(whole, masked=masked, visible=visible, pattern=attention_pattern(masked))
    dead, alive = head_scaling(steps, 1), head_scaling(steps, 5)
    assert (dead.row_entropy, dead.row_gradient, dead.row_top) == (0, 0, 0)
    assert dead.entropy == alive.entropy > 0
    assert row_sum_error(steps) <= 1e-6
    assert largest_weights(steps, 1, 5).keys == ()
    assert max(compare_with_plain(steps, 1).differences[:4]) <= 1e-5
    cell = cell_arithmetic(steps, 1, 0)
    assert cell.masked
    assert (cell.row_max, cell.denominator, cell.weight) == (-math.inf, 0, 0)


def test_what_a_mask_leaks() -> None:
    n = len(TOKENS)
    before = tiny_run()
    for kind in MASK_KINDS:
        choice = mask_choice(kind, n)
        after = tiny_run(choice.rule, choice.padding)
        effect = mask_effect(before, after)
        counted = slice(choice.padding, None)
        for costs, run in ((effect.before, before), (effect.after, after)):
            assert costs[: choice.padding].isnan().all()
            torch.testing.assert_close(costs[counted] * math.log(2), token_losses(run.logits, TOKENS)[counted])
        expected = {"none": [True] * 6, "prefix": [True] * 2 + [False] * 4}.get(kind, [False] * 6)
        assert effect.in_sight.tolist() == expected
        if not any(expected):
            assert effect.mean_after_in_sight is None
        else:
            assert effect.mean_after_in_sight == pytest.approx(float(effect.after[effect.in_sight].mean()))
            assert effect.mean_before_in_sight == pytest.approx(float(effect.before[effect.in_sight].mean()))
        assert effect.mean_after == pytest.approx(float(effect.after[counted].mean()))
        assert effect.mean_before == pytest.approx(float(effect.before[counted].mean()))


def test_what_cannot_be_compared() -> None:
    run, other = tiny_run(), tiny_run()
    other.tokens = other.tokens[:-1]
    with pytest.raises(ValueError, match="different tokens"):
        mask_effect(run, other)


def test_one_token_has_nothing_to_guess(storyteller) -> None:
    run = storyteller.trace([5])
    effect = mask_effect(run, run)
    assert len(effect.before) == len(effect.in_sight) == 0
    assert effect.mean_before is effect.mean_after is None
