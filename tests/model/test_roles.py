"""Roles of heads: equal to their definitions on patterns made by hand, to plain loops, and to TransformerLens."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformer_lens.head_detector import detect_head

from model.analysis.mixing import layer_patterns, masked_cells
from model.analysis.roles import (
    ENTROPY,
    REPEATED,
    SCORES,
    SHARES,
    WINDOW,
    measure_roles,
    repeated_random_tokens,
    role_cells,
    row_entropies,
    row_shares,
    row_values,
    survey,
)
from model.language import LanguageModel
from tests.model.tiny import tiny

TEXTS = ["the cat sat. the cat", "Alice met Bob. Bob met Carol. Alice met Bob. Bob met", "ha ha ha ha ha ha ha"]
CAUSAL = torch.ones(7, 7, dtype=torch.bool).tril()
ALL = torch.ones(7, 7, dtype=torch.bool)
TOKENS = [5, 6, 7, 5, 6, 8, 8]


@pytest.fixture(scope="module")
def encoder(storyteller):
    return LanguageModel("tiny", tiny(kind="encoder", vocab_size=8192), storyteller.tokenizer)


def score(pattern, role, tokens=TOKENS, visible=CAUSAL):
    return float(row_shares(pattern, role_cells(role, tokens, visible)).mean())


def points_at(*keys):
    """A pattern whose every row gives all to one key."""
    return torch.nn.functional.one_hot(torch.tensor(keys), len(keys)).float()


def test_patterns_made_by_hand():
    before, first = points_at(0, 0, 1, 2, 3, 4, 5), points_at(0, 0, 0, 0, 0, 0, 0)
    assert score(before, "previous") == score(first, "first") == 1
    assert score(first, "previous") == pytest.approx(1 / 6), "for token 1 the first token is the one before"
    assert score(before, "local") == 1
    # 5 6 7 5 6 8 8: the tokens 3, 4 and 6 stand earlier, at 0, 1 and 5; what followed there is at 1, 2 and (6 itself).
    assert score(points_at(0, 1, 2, 0, 1, 5, 5), "same") == 1
    assert score(points_at(0, 1, 2, 1, 2, 5, 6), "induction") == 1
    assert score(points_at(0, 1, 2, 3, 4, 5, 6), "induction") == 0
    assert score(points_at(0, 0, 0, 0, 0, 0, 0), "local") == 0


def test_shares_are_weighted_sums():
    row = torch.tensor([0.1, 0.2, 0.3, 0.05, 0.35, 0, 0])
    pattern = torch.eye(7)
    pattern[4] = row
    cells = role_cells("same", TOKENS, CAUSAL)
    assert row_shares(pattern, cells).tolist() == pytest.approx([0, 0.2, 0])
    assert row_shares(pattern, role_cells("induction", TOKENS, CAUSAL)).tolist() == pytest.approx([0, 0.3])
    assert row_shares(pattern, role_cells("local", TOKENS, CAUSAL)).tolist() == pytest.approx([0.9, 1, 1])


def test_entropy_in_bits():
    even = CAUSAL / CAUSAL.sum(-1, keepdim=True)
    assert row_entropies(even, CAUSAL).tolist() == pytest.approx([math.log2(n) for n in range(2, 8)])
    assert row_entropies(torch.eye(7), CAUSAL).tolist() == [0] * 6, "the row with one key has no choice"


def test_an_encoder_looks_both_ways():
    assert role_cells("same", TOKENS, ALL)[0].nonzero()[:, 0].tolist() == [3]
    assert role_cells("induction", TOKENS, ALL)[0].nonzero()[:, 0].tolist() == [4], "the follower of the later 5"
    assert role_cells("induction", TOKENS, ALL)[3].nonzero()[:, 0].tolist() == [1]
    assert role_cells("local", TOKENS, ALL)[3].sum() == 0, "seven tokens are all nearby the one in the middle"
    assert role_cells("local", TOKENS, ALL)[0].nonzero()[:, 0].tolist() == [0, 1, 2, 3]
    assert role_cells("previous", TOKENS, ALL).sum() == role_cells("first", TOKENS, ALL).sum() == 6


def test_hidden_keys_never_count():
    padded = CAUSAL.clone()
    padded[:, :2] = False
    for role in SHARES:
        assert not (role_cells(role, TOKENS, padded) & ~padded).any()
    assert not role_cells("first", TOKENS, padded).any()


def test_an_unknown_role_is_refused():
    with pytest.raises(ValueError, match="no role 'subject'"):
        role_cells("subject", TOKENS, CAUSAL)


def counted(role, tokens, query, key):
    """Whether a role counts a cell, from its definition, without tensors."""
    if role == "previous":
        return key == query - 1
    if role == "first":
        return query > 0 and key == 0
    if role == "same":
        return key != query and tokens[key] == tokens[query]
    if role == "induction":
        return key > 0 and key != query and key - 1 != query and tokens[key - 1] == tokens[query]
    return abs(query - key) <= WINDOW


def by_hand(pattern, tokens, visible, role):
    """A role's rows, with loops."""
    rows = {}
    for query in range(len(tokens)):
        keys = [key for key in range(len(tokens)) if visible[query, key]]
        if role == ENTROPY:
            if len(keys) > 1:
                rows[query] = -sum(pattern[query, k] * math.log2(pattern[query, k]) for k in keys if pattern[query, k])
            continue
        hits = [key for key in keys if counted(role, tokens, query, key)]
        if hits and not (role == "local" and len(hits) == len(keys)):
            rows[query] = sum(pattern[query, key] for key in hits)
    return rows


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
@pytest.mark.parametrize("text", TEXTS)
def test_scores_are_those_of_plain_loops(storyteller, encoder, kind, text):
    lm = storyteller if kind == "decoder" else encoder
    run = lm.trace(text)
    found, visible = measure_roles(run), ~masked_cells(run).numpy()
    n_layers, n_heads = lm.config.n_layers, lm.config.n_heads
    expected = {role: np.full((n_layers, n_heads), np.nan) for role in SCORES}
    even = visible / visible.sum(-1, keepdims=True)
    for layer, patterns in enumerate(layer_patterns(run)):
        for head, pattern in enumerate(patterns.double().numpy()):
            for role in SCORES:
                rows = by_hand(pattern, run.tokens, visible, role)
                if rows:
                    expected[role][layer, head] = sum(rows.values()) / len(rows)
                    assert tuple(rows) == found[role].rows
    for role in SCORES:
        if role not in found:
            assert np.isnan(expected[role]).all()
            continue
        np.testing.assert_allclose(found[role].scores, expected[role], atol=1e-5)
        rows = by_hand(even, run.tokens, visible, role)
        assert found[role].even == pytest.approx(sum(rows.values()) / len(rows), abs=1e-5)
        best = found[role].strongest
        assert expected[role][best] == pytest.approx(expected[role].max(), abs=1e-5)
        values = row_values(run, *best)
        assert set(values) == set(found)
        assert np.mean(values[role]) == pytest.approx(expected[role][best], abs=1e-5)
        assert len(values[role]) == len(found[role].rows)


NAMES = {"previous": "previous_token_head", "same": "duplicate_token_head", "induction": "induction_head"}


@pytest.mark.parametrize("role", NAMES)
def test_same_attention_as_transformerlens_detects(storyteller, role):
    """Its score is the share of all attention; ours the mean over the rows that can have some: so many times larger.

    Where a token stands twice in a row it also counts, as induction, that the second looks at itself. A head that
    only looks at itself would then be an induction head, so we do not; the texts here have no such place.
    """
    for ids in (storyteller.ids("Alice met Bob. Then Bob met Carol and Alice met"), twice(storyteller)):
        assert all(a != b for a, b in zip(ids, ids[1:], strict=False))
        run = storyteller.trace(ids)
        cache = {("pattern", layer, "attn"): pattern for layer, pattern in enumerate(layer_patterns(run))}
        config = SimpleNamespace(device="cpu", n_layers=6, n_heads=8, n_ctx=512, dtype=torch.float32)
        model = SimpleNamespace(cfg=config, to_tokens=lambda _, ids=ids: torch.tensor([ids]))
        theirs = detect_head(model, "", NAMES[role], cache=cache)
        ours = measure_roles(run)[role]
        torch.testing.assert_close(ours.scores * len(ours.rows) / len(ids), theirs, atol=1e-5, rtol=1e-5)


def twice(lm, most=256):
    return repeated_random_tokens(lm, most)


def test_a_text_without_repetition_has_no_such_score_and_one_token_none(storyteller):
    found = measure_roles(storyteller.trace("The little cat sat on the mat"))
    assert set(found) == set(SCORES) - {"same", "induction"}
    assert measure_roles(storyteller.trace("a")) == {}


def test_repeated_random_tokens_repeat_only_as_a_whole(storyteller):
    ids = twice(storyteller)
    assert len(ids) == 2 * REPEATED
    assert ids[:REPEATED] == ids[REPEATED:]
    assert len(set(ids)) == REPEATED
    assert not set(ids) & storyteller.tokenizer.special_ids
    assert "\ufffd" not in storyteller.tokenizer.decode(ids)
    assert twice(storyteller) == ids
    assert len(twice(storyteller, 11)) == 10
    found = measure_roles(storyteller.trace(ids))
    assert set(found) == set(SCORES)
    assert found["induction"].rows == tuple(range(REPEATED, 2 * REPEATED))
    assert found["induction"].even == pytest.approx(np.mean([1 / (q + 1) for q in range(REPEATED, 2 * REPEATED)]))


def test_repeated_random_tokens_are_framed_as_texts_are():
    tokenizer = SimpleNamespace(
        encode=lambda text, add_special=True: [1, 7, 2] if add_special else [7],
        decode=lambda ids: "x" if ids[0] % 2 else "\ufffd",
        special_ids=frozenset({1, 3}),
        vocab_size=40,
    )
    ids = repeated_random_tokens(SimpleNamespace(tokenizer=tokenizer, config=SimpleNamespace(vocab_size=30)), 20)
    assert (ids[0], ids[-1], len(ids)) == (1, 2, 20)
    assert ids[1:10] == ids[10:19]
    assert all(token % 2 and token < 30 and token not in (1, 3) for token in ids[1:10])


def test_share_of_cells_below(storyteller):
    run = storyteller.trace("The little cat sat on the mat because it was")
    visible = ~masked_cells(run)
    weights = torch.stack([pattern[:, visible] for pattern in layer_patterns(run)]).numpy()
    for weight in (0.05, 0.3):
        assert survey(run, weight).below == pytest.approx((weights < weight).mean(), abs=1e-9)
    assert survey(run, 1.1).below == 1
    assert survey(run, 0).below == 0
    nothing = type("Run", (), {"__getitem__": lambda self, name: torch.full((2, 3, 3), -torch.inf)})()
    with pytest.raises(ValueError, match="no cell"):
        survey(nothing, 0.1)
