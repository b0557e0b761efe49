"""The page on positions computes what the papers write and what the models do."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.analysis.position_models import SCHEMES, load_position_models
from model.analysis.position_views import (
    alibi_matrix,
    alibi_shares,
    dots,
    mean_attention,
    pair_of_wavelength,
    position_table,
    rope_agreement,
    rope_angles,
    row_lengths,
    scheme_matrix,
    similarity,
    sinusoid,
    table_difference,
    wavelengths,
)
from model.analysis.rope_steps import DISTANCES, SHIFTS, rope_score, turned, turned_double
from model.analysis.word_order import reordered, reversed_pieces
from model.language import LanguageModel
from model.positions import alibi_slopes, sinusoidal_table
from tests.model.tiny import tiny

TEXT = "The little cat sat on the mat because it was"
# Written out by hand from section 3 and the appendix of Press et al. 2022: for 8 heads 1/2 … 1/256; for 16 heads a
# slope between every two of these; for 12 heads those of 8 and then every second one of 16.
ROOT = math.sqrt(0.5)
PUBLISHED = {
    1: [1 / 256],
    2: [1 / 16, 1 / 256],
    4: [1 / 4, 1 / 16, 1 / 64, 1 / 256],
    8: [1 / 2**i for i in range(1, 9)],
    16: [ROOT**i for i in range(1, 17)],
    3: [1 / 16, 1 / 256, 1 / 4],
    6: [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8],
    12: [*(1 / 2**i for i in range(1, 9)), *(ROOT**i for i in (1, 3, 5, 7))],
}


@pytest.fixture(scope="module")
def five():
    return load_position_models()


@given(st.integers(0, 2_000), st.integers(0, 15), st.sampled_from([100.0, 10_000.0, 1e6]))
def test_the_sinusoidal_formula(position, pair, theta):
    angle = position / theta ** (2 * pair / 32)
    # The table is fp32: its frequencies are off by 6e-8 of themselves, which grows with the angle.
    allowed = 2e-6 + 4e-7 * angle
    assert sinusoid(position, 2 * pair, 32, theta) == pytest.approx(math.sin(angle), abs=allowed)
    assert sinusoid(position, 2 * pair + 1, 32, theta) == pytest.approx(math.cos(angle), abs=allowed)
    assert float(wavelengths(32, theta)[pair]) == pytest.approx(2 * math.pi * theta ** (2 * pair / 32), rel=1e-5)


def test_a_row_of_sines_meets_another_by_their_distance_alone():
    table = sinusoidal_table(128, 96)
    product = dots(table)
    for distance in (0, 1, 17, 90):
        diagonal = product.diagonal(distance)
        expected = sum(math.cos(distance / 10_000 ** (2 * i / 96)) for i in range(48))
        torch.testing.assert_close(diagonal, torch.full_like(diagonal, expected), rtol=0, atol=1e-3)
    np.testing.assert_allclose(similarity(table.numpy(), 5), product[5], rtol=1e-6)
    np.testing.assert_allclose(row_lengths(table.numpy()), math.sqrt(48), rtol=1e-5)
    assert pair_of_wavelength(96, 10_000.0, 2 * math.pi) == 0


@pytest.mark.parametrize("heads", sorted(PUBLISHED))
def test_alibi_slopes_as_published(heads):
    torch.testing.assert_close(alibi_slopes(heads), torch.tensor(PUBLISHED[heads]))
    for head in range(heads):
        bias = alibi_matrix(7, heads, head)
        for i in range(7):
            for j in range(7):
                assert float(bias[i, j]) == pytest.approx(-PUBLISHED[heads][head] * abs(i - j), rel=1e-6)
        shares = alibi_shares(heads, head, 20)
        expected = np.exp(-PUBLISHED[heads][head] * np.arange(20))
        np.testing.assert_allclose(shares, expected / expected.sum(), rtol=1e-5)


# --- RoPE on a run


@pytest.mark.parametrize(("layer", "head", "query", "key"), [(0, 0, 9, 0), (2, 3, 9, 4), (4, 1, 4, 2), (5, 7, 6, 6)])
def test_rope_of_a_run(storyteller, layer, head, query, key):
    run = storyteller.trace(TEXT)
    of = rope_score(run, layer, head, query, key)
    assert of.own
    assert of.score == pytest.approx(float(run[f"blocks.{layer}.attn.hook_attn_scores"][head, query, key]), abs=1e-4)
    recorded = run[f"blocks.{layer}.attn.hook_rot_q"][query, head]
    torch.testing.assert_close(turned(of.q, torch.tensor([query]), of.theta)[0], recorded, rtol=0, atol=1e-5)
    assert torch.equal(of.turned_q, recorded)
    assert float(of.by_distance[query - key]) == pytest.approx(of.score, abs=1e-4)
    assert len(of.by_distance) == DISTANCES
    assert float(of.by_distance[0]) == pytest.approx(of.plain, abs=1e-5)
    # Every pair is turned by position · frequency, and keeps its length.
    for pair in (0, 3, 15):
        q, k, after_q, after_k = of.pair(pair)
        for before, after, place in ((q, after_q, query), (k, after_k, key)):
            angle = place * 10_000 ** (-2 * pair / 32)
            expected = (
                before[0] * math.cos(angle) - before[1] * math.sin(angle),
                before[0] * math.sin(angle) + before[1] * math.cos(angle),
            )
            torch.testing.assert_close(after, torch.tensor(expected), rtol=0, atol=1e-5)
    changed = of.most_changed
    parts = [float(after_q @ after_k - q @ k) for q, k, after_q, after_k in map(of.pair, range(16))]
    assert abs(parts[changed]) == pytest.approx(max(map(abs, parts)), abs=1e-6)


@pytest.mark.parametrize(("layer", "head", "query", "key"), [(0, 0, 9, 0), (2, 3, 9, 4), (4, 1, 4, 2), (5, 7, 6, 6)])
def test_a_shift_of_both_positions_changes_no_score(storyteller, layer, head, query, key):
    """To 1e-5 of the largest score that the two vectors could have, in fp32, as the model computes."""
    of = rope_score(storyteller.trace(TEXT), layer, head, query, key)
    possible = float(of.q.norm() * of.k.norm()) / 32**0.5
    first, exact = of.by_shift[0]
    assert len(of.by_shift) == len(SHIFTS)
    for shift, (single, double) in zip(SHIFTS, of.by_shift, strict=True):
        assert abs(double - exact) <= 1e-10 * possible
        if shift <= 100:
            assert abs(single - first) <= 1e-5 * possible
        else:  # an angle of 1,000 radians has 6e-5 of rounding in fp32
            assert abs(single - first) <= 1e-4 * possible
    # What the check compares would be seen: a shift of the query alone is another score.
    alone = (
        turned_double(of.q, torch.tensor([query + 10]), of.theta)
        * turned_double(of.k, torch.tensor([key]), of.theta).conj()
    )
    assert abs(float(alone.real.sum()) / 32**0.5 - exact) > 1e-2 * possible


def test_rope_with_another_base_or_in_a_model_without_it(storyteller):
    run = storyteller.trace(TEXT)
    other = rope_score(run, 2, 3, 9, 4, theta=100.0)
    assert not other.own
    assert other.plain == pytest.approx(rope_score(run, 2, 3, 9, 4).plain)
    torch.testing.assert_close(other.turned_q, turned(other.q, torch.tensor([9]), 100.0)[0])
    lm = LanguageModel("tiny", tiny(positions="learned"), storyteller.tokenizer)
    assert not rope_score(lm.trace([3, 14, 15, 9]), 1, 2, 3, 0).own
    lm = LanguageModel("tiny", tiny(positions="none", d_head=7), storyteller.tokenizer)
    with pytest.raises(ValueError, match="7 features"):
        rope_score(lm.trace([3, 14]), 0, 0, 1, 0)


def test_angles_and_what_is_left_of_a_score():
    angles, cosines = rope_angles(40, 24, 10_000.0)
    assert float(angles[39, 2]) == pytest.approx(39 * 10_000 ** (-4 / 24), rel=1e-5)
    torch.testing.assert_close(cosines, torch.cos(angles))
    x = torch.ones(24)
    at = turned(x, torch.arange(40), 10_000.0)
    torch.testing.assert_close(rope_agreement(40, 24, 10_000.0), at @ at.T / 24, rtol=0, atol=1e-5)


# --- the shown tables are those that the models use


def test_tables_are_what_the_run_adds(five):
    for scheme in ("sinusoidal", "learned"):
        lm = five[scheme]
        run = lm.trace(TEXT)
        n = len(run.tokens)
        added = run["hook_pos_embed"]
        torch.testing.assert_close(position_table(lm.transformer, 128)[:n], added, rtol=0, atol=1e-6)
        torch.testing.assert_close(run["blocks.0.hook_resid_pre"] - run["hook_embed"], added, rtol=0, atol=1e-5)
        torch.testing.assert_close(scheme_matrix(lm.transformer, n), added @ added.T, rtol=1e-5, atol=1e-4)
    assert table_difference(five["sinusoidal"].transformer, sinusoidal_table(200, 96).numpy()) <= 1e-6
    assert table_difference(five["sinusoidal"].transformer, sinusoidal_table(200, 96, theta=500.0).numpy()) > 0.1
    with pytest.raises(ValueError, match="adds no vector"):
        position_table(five["rope"].transformer, 4)


def test_biases_and_turns_are_those_of_the_run(five):
    run = five["alibi"].trace(TEXT)
    n = len(run.tokens)
    for layer in range(run.config.n_layers):
        q, k = (run[f"blocks.{layer}.attn.hook_{name}"] for name in "qk")
        for head in range(run.config.n_heads):
            scores = run[f"blocks.{layer}.attn.hook_attn_scores"][head]
            bias = scores - q[:, head] @ k[:, head].T / run.config.d_head**0.5
            past = torch.ones(n, n).tril().bool()
            expected = scheme_matrix(five["alibi"].transformer, n, head)
            torch.testing.assert_close(bias[past], expected[past], rtol=0, atol=1e-4)
    run = five["rope"].trace(TEXT)
    config = run.config
    for name in "qk":
        plain, after = run[f"blocks.1.attn.hook_{name}"], run[f"blocks.1.attn.hook_rot_{name}"]
        for place in range(n):
            one = turned(plain[place, 2], torch.tensor([place]), config.rope_theta)[0]
            torch.testing.assert_close(one, after[place, 2], rtol=0, atol=1e-5)
    expected = rope_agreement(n, config.d_head, config.rope_theta)
    assert torch.equal(scheme_matrix(five["rope"].transformer, n), expected)
    assert not scheme_matrix(five["none"].transformer, n).any()


def test_mean_attention(five):
    for lm in five.values():
        run = lm.trace(TEXT)
        patterns = torch.stack([run[f"blocks.{i}.attn.hook_pattern"] for i in range(4)])
        mean = mean_attention(run)
        torch.testing.assert_close(mean, patterns.flatten(0, 1).mean(0))
        torch.testing.assert_close(mean.sum(-1), torch.ones(len(run.tokens)))


# --- the order of the tokens


@pytest.mark.parametrize("text", [" Tom saw Lily", "猫吃鱼", TEXT])
def test_without_positions_the_outputs_are_a_permutation(five, text):
    lm = five["none"]
    ids = lm.tokenizer.encode(text)
    orders = [reversed_pieces(lm.tokenizer.pieces(ids)), torch.randperm(len(ids)).tolist()]
    for order in orders:
        of = reordered(lm, ids, order, causal=False)
        assert of.difference <= 1e-5 * of.largest
    of = reordered(lm, ids, orders[0], causal=True)
    assert of.difference > 1e-2 * of.largest, "the mask lets order in"


@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme != "none"])
def test_with_positions_they_are_not(five, scheme):
    lm = five[scheme]
    ids = lm.tokenizer.encode(" Tom saw Lily")
    assert reversed_pieces(lm.tokenizer.pieces(ids)) == (2, 1, 0)
    for order in ((2, 1, 0), (1, 0, 2)):
        of = reordered(lm, ids, order, causal=False)
        assert of.difference == pytest.approx(float(of.differences.max()))
        if scheme == "alibi" and order == (2, 1, 0):  # turned round, every distance stays as it was
            assert of.difference <= 1e-5 * of.largest
            of = reordered(lm, ids, order, causal=True)
        assert of.difference > 1e-2 * of.largest


def test_the_loaded_model_tells_the_orders_apart(storyteller):
    of = reordered(storyteller, storyteller.tokenizer.encode(" Tom saw Lily"), (2, 1, 0), causal=False)
    assert of.difference > 1e-2 * of.largest


def test_rows_are_put_back_to_their_tokens(five):
    """With no attention at all, any order gives each token its own vector: the rows are matched, not the places."""
    lm = five["none"]
    zero = {f"blocks.{i}.hook_attn_out": lambda x, _: torch.zeros_like(x) for i in range(4)}
    with lm.edit(zero):
        of = reordered(lm, [5, 6, 7, 8], [2, 0, 3, 1], causal=False)
    assert of.difference <= 1e-6 * of.largest
    assert 0 < of.usual <= of.largest
    assert reversed_pieces(lm.tokenizer.pieces(lm.tokenizer.encode("猫吃"))) == (3, 4, 5, 0, 1, 2)
    with pytest.raises(ValueError, match="each of the 3 places"):
        reordered(lm, [5, 6, 7], [0, 0, 1], causal=False)
