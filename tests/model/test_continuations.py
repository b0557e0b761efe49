"""Continuations: what `generate` gives, kept small; they stop, go on, branch and end."""

import pytest

from model.analysis.continuations import Continuation, least_probable, parting
from model.sampling import SamplingSettings

SETTINGS = SamplingSettings(temperature=0.9, top_p=0.9, repetition_penalty=1.1, seed=5)


def write(continuation, count):
    return sum(continuation.advance() for _ in range(count))


def test_the_tokens_are_those_of_generate(storyteller):
    prompt = storyteller.tokenizer.encode("Once upon a time")
    continuation = Continuation(storyteller, prompt, SETTINGS)
    assert (continuation.written, continuation.tokens_per_second, continuation.text) == ((), None, "")
    assert write(continuation, 5) == 5
    assert write(continuation, 7) == 7  # it goes on where it stopped
    steps = list(storyteller.generate(prompt, 12, SETTINGS))
    assert continuation.ids == steps[-1].ids
    assert continuation.text == storyteller.tokenizer.decode([step.id for step in steps])
    assert continuation.tokens_per_second > 0
    for token, step in zip(continuation.written, steps, strict=True):
        raw = step.ledger.logits.softmax(-1)
        assert (token.id, token.rank, token.u) == (step.id, step.rank, step.draw.u)
        assert token.probability == pytest.approx(step.probability, abs=1e-6)
        assert token.model_probability == pytest.approx(float(raw[step.id]), rel=1e-4)
        assert [a.id for a in token.alternatives] == raw.topk(5).indices.tolist()
        for other in token.alternatives:
            assert other.model_probability == pytest.approx(float(raw[other.id]), rel=1e-4)
            assert other.probability == pytest.approx(float(step.ledger.final[other.id]), abs=1e-6)


def test_a_branch_goes_on_as_generate_would(storyteller):
    prompt = storyteller.tokenizer.encode("One day, a dog")
    trunk = Continuation(storyteller, prompt, SETTINGS)
    write(trunk, 6)
    there = trunk.written[3]
    other = next(a for a in there.alternatives if a.id != there.id)
    branch = trunk.branched(3, other.id)
    assert branch.written[:3] == trunk.written[:3]
    put = branch.written[3]
    assert (put.id, put.by_reader, put.u, put.alternatives) == (other.id, True, None, there.alternatives)
    assert (put.probability, put.model_probability) == (other.probability, other.model_probability)
    start = branch.ids
    assert branch.tokens_per_second is None  # nothing of it was written here
    write(branch, 4)
    assert branch.ids == list(storyteller.generate(start, 4, SETTINGS))[-1].ids
    assert len(trunk.written) == 6
    with pytest.raises(ValueError, match="no token 6"):
        trunk.branched(6, other.id)
    stranger = next(i for i in range(100, 200) if i not in [a.id for a in there.alternatives])
    with pytest.raises(ValueError, match="not among the alternatives"):
        trunk.branched(3, stranger)


def test_it_ends_with_the_text_and_with_the_context(storyteller):
    end = storyteller.config.eos_id
    with storyteller.edit({"hook_logits": lambda x, _: x.index_fill(-1, x.new_tensor([end]).long(), 1e4)}):
        continuation = Continuation(storyteller, [5], SamplingSettings(temperature=0.0))
        assert write(continuation, 3) == 1
    assert continuation.ended
    assert (continuation.room, continuation.text) == (0, "")
    assert continuation.written[0].u is None  # nothing was drawn
    full = Continuation(storyteller, [5] * 511, SETTINGS)
    assert full.room == 1
    assert write(full, 3) == 1
    assert full.room == 0
    assert write(Continuation(storyteller, [5] * 512, SETTINGS), 1) == 0


def test_a_prompt_that_is_no_prompt(storyteller):
    with pytest.raises(ValueError, match="between 0 and 8191"):
        Continuation(storyteller, [8192], SETTINGS)


def test_where_two_texts_part_and_what_was_boldest(storyteller):
    prompt = storyteller.tokenizer.encode("The cat")
    texts = [Continuation(storyteller, prompt, SamplingSettings(seed=seed)) for seed in (1, 2, 1)]
    for text, count in zip(texts, (8, 8, 5), strict=True):
        write(text, count)
    one, other, start = texts
    pairs = list(zip(one.ids[len(prompt) :], other.ids[len(prompt) :], strict=True))
    assert parting(one, other) == [a != b for a, b in pairs].index(True)
    assert parting(one, start) is None
    given = [[token.model_probability for token in text.written] for text in texts]
    row, place = least_probable(texts)
    assert given[row][place] == min(min(row) for row in given)
    assert one.mean_probability == pytest.approx(sum(given[0]) / 8)
    fresh = Continuation(storyteller, prompt, SETTINGS)
    assert fresh.mean_probability is None
    assert least_probable([fresh]) is None
    by_hand = one.branched(2, next(a.id for a in one.written[2].alternatives if a.id != one.written[2].id))
    assert by_hand.mean_probability == pytest.approx(sum(given[0][:2]) / 2)
