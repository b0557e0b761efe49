"""Recurrent cells beside one layer of attention: sizes, states and gates against the equations written out by hand."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from model.analysis.recurrence import (
    CELLS,
    KINDS,
    Build,
    build_network,
    cell_parameters,
    matched_width,
    random_texts,
    renumbered,
)
from model.analysis.recurrence_reach import keeping_gates


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_hand(network, ids):
    """States and keeping gates of one text, number by number as the papers write the cells."""
    part = {name: p.detach().double().numpy() for name, p in network.cell.named_parameters()}
    vectors = network.embed.weight.detach().double().numpy()
    width = network.width
    h, c = np.zeros(width), np.zeros(width)
    states, kept = [], []
    for one in ids.tolist():
        from_token = part["weight_ih_l0"] @ vectors[one] + part["bias_ih_l0"]
        from_state = part["weight_hh_l0"] @ h + part["bias_hh_l0"]
        if network.kind == "rnn":
            h = np.tanh(from_token + from_state)
        elif network.kind == "lstm":
            i, f, g, o = np.split(from_token + from_state, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            kept.append(sigmoid(f))
        else:
            (a_r, a_z, a_n), (b_r, b_z, b_n) = np.split(from_token, 3), np.split(from_state, 3)
            z = sigmoid(a_z + b_z)
            h = z * h + (1 - z) * np.tanh(a_n + sigmoid(a_r + b_r) * b_n)
            kept.append(z)
        states.append(h)
    return np.array(states), np.array(kept)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("build", [Build(8), Build(12, 20, gate_bias=2, gain=3.0)])
def test_states_and_gates_are_those_of_the_equations(kind, build):
    network, ids = build_network(kind, build, 1), random_texts(build.vocabulary, 2, 9)
    with torch.no_grad():
        states = network.states(ids)
        gates = keeping_gates(network, ids) if kind != "rnn" else None
    for row in range(2):
        expected, kept = by_hand(network, ids[row])
        np.testing.assert_allclose(states[row].numpy(), expected, rtol=1e-4, atol=1e-6)
        if gates is not None:
            np.testing.assert_allclose(gates[row].numpy(), kept, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_guess_comes_from_the_last_state(kind):
    network, ids = build_network(kind, Build(8)), random_texts(17, 3, 7)
    with torch.no_grad():
        logits, states = network(ids), network.states(ids)
        shorter = network.states(ids[:, :4])
        if kind == "attention":
            last = network.transformer.unembed(network.transformer.ln_final(states[:, -1]))
        else:
            last = network.out(states[:, -1])
    torch.testing.assert_close(logits, last)
    torch.testing.assert_close(states[:, :4], shorter, rtol=1e-5, atol=1e-6)
    assert states.shape == (3, 7, network.width)


@pytest.mark.parametrize("hidden", [16, 32, 64])
@pytest.mark.parametrize("vocabulary", [17, 200])
def test_all_networks_have_about_the_same_number_of_parameters(hidden, vocabulary):
    build = Build(hidden, vocabulary)
    networks = {kind: build_network(kind, build) for kind in KINDS}
    counts = {kind: sum(p.numel() for p in network.parameters()) for kind, network in networks.items()}
    assert networks["lstm"].width == networks["attention"].width == hidden
    for kind in KINDS:
        assert networks[kind].parameter_count == counts[kind]
        assert counts[kind] == pytest.approx(counts["lstm"], rel=0.03), kind
    for kind in CELLS:
        width = networks[kind].width
        assert counts[kind] == cell_parameters(kind, width, build)
        nearest = [abs(cell_parameters(kind, w, build) - counts["lstm"]) for w in (width - 1, width, width + 1)]
        assert min(nearest) == nearest[1]
        assert matched_width(kind, build) == width


def test_weights_are_drawn_as_torch_draws_them_and_by_the_seed_alone():
    torch.manual_seed(0)
    theirs = nn.LSTM(32, 32)
    before = build_network("lstm", Build(32), 3)
    torch.manual_seed(1)
    again, other = build_network("lstm", Build(32), 3), build_network("lstm", Build(32), 4)
    for name, p in before.named_parameters():
        assert p.equal(dict(again.named_parameters())[name])
        assert not p.equal(dict(other.named_parameters())[name])
    for name, p in theirs.named_parameters():
        ours = dict(before.cell.named_parameters())[name]
        end = 1 / math.sqrt(32)
        assert float(ours.detach().abs().max()) <= end
        assert float(ours.detach().std()) == pytest.approx(float(p.detach().std()), rel=0.15)
        assert float(ours.detach().std()) == pytest.approx(end / math.sqrt(3), rel=0.15)
    first, same, another = (build_network("attention", Build(32), seed) for seed in (3, 3, 4))
    for a, b in zip(first.parameters(), same.parameters(), strict=True):
        assert a.equal(b)
    assert not first.transformer.embed.weight.equal(another.transformer.embed.weight)


def test_bias_and_gain_change_only_what_they_should():
    for kind in KINDS:
        plain, turned = (
            dict(build_network(kind, build).named_parameters()) for build in (Build(8), Build(8, gate_bias=3, gain=2.0))
        )
        changed = {name for name, p in plain.items() if not p.equal(turned[name])}
        expected = {"rnn": {"cell.weight_hh_l0"}, "attention": set()}
        assert changed == expected.get(kind, {"cell.bias_ih_l0"})
    gates = [
        float(keeping_gates(build_network(kind, Build(16, gate_bias=b)), random_texts(17, 4, 20)).detach().mean())
        for kind in ("lstm", "gru")
        for b in (0, 2)
    ]
    assert gates[0] == pytest.approx(0.5, abs=0.05)
    assert gates[1] == pytest.approx(sigmoid(2), abs=0.05)
    assert gates[2:] == pytest.approx(gates[:2], abs=0.05)


def test_what_cannot_be_built_is_refused():
    for hidden in (0, 6, 260):
        with pytest.raises(ValueError, match="width"):
            Build(hidden)
    with pytest.raises(ValueError, match="two tokens"):
        Build(8, 1)
    with pytest.raises(ValueError, match="one of rnn, lstm, gru, attention"):
        build_network("conv", Build(8))


def test_a_text_is_numbered_by_first_appearance():
    assert renumbered((7, 3, 7, 9, 3)) == (0, 1, 0, 2, 1)
    assert renumbered(()) == ()
