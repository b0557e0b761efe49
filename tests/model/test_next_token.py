"""One choice as a page shows it: the same as generation's, its logit taken apart, and what a text costs."""

import math
from dataclasses import is_dataclass

import pytest
import torch

from model.analysis import attention_steps, guesses, interest, mask_effect, mixing, roles, rollout
from model.analysis.attention_rows import written_by_head
from model.analysis.next_token import choice, costs, readout, surest_and_most_open, what_if
from model.sampling import SamplingSettings
from model.trace import Trace
from tests.model.tiny import some_ids, tiny

IDS = some_ids(9).tolist()
MODELS = {
    "pre": {},
    "post": {"norm_place": "post"},
    "post, untied": {"norm_place": "post", "norm": "layernorm", "tied_embeddings": False},
    "encoder": {"kind": "encoder", "norm_place": "post", "positions": "learned", "embedding_norm": True},
}
SETTINGS = [
    SamplingSettings(temperature=0.0, top_k=3),
    SamplingSettings(seed=4),
    SamplingSettings(temperature=0.7, top_k=30, top_p=0.9, min_p=0.05, repetition_penalty=1.3, seed=9),
]


@pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS.keys())
def test_the_products_sum_to_the_logit(changes):
    model = tiny(**changes)
    run = Trace(model, None, IDS)
    for position, token in ((0, 3), (8, 49)):
        out = readout(run, model, position, token)
        assert out.logit == pytest.approx(float(run.logits[position, token]), abs=1e-5)
        assert out.difference <= 1e-5
        assert float(out.products.sum()) == pytest.approx(out.logit, abs=1e-5)
        largest = out.largest(5)
        assert [abs(x * w) for _, x, w in largest] == sorted((abs(x * w) for _, x, w in largest), reverse=True)
        assert sum(x * w for _, x, w in largest) + out.rest(5) == pytest.approx(out.logit)
        assert out.rest(10**6) == pytest.approx(0, abs=1e-5)
        assert out.lengths[0] == pytest.approx(float(run["blocks.1.hook_resid_post"][position].norm()))
    for position, token in ((9, 0), (-1, 0), (0, 50), (0, -1)):
        with pytest.raises(IndexError, match="does not exist"):
            readout(run, model, position, token)


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_the_choice_is_the_one_that_generation_makes(storyteller, sampling):
    ids = storyteller.tokenizer.encode("The cat and the dog went to the")
    made = choice(storyteller.trace(ids), len(ids) - 1, sampling)
    step = next(storyteller.generate(ids, 1, sampling))
    assert (made.draw.id, made.draw.u) == (step.id, step.draw.u)
    assert made.draw.probability == pytest.approx(step.probability, rel=1e-3)
    rows = made.candidates(10, also=[0, 8191, step.id])
    assert [row.rank for row in rows[:10]] == list(range(10))
    assert {0, 8191, step.id} <= {row.id for row in rows}
    assert len({row.id for row in rows}) == len(rows)
    for row in rows:
        seen = row.id in ids and sampling.repetition_penalty != 1
        factor = (1 / sampling.repetition_penalty if row.logit > 0 else sampling.repetition_penalty) if seen else 1
        assert row.penalised == pytest.approx(row.logit * factor, rel=1e-6)
        assert row.scaled == pytest.approx(row.penalised / (sampling.temperature or 1), rel=1e-6)
        assert (row.final == 0) == (row.cut_by is not None)
    with pytest.raises(IndexError, match="this run has"):
        choice(storyteller.trace(ids), len(ids), sampling)


@pytest.mark.parametrize("text", ["The little cat sat on the mat.", "小猫坐在垫子上。", "👩‍👩‍👧 a\n"])
def test_costs_are_the_bits_of_the_text_behind_its_first_token(storyteller, text):
    run = storyteller.trace(text)
    spent = costs(run)
    p = run.logits[:-1].double().softmax(-1)
    bits = [-math.log2(float(p[i, token])) for i, token in enumerate(run.tokens[1:])]
    assert spent.bits.tolist() == pytest.approx(bits, rel=1e-4)
    assert spent.total == pytest.approx(sum(bits), rel=1e-4)
    assert spent.perplexity == pytest.approx(2**spent.mean, rel=1e-4)
    assert spent.probability(1) == pytest.approx(2 ** -bits[0], rel=1e-4)
    assert spent.bits[spent.dearest - 1] == spent.bits.max()
    assert spent.bits[spent.cheapest - 1] == spent.bits.min()
    assert spent.n_bytes == len(text.encode()) - len(run.pieces[0].data)


def test_a_single_token_costs_nothing_and_compares_with_nothing(storyteller):
    run = storyteller.trace([5])
    assert costs(run).mean is costs(run).perplexity is None
    assert surest_and_most_open(run) is None


def test_surest_and_most_open_by_entropy(storyteller):
    run = storyteller.trace("Once upon a time, there was a little girl")
    p = run.logits.double().softmax(-1)
    bits = -(p * p.log2()).sum(-1)
    surest, most_open = surest_and_most_open(run)
    assert (surest.position, most_open.position) == (int(bits.argmin()), int(bits.argmax()))
    assert (surest.bits, most_open.bits) == pytest.approx((float(bits.min()), float(bits.max())), abs=1e-5)


class OnAnotherDevice(torch.Tensor):
    """A tensor as on Apple's MPS: there is no float64 before it has come to the CPU."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        out = super().__torch_function__(func, types, args, kwargs or {})
        at_home = name == "cpu" or (name == "to" and "cpu" in args)
        if isinstance(out, torch.Tensor) and at_home:
            return out.as_subclass(torch.Tensor)
        assert not (isinstance(out, torch.Tensor) and out.dtype == torch.float64), f"{name}: float64 on the device"
        return out


def test_what_pages_compute_from_a_run_needs_no_float64_on_its_device(storyteller):
    run = storyteller.trace("The cat and the dog")
    run._kept = {name: value.as_subclass(OnAnotherDevice) for name, value in run._kept.items()}
    with pytest.raises(AssertionError, match="float64 on the device"):
        run.logits.double()
    steps = attention_steps.head_steps(run, 1, 2)
    results = [
        choice(run, 2, SETTINGS[2]),
        costs(run),
        readout(run, storyteller.transformer, 2, 7),
        surest_and_most_open(run),
        attention_steps.kernel_difference(run, 0),
        written_by_head(run, steps, 1),
        guesses.guesses(run, 1),
        guesses.surest_and_most_surprised(run),
        mask_effect.mask_effect(run, run),
        mixing.mean_pattern(run, [(0, 0), (1, 1)]),
        *roles.measure_roles(run).values(),
        rollout.rollout(run, 1).weights,
        interest.most_interesting(run),
    ]
    for result in [steps, *results]:
        parts = vars(result).values() if is_dataclass(result) else [result]
        assert not any(isinstance(part, OnAnotherDevice) for part in parts), result


def test_what_if_tries_one_setting_at_a_time(storyteller):
    run = storyteller.trace("The little cat sat on the")
    tried = what_if(run, 4, (0.5, 2.0), (0.6,))
    logits = run.logits[4].double()
    assert tried.first == int(logits.argmax())
    for temperature in (0.5, 2.0):
        expected = (logits / temperature).softmax(0)
        assert tried.probability[temperature] == pytest.approx(float(expected.max()), rel=1e-6)
        assert tried.entropy[temperature] == pytest.approx(float(-(expected * expected.log2()).sum()), rel=1e-6)
    mass = logits.softmax(0).sort(descending=True).values.cumsum(0)
    assert tried.nucleus == {0.6: int((mass < 0.6).sum()) + 1}


def test_the_most_penalised_token_is_one_of_the_text(storyteller):
    run = storyteller.trace("The cat saw the cat and the")
    assert choice(run, 5, SamplingSettings()).most_penalised is None
    found = choice(run, 5, SamplingSettings(repetition_penalty=1.5)).most_penalised
    assert found == max(run.tokens[:6], key=lambda token: float(run.logits[5, token]))
