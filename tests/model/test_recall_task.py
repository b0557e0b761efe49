"""The recall task: what is asked, what a guess is worth, and who learns it at a distance."""

import math
import subprocess
import sys
import threading

import pytest
import torch

from model.analysis.recall_task import (
    CHANCE,
    DISTRACTORS,
    ENOUGH,
    EVERY,
    LABELS,
    QUESTION,
    STEPS,
    SYMBOLS,
    VOCABULARY,
    Recall,
    Task,
    chance_loss,
    examples,
)
from model.analysis.recurrence import KINDS, Build
from tests.conftest import REPOSITORY


def learned(task, kinds, steps=STEPS):
    recall = Recall(task, kinds)
    while not recall.done and min(one.trained for one in recall.learners.values() if not one.done) < steps:
        recall.advance()
    return recall


def test_two_runs_of_a_page_take_turns():
    recall = Recall(Task(10, Build(), 0), ("gru",))
    failed = []

    def learn():
        try:
            for _ in range(40):
                recall.advance()
        except RuntimeError as error:
            failed.append(error)

    threads = [threading.Thread(target=learn) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert recall.learners["gru"].trained == 80
    alone = learned(Task(10, Build(), 0), ("gru",), 80)
    assert recall.learners["gru"].losses == alone.learners["gru"].losses


def test_networks_that_are_only_looked_at_do_not_load_the_compiler():
    """torch loads it with its first optimizer, and 130 MB with it."""
    source = (
        "import sys; from model.analysis.recall_task import Build, Recall, Task\n"
        "assert not Recall(Task(5, Build(), 0)).done\n"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.stdout.strip() == "False", done.stderr


def test_the_answer_stands_at_the_beginning_and_nowhere_else():
    texts, answers = examples(500, 7, torch.Generator().manual_seed(0))
    assert texts.shape == (500, 9)
    assert texts[:, 0].equal(answers)
    assert set(answers.tolist()) == set(range(SYMBOLS))
    between = texts[:, 1:-1]
    assert set(between.flatten().tolist()) == set(range(SYMBOLS, SYMBOLS + DISTRACTORS))
    assert (texts[:, -1] == QUESTION).all()
    assert len(LABELS) == len(set(LABELS)) == VOCABULARY
    close = examples(3, 0, torch.Generator().manual_seed(0))[0]
    assert close.shape == (3, 2)


def test_a_guess_is_right_once_in_eight_and_costs_ln_8():
    _, answers = examples(40_000, 0, torch.Generator().manual_seed(1))
    for symbol in range(SYMBOLS):
        assert float((answers == symbol).float().mean()) == pytest.approx(CHANCE, abs=0.01)
    even = torch.full((len(answers), VOCABULARY), -torch.inf)
    even[:, :SYMBOLS] = 0
    assert float(torch.nn.functional.cross_entropy(even, answers)) == pytest.approx(chance_loss())
    assert chance_loss() == pytest.approx(math.log(8))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_at_a_distance_attention_learns_and_the_rnn_does_not(seed):
    task = Task(30, Build(16), seed)
    recall = learned(task, ("rnn", "attention"))
    attention, rnn = recall.learners["attention"], recall.learners["rnn"]
    assert recall.done
    assert attention.accuracies[-ENOUGH:] == [1] * ENOUGH
    assert attention.learned_at == attention.steps[-ENOUGH] < STEPS
    assert rnn.trained == STEPS
    assert rnn.learned_at is None
    assert max(rnn.accuracies[-5:]) < 2 * CHANCE
    assert rnn.losses[-1] == pytest.approx(chance_loss(), abs=0.1)
    # What attention answers is the first token, and nothing that the rest gives away.
    texts, answers = examples(400, 30, torch.Generator().manual_seed(5))
    texts[:, 0] = 3
    with torch.no_grad():
        guessed = attention.network(texts).argmax(-1)
    assert (guessed == 3).all()
    assert float((guessed == answers).float().mean()) == pytest.approx(CHANCE, abs=0.06)


def test_nearby_all_four_learn_and_open_gates_reach_farther_than_closed_ones():
    near = learned(Task(3, Build(16, gate_bias=2)), KINDS)
    assert all(one.enough and one.losses[-1] < 1 for one in near.learners.values())
    far = {bias: learned(Task(20, Build(16, gate_bias=bias)), ("lstm",)).learners["lstm"] for bias in (0, 4)}
    assert far[4].enough
    assert max(far[0].accuracies[-5:]) < 2 * CHANCE


def test_all_learn_from_the_same_texts_and_the_same_seed_gives_the_same_curves():
    task = Task(2, Build(8), 4)
    one, same, other = Recall(task), Recall(task), Recall(Task(2, Build(8), 5))
    assert [learner.steps for learner in one.learners.values()] == [[0]] * 4
    for _ in range(4 * EVERY):
        for recall in (one, same, other):
            recall.advance()
    assert {learner.trained for learner in one.learners.values()} == {EVERY}, "whoever is behind is next"
    for kind in KINDS:
        assert one.learners[kind].steps == [0, EVERY]
        assert one.learners[kind].losses == same.learners[kind].losses
        assert one.learners[kind].losses != other.learners[kind].losses
        assert one.learners[kind].losses[1] < one.learners[kind].losses[0]
    assert one.share == pytest.approx(EVERY / STEPS)
    assert one.batch(3)[0].equal(one.batch(3)[0])
    assert not one.batch(3)[0].equal(one.batch(4)[0])
    assert one.example[-1] == "?"
    assert one.example[0] in LABELS[:SYMBOLS]
    assert len(one.example) == 4


def test_a_step_is_adams_on_the_batchs_loss():
    task = Task(4, Build(8), 1)
    recall, by_hand = Recall(task, ("gru",)), Recall(task, ("gru",)).learners["gru"].network
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=3e-3, foreach=False)
    for step in range(3):
        recall.advance()
        texts, answers = recall.batch(step)
        loss = -by_hand(texts).log_softmax(-1)[range(len(answers)), answers].mean()
        gradients = torch.autograd.grad(loss, list(by_hand.parameters()))
        length = torch.sqrt(sum(g.square().sum() for g in gradients))
        for p, g in zip(by_hand.parameters(), gradients, strict=True):
            p.grad = g / length.clamp(min=1)
        optimizer.step()
    for p, q in zip(by_hand.parameters(), recall.learners["gru"].network.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5)


def test_what_is_no_task_is_refused():
    with pytest.raises(ValueError, match="distance"):
        Task(-1, Build(8))
    with pytest.raises(ValueError, match="17 tokens"):
        Task(1, Build(8, 20))
