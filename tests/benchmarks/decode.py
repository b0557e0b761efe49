"""Writing token by token with real weights: against Transformers' `generate`, and against this machine's best."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import linear

from model import load
from model.cache import KVCache
from model.decode import OneToken
from model.language import LanguageModel
from model.linear import has_onednn, onednn_product, packed_for_onednn
from model.sampling import SamplingSettings
from model.zoo.catalog import CATALOG
from model.zoo.checkpoint import converted_folder, gguf_of
from tests.benchmarks.measure import Result, alternate, speedup

MODEL = "smollm2-135m-instruct"
PROMPT = "The capital of France is Paris. The capital of Italy is"
NEW = 32  # tokens a turn
REPEATS = 5
# Format, what Transformers computes in, how many times as fast we have to be.
FORMATS = (("float32", "float32", 1.5), ("bfloat16", "bfloat16", 1.5), ("int8", "float32", 4.0))


def real_weights() -> list[Result]:
    """Greedy decoding of SmolLM2-135M in fp32, bf16 and INT8 against Transformers and matrix-vector products."""
    if not CATALOG[MODEL].ready:
        print(f"smollm2: skipped, {MODEL} is not here: python -m model fetch {MODEL}", file=sys.stderr)
        return []
    return [result for one in FORMATS for result in _format(*one)]


def _format(dtype: str, theirs: str, target: float) -> list[Result]:
    lm = load(MODEL, device="cpu", dtype=dtype)
    ids = lm.tokenizer.encode(PROMPT)

    def write() -> None:
        list(lm.generate(ids, NEW, SamplingSettings(temperature=0)))

    ours, other = alternate(write, _reference(theirs, ids), repeats=REPEATS, warm_up=1)
    what = f"greedy decoding, SmolLM2-135M in {dtype} : Transformers' generate in {theirs}"
    results = [speedup("smollm2", what, ours, other, target=target, amount=NEW)]
    pass_, read, *done = alternate(_one_token(lm), reading(lm), *products(lm), repeats=2 * REPEATS)
    best = min(done, key=lambda sample: sample.median)
    what = f"one token in {dtype} : the same matrices times a row each, fastest way"
    results.append(speedup("smollm2", what, pass_, best, target=0.8, amount=1))
    what = f"one token in {dtype} : reading as many bytes"
    return [*results, speedup("smollm2", what, pass_, read, target=None, amount=1)]


def _reference(dtype: str, ids: list[int]) -> Callable[[], None]:
    """Transformers' side: the same prompt, as many tokens."""
    from transformers import LlamaForCausalLM

    file = gguf_of(CATALOG[MODEL].folder)
    folder = CATALOG[MODEL].folder if file is None else converted_folder(file)
    model = LlamaForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    x = torch.tensor([ids])

    def write() -> None:
        model.generate(
            x, attention_mask=torch.ones_like(x), max_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=0
        )

    return write


def _one_token(lm: LanguageModel) -> Callable[[], None]:
    cache = KVCache(lm.config, room=4 * REPEATS + 8, dtype=lm.compute_dtype)
    one = OneToken.of(lm.transformer, cache)
    if one is None:
        raise AssertionError("The fast pass does not serve this model: there is nothing to measure.")

    def write() -> None:
        one(300)

    return write


def products(lm: LanguageModel) -> list[Callable[[], None]]:
    """Every matrix of a pass times one row: as the pass does it, and in every other way that torch has."""
    one = OneToken.of(lm.transformer, KVCache(lm.config, room=1, dtype=lm.compute_dtype))
    assert one is not None
    them = [p for layer in one.layers for p in (layer.qkv, layer.out, layer.gate_and_up, layer.down)]
    them.append(one.head)
    rows = [torch.ones(1, p.matrix.shape[1], dtype=p.row_dtype) for p in them]
    places = [torch.empty(1, len(p.matrix)) for p in them]

    @torch.inference_mode()
    def as_the_pass() -> None:
        for product, row, out in zip(them, rows, places, strict=True):
            product.into(row, 1.0, out)

    if lm.dtype == torch.int8:
        return [as_the_pass]
    matrices = [p.matrix for p in them]
    ways: list[tuple[Callable[[torch.Tensor, Any], torch.Tensor], list[Any]]] = [
        (linear, matrices),
        (torch.mm, [m.t().contiguous() for m in matrices]),
    ]
    if has_onednn(lm.dtype):
        ways += [(onednn_product, matrices), (onednn_product, [packed_for_onednn(m) for m in matrices])]

    def run(way: Callable[[torch.Tensor, Any], torch.Tensor], of: list[Any]) -> Callable[[], None]:
        @torch.inference_mode()
        def go() -> None:
            for row, matrix in zip(rows, of, strict=True):
                way(row, matrix)

        return go

    return [as_the_pass, *(run(way, of) for way, of in ways)]


def reading(lm: LanguageModel) -> Callable[[], object]:
    """Adding up as many bytes as the weights have: nothing reads memory with less work."""
    return torch.ones(math.ceil(lm.nbytes / 4)).sum
