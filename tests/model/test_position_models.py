"""The five small models: alike but for the scheme, and the loss that was measured on them."""

import math

import numpy as np
import pytest
import torch

from model.analysis.position_loss import binned_loss, bits_by_position, windows
from model.analysis.position_models import FOLDER, SCHEMES, load_position_models, read_loss_curves, read_story
from model.training.positions import (
    BASE,
    BIN,
    LENGTH,
    STRIDE,
    TRAINED_LENGTH,
    held_out_ids,
    story_curve,
    untrained,
)


@pytest.fixture(scope="module")
def five():
    return load_position_models()


def test_they_differ_in_the_scheme_alone(five):
    assert tuple(five) == SCHEMES
    for scheme, lm in five.items():
        assert lm.config == BASE.replace(positions=scheme)
        assert sum(p.numel() for p in lm.transformer.parameters()) < 900_000
        assert (FOLDER / scheme / "model.safetensors").stat().st_size <= 2_000_000


def test_the_learned_table_was_trained_up_to_its_length_and_no_further(five):
    table = five["learned"].transformer.pos_embed.weight
    start = untrained("learned").pos_embed.weight.detach().bfloat16().float()
    assert torch.equal(table[TRAINED_LENGTH:], start[TRAINED_LENGTH:])
    assert (table[:TRAINED_LENGTH] - start[:TRAINED_LENGTH]).norm(dim=-1).min() > 0.1
    assert table.shape == (LENGTH, BASE.d_model)


def test_the_figures_are_those_of_the_bundled_weights(five):
    """The story is in the repository, so anybody can measure this half of the file again."""
    curves = read_loss_curves()
    assert (curves.trained_length, curves.length, curves.bin, curves.stride) == (TRAINED_LENGTH, LENGTH, BIN, STRIDE)
    for scheme, lm in five.items():
        np.testing.assert_allclose(story_curve(lm.transformer, lm.tokenizer), curves.story[scheme], atol=2e-3)
        assert len(curves.bits_per_token[scheme]) == len(curves.middles) == LENGTH // BIN


def test_the_held_out_curves_are_those_of_the_bundled_weights(five, shared_dir):
    """Every 32nd window: the same to within what so few windows scatter."""
    curves = read_loss_curves()
    ids = held_out_ids(shared_dir / "corpora", five["none"].tokenizer)
    rows = windows(ids, LENGTH, STRIDE)
    assert (len(ids), len(rows)) == (curves.tokens, curves.windows)
    found = {s: bits_by_position(lm.transformer, rows[::32]).mean(0) for s, lm in five.items()}
    for scheme, bits in found.items():
        for first, stop in ((0, TRAINED_LENGTH), (TRAINED_LENGTH, LENGTH)):
            assert float(bits[first:stop].mean()) == pytest.approx(curves.mean(scheme, first, stop), abs=0.15)
    # The schemes differ from each other on the same windows: there chance matters less.
    for scheme in SCHEMES:
        expected = curves.mean(scheme, TRAINED_LENGTH, LENGTH) - curves.mean("alibi", TRAINED_LENGTH, LENGTH)
        difference = float((found[scheme] - found["alibi"])[TRAINED_LENGTH:].mean())
        assert difference == pytest.approx(expected, abs=0.12)


def test_near_positions_were_taught_near_vectors(five):
    table = torch.nn.functional.normalize(five["learned"].transformer.pos_embed.weight, dim=-1)
    near = (table[1:] * table[:-1]).sum(-1)
    assert float(near[: TRAINED_LENGTH - 2].mean()) > 0.8
    assert float(near[TRAINED_LENGTH:].abs().mean()) < 0.2


def test_what_the_page_says_of_the_curves():
    curves = read_loss_curves()
    before = {scheme: curves.mean(scheme, TRAINED_LENGTH - 16, TRAINED_LENGTH) for scheme in SCHEMES}
    after = {scheme: curves.mean(scheme, LENGTH - 16, LENGTH) for scheme in SCHEMES}
    at_once = {s: curves.mean(s, TRAINED_LENGTH, TRAINED_LENGTH + 8) - before[s] for s in SCHEMES}
    assert abs(after["alibi"] - before["alibi"]) < 0.05, "as if nothing had happened"
    assert min(at_once["sinusoidal"], at_once["learned"]) > 1, "they fail at once"
    assert min(before, key=before.__getitem__) == "rope", "the best within the trained length"
    assert curves.mean("rope", TRAINED_LENGTH, TRAINED_LENGTH + 12) - before["rope"] < 0.05, (
        "holds on for a dozen tokens"
    )
    assert after["rope"] - before["rope"] > 1
    assert max(before, key=before.__getitem__) == "none"
    assert 0.1 < after["none"] - before["none"] < 1, "gets worse slowly"
    rises = np.diff(curves.bits_per_token["none"][TRAINED_LENGTH // BIN :])
    assert (rises > 0).all()


def test_bits_are_cross_entropy(five):
    lm = five["rope"]
    ids = lm.tokenizer.encode("Once upon a time, there was a little girl named Lily.")
    rows = torch.tensor([ids])
    logits = lm.trace(ids).logits.double().log_softmax(-1)
    expected = [-float(logits[t, ids[t + 1]]) / math.log(2) for t in range(len(ids) - 1)]
    np.testing.assert_allclose(bits_by_position(lm.transformer, rows)[0], expected, atol=1e-4)


@pytest.mark.parametrize(
    ("n", "bins", "n_windows"), [(1, 0, 0), (2, 1, 1), (9, 1, 1), (12, 1, 1), (17, 2, 1), (129, 16, 1), (300, 16, 24)]
)
def test_a_text_in_bins(five, n, bins, n_windows):
    lm = five["alibi"]
    story = lm.tokenizer.encode(read_story())
    of = binned_loss(lm.transformer, story[:n])
    assert (len(of.bits), len(of.read)) == (bins, bins)
    assert abs(of.windows - n_windows) <= 2
    if 1 < n <= 129:
        bits = bits_by_position(lm.transformer, torch.tensor([story[:n]]))[0]
        assert of.bits[0] == pytest.approx(float(bits[: 8 if bins > 1 else n - 1].mean()), abs=1e-4)
        assert of.read[0] == (1 + min(n - 1, 8 if bins > 1 else n)) / 2
