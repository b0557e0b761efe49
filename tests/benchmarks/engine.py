"""The model room: traces, hook points, attention, the cache, and decoding, each against its counterpart."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from model import load
from model.generation import Step
from model.kernels import Visible, explicit, fused
from model.language import LanguageModel
from model.sampling import SamplingSettings
from model.zoo.catalog import CATALOG
from tests.benchmarks.decode import products, reading
from tests.benchmarks.measure import Result, Sample, alternate, slowdown, speedup
from tests.benchmarks.unhooked import without_hooks

TEXT = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park with her friends."
GREEDY = SamplingSettings(temperature=0)
LENGTHS = (64, 256, 1024, 4096)  # of attention
PLACES = (32, 128, 256, 480)  # in a text that is written
AROUND = 12  # tokens before and behind a place


def trace() -> list[Result]:
    """A full trace against a plain pass (1.5 times at most) and TransformerLens (half of its time at most)."""
    from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

    lm = load("storyteller", device="cpu")
    same = _reference()
    lens = build_bridge_from_module(same, "LlamaForCausalLM", hf_config=same.config)
    results = []
    for n in (10, 64):
        ids = (lm.tokenizer.encode(TEXT) * 4)[:n]
        x = torch.tensor([ids])

        @torch.no_grad()
        def plain(x: torch.Tensor = x) -> None:
            lm.transformer(x)

        @torch.no_grad()
        def theirs(x: torch.Tensor = x) -> torch.Tensor:
            logits: torch.Tensor = lens.run_with_cache(x)[0]
            return logits

        torch.testing.assert_close(lm.trace(ids)["hook_logits"], theirs()[0], rtol=1e-3, atol=1e-3)
        ours, other, cached = alternate(lambda ids=ids: lm.trace(ids), plain, theirs, repeats=40)
        what = f"full trace of {n} tokens"
        results.append(slowdown("trace", f"{what} : a plain pass", ours, other, target=1.5))
        results.append(speedup("trace", f"{what} : TransformerLens run_with_cache", ours, cached, target=2))
    return results


def hooks() -> list[Result]:
    """A pass that nobody listens to against the same pass with its hook points removed; target 1.05 times."""
    lm = load("storyteller", device="cpu")
    results = []
    for n, repeats in ((1, 400), (64, 100)):
        x = torch.tensor([(lm.tokenizer.encode(TEXT) * 4)[:n]])
        bare = without_hooks(lm.transformer, x)

        @torch.no_grad()
        def run(transformer: torch.nn.Module, x: torch.Tensor = x) -> None:
            transformer(x)

        ours, other = alternate(lambda: run(lm.transformer), lambda bare=bare: run(bare), repeats=repeats)
        what = f"a pass of {n} token{'s' if n > 1 else ''} : without hook points"
        results.append(slowdown("hooks", what, ours, other, target=1.05))
    return results


def attention() -> list[Result]:
    """Fused attention against explicit attention by length, in the bundled model's own shape."""
    config = load("storyteller", device="cpu").config
    results = []
    for length in LENGTHS:
        shape = (1, config.n_heads, length, config.d_head)
        q, k, v = torch.randn((3, *shape), generator=torch.Generator().manual_seed(length))
        visible = Visible(causal=True)

        @torch.no_grad()
        def run(kernel: Any, parts: Any = (q, k, v, visible)) -> None:
            kernel(*parts)

        ours, other = alternate(lambda: run(fused), lambda: run(explicit), repeats=15 if length < 4096 else 5)
        what = f"fused : explicit attention, {length:,} tokens"
        results.append(speedup("attention", what, ours, other, target=None))
    return results


def cache() -> list[Result]:
    """Writing with the cache against writing without, by place in the text; with it time stays flat (1.25 times)."""
    lm = load("storyteller", device="cpu")
    lm.transformer.config = replace(lm.config, eos_id=None, more_eos_ids=())  # writes on until all places are reached
    ids = lm.tokenizer.encode(TEXT)[:4]
    new = max(PLACES) + AROUND - len(ids)
    cached: list[float] = []
    uncached: list[float] = []
    for _ in range(2):  # the first is there to warm up
        writers = [lm.generate(ids, new, GREEDY, use_cache=use) for use in (True, False)]
        cached.clear()
        uncached.clear()
        for _ in range(new):
            chosen = [_timed(writer, times) for writer, times in zip(writers, (cached, uncached), strict=True)]
            if chosen[0] != chosen[1]:
                raise AssertionError("The two sides wrote different texts: the comparison would mean nothing.")

    def around(times: list[float], place: int) -> Sample:
        here = place - len(ids)
        return Sample(tuple(times[here - AROUND : here + AROUND]))

    results = []
    for place in PLACES:
        ours, other = around(cached, place), around(uncached, place)
        results.append(speedup("cache", f"token {place} with : without the cache", ours, other, target=None))
    return [*results, _flat(lm, ids)]


def _flat(lm: LanguageModel, ids: list[int]) -> Result:
    """Late against early tokens with the cache, in turns, with no other pass between them."""
    written = [step.id for step in lm.generate(ids, max(PLACES), GREEDY)]
    early, late = PLACES[0], PLACES[-1]
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(5):
        writers = [lm.generate([*ids, *written][:n], AROUND, GREEDY) for n in (early, late)]
        for writer in writers:
            next(writer)  # reads the text so far
        for _ in range(AROUND - 1):
            for writer, spent in zip(writers, times, strict=True):
                _timed(writer, spent)
    samples = [Sample(tuple(spent)) for spent in times]
    what = f"with the cache, token {late} : token {early}"
    return slowdown("cache", what, samples[1], samples[0], target=1.25)


def decode() -> list[Result]:
    """Greedy decoding of the bundled model against Transformers' generate on the same weights; target 3 times."""
    lm = load("storyteller", device="cpu")
    theirs = _reference()
    ids = lm.tokenizer.encode(TEXT)
    x, new = torch.tensor([ids]), 100

    def ours_() -> list[int]:
        return [step.id for step in lm.generate(ids, new, GREEDY)]

    def theirs_() -> list[int]:
        out = theirs.generate(
            x, attention_mask=torch.ones_like(x), max_new_tokens=new, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        return out[0, len(ids) :].tolist()

    if theirs_() != ours_():
        raise AssertionError("The two sides wrote different texts: the comparison would mean nothing.")

    def times(run: Callable[[], object]) -> Callable[[], None]:
        def go() -> None:
            for _ in range(new):
                run()

        return go

    ways = [times(way) for way in products(lm)]
    ours, other, read, *done = alternate(ours_, theirs_, times(reading(lm)), *ways, repeats=10)
    fastest = min(done, key=lambda sample: sample.median)
    name = "greedy decoding, storyteller"
    return [
        speedup("decode", f"{name} : Transformers' generate", ours, other, target=3, amount=new),
        speedup(
            "decode", f"{name} : its matrices times a row each, fastest way", ours, fastest, target=None, amount=new
        ),
        speedup("decode", f"{name} : reading as many bytes", ours, read, target=None, amount=new),
    ]


def _reference() -> Any:
    """The bundled model in Transformers."""
    from transformers import LlamaForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    return LlamaForCausalLM.from_pretrained(CATALOG["storyteller"].folder, dtype=torch.float32).eval()


def _timed(writer: Iterator[Step], times: list[float]) -> int:
    begun = time.perf_counter()
    (step,) = itertools.islice(writer, 1)
    times.append(time.perf_counter() - begun)
    return step.id
