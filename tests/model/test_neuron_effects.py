"""What neurons do to the guess: directly, and measured with some turned off."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.nn import functional

from model.analysis.feed_forward import feed_forward_run
from model.analysis.neuron_effects import (
    RANKINGS,
    Change,
    direct_effects,
    expected_change,
    has_direct_effects,
    ranking_by_effect,
    ranking_by_size,
    strongest,
    switched_off,
)
from model.language import LanguageModel
from tests.model.tiny import tiny

TEXT = "The little cat sat on the mat because it was"
IDS = [3, 14, 15, 9, 2, 6]
KINDS = [
    {"norm_place": place, "norm": norm, "activation": activation, "tied_embeddings": tied}
    for place, norm, activation, tied in [
        ("pre", "rmsnorm", "swiglu", True),
        ("pre", "layernorm", "gelu_tanh", False),
        ("post", "layernorm", "relu", True),
        ("post", "rmsnorm", "geglu", False),
    ]
]


def small(storyteller, **options):
    return LanguageModel("tiny", tiny(n_layers=3, **options), storyteller.tokenizer)


def frozen(lm, run, layer, number):
    """The logits without a neuron, while nothing behind it reacts: later parts add what they added, norms divide by
    what they divided by.
    """
    edits = {f"blocks.{layer}.mlp.hook_post": lambda x, _: x.index_fill(-1, torch.tensor([number]), 0.0)}
    for name in run.names():
        part, _, kind = name.rpartition(".")
        later = part.split(".")[0] == "blocks" and int(part.split(".")[1]) > layer
        behind = later or part == "ln_final" or part == f"blocks.{layer}.ln2"
        if (later and kind in ("hook_attn_out", "hook_mlp_out")) or (behind and kind == "hook_scale"):
            edits[name] = lambda x, name: run[name][None]
    if lm.config.norm_place == "pre":  # this norm is before the neurons
        edits.pop(f"blocks.{layer}.ln2.hook_scale", None)
    with lm.edit(edits):
        return lm.trace(run.tokens).logits


@pytest.mark.parametrize("options", KINDS, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_direct_effects_are_what_is_lost_when_nothing_reacts(storyteller, layer, options):
    lm = small(storyteller, **options)
    run = lm.trace(IDS)
    position = 4
    effects = direct_effects(run, lm, layer, position)
    for number in (0, 7, 39):
        lost = (run.logits - frozen(lm, run, layer, number))[position]
        torch.testing.assert_close(effects.of(number), lost - lost.mean(), rtol=1e-3, atol=2e-5)
        torch.testing.assert_close(effects.on(11)[number], effects.of(number)[11], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(expected_change(run, lm, [(layer, 7)], position), -effects.of(7))


def test_direct_effects_of_the_bundled_model(storyteller):
    run = storyteller.trace(TEXT)
    for layer in (1, 5):
        effects = direct_effects(run, storyteller, layer, 9)
        number = int(effects.activations.abs().argmax())
        lost = (run.logits - frozen(storyteller, run, layer, number))[9]
        torch.testing.assert_close(effects.of(number), lost - lost.mean(), rtol=1e-3, atol=1e-4)
        assert effects.scale == pytest.approx(float(run["ln_final.hook_scale"][9]))
        unit = effects.per_unit(number)
        order = unit.argsort(descending=True).tolist()
        assert [token for token, _ in effects.raised(number, 8)] == order[:8]
        assert [token for token, _ in effects.lowered(number, 8)] == order[:-9:-1]
        assert effects.lowered(number, 1)[0][1] == pytest.approx(float(unit.min()))


@pytest.mark.parametrize("order", RANKINGS)
def test_the_strongest_neuron_by_trying_all(storyteller, order):
    run = storyteller.trace(TEXT)
    token = int(run.logits[9].argmax())
    sizes = []
    for layer in range(6):
        of, effects = feed_forward_run(run, layer), direct_effects(run, storyteller, layer, 9)
        if order == "effect":
            values = torch.stack([effects.of(n)[token] for n in range(704)])
        else:
            values = torch.stack([(of.post[9, n] * of.rows[n]).norm() for n in range(704)])
        sizes.append(values.double())
        ranked = ranking_by_effect(effects, token) if order == "effect" else ranking_by_size(of, 9)
        torch.testing.assert_close(ranked.values, sizes[-1], rtol=1e-3, atol=1e-5)
        assert [n for n, _ in ranked.first(10)] == sizes[-1].abs().argsort(descending=True)[:10].tolist()
        assert ranked.total == pytest.approx(float(sizes[-1].sum()), abs=1e-3)
        assert strongest(run, storyteller, 9, order, layer) == (layer, int(sizes[-1].abs().argmax()))
    assert strongest(run, storyteller, 9, order) == divmod(int(torch.stack(sizes).abs().argmax()), 704)


def test_an_unknown_order_is_refused(storyteller):
    with pytest.raises(ValueError, match="effect, size"):
        strongest(storyteller.trace("a"), storyteller, 0, "name")


@pytest.mark.parametrize("head", ["mlm", "none"])
def test_a_head_that_bends_has_no_direct_effects(storyteller, head):
    lm = small(storyteller, kind="encoder", norm="layernorm", norm_place="post", activation="gelu_erf", head=head)
    run = lm.trace(IDS)
    assert not has_direct_effects(lm.config)
    with pytest.raises(ValueError, match="no straight way"):
        direct_effects(run, lm, 0, 0)
    assert 0 <= strongest(run, lm, 0, "size")[0] < 3
    if head == "mlm":
        assert switched_off(run, lm, [(0, 1)], 2).bits > 0


def test_switched_off_is_a_model_without_these_rows(storyteller):
    run, off = storyteller.trace(TEXT), [(1, 32), (1, 516), (5, 591)]
    without = copy.deepcopy(storyteller.transformer)
    for layer, number in off:
        without.blocks[layer].mlp.W_out.weight[:, number] = 0
    expected = LanguageModel("without", without, storyteller.tokenizer).trace(TEXT).logits[9]
    change = switched_off(run, storyteller, off, 9)
    torch.testing.assert_close(change.after.float(), expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(change.before.float(), run.logits[9])
    p, q = change.probabilities
    assert change.bits == pytest.approx(float(functional.kl_div(q.log(), p, reduction="sum")) / 0.6931472, rel=1e-5)
    assert float(change.raised.mean()) == pytest.approx(0, abs=1e-9)
    torch.testing.assert_close(
        change.raised[5] - change.raised[9], (change.after - change.before)[5] - (change.after - change.before)[9]
    )


def test_nothing_edited_remains(storyteller):
    run = storyteller.trace(TEXT)
    switched_off(run, storyteller, [(0, 5), (3, 7)], 9)
    again = storyteller.trace(TEXT)
    assert again.id == run.id
    for name in ("hook_logits", "blocks.3.mlp.hook_post"):
        assert torch.equal(run[name], again[name])
    same = switched_off(run, storyteller, [], 9)
    assert torch.equal(same.before, same.after)
    assert same.bits == 0


def test_a_neuron_that_is_silent_already_changes_nothing_at_all(storyteller):
    """The pass with neurons off is the recorded one to the last bit, so that no rounding is told as an effect."""
    already = {"blocks.2.mlp.hook_post": lambda post, name: post.index_fill(-1, torch.tensor([7]), 0)}
    with storyteller.edit(already):
        run = storyteller.trace(TEXT)
    assert torch.equal(run["blocks.2.mlp.hook_post"][:, 7], torch.zeros(len(run.tokens)))
    change = switched_off(run, storyteller, [(2, 7)], 9)
    assert torch.equal(change.before, change.after)


def test_readers_at_once_have_each_their_own(storyteller):
    run = storyteller.trace(TEXT)
    neurons = [(layer, number) for layer in range(6) for number in (32, 181, 591)]
    alone = [switched_off(run, storyteller, [one], 9).after for one in neurons]
    with ThreadPoolExecutor(6) as pool:
        changed = list(pool.map(lambda one: switched_off(run, storyteller, [one], 9).after, neurons * 2))
        plain = list(pool.map(lambda _: storyteller.trace(TEXT).logits, range(6)))
    for one, other in zip(alone * 2, changed, strict=True):
        assert torch.equal(one, other)
    assert all(torch.equal(logits, run.logits) for logits in plain)


def test_tokens_of_both_runs_are_listed():
    change = Change(0, torch.tensor([3.0, 2, 1, 0, -1]).double(), torch.tensor([0.0, 2, 1, 9, -1]).double())
    assert change.tokens(2) == [0, 1, 3]
    assert change.tokens(1, [4]) == [0, 3, 4]
    assert change.tokens(99) == [0, 1, 2, 3, 4]


def test_what_is_not_there_is_refused(storyteller):
    run = storyteller.trace("a b")
    for off in ([(6, 0)], [(0, 704)], [(-1, 0)]):
        with pytest.raises(IndexError, match="does not exist"):
            switched_off(run, storyteller, off, 0)
    with pytest.raises(IndexError, match="Position 9"):
        switched_off(run, storyteller, [(0, 0)], 9)
    with pytest.raises(IndexError, match="Position 9"):
        direct_effects(run, storyteller, 0, 9)
    with pytest.raises(IndexError, match="Layer 6"):
        direct_effects(run, storyteller, 6, 0)
