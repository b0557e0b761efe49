"""Weights as integers: one contract whatever computes it, and what it costs on real text."""

import copy
import math
import subprocess
import sys

import pytest
import torch
from torch.nn.functional import linear
from transformers import LlamaForCausalLM

from model import load
from model.analysis.embeddings import EmbeddingTable
from model.analysis.feed_forward import feed_forward_run
from model.analysis.formats import FORMATS, format_cost, format_nbytes
from model.analysis.neuron_effects import direct_effects
from model.analysis.next_token import readout
from model.analysis.one_hot import difference_from_run, look_up
from model.analysis.parameters import parameters_by_part
from model.analysis.smaller_caches import CacheChoice, cache_cost, with_merged_heads
from model.cache import KVCache
from model.int8 import Int8Matrix, dequantise_rows, int8_product, quantise_rows, to_int8
from model.losses import token_losses
from model.sampling import SamplingSettings
from model.transformer import Transformer
from model.zoo.catalog import CATALOG
from model.zoo.checkpoint import open_checkpoint
from model.zoo.files import CheckpointError
from model.zoo.readers import save_checkpoint
from tests.conftest import REPOSITORY
from tests.model.tiny import close, fill, some_ids, tiny, within_budget

STORIES = [
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park with her friends.",
    "The little cat sat on the mat because it was warm. Then a big dog came, and the cat ran up a tree.",
    "从前有一只小猫，它喜欢在花园里玩。有一天，它看见一只蝴蝶，就跟着它跑了很远。",
]
WIDE = {"d_model": 64, "d_head": 16, "d_ff": 96}  # widths that torch's kernel takes


def written_out(transformer):
    """The same model in fp32, with each matrix of integers written out."""
    out = Transformer(transformer.config)
    weights = {name: value for name, value in transformer.state_dict().items() if "codes" not in name}
    for name, module in transformer.named_modules():
        if isinstance(module, Int8Matrix):
            del weights[f"{name}.scale"]
            weights[f"{name}.weight"] = module.weight
    return fill(out, weights)


def integers(**changes):
    transformer = tiny(**changes)
    to_int8(transformer)
    return transformer


@pytest.mark.parametrize("shape", [(5, 32), (50, 64), (17, 96), (3, 7)])
def test_codes_are_whole_numbers_and_half_a_scale_from_the_weights(shape):
    weight = torch.randn(shape) * torch.logspace(-6, 3, shape[0])[:, None]
    weight[0] = 0
    codes, scale = quantise_rows(weight)
    assert codes.dtype == torch.int8
    assert codes.shape == shape
    assert int(codes.abs().max()) == 127  # and never −128: as far below 0 as above
    error = (dequantise_rows(codes, scale) - weight).abs().amax(1)
    assert bool((error <= scale.float() * 0.5 * (1 + 1e-5)).all())
    assert not bool(dequantise_rows(codes, scale)[0].any())
    torch.testing.assert_close(quantise_rows(-weight)[0], -codes, rtol=0, atol=0)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused(bad, tmp_path):
    with pytest.raises(ValueError, match="finite"):
        quantise_rows(torch.tensor([[1.0, bad]]))
    spoiled = tiny()
    spoiled.blocks[0].mlp.W_in.weight[0, 0] = bad
    save_checkpoint(tmp_path, spoiled, torch.float32)
    (tmp_path / "tokenizer.json").write_text(load("storyteller", "cpu").tokenizer.definition, encoding="utf-8")
    with pytest.raises(CheckpointError, match="finite"):
        open_checkpoint(tmp_path, torch.device("cpu"), torch.int8)


@pytest.mark.parametrize("width", [32, 96, 256, 40, 7])  # the last two: no kernel reads them, so they are written out
@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize("tokens", [1, 6])
def test_the_product_is_that_of_the_matrix_written_out(width, rows, tokens):
    """Error at most twice that of the same product in plain bf16."""
    generator = torch.Generator().manual_seed(width + rows)
    codes, scale = quantise_rows(torch.randn(33, width, generator=generator))
    x = torch.randn(rows, tokens, width, generator=generator)
    exact = linear(x.double(), dequantise_rows(codes, scale).double())
    plain = linear(x.bfloat16(), dequantise_rows(codes, scale).bfloat16())
    for dtype in (torch.float32, torch.bfloat16):
        out = int8_product(x.to(dtype), codes, scale)
        assert out.dtype == dtype
        assert out.shape == (rows, tokens, 33)
        within_budget(out, plain, exact)
    if tokens > 1:  # what is read at once is as exact as fp32
        torch.testing.assert_close(int8_product(x, codes, scale).double(), exact, rtol=1.3e-6, atol=1e-5)


def test_a_gradient_goes_through_the_matrix_written_out():
    codes, scale = quantise_rows(torch.randn(8, 32))
    x = torch.randn(1, 1, 32, requires_grad=True)
    int8_product(x, codes, scale).sum().backward()
    torch.testing.assert_close(x.grad[0, 0], dequantise_rows(codes, scale).sum(0))


OPTIONS = [
    {},
    {"tied_embeddings": False},
    {"positions": "learned", "norm": "layernorm", "activation": "gelu_tanh", "mlp_bias": True, "qkv_bias": True},
    {"positions": "sinusoidal", "scale_embeddings": True, "unembed_bias": True, "n_kv_heads": 1},
    {"kind": "encoder", "head": "mlm", "norm_place": "post", "norm": "layernorm", "out_bias": True},
]


@pytest.mark.parametrize("changes", OPTIONS, ids=str)
def test_a_pass_is_that_of_the_model_written_out(changes):
    transformer = integers(**WIDE | changes)
    assert (transformer.dtype, transformer.weights_dtype) == (torch.float32, torch.int8)
    ids = some_ids(2, 9)
    close(transformer(ids), written_out(transformer)(ids))
    matrices = {n for n, p in transformer.named_parameters() if p.dim() > 1 and "pos_embed" not in n}
    assert matrices
    assert all(name.endswith(".codes") for name in matrices)


@pytest.mark.parametrize("changes", OPTIONS[:-1], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8])
def test_cached_is_uncached(changes, dtype):
    """Token by token, where products are rounded, at most twice the error of a plain pass in bf16."""
    transformer = integers(**WIDE | changes) if dtype == torch.int8 else tiny(**WIDE | changes).bfloat16()
    exact = written_out(transformer) if dtype == torch.int8 else tiny(**WIDE | changes)
    ids, plain = some_ids(1, 12), copy.deepcopy(exact).bfloat16()
    cache = KVCache(transformer.config, room=12, dtype=transformer.dtype)
    steps = [ids[:, :5], *ids[:, 5:].split(1, dim=1)]
    within_budget(torch.cat([transformer(step, cache=cache) for step in steps], 1), plain(ids), exact(ids))


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("text", STORIES)
def test_what_a_format_costs_in_loss_on_stories(formats, text, dtype):
    """Against Transformers on the same weights; bf16 and integers cost less than two hundredths of a bit a token."""
    lm, theirs = formats[dtype], formats["reference"]
    ids = lm.ids(text)
    logits = theirs(torch.tensor([ids])).logits[0]
    expected = float(token_losses(logits, ids).mean()) / math.log(2)
    found = format_cost(lm, ids)
    assert found.nbytes == lm.nbytes == format_nbytes(lm.config, dtype)
    assert found.bits == pytest.approx(expected, abs=1e-4 if dtype == "float32" else 0.02)


@pytest.fixture(scope="module")
def formats():
    theirs = LlamaForCausalLM.from_pretrained(CATALOG["storyteller"].folder, dtype=torch.float32)
    return {"reference": theirs.requires_grad_(False)} | {d: load("storyteller", "cpu", d) for d in FORMATS}


def test_bytes_of_each_format(formats):
    """Of 6,524,160 numbers: four each, or two; or one, two for the scale of a row, and four for those of the norms."""
    rows = 8192 + 6 * (256 + 2 * 128 + 256 + 2 * 704 + 256)
    norms = 13 * 256
    expected = {"float32": 4 * 6_524_160, "bfloat16": 2 * 6_524_160, "int8": 6_524_160 - norms + 4 * norms + 2 * rows}
    assert {dtype: formats[dtype].nbytes for dtype in FORMATS} == expected
    for dtype in FORMATS:
        assert sum(p.numel() for p in formats[dtype].transformer.parameters()) == 6_524_160
    with pytest.raises(ValueError, match="int4"):
        format_nbytes(formats["int8"].config, "int4")
    assert format_cost(formats["int8"], [5]).bits is None
    assert format_cost(load("reader", "cpu"), [5, 6]).bits is None


def test_formats_are_models_of_their_own(formats):
    names = [formats[dtype].name for dtype in FORMATS]
    assert names == ["storyteller", "storyteller · bfloat16", "storyteller · int8"] or torch.accelerator.is_available()
    runs = [formats[dtype].trace("The cat") for dtype in FORMATS]
    assert len({run.id for run in runs}) == 3
    assert {run["blocks.0.attn.hook_q"].dtype for run in runs} == {torch.float32, torch.bfloat16}


@pytest.mark.parametrize("dtype", FORMATS[1:])
def test_writing_in_a_format(formats, dtype):
    """Token by token: at most twice the error that a plain pass in bf16 has, against fp32 with the same weights."""
    lm = formats[dtype]
    exact = written_out(lm.transformer) if dtype == "int8" else copy.deepcopy(lm.transformer).float()
    plain = copy.deepcopy(exact).bfloat16()
    cached = list(lm.generate("Once upon a time", 24, SamplingSettings(temperature=0)))
    ids = torch.tensor([cached[-1].ids[:-1]])
    logits = torch.stack([step.ledger.logits for step in cached])
    within_budget(logits, *(model(ids)[0, -len(cached) :] for model in (plain, exact)))
    assert lm.tokenizer.decode(cached[-1].ids).startswith("Once upon a time, there was a")


def test_what_looks_at_the_weights_sees_the_integers(formats):
    lm = formats["int8"]
    run = lm.trace("The little cat sat")
    exact = written_out(lm.transformer)
    close(run.logits, exact(torch.tensor([run.tokens]))[0])
    out = run["blocks.1.attn.hook_result"].sum(1)
    close(out, run["blocks.1.hook_attn_out"])
    close(feed_forward_run(run, 2).summed().float(), run["blocks.2.hook_mlp_out"])
    assert readout(run, lm.transformer, 2, 7).difference < 1e-4
    assert difference_from_run(run, 1) == 0
    assert look_up(lm.transformer, 7).number_bytes == 1
    assert parameters_by_part(lm.transformer) == parameters_by_part(formats["float32"].transformer)
    table = EmbeddingTable(lm.transformer, lm.tokenizer)
    assert torch.equal(table.rows((3, 9)), lm.transformer.embed.weight[[3, 9]])
    direct = direct_effects(run, lm, 3, 2)
    torch.testing.assert_close(direct.unembedding, lm.transformer.embed.weight)


def test_fewer_heads_of_integers(formats):
    """The merged matrices stay as they come out, and are not rounded a second time."""
    transformer = formats["int8"].transformer
    codes = transformer.blocks[0].mlp.W_in.codes
    smaller = with_merged_heads(transformer, 2)
    assert smaller.blocks[0].mlp.W_in.codes is codes
    expected = transformer.blocks[0].attn.W_K.weight.view(2, 2, 32, 256).mean(1).flatten(0, 1)
    torch.testing.assert_close(smaller.blocks[0].attn.W_K.weight, expected)
    run = formats["int8"].trace("The little cat sat on the mat")
    whole, half = (cache_cost(run, transformer, CacheChoice(heads)) for heads in (4, 2))
    assert whole.loss == pytest.approx(float(token_losses(run.logits, run.tokens).mean()) / math.log(2), abs=1e-5)
    assert half.loss is not None
    assert half.loss != whole.loss


def test_translating_with_integers():
    lm = load("translator", "cpu", "int8")
    assert lm.translate("Where is the station?") == load("translator", "cpu").translate("Where is the station?")


def test_reckoning_with_a_plan_does_not_load_the_compiler() -> None:
    """torch loads it, 200 MB of it, to work out the shape of almost any operation on the meta device."""
    source = (
        "import sys; from model.analysis.formats import FORMATS, format_nbytes\n"
        "from tests.model.tiny import tiny_config\n"
        "for name in FORMATS: format_nbytes(tiny_config(), name)\n"
        "print([name for name in ('torch._dynamo', 'sympy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.stdout.strip() == "[]", done.stderr
