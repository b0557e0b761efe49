"""Generation: the same text with and without the cache, streamed as decoded at once, and every step explained."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model import LanguageModel
from model.generation import generate
from model.hooks import observe
from model.sampling import SamplingSettings
from model.transformer import Transformer
from tests.cases import TEXTS
from tests.model.tiny import close, some_ids, tiny

PROMPTS = ["Once upon a time", "我今天很开心", "the cat the cat", "  ", "👩‍👩‍👧‍👦"]
SETTINGS = [
    SamplingSettings(temperature=0.0),
    SamplingSettings(seed=3),
    SamplingSettings(temperature=1.7, seed=5),
    SamplingSettings(temperature=0.8, top_k=20, top_p=0.9, min_p=0.02, repetition_penalty=1.2, seed=7),
]


def ids_of(steps):
    return [step.id for step in steps]


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_same_seed_same_text_with_and_without_cache(storyteller, prompt, sampling):
    cached = list(storyteller.generate(prompt, 24, sampling))
    again = list(storyteller.generate(prompt, 24, sampling))
    uncached = list(storyteller.generate(prompt, 24, sampling, use_cache=False))
    assert ids_of(cached) == ids_of(again)
    for one, other in zip(cached, uncached, strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-5)
        if one.id != other.id:  # the draw fell on an edge, or on two neighbours that rounding puts in either order
            edges = {abs(a - b) for a in (one.draw.low, one.draw.high) for b in (other.draw.low, other.draw.high)}
            assert not sampling.greedy and min(edges) < 2e-6
            break
        assert one.text == other.text
    else:
        assert ids_of(cached) == ids_of(uncached)


def test_another_seed_gives_another_text(storyteller):
    texts = {tuple(ids_of(storyteller.generate("Once", 12, SamplingSettings(seed=seed)))) for seed in range(8)}
    assert len(texts) > 4


def test_a_prompt_that_holds_the_first_tokens_goes_on_alike(storyteller):
    sampling = SamplingSettings(temperature=1.2, seed=8)
    steps = list(storyteller.generate("Once upon a time", 12, sampling))
    for done in (1, 5, 11):
        assert ids_of(storyteller.generate(steps[done - 1].ids, 12 - done, sampling)) == ids_of(steps)[done:]


def test_greedy_is_the_argmax_of_the_trace(storyteller):
    ids = storyteller.tokenizer.encode("One day, a dog")
    for step in storyteller.generate(ids, 8, SamplingSettings(temperature=0.0)):
        assert step.id == int(storyteller.trace(ids).logits[-1].argmax())
        assert step.rank == 0
        assert step.probability == 1.0
        ids.append(step.id)
        assert step.ids == tuple(ids)


@pytest.mark.parametrize("name", [name for name, _ in TEXTS if name not in ("empty", "long_text", "long_word")])
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_streamed_equals_decoded_at_once(storyteller, name, temperature):
    """At a high temperature bytes of characters come in any order: what is cut shows in the end, as when decoded."""
    steps = list(storyteller.generate(dict(TEXTS)[name], 20, SamplingSettings(temperature=temperature, seed=1)))
    written = [i for i in ids_of(steps) if i != storyteller.config.eos_id]
    assert "".join(step.text for step in steps) == storyteller.tokenizer.decode(written)


def test_steps_explain_themselves(storyteller):
    prompt = storyteller.tokenizer.encode("The little boy was very")
    steps = list(storyteller.generate(prompt, 10, SamplingSettings(temperature=1.3, top_k=50, seed=11)))
    ids = list(prompt)
    for index, step in enumerate(steps):
        raw = storyteller.trace(ids).logits[-1].log_softmax(-1)
        assert step.index == index
        assert step.logprob == pytest.approx(float(raw[step.id]), abs=1e-4)
        assert step.rank == int((raw > raw[step.id]).sum()) < 50
        top = raw.topk(5)
        assert [i for i, _ in step.alternatives] == top.indices.tolist()
        assert [p for _, p in step.alternatives] == pytest.approx(top.values.exp().tolist(), abs=1e-5)
        kept = (raw / 1.3)[raw.topk(50).indices]
        final = math.exp(float(raw[step.id]) / 1.3 - float(kept.logsumexp(0)))
        assert step.probability == pytest.approx(final, rel=1e-3)
        assert step.draw.low <= step.draw.u < step.draw.high
        assert step.milliseconds > 0
        ids.append(step.id)
        assert step.ids == tuple(ids)


class Script:
    """Edits the logits so that given tokens come out one after the other."""

    def __init__(self, ids):
        self.ids = list(ids)

    def __call__(self, logits, name):
        wanted = torch.full_like(logits, -100.0)
        wanted[..., self.ids.pop(0)] = 100.0
        return wanted


def test_stops_at_the_end_of_text(storyteller):
    end = storyteller.config.eos_id
    with storyteller.edit({"hook_logits": Script([300, 301, end, 302])}):
        steps = list(storyteller.generate("Once", 9))
    assert ids_of(steps) == [300, 301, end]
    assert "".join(step.text for step in steps) == storyteller.tokenizer.decode([300, 301])


def test_stops_at_any_token_that_ends_a_text(storyteller):
    """Chat models end a turn with another token than a document."""
    ours = Transformer(storyteller.config.replace(more_eos_ids=(301, 303)))
    ours.load_state_dict(storyteller.transformer.state_dict())
    lm = LanguageModel("two ends", ours, storyteller.tokenizer)
    with lm.edit({"hook_logits": Script([300, 303, 302])}):
        assert ids_of(lm.generate("Once", 9)) == [300, 303]


@pytest.mark.parametrize("ending", ["eos", "limit"])
def test_an_incomplete_character_is_shown_at_the_end(storyteller, ending):
    tokenizer = storyteller.tokenizer
    cut = next(ids for ids in (tokenizer.encode(c)[:-1] for c in "𝄞🜁𓀀龘") if ids)
    script = [*cut, *([storyteller.config.eos_id] if ending == "eos" else [])]
    with storyteller.edit({"hook_logits": Script(script)}):
        steps = list(storyteller.generate("Once", len(script)))
    assert ids_of(steps) == script
    assert [step.text for step in steps[:-1]] == [""] * (len(script) - 1)
    assert "".join(step.text for step in steps) == tokenizer.decode(cut) != ""


def test_characters_appear_once_they_are_complete(storyteller):
    tokenizer = storyteller.tokenizer
    ids = next(ids for ids in map(tokenizer.encode, "𝄞🜁𓀀龘") if len(ids) > 1)
    with storyteller.edit({"hook_logits": Script(ids + tokenizer.encode("a"))}):
        texts = [step.text for step in storyteller.generate("Once", len(ids) + 1)]
    assert texts == [""] * (len(ids) - 1) + [tokenizer.decode(ids), "a"]


def test_limits_are_said_by_the_call(storyteller):
    for arguments, says in (
        ({"text": "Once", "max_new_tokens": 512}, r"reads at most 512: ask for at most 51\d new tokens"),
        ({"text": "Once", "max_new_tokens": -1}, "must not be negative"),
        ({"text": dict(TEXTS)["long_text"]}, "reads at most 512"),
        ({"text": "Once", "window": 0}, "window"),
        ({"text": "Once", "bits": 5}, "bits"),
        ({"text": "Once", "bits": 8, "use_cache": False}, "nothing to quantise"),
        ({"text": [9000]}, "between 0 and 8191"),
    ):
        with pytest.raises(ValueError, match=says):
            storyteller.generate(**arguments)
    assert list(storyteller.generate("Once", 0)) == []
    ids = [5] * 511
    assert len(list(storyteller.generate(ids, 1))) == 1


def test_an_encoder_continues_no_text(storyteller):
    with pytest.raises(ValueError, match="encoder does not continue"):
        generate(tiny(kind="encoder"), storyteller.tokenizer, [1], max_new_tokens=1, sampling=SamplingSettings())


def test_an_empty_text_starts_from_the_start_token(storyteller):
    steps = list(storyteller.generate("", 3, SamplingSettings(temperature=0.0)))
    assert steps[0].ids[0] == storyteller.config.bos_id


@given(
    st.integers(1, 12), st.integers(1, 20), st.sampled_from(["rope", "alibi", "sinusoidal", "none"]), st.integers(0, 99)
)
@settings(max_examples=12)
def test_a_window_means_the_same_without_a_cache(window, length, positions, seed):
    """Far past the model's context of 16, and past the cache's room of 64, where it moves its slots."""
    model, prompt = tiny(positions=positions, max_positions=16), some_ids(length, seed=seed).tolist()
    options = {"max_new_tokens": 80, "sampling": SamplingSettings(seed=seed), "window": window}
    cached, uncached = (generate(model, Letters(), prompt, use_cache=use, **options) for use in (True, False))
    for one, other in zip(cached, uncached, strict=True):
        close(one.ledger.logits, other.ledger.logits)
        if one.id != other.id:  # a draw within rounding of a token's edge; from here on the texts are two
            assert abs(one.draw.u - one.draw.low) < 1e-5 or abs(one.draw.u - one.draw.high) < 1e-5
            break


class Letters:
    """A tokenizer for models without one."""

    def stream(self):
        return self

    def push(self, token):
        return chr(65 + token)

    def flush(self):
        return ""


def test_a_learned_table_ends_also_with_a_window():
    model = tiny(positions="learned", max_positions=16)
    arguments = {"sampling": SamplingSettings(), "window": 4}
    with pytest.raises(ValueError, match="at most 16"):
        generate(model, Letters(), [1, 2, 3], max_new_tokens=14, **arguments)
    assert len(list(generate(model, Letters(), [1, 2, 3], max_new_tokens=13, **arguments))) == 13


def test_a_quantised_cache_is_used(storyteller):
    def logits(bits):
        settings = SamplingSettings(temperature=0.0)
        return next(storyteller.generate("Once upon a time", 1, settings, bits=bits)).ledger.logits

    # Over the whole vocabulary: a single token's error may be small by accident.
    errors = {bits: float((logits(bits) - logits(None)).pow(2).mean()) for bits in (8, 4)}
    assert 0 < errors[8] < errors[4]


def test_the_prompt_is_read_once_with_a_cache(storyteller):
    for use_cache, lengths in ((True, [4, 1, 1]), (False, [4, 5, 6])):
        seen = []
        with observe(lambda name, value, seen=seen: seen.append(value.shape[1]) if name == "hook_embed" else None):
            list(storyteller.generate([5, 6, 7, 8], 3, SamplingSettings(seed=1), use_cache=use_cache))
        assert seen == lengths


def test_stopping_half_way_leaves_nothing(storyteller):
    steps = storyteller.generate("Once upon a time", 40, SamplingSettings(seed=2))
    first = [next(steps) for _ in range(3)]
    steps.close()
    again = storyteller.generate("Once upon a time", 40, SamplingSettings(seed=2))
    assert ids_of(first) == [next(again).id for _ in range(3)]


def test_edits_are_in_force_while_it_writes(storyteller):
    with storyteller.edit({"hook_logits": lambda x, _: x.index_fill(-1, torch.tensor([400]), 1e4)}):
        assert ids_of(storyteller.generate("Once", 3)) == [400, 400, 400]
