"""Llama checkpoints: the same numbers as Transformers' LlamaForCausalLM, read and written."""

import json

import pytest
import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from model.config import TransformerConfig
from model.zoo.catalog import CATALOG
from model.zoo.readers import load_checkpoint, read_config, save_checkpoint
from tests.cases import TEXTS
from tests.model.tiny import close, randomise, some_ids, tiny, within_budget

FOLDER = CATALOG["storyteller"].folder
NAMES = [name for name, _ in TEXTS if name not in ("empty", "long_text")]
VARIANTS = {
    "multi-head": {"num_key_value_heads": 4},
    "grouped-query": {},
    "multi-query": {"num_key_value_heads": 1},
    "untied": {"tie_word_embeddings": False},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "own head size": {"head_dim": 10},
    "other theta and eps": {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "rms_norm_eps": 1e-2},
}


def reference(**changes):
    options = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2}
    options |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    options |= {"tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    return randomise(LlamaForCausalLM(LlamaConfig(**options | changes))).eval()


@pytest.fixture(scope="module")
def bundled():
    theirs = LlamaForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()
    return load_checkpoint(FOLDER), theirs, Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


def test_there_are_at_least_twenty_texts():
    assert len(NAMES) >= 20


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_bundled_model_equals_transformers(bundled, name):
    ours, theirs, tokenizer = bundled
    ids = torch.tensor([tokenizer.encode(dict(TEXTS)[name]).ids])
    torch.testing.assert_close(ours(ids), theirs(ids).logits, rtol=0, atol=1e-4)


@torch.no_grad()
def test_bundled_model_at_its_longest_text(bundled):
    ours, theirs, tokenizer = bundled
    ids = torch.tensor([tokenizer.encode(dict(TEXTS)["long_text"]).ids[:512]])
    assert ids.shape == (1, 512)
    torch.testing.assert_close(ours(ids), theirs(ids).logits, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_bundled_model_in_low_precision(bundled, dtype):
    _, theirs, tokenizer = bundled
    ids = torch.tensor([tokenizer.encode(dict(TEXTS)["zh_mixed"] + dict(TEXTS)["induction"]).ids])
    plain = LlamaForCausalLM.from_pretrained(FOLDER, dtype=dtype).eval()(ids).logits
    ours = load_checkpoint(FOLDER, dtype=dtype)(ids)
    assert ours.dtype == dtype
    within_budget(ours, plain, theirs(ids).logits)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
@torch.no_grad()
def test_reads_what_transformers_wrote(tmp_path, changes):
    theirs = reference(**changes)
    theirs.save_pretrained(tmp_path)
    ids = some_ids(3, 11)
    close(load_checkpoint(tmp_path)(ids), theirs(ids).logits)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
@torch.no_grad()
def test_transformers_reads_what_we_wrote(tmp_path, changes):
    theirs = reference(**changes)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_checkpoint(tmp_path / "theirs")
    save_checkpoint(tmp_path / "ours", ours, dtype=torch.float32)
    again = LlamaForCausalLM.from_pretrained(tmp_path / "ours", dtype=torch.float32).eval()
    ids = some_ids(2, 9)
    assert torch.equal(again(ids).logits, theirs(ids).logits)
    assert torch.equal(load_checkpoint(tmp_path / "ours")(ids), ours(ids))
    assert read_config(tmp_path / "ours")[0] == ours.config
    assert again.config.eos_token_id == 2


def test_config_from_hf(tmp_path):
    data = json.loads((FOLDER / "config.json").read_text())
    config = TransformerConfig.from_hf(data)
    assert (config.d_model, config.n_heads, config.n_kv_heads, config.d_head) == (256, 8, 4, 32)
    assert (config.positions, config.norm, config.activation, config.tied_embeddings) == (
        "rope",
        "rmsnorm",
        "swiglu",
        True,
    )
    assert config.eos_id == 0


def test_saved_in_bfloat16_by_default(tmp_path):
    ours = tiny(tied_embeddings=True)
    save_checkpoint(tmp_path, ours)
    again = load_checkpoint(tmp_path)
    for name, parameter in ours.named_parameters():
        assert torch.equal(again.get_parameter(name), parameter.bfloat16().float()), name


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "learned"},
        {"norm": "layernorm", "norm_place": "post", "activation": "relu", "mlp_bias": True},
        {"activation": "geglu", "positions": "none", "tied_embeddings": False},
        {"kind": "encoder", "embedding_norm": True, "positions": "sinusoidal"},
        {"kind": "encoder_decoder", "n_encoder_layers": 3, "qkv_bias": True, "scale_embeddings": True},
    ],
    ids=str,
)
def test_what_llama_cannot_express_is_saved_in_our_own_dialect(tmp_path, changes):
    ours = tiny(**changes)
    save_checkpoint(tmp_path, ours, torch.float32)
    again = load_checkpoint(tmp_path)
    assert again.config == ours.config
    before, after = dict(ours.named_parameters()), dict(again.named_parameters())
    assert before.keys() == after.keys()
    for name, parameter in before.items():
        assert torch.equal(after[name], parameter), name


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4}}, "yarn"),
        ({"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4}}, "lacks 'factor'"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}, "rope_parameters": None}, "dynamic"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"model_type": "mamba"}, "mamba"),
    ],
    ids=str,
)
def test_what_we_do_not_compute_is_refused(changes, word):
    data = json.loads((FOLDER / "config.json").read_text())
    with pytest.raises(ValueError, match=word):
        TransformerConfig.from_hf(data | changes)
