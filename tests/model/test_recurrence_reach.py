"""What reaches the last token: gradients against finite differences and by hand, dependence against Jacobians."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from model.analysis.recurrence import CELLS, KINDS, Build, build_network, random_texts
from model.analysis.recurrence_reach import (
    ROUNDING,
    SEEDS,
    TEXTS,
    gradient_reach,
    input_gradients,
    measured_lengths,
    one_run,
    step_factor,
    survival,
)
from model.analysis.recurrence_rounds import rounds
from model.analysis.recurrence_time import LENGTHS, TimeRace
from model.hooks import edit, observe

OWN = (0, 1, 2, 3, 1, 4)


def loss_from_vectors(network, x, answers):
    """The loss from token vectors `(B, T, hidden)`, by a way of its own into each network."""
    if network.kind == "attention":
        model = network.transformer
        # The table of embeddings is what is read: token number t of text b gets a row of its own.
        table = torch.nn.Embedding.from_pretrained(x.flatten(0, 1))
        kept, model.embed = model.embed, table
        try:
            logits = model(torch.arange(x.shape[0] * x.shape[1]).view(x.shape[:2]))[:, -1]
        finally:
            model.embed = kept
    else:
        logits = network.out(network.cell(x)[0][:, -1])
    return F.cross_entropy(logits, answers, reduction="sum")


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite_differences(kind):
    build = Build(8, gate_bias=1, gain=1.5)
    network = build_network(kind, build, 2).double()
    texts, answers = random_texts(17, 2, 6, 5), torch.tensor([3, 11])
    found = input_gradients(network, texts, answers)
    table = network.transformer.embed if kind == "attention" else network.embed
    with torch.no_grad():
        x = table(texts)
        for place in (0, 3, 5):
            for feature in (0, 7):
                losses = []
                for step in (1e-5, -1e-5):
                    moved = x.clone()
                    moved[1, place, feature] += step
                    losses.append(float(loss_from_vectors(network, moved, answers)))
                slope = (losses[0] - losses[1]) / 2e-5
                assert slope == pytest.approx(float(found[1, place, feature]), rel=1e-4, abs=1e-9)


def test_an_rnns_gradient_is_the_product_of_jacobians():
    """∂h_n/∂h_t = Π diag(1 − h²) W, multiplied by hand, as the page writes it."""
    network = build_network("rnn", Build(8), 1).double()
    texts, answers = random_texts(17, 1, 7, 3), torch.tensor([4])
    found = input_gradients(network, texts, answers)[0].numpy()
    with torch.no_grad():
        h = network.states(texts)[0].numpy()
        error = torch.softmax(network(texts), -1)[0].numpy()
    error[4] -= 1  # of softmax and cross-entropy together
    weights = {name: p.detach().numpy() for name, p in network.named_parameters()}
    back = error @ weights["out.weight"]
    for t in range(6, -1, -1):
        through = back * (1 - h[t] ** 2)
        np.testing.assert_allclose(through @ weights["cell.weight_ih_l0"], found[t], rtol=1e-9)
        back = through @ weights["cell.weight_hh_l0"]


@pytest.mark.parametrize("kind", KINDS)
def test_reach_is_the_geometric_mean_over_seeds(kind):
    build, length = Build(8), 12
    found = gradient_reach(kind, build, None, length, seed=1)
    logs = []
    for seed in range(SEEDS, 2 * SEEDS):
        network, texts, answers = one_run(kind, build, None, length, seed)
        for row in range(TEXTS):
            sizes = input_gradients(network, texts[row : row + 1], answers[row : row + 1])[0].double().norm(dim=-1)
            logs.append((sizes / sizes[-1]).log().flip(0))
    assert found.runs == len(logs) == SEEDS * TEXTS
    np.testing.assert_allclose(found.relative, torch.stack(logs).mean(0).exp(), rtol=1e-4)
    assert found.relative[0] == pytest.approx(1)
    assert found.factor == pytest.approx((found.relative[-1] / found.relative[1]) ** (1 / 10))
    assert gradient_reach(kind, build, None, length, seed=2).relative != found.relative
    own = gradient_reach(kind, build, OWN, len(OWN))
    assert (len(own.relative), own.runs) == (len(OWN), SEEDS)


def test_a_gradient_is_0_where_single_precision_ends_and_not_before():
    found = gradient_reach("rnn", Build(8), None, 256)
    assert found.first_zero is not None
    assert found.factor is not None
    assert all(value == 0 for value in found.relative[found.first_zero :]), "what is 0 stays 0"
    runs = [input_gradients(*one_run("rnn", Build(8), None, 256, seed)).double().norm(dim=-1) for seed in range(SEEDS)]
    sizes = torch.cat(runs).flip(1)
    first = [int((row == 0).nonzero()[0]) if (row == 0).any() else 256 for row in sizes]
    assert min(first) == found.first_zero, "the curve ends with the first run that does"
    before = float(sizes[first.index(min(first)), min(first) - 1])
    smallest = 2.0**-149  # the smallest number above 0 in float32
    assert smallest <= before < 1e3 * smallest
    network, texts, answers = one_run("rnn", Build(8), None, 256, 0)
    exact = input_gradients(network.double(), texts, answers).norm(dim=-1)
    assert (exact > 0).all(), "in double precision there is still something"
    steps = 40
    single = input_gradients(network.float(), texts, answers).double().norm(dim=-1)
    np.testing.assert_allclose(single[:, -steps:], exact[:, -steps:], rtol=1e-3)


def test_the_rnn_fades_gates_help_and_attention_is_level():
    build = {bias: Build(16, gate_bias=bias) for bias in (0, 2, 4)}
    factor = {(kind, bias): gradient_reach(kind, build[bias], None, 64).factor for kind in KINDS for bias in build}
    assert factor["rnn", 2] < 0.65
    for kind in ("lstm", "gru"):
        assert factor[kind, 0] < 0.75
        assert factor[kind, 0] + 0.1 < factor[kind, 2] < factor[kind, 4]
        assert factor[kind, 4] > 0.95
    assert factor["attention", 0] == pytest.approx(1, abs=0.01)
    assert gradient_reach("rnn", Build(16, gain=3.0), None, 64).factor > 1


def test_the_factor_of_a_step_is_explained_by_the_cell():
    for gain in (0.5, 1.0):
        build = Build(32, gain=gain)
        found, measured = step_factor("rnn", build, None, 48), gradient_reach("rnn", build, None, 48).factor
        assert found.slope * found.radius == pytest.approx(measured, rel=0.1)
        assert 0 < found.slope < 1
    network = build_network("rnn", Build(32))
    radius = max(abs(np.linalg.eigvals(network.cell.weight_hh_l0.detach().double().numpy())))
    radii = [step_factor("rnn", Build(32), None, 8).radius]
    assert radii[0] == pytest.approx(radius, rel=0.15)
    assert math.isnan(found.gate)
    for kind in ("lstm", "gru"):
        found = step_factor(kind, Build(32, gate_bias=2), None, 48)
        measured = gradient_reach(kind, Build(32, gate_bias=2), None, 48).factor
        assert found.gate < found.widest < 1
        assert measured == pytest.approx(found.widest, rel=0.06)
    with pytest.raises(ValueError, match="no steps"):
        step_factor("attention", Build(32), None, 8)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_is_measured_as_it_is_defined(kind):
    build = Build(8)
    found = survival(kind, build, None, 8)
    assert found.lengths == (1, 2, 3, 4, 6, 8)
    assert found.ratios[0] == pytest.approx(1), "the only token is the first and the last one"
    logs = []
    for number in range(SEEDS):
        network, texts, _ = one_run(kind, build, None, 8, number)
        shift = torch.randint(1, 17, (len(texts), 2), generator=torch.Generator().manual_seed(number))
        for row, text in enumerate(texts.tolist()):
            first = [(text[0] + int(shift[row, 0])) % 17, *text[1:]]
            last = [*text[:-1], (text[-1] + int(shift[row, 1])) % 17]
            with torch.no_grad():
                state, one, other = (network.double().states(torch.tensor([t]))[0, -1] for t in (text, first, last))
            logs.append(math.log(float((one - state).norm() / (other - state).norm())))
    assert found.runs == len(logs)
    assert found.ratios[-1] == pytest.approx(math.exp(sum(logs) / len(logs)), rel=1e-4)
    assert survival(kind, build, (0,), 1).ratios == pytest.approx((1.0,))


def test_cells_lose_the_first_token_and_attention_keeps_its_share():
    found = {kind: survival(kind, Build(16), None, 64) for kind in KINDS}
    for kind in CELLS:
        assert found[kind].lost_at is not None
        at = found[kind].lengths.index(found[kind].lost_at)
        assert found[kind].ratios[at] < ROUNDING <= found[kind].ratios[at - 1]
    assert found["attention"].lost_at is None
    halves = found["attention"].ratios[-1] / found["attention"].ratios[found["attention"].lengths.index(32)]
    assert halves == pytest.approx(0.5, abs=0.1), "twice the text, half the share"


@pytest.mark.parametrize("longest", [1, 2, 5, 8, 100, 256])
def test_measured_lengths_end_at_the_longest(longest):
    lengths = measured_lengths(longest)
    assert lengths[-1] == longest
    assert list(lengths) == sorted(set(lengths))
    assert lengths[0] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 5, 17])
def test_rounds_are_n_against_1(kind, n):
    found = rounds(build_network(kind, Build(8)), n)
    if kind == "attention":
        assert found.tolist() == [[True] * n]
    else:
        assert found.tolist() == [[place <= number for place in range(n)] for number in range(n)]


@pytest.mark.parametrize("kind", CELLS)
def test_a_state_depends_directly_on_the_one_before_alone(kind):
    """The same from Jacobians: one round of all places at once, its states differentiated by those it found."""
    network, n = build_network(kind, Build(8)).double(), 4
    x = network.embed(random_texts(17, 1, n)[0])[:, None].detach()

    def one_round(h):
        before = F.pad(h[:-1], (0, 0, 1, 0))[None]
        given = (before, before) if kind == "lstm" else before
        return network.cell(x, given)[0][:, 0]

    jacobian = torch.autograd.functional.jacobian(one_round, torch.full((n, network.width), 0.1).double())
    linked = jacobian.abs().amax((1, 3)) > 0  # (new state, old state)
    assert linked.equal(torch.eye(n - 1, n).bool().new_zeros(n, n) | torch.diag(torch.ones(n - 1), -1).bool())
    shortest, reached = 1, torch.eye(n).bool()[0]  # the first token goes into the first state; then from state to state
    while not reached[-1]:
        reached = (linked.double() @ reached.double()) > 0
        shortest += 1
    assert shortest == len(rounds(network.float(), n)) == n


def test_attention_depends_on_every_token_directly():
    """The same for the one layer: what leaves it at a place, differentiated by the vectors that enter it."""
    network = build_network("attention", Build(8)).double()
    x = network.transformer.embed(random_texts(17, 1, 5)).detach().requires_grad_()
    seen = {}
    with edit({"hook_embed": lambda old, name: x}), observe(seen.__setitem__):
        network.transformer(torch.zeros(1, 5, dtype=torch.long))
    for place in range(5):
        out = seen["blocks.0.hook_resid_post"][0, place].square().sum()
        (gradient,) = torch.autograd.grad(out, x, retain_graph=True)
        assert (gradient[0].abs().amax(-1) > 0).tolist() == [token <= place for token in range(5)]


def test_an_empty_text_has_no_rounds():
    with pytest.raises(ValueError, match="at least one token"):
        rounds(build_network("rnn", Build(8)), 0)


def test_all_networks_are_timed_in_turns_at_every_length():
    race = TimeRace(Build(8), longest=32)
    assert (race.count, race.next_length, race.done) == (8, LENGTHS[0], False)
    while not race.done:
        race.advance(seconds=0, most=2)
    race.advance()
    assert [(p.length, p.kind) for p in race.points] == [(n, kind) for n in (16, 32) for kind in KINDS]
    assert all(p.forward > 0 and p.backward > 0 and p.runs == 2 for p in race.points)
    assert race.of("gru", "backward") == [p.backward for p in race.points if p.kind == "gru"]
    assert np.isnan(TimeRace(Build(8)).of("rnn", "forward")).all()
    with pytest.raises(ValueError, match="shortest"):
        TimeRace(Build(8), longest=8)
