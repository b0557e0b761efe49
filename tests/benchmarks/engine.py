"""The model room: a full trace against a plain pass, and decoding against Transformers."""

from __future__ import annotations

import torch

from model import load
from model.hooks import observe
from model.sampling import SamplingSettings
from model.zoo.catalog import CATALOG
from tests.benchmarks.measure import Result, alternate, slowdown, speedup

TEXT = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park with her friends."


def trace() -> list[Result]:
    """A full trace of 64 tokens against a plain forward pass; target 1.5 times at most."""
    lm = load("storyteller", device="cpu")
    ids = (lm.tokenizer.encode(TEXT) * 4)[:64]
    x = torch.tensor([ids])

    def plain() -> None:
        with torch.no_grad():
            lm.transformer(x)

    ours, other = alternate(lambda: lm.trace(ids), plain, repeats=40)
    return [slowdown("trace", "full trace of 64 tokens : plain pass", ours, other, target=1.5)]


def hooks() -> list[Result]:
    """Decoding with an observer at every hook point against decoding with nobody listening."""
    lm = load("storyteller", device="cpu")
    settings = SamplingSettings(temperature=0)

    def quiet() -> None:
        list(lm.generate(TEXT, 40, settings))

    def watched() -> None:
        with observe(lambda name, value: None):
            list(lm.generate(TEXT, 40, settings))

    ours, other = alternate(watched, quiet, repeats=10)
    return [slowdown("hooks", "40 tokens watched : not watched", ours, other, target=None)]


def decode() -> list[Result]:
    """Greedy decoding of the bundled model against Transformers' generate on the same weights; target 3 times."""
    from transformers import LlamaForCausalLM

    lm = load("storyteller", device="cpu")
    theirs = LlamaForCausalLM.from_pretrained(CATALOG["storyteller"].folder, dtype=torch.float32)
    ids = lm.tokenizer.encode(TEXT)
    x, new = torch.tensor([ids]), 100
    settings = SamplingSettings(temperature=0)

    def ours_() -> list[int]:
        return [step.id for step in lm.generate(ids, new, settings)]

    def theirs_() -> list[int]:
        out = theirs.generate(
            x, attention_mask=torch.ones_like(x), max_new_tokens=new, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        return out[0, len(ids) :].tolist()

    written = ours_()
    if theirs_() != written:
        raise AssertionError("The two sides wrote different texts: the comparison would mean nothing.")
    ours, other = alternate(ours_, theirs_, repeats=10)
    what = "greedy decoding, storyteller : Transformers' generate"
    return [speedup("decode", what, ours, other, target=3.0, amount=new)]
