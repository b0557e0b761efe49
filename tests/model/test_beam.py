"""Beam search against greedy decoding, recomputed scores, and a search through everything."""

import itertools
import math

import pytest
import torch

from model.beam import Hypothesis, _most_probable, beam_search, length_penalty
from model.generation import generate
from model.sampling import SamplingSettings
from tests.model.tiny import tiny

ENCODER_DECODER = {"kind": "encoder_decoder", "n_encoder_layers": 2, "positions": "sinusoidal", "norm": "layernorm"}
ENCODER_DECODER |= {"norm_place": "post", "activation": "relu", "scale_embeddings": True, "eos_id": 3, "vocab_size": 16}
ENCODER_DECODER |= {"tied_embeddings": False}  # tied, random weights say the last word again and again
SOURCE = [5, 9, 2, 14, 3]


class Words:
    """As much of a tokenizer as generation needs."""

    def stream(self):
        return self

    def push(self, token):
        return f" {token}"

    def flush(self):
        return ""


def translator(seed=0, **changes):
    return tiny(seed, **ENCODER_DECODER | changes)


def search(model, source=SOURCE, **options):
    return list(beam_search(model, [0], source=source, **{"max_new_tokens": 8} | options))


def recomputed(model, ids, source=SOURCE, prompt=(0,)):
    """The log-probabilities of ids behind the prompt, in one pass without a cache."""
    whole = torch.tensor([[*prompt, *ids]])
    logits = model(whole[:, :-1], encoder_ids=None if source is None else torch.tensor([source]))
    rows = logits[0].double().log_softmax(-1)[len(prompt) - 1 :]
    return rows[torch.arange(len(ids)), torch.tensor(ids)].tolist()


@pytest.mark.parametrize("seed", range(6))
def test_a_beam_of_one_is_greedy(seed):
    for model, source in ((translator(seed), SOURCE), (tiny(seed, eos_id=3), None)):
        greedy = generate(
            model, Words(), [0], max_new_tokens=8, sampling=SamplingSettings(temperature=0), source=source
        )
        (found,) = search(model, source, beam=1, alpha=0.0)[-1].kept
        assert list(found.ids) == [step.id for step in greedy]


@pytest.mark.parametrize("use_cache", [True, False])
def test_scores_are_recomputed_log_probabilities_over_the_penalty(use_cache):
    for model, source in ((translator(6), SOURCE), (tiny(1, eos_id=3), None)):
        steps = search(model, source, beam=3, alpha=0.7, use_cache=use_cache)
        for step in steps:
            for found in (*step.kept, *step.dropped):
                expected = recomputed(model, found.ids, source)
                assert found.logprobs == pytest.approx(expected, abs=2e-5)
                assert found.score(0.7) == pytest.approx(sum(expected) / ((5 + len(found.ids)) / 6) ** 0.7, abs=1e-4)
        assert source is None or any(found.ended for found in steps[-1].kept)


def test_ranks_and_first_choices_are_those_of_an_uncached_pass():
    model = tiny(1, eos_id=3)
    before = ((),)
    for step in search(model, None, beam=3):
        rows = [model(torch.tensor([[0, *ids]]))[0, -1].double().softmax(-1) for ids in before]
        for choices, row in zip(step.first_choices, rows, strict=True):
            top = row.topk(5)
            assert [token for token, _ in choices] == top.indices.tolist()
            assert [p for _, p in choices] == pytest.approx(top.values.tolist(), rel=1e-4)
        for found in (*step.kept, *step.dropped):
            row = rows[found.parent]
            assert found.rank == int((row > row[found.ids[-1]]).sum())
        before = tuple(h.ids for h in step.kept)


def test_of_equal_tokens_the_first_comes_first_as_in_arg_max():
    row = torch.tensor([0.0, 2.0, 1.0, 2.0, 1.0, 1.0])
    assert [(token, rank) for token, _, rank in _most_probable(row, 4)] == [(1, 0), (3, 0), (2, 2), (4, 2)]
    assert len(_most_probable(row, 10)) == 6
    assert _most_probable(torch.zeros(100_000), 3) == [(0, 0.0, 0), (1, 0.0, 0), (2, 0.0, 0)]


@pytest.mark.parametrize("seed", range(4))
def test_with_and_without_a_cache_the_same_search(seed):
    for model, source in ((translator(seed), SOURCE), (tiny(seed, eos_id=3), None)):
        with_cache, without = (search(model, source, beam=4, use_cache=use) for use in (True, False))
        assert len(with_cache) == len(without)
        for one, other in zip(with_cache, without, strict=True):
            assert [(h.ids, h.ended, h.parent) for h in one.kept] == [(h.ids, h.ended, h.parent) for h in other.kept]
            assert [h.ids for h in one.dropped] == [h.ids for h in other.dropped]


def test_the_encoder_reads_the_source_once(monkeypatch):
    model = translator()
    calls = []
    encode = model.encode
    monkeypatch.setattr(model, "encode", lambda *args: calls.append(1) or encode(*args))
    steps = search(model, beam=3)
    assert len(steps) > 2
    assert len(calls) == 1
    search(model, beam=3, use_cache=False)
    assert len(calls) > 2


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_a_beam_wide_enough_finds_the_best_of_all_texts(kind, alpha):
    """Every text over a vocabulary of five, up to three tokens or its end."""
    decoder = kind == "decoder"
    model, source = (tiny(2, vocab_size=5, eos_id=3), None) if decoder else (translator(2, vocab_size=5), [1, 4, 2])
    texts = [ids for n in (1, 2) for ids in itertools.product((0, 1, 2, 4), repeat=n - 1)]
    ended = [(*ids, 3) for ids in texts]
    whole = [(*ids, last) for ids in itertools.product((0, 1, 2, 4), repeat=2) for last in range(5)]
    scored = {ids: sum(recomputed(model, ids, source)) / length_penalty(len(ids), alpha) for ids in {*ended, *whole}}
    best = sorted(scored, key=lambda ids: -scored[ids])
    last = search(model, source, beam=125, alpha=alpha, max_new_tokens=3)[-1]
    assert {h.ids for h in last.kept} == set(scored)
    assert [h.ids for h in last.kept[:5]] == best[:5]
    assert last.best.score(alpha) == pytest.approx(scored[best[0]], abs=1e-5)


def test_a_wider_beam_finds_what_greedy_decoding_misses():
    found = []
    for seed in range(8):
        one, four = (search(translator(seed), beam=beam, alpha=0.0)[-1].best.logprob for beam in (1, 4))
        found.append(four - one)
    assert max(found) > 1e-3


def test_each_step_tells_what_was_kept_and_dropped():
    model = translator(6)
    steps = search(model, beam=3, alpha=0.6)
    before = (Hypothesis((), (), ended=False),)
    for step in steps:
        told = (*step.kept, *step.dropped)
        assert len(step.kept) == 3
        assert len(step.dropped) == 3
        scores = [h.score(0.6) for h in told]
        assert scores == sorted(scores, reverse=True)
        assert len({h.ids for h in told}) == len(told)
        for h in told:
            parent = before[h.parent]
            assert h.ids == parent.ids if parent.ended else h.ids[:-1] == parent.ids
            assert h.ended == (h.ids[-1] == 3)
        before = step.kept
    assert len(search(model, beam=3, dropped=0)[0].dropped) == 0


def test_padding_changes_no_translation():
    model = translator(6)
    plain = search(model, beam=3)
    for left, right in ((0, 4), (3, 0), (2, 2)):
        source = [7] * left + SOURCE + [8] * right
        mask = [False] * left + [True] * len(SOURCE) + [False] * right
        padded = search(model, source, beam=3, source_mask=mask)
        assert [[h.ids for h in step.kept] for step in padded] == [[h.ids for h in step.kept] for step in plain]
        assert padded[-1].best.logprobs == pytest.approx(plain[-1].best.logprobs, abs=1e-5)


def test_the_penalty_is_that_of_wu_et_al():
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 1.0) == 2.0
    assert length_penalty(30, 0.0) == 1.0
    short, long = Hypothesis((3,), (-2.0,), True), Hypothesis((1,) * 7, (-0.5,) * 7, True)
    assert short.score(0.0) > long.score(0.0)
    assert short.score(1.0) < long.score(1.0)
    assert math.isclose(long.score(1.0), -3.5 / 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"source": None}, "needs one"),
        ({"source": []}, "nothing to continue"),
        ({"beam": 0}, "at least 1"),
        ({"max_new_tokens": 0}, "at least 1"),
        ({"alpha": -1.0}, "at least 0"),
        ({"max_new_tokens": 64}, "Shorten it"),
        ({"source": [1] * 65}, "Shorten it"),
    ],
)
def test_what_does_not_fit_is_said_at_once(options, words):
    with pytest.raises(ValueError, match=words):
        beam_search(translator(), [0], **{"max_new_tokens": 8, "source": SOURCE} | options)


def test_models_that_cannot_be_searched():
    with pytest.raises(ValueError, match="encoder does not continue"):
        beam_search(tiny(kind="encoder"), [0], max_new_tokens=4)
    with pytest.raises(ValueError, match="source is for an encoder-decoder"):
        beam_search(tiny(), [0], max_new_tokens=4, source=SOURCE)
