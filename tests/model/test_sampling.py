"""Sampling: the reference semantics, the exceptions that broke other tools, and the draw."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from model.sampling import Ledger, SamplingSettings, draw, ledger, random_numbers
from tests.cases import SAMPLING


def logits_of(*probabilities: float, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(probabilities, dtype=dtype).log()


def kept(entries: Ledger) -> list[int]:
    return entries.final.nonzero()[:, 0].tolist()


@st.composite
def random_logits(draw_from: st.DrawFn, smallest: int = 1) -> Tensor:
    """Normal logits, or a few values that tie."""
    generator = torch.Generator().manual_seed(draw_from(st.integers(0, 2**32)))
    size = draw_from(st.integers(smallest, 60))
    if draw_from(st.booleans()):
        return torch.randint(-2, 3, (size,), generator=generator).float()
    return torch.randn(size, generator=generator) * draw_from(st.sampled_from([0.1, 1.0, 4.0, 30.0]))


any_settings = st.builds(
    SamplingSettings,
    temperature=st.sampled_from([0.0, 1.0, 1e-30]) | st.floats(0.05, 3),
    top_k=st.integers(0, 70),
    top_p=st.just(1.0) | st.floats(0, 1),
    min_p=st.just(0.0) | st.floats(0, 1),
    repetition_penalty=st.just(1.0) | st.floats(0.5, 3),
)
previous_tokens = st.lists(st.integers(0, 59), max_size=8)  # to be taken modulo the vocabulary


# --- the cases


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", SAMPLING, ids=lambda case: case.why)
def test_cases(case, dtype: torch.dtype) -> None:
    entries = ledger(logits_of(*case.probs, dtype=dtype), SamplingSettings(**case.settings))
    assert kept(entries) == list(case.kept)
    assert entries.n_kept == len(case.kept)
    assert (entries.rank < entries.n_kept).nonzero()[:, 0].tolist() == list(case.kept)
    expected = torch.tensor(case.probs, dtype=torch.float64)[list(case.kept)]
    if not entries.settings.greedy:
        torch.testing.assert_close(entries.final[list(case.kept)], expected / expected.sum())


def test_temperature_zero_is_arg_max_without_division() -> None:
    for logits in (torch.tensor([3e38, -3e38, 2e38]), torch.tensor([0.0, 0.0]), torch.tensor([-1e-40, -2e-40])):
        entries = ledger(logits, SamplingSettings(temperature=0))
        assert entries.final.tolist() == [1.0] + [0.0] * (len(logits) - 1)
        assert torch.equal(entries.scaled, logits.double())


def test_a_tiny_temperature_does_not_overflow() -> None:
    entries = ledger(torch.tensor([3e38, 1.0, -3e38]), SamplingSettings(temperature=1e-300, top_p=0.9))
    assert entries.final.tolist() == [1.0, 0.0, 0.0]
    even = ledger(torch.tensor([5.0, 5.0, 4.0]), SamplingSettings(temperature=1e-300))
    assert even.final.tolist() == [0.5, 0.5, 0.0]


def test_top_k_one_leaves_one_token_whatever_follows() -> None:
    for top_p in (0.0, 0.1, 0.99, 1.0):
        for min_p in (0.0, 0.5, 1.0):
            entries = ledger(logits_of(0.3, 0.4, 0.3), SamplingSettings(top_k=1, top_p=top_p, min_p=min_p))
            assert kept(entries) == [1]


def test_penalty_divides_positive_multiplies_negative_once() -> None:
    logits = torch.tensor([2.0, -2.0, 0.0, 1.0])
    entries = ledger(logits, SamplingSettings(repetition_penalty=2.0), [0, 0, 1, 1, 1, 2])
    assert entries.penalised.tolist() == [1.0, -4.0, 0.0, 1.0]
    assert entries.order.tolist() == [0, 3, 2, 1]
    assert entries.logits.tolist() == logits.tolist()


def test_min_p_keeps_what_is_just_large_enough() -> None:
    entries = ledger(logits_of(0.5, 0.25, 0.15, 0.1), SamplingSettings(min_p=0.2))
    assert kept(entries) == [0, 1, 2, 3]
    assert kept(ledger(logits_of(0.4, 0.4, 0.2), SamplingSettings(min_p=1.0))) == [0, 1]


# --- properties


@given(random_logits(), any_settings, previous_tokens)
@example(torch.zeros(5), SamplingSettings(top_k=3, top_p=0.5), [])
def test_ledger_is_consistent(logits: Tensor, settings: SamplingSettings, previous: list[int]) -> None:
    size = len(logits)
    entries = ledger(logits, settings, [i % size for i in previous])
    ids = torch.arange(size)

    assert sorted(entries.order.tolist()) == ids.tolist()
    assert torch.equal(entries.order[entries.rank], ids)
    key = [(-float(entries.penalised[i]), i) for i in entries.order]
    assert key == sorted(key)  # descending, ties by lower id
    for count in (0, 1, size // 2, size, size + 3):
        assert torch.equal(entries.top(count), entries.order[:count])

    assert 1 <= entries.n_kept <= entries.n_top_p <= entries.n_top_k <= size
    masks = [entries.rank < n for n in (entries.n_top_k, entries.n_top_p, entries.n_kept)]

    torch.testing.assert_close(entries.probabilities.sum(), torch.tensor(1.0, dtype=torch.float64))
    torch.testing.assert_close(entries.final.sum(), torch.tensor(1.0, dtype=torch.float64))
    assert not bool(entries.final[~masks[2]].any())
    torch.testing.assert_close(entries.candidates, entries.final[entries.order][: entries.n_kept])
    torch.testing.assert_close(entries.bar(3), entries.candidates.cumsum(0)[:3])
    in_order = entries.final[entries.order]
    assert bool((in_order[1:] <= in_order[:-1]).all())
    assert 0 <= entries.final_entropy <= math.log2(entries.n_kept) + 1e-9
    assert 0 <= entries.raw_entropy <= math.log2(size) + 1e-9
    kept_before = float(entries.probabilities[masks[2]].sum())
    assert entries.kept_mass == pytest.approx(kept_before)

    for token in range(size):
        step = entries.cut_by(token)
        if step == "temperature":
            assert settings.temperature == 0
        elif step is not None:
            stages = dict(zip(["top_k", "top_p", "min_p"], masks, strict=True))
            assert step == next(name for name, mask in stages.items() if not mask[token])
        assert (step is None) == bool(masks[2][token])


@given(random_logits(), st.floats(0, 1, exclude_max=True), st.integers(0, 70))
def test_top_p_is_the_smallest_set_that_reaches_p(logits: Tensor, p: float, k: int) -> None:
    entries = ledger(logits, SamplingSettings(top_p=p, top_k=k))
    mass = entries.cumulative[entries.order]
    n = entries.n_top_p
    assert float(mass[n - 1]) >= p - 2e-6
    assert n == 1 or float(mass[n - 2]) < p
    assert float(mass[entries.n_top_k - 1]) == pytest.approx(1)
    assert bool((mass[entries.n_top_k :] == 1).all())


@given(random_logits(), st.integers(1, 80))
def test_top_k_keeps_exactly_k(logits: Tensor, k: int) -> None:
    assert ledger(logits, SamplingSettings(top_k=k)).n_kept == min(k, len(logits))


@given(random_logits(), any_settings, previous_tokens)
def test_no_effect_means_no_effect(logits: Tensor, settings: SamplingSettings, previous: list[int]) -> None:
    off, previous = SamplingSettings(), [i % len(logits) for i in previous]
    entries = ledger(logits, settings, previous)
    reasons = entries.no_effect()
    for control in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty"):
        without = ledger(logits, replace(settings, **{control: getattr(off, control)}), previous)
        same = torch.allclose(entries.final, without.final, rtol=0, atol=1e-12)
        assert (control in reasons) == same, (control, reasons)
        assert (reasons.get(control) == "off") == (getattr(settings, control) == getattr(off, control))
    drawn = {draw(entries, torch.Generator().manual_seed(seed)).id for seed in range(5)}
    assert ("seed" in reasons) == (entries.n_kept == 1)
    assert "seed" not in reasons or len(drawn) == 1


def test_reasons() -> None:
    logits = logits_of(0.6, 0.3, 0.06, 0.04)

    def reasons(**settings: float) -> dict[str, str]:
        return {k: v for k, v in ledger(logits, SamplingSettings(**settings)).no_effect().items() if v != "off"}

    assert reasons() == {}
    assert reasons(temperature=0, top_k=2, top_p=0.8, min_p=0.1) == {
        "top_k": "greedy",
        "top_p": "greedy",
        "min_p": "greedy",
        "seed": "greedy",
    }
    assert reasons(top_k=4) == {"top_k": "keeps_all"}
    assert reasons(top_k=9) == {"top_k": "keeps_all"}
    assert reasons(top_k=2, top_p=0.95) == {"top_p": "keeps_all"} | reasons(top_k=2)
    assert reasons(top_p=0.99, min_p=0.01) == {"top_p": "keeps_all", "min_p": "keeps_all"}
    assert reasons(top_k=3, top_p=0.9) == {"top_k": "no_difference"}
    assert reasons(repetition_penalty=1.5) == {"repetition_penalty": "nothing_repeated"}
    assert reasons(top_k=1, temperature=2) == {"temperature": "no_difference", "seed": "one_candidate"}


# --- against Transformers


def theirs(logits: Tensor, settings: SamplingSettings, previous: list[int]) -> Tensor:
    processors = LogitsProcessorList()
    if settings.repetition_penalty != 1:
        processors.append(RepetitionPenaltyLogitsProcessor(settings.repetition_penalty))
    processors.append(TemperatureLogitsWarper(settings.temperature))
    if settings.top_k:
        processors.append(TopKLogitsWarper(settings.top_k))
    if settings.top_p < 1:
        processors.append(TopPLogitsWarper(settings.top_p))
    if settings.min_p:
        processors.append(MinPLogitsWarper(settings.min_p))
    return processors(torch.tensor([previous]), logits[None].clone())[0].softmax(0)


def far_from_borders(entries: Ledger) -> bool:
    """Whether rounding decides nothing (a mass that is just p, a probability that is just min-p's)."""
    settings = entries.settings
    ratio = entries.probabilities / entries.probabilities.max()
    return (float((entries.cumulative - settings.top_p).abs().min()) > 1e-5 or settings.top_p == 1) and float(
        (ratio - settings.min_p).abs().min()
    ) > 1e-5


@given(st.data(), st.integers(0, 2**32), st.integers(2, 300))
def test_final_equals_transformers(data: st.DataObject, seed: int, size: int) -> None:
    logits = torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 4
    settings = SamplingSettings(
        temperature=data.draw(st.floats(0.2, 3)),
        top_k=data.draw(st.sampled_from([0, 1, 2, 40]) | st.integers(0, 300)),
        top_p=data.draw(st.sampled_from([1.0, 0.9]) | st.floats(0.01, 0.99)),
        min_p=data.draw(st.just(0.0) | st.floats(0.001, 0.5)),
        repetition_penalty=data.draw(st.just(1.0) | st.floats(0.5, 2)),
    )
    previous = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=12))
    entries = ledger(logits, settings, previous)
    assume(far_from_borders(entries))
    torch.testing.assert_close(entries.final, theirs(logits, settings, previous), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_generate_of_transformers_filters_in_the_same_order(seed: int) -> None:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=500, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        bos_token_id=None, eos_token_id=None, pad_token_id=0, initializer_range=1.0,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    settings = SamplingSettings(temperature=4.0, top_k=60, top_p=0.9, min_p=0.02, repetition_penalty=1.5)
    prompt = torch.randint(1, 500, (1, 8))
    out = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=True, max_new_tokens=12,
        temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p, min_p=settings.min_p,
        repetition_penalty=settings.repetition_penalty,
        return_dict_in_generate=True, output_scores=True, output_logits=True,
    )  # fmt: skip
    compared = 0
    for step in range(12):
        entries = ledger(out.logits[step][0], settings, out.sequences[0, : 8 + step].tolist())
        if far_from_borders(entries):
            expected = out.scores[step][0].softmax(0).double()
            torch.testing.assert_close(entries.final, expected, rtol=1e-4, atol=1e-6)
            compared += 1
    assert compared > 6


# --- the draw


@given(random_logits(), any_settings, st.integers(0, 2**63 - 1))
def test_draw_is_an_interval_of_the_bar(logits: Tensor, settings: SamplingSettings, seed: int) -> None:
    entries = ledger(logits, settings)
    drawn = draw(entries, torch.Generator().manual_seed(seed))
    assert drawn.probability == float(entries.final[drawn.id]) > 0
    assert drawn.low <= drawn.u
    assert drawn.u < drawn.high or drawn.high == pytest.approx(1)
    assert drawn.high - drawn.low == pytest.approx(drawn.probability, abs=1e-12)
    before = entries.final[entries.order[: entries.rank[drawn.id]]].sum()
    assert drawn.low == pytest.approx(float(before), abs=1e-12)
    assert drawn == draw(ledger(logits, settings), torch.Generator().manual_seed(seed))


@given(st.integers(0, 2**31), st.integers(0, 600))
def test_every_place_of_a_text_has_the_random_number_that_the_seed_reaches_there(seed: int, place: int) -> None:
    one_by_one = torch.Generator().manual_seed(seed)
    for _ in range(place):
        torch.rand((), generator=one_by_one, dtype=torch.float64)
    after = [torch.rand((), generator=g, dtype=torch.float64) for g in (one_by_one, random_numbers(seed, place))]
    assert after[0] == after[1]


@pytest.mark.parametrize(
    "settings",
    [
        SamplingSettings(),
        SamplingSettings(temperature=0.5),
        SamplingSettings(temperature=1.5, top_k=6),
        SamplingSettings(top_p=0.9),
        SamplingSettings(min_p=0.1),
    ],
    ids=str,
)
def test_frequencies_are_the_probabilities(settings: SamplingSettings) -> None:
    """Pearson's chi-square of 20,000 draws with a fixed seed, at the 0.1 % level."""
    logits = logits_of(0.05, 0.3, 0.1, 0.02, 0.25, 0.13, 0.08, 0.07)
    generator = torch.Generator().manual_seed(20)
    n = 20_000
    counts = torch.zeros(8, dtype=torch.float64)
    entries = ledger(logits, settings)
    for _ in range(n):
        counts[draw(entries, generator).id] += 1
    expected = entries.final * n
    possible = expected > 0
    assert not bool(counts[~possible].any())
    statistic = float(((counts - expected)[possible] ** 2 / expected[possible]).sum())
    critical = {3: 16.27, 4: 18.47, 5: 20.52, 6: 22.46, 7: 24.32}
    assert statistic < critical[int(possible.sum()) - 1]


def with_u(monkeypatch: pytest.MonkeyPatch, u: float) -> None:
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor(u, dtype=torch.float64))


def test_intervals_include_their_lower_end(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = ledger(torch.zeros(4), SamplingSettings())
    for u, token in ((0.0, 0), (0.2499, 0), (0.25, 1), (0.5, 2), (0.75, 3)):
        with_u(monkeypatch, u)
        drawn = draw(entries, torch.Generator())
        assert (drawn.id, drawn.low, drawn.high) == (token, token / 4, token / 4 + 0.25)


def test_a_number_at_the_very_end_of_the_bar_hits_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    u = 1 - 2**-53
    with_u(monkeypatch, u)
    short = 0
    for seed in range(60):
        logits = torch.randn(40, generator=torch.Generator().manual_seed(seed))
        logits[[3, 17]] = -4000.0  # of probability 0
        for settings in (SamplingSettings(), SamplingSettings(top_k=39), SamplingSettings(min_p=1e-9)):
            entries = ledger(logits, settings)
            short += float(entries.bar(40)[-1]) <= u  # by rounding
            drawn = draw(entries, torch.Generator())
            assert drawn.id == int(entries.order[37])
            assert drawn.probability > 0
    assert short > 0


def test_greedy_leaves_the_generator_alone() -> None:
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    drawn = draw(ledger(torch.tensor([0.0, 2.0, 2.0]), SamplingSettings(temperature=0)), generator)
    assert (drawn.id, drawn.u, drawn.low, drawn.high, drawn.probability) == (1, 0.0, 0.0, 1.0, 1.0)
    assert torch.equal(before, generator.get_state())


def test_the_global_seed_is_neither_used_nor_changed() -> None:
    entries = ledger(torch.randn(50), SamplingSettings())
    before = torch.get_rng_state()
    draw(entries, torch.Generator().manual_seed(1))
    assert torch.equal(before, torch.get_rng_state())


# --- what goes in


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_any_float_type(dtype: torch.dtype) -> None:
    logits = torch.tensor([1.0, 2.5, -3.0], dtype=dtype)
    entries = ledger(logits, SamplingSettings(top_p=0.9))
    torch.testing.assert_close(entries.probabilities, logits.double().softmax(0))
    assert entries.final.dtype == torch.float64


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_seed_means_the_same_on_a_gpu() -> None:
    logits, settings = torch.randn(100), SamplingSettings(top_p=0.9, repetition_penalty=1.2)
    drawn = [draw(ledger(x, settings, [3, 4]), torch.Generator().manual_seed(5)) for x in (logits, logits.cuda())]
    assert drawn[0] == drawn[1]


def test_the_record_does_not_follow_later_changes() -> None:
    logits = torch.tensor([1.0, 2.0])
    previous = [0]
    entries = ledger(logits, SamplingSettings(repetition_penalty=2), previous)
    logits.fill_(7)
    previous.append(1)
    assert entries.logits.tolist() == [1.0, 2.0]
    assert entries.penalised.tolist() == [0.5, 2.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite(bad: float) -> None:
    for settings in (SamplingSettings(), SamplingSettings(temperature=0)):
        with pytest.raises(ValueError, match="1 of 3 tokens are NaN or infinite"):
            ledger(torch.tensor([0.0, bad, 1.0]), settings)
    assert ledger(torch.tensor([1.7e308, 1.7e308], dtype=torch.float64), SamplingSettings()).n_kept == 2


@pytest.mark.parametrize("shape", [(0,), (2, 3), ()])
def test_logits_of_another_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="vector over the vocabulary"):
        ledger(torch.zeros(shape), SamplingSettings())


@pytest.mark.parametrize("previous", [[-1], [3]])
def test_previous_ids_outside_the_vocabulary(previous: list[int]) -> None:
    with pytest.raises(ValueError, match="between 0 and 2"):
        ledger(torch.zeros(3), SamplingSettings(repetition_penalty=1.2), previous)


def test_a_penalty_that_overflows() -> None:
    with pytest.raises(ValueError, match="repetition penalty"):
        ledger(torch.tensor([1e38, 0.0]), SamplingSettings(repetition_penalty=1e-300), [0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"temperature": math.inf}, "temperature"),
        ({"top_k": -1}, "Top-k"),
        ({"top_k": 2.5}, "Top-k"),
        ({"top_k": True}, "Top-k"),
        ({"top_p": 1.01}, "Top-p"),
        ({"top_p": -0.01}, "Top-p"),
        ({"top_p": math.nan}, "Top-p"),
        ({"min_p": 2}, "Min-p"),
        ({"min_p": math.nan}, "Min-p"),
        ({"repetition_penalty": 0}, "repetition penalty"),
        ({"repetition_penalty": math.inf}, "repetition penalty"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"seed": 1.5}, "seed"),
    ],
)
def test_settings_out_of_range(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SamplingSettings(**settings)
