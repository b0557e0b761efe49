"""A text of beam search: what `search` gives, kept small; it stops, goes on, branches and ends."""

import pytest
import torch

from model.analysis.beam_continuation import BeamContinuation
from model.analysis.continuations import Continuation, compared
from model.sampling import SamplingSettings

GREEDY = SamplingSettings(temperature=0.0)


def write(continuation, count):
    return sum(continuation.advance() for _ in range(count))


@pytest.fixture
def prompt(storyteller):
    return storyteller.tokenizer.encode("The little cat sat on the mat because it was")


def test_the_text_is_the_best_hypothesis_of_search(storyteller, prompt):
    text = BeamContinuation(storyteller, prompt, 3, 0.6)
    assert (text.written, text.length, text.text) == ((), 0, "")
    steps = list(storyteller.search(prompt, 10, beam=3, alpha=0.6))
    for number, step in enumerate(steps):  # and so at every stop
        assert text.advance()
        assert tuple(token.id for token in text.written) == step.best.ids
        assert text.length == number + 1
    assert text.steps == steps
    assert text.text == storyteller.tokenizer.decode(steps[-1].best.ids)
    logits = storyteller.transformer(torch.tensor([text.ids]))[0, len(prompt) - 1 : -1]
    for token, row in zip(text.written, logits.double().softmax(-1), strict=True):
        assert token.model_probability == pytest.approx(float(row[token.id]), rel=1e-3)
        assert token.rank == int((row > row[token.id]).sum())
        assert [a.id for a in token.alternatives] == row.topk(5).indices.tolist()
        assert (token.u, token.by_reader) == (None, False)
    assert text.total_logprob == pytest.approx(steps[-1].best.logprob)


def test_a_width_of_one_is_greedy(storyteller, prompt):
    beam, greedy = BeamContinuation(storyteller, prompt, 1, 0.0), Continuation(storyteller, prompt, GREEDY)
    write(beam, 12)
    write(greedy, 12)
    assert beam.ids == greedy.ids
    assert beam.total_logprob == pytest.approx(greedy.total_logprob, abs=1e-3)


def test_a_branch_searches_on_behind_the_token_that_was_put_there(storyteller, prompt):
    text = BeamContinuation(storyteller, prompt, 3, 0.6)
    write(text, 6)
    there = text.written[2]
    other = next(a for a in there.alternatives if a.id != there.id)
    branch = text.branched(2, other.id)
    assert isinstance(branch, BeamContinuation)
    assert branch.written[:2] == text.written[:2]
    assert (branch.written[2].id, branch.written[2].by_reader) == (other.id, True)
    start = branch.ids
    write(branch, 4)
    (*_, last) = storyteller.search(start, 4, beam=3, alpha=0.6)
    assert branch.ids == (*start, *last.best.ids)
    assert branch.length == 7
    assert branch.tokens_of(last.best) == branch.written
    given = branch.ids[len(prompt) : len(start)]
    for h in (*branch.steps[-1].kept, *branch.steps[0].dropped):
        assert branch.told(given + h.ids)
    assert branch.told(given[:1])
    assert not branch.told((*given, *last.best.ids, 5))
    assert not branch.told((given[0] + 1, *given[1:]))


def test_what_fell_out_of_the_beam_has_nothing_in_the_next_step(storyteller, prompt):
    text = BeamContinuation(storyteller, prompt, 4, 0.6)
    write(text, 12)
    fallen = 0
    for number, step in enumerate(text.steps[:-1]):
        beginnings = {h.ids[: number + 1] for h in text.steps[number + 1].kept}
        expected = [h for h in step.kept if h.ids not in beginnings]
        assert list(text.fell(number)) == expected
        fallen += len(expected)
        for h in expected:
            assert tuple(token.id for token in text.tokens_of(h)) == h.ids
    assert fallen
    assert text.fell(11) == text.fell(-1) == ()


def test_it_ends_when_all_have_ended_and_with_the_context(storyteller, monkeypatch):
    full = BeamContinuation(storyteller, [5] * 510, 2, 0.0)
    assert full.room == 2
    assert write(full, 4) == 2
    assert (full.room, full.ended) == (0, False)
    end = storyteller.config.eos_id
    with storyteller.edit({"hook_logits": lambda x, _: x.index_fill(-1, x.new_tensor([end]).long(), 1e4)}):
        text = BeamContinuation(storyteller, [5], 2, 0.0)
        write(text, 30)
    assert text.written[-1].id == end
    assert text.text == ""
    assert text.ended
    assert text.room == 0
    assert text.length > len(text.written)  # the second hypothesis took longer


def test_two_texts_are_compared_part_by_part(storyteller, prompt):
    greedy, beam = Continuation(storyteller, prompt, GREEDY), BeamContinuation(storyteller, prompt, 4, 0.0)
    write(greedy, 40)
    write(beam, 40)
    found = compared(greedy, beam)
    a, b = ([token.logprob for token in text.written] for text in (greedy, beam))
    place = next(i for i, (x, y) in enumerate(zip(greedy.written, beam.written, strict=True)) if x.id != y.id)
    assert (found.place, found.one, found.other) == (place, greedy.written[place], beam.written[place])
    assert found.shared == pytest.approx(sum(a[:place]))
    assert (found.rest_one, found.rest_other) == pytest.approx((sum(a[place + 1 :]), sum(b[place + 1 :])))
    assert (found.total_one, found.total_other) == pytest.approx((sum(a), sum(b)))
    assert found.one.rank == 0
    assert found.total_other > found.total_one + 10  # the most probable word each time is not the best text
    assert compared(greedy, greedy) is None
