"""Every family that we read: a tiny random model, saved by Transformers and read by us, gives the same numbers."""

import pytest
import torch
import transformers as hf

from model.hooks import observe
from model.zoo.readers import load_checkpoint, read_config
from tests.model.tiny import close, randomise, some_ids

SIZES = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3}
SIZES |= {"num_attention_heads": 4, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = SIZES | {"num_key_value_heads": 2, "pad_token_id": 0}
GPT2 = {"vocab_size": 50, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}
GPT2 |= {"bos_token_id": 1, "eos_token_id": 1}
DISTIL = {"vocab_size": 50, "dim": 32, "hidden_dim": 40, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 16}
LINEAR = {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}
NEOX = {"rope_type": "default", "rope_theta": 500.0}
BERT = SIZES | {"pad_token_id": 0}

DECODERS = {
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config, GPT2),
    "gpt2, exact GELU": (hf.GPT2LMHeadModel, hf.GPT2Config, GPT2 | {"activation_function": "gelu", "n_inner": 40}),
    "gpt2, untied": (hf.GPT2LMHeadModel, hf.GPT2Config, GPT2 | {"tie_word_embeddings": False}),
    "llama 3": (hf.LlamaForCausalLM, hf.LlamaConfig, GROUPED | {"rope_parameters": LLAMA3}),
    "llama, linear scaling": (hf.LlamaForCausalLM, hf.LlamaConfig, GROUPED | {"rope_parameters": LINEAR}),
    "qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config, GROUPED | {"tie_word_embeddings": True}),
    "qwen2, untied": (hf.Qwen2ForCausalLM, hf.Qwen2Config, GROUPED | {"tie_word_embeddings": False}),
    "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config, GROUPED | {"head_dim": 12}),
    "qwen3, biases": (hf.Qwen3ForCausalLM, hf.Qwen3Config, GROUPED | {"attention_bias": True}),
    "gpt_neox": (hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig, SIZES),
    "gpt_neox, half rotated": (
        hf.GPTNeoXForCausalLM,
        hf.GPTNeoXConfig,
        SIZES | {"rope_parameters": NEOX | {"partial_rotary_factor": 0.5}},
    ),
    "gpt_neox, one after the other": (
        hf.GPTNeoXForCausalLM,
        hf.GPTNeoXConfig,
        SIZES | {"use_parallel_residual": False, "attention_bias": False},
    ),
}
ENCODERS = {
    "bert": (hf.BertModel, hf.BertConfig, BERT),
    "bert, masked": (hf.BertForMaskedLM, hf.BertConfig, BERT),
    "bert, pretraining": (hf.BertForPreTraining, hf.BertConfig, BERT | {"layer_norm_eps": 1e-5}),
    "bert, classifier": (hf.BertForSequenceClassification, hf.BertConfig, BERT),
    "roberta": (hf.RobertaModel, hf.RobertaConfig, SIZES | {"pad_token_id": 1, "type_vocab_size": 1}),
    "roberta, masked": (hf.RobertaForMaskedLM, hf.RobertaConfig, SIZES | {"pad_token_id": 3}),
    "xlm-roberta, masked": (hf.XLMRobertaForMaskedLM, hf.XLMRobertaConfig, SIZES | {"pad_token_id": 1}),
    "distilbert": (hf.DistilBertModel, hf.DistilBertConfig, DISTIL),
    "distilbert, masked": (hf.DistilBertForMaskedLM, hf.DistilBertConfig, DISTIL | {"activation": "relu"}),
}


def saved(folder, model, config, options):
    """A random model of that class, which Transformers has written into `folder`."""
    theirs = randomise(model(config(**options))).eval()
    theirs.save_pretrained(folder)
    return theirs


@pytest.mark.parametrize("family", DECODERS)
@torch.no_grad()
def test_decoder_equals_transformers(tmp_path, family):
    theirs = saved(tmp_path, *DECODERS[family])
    ours, ids = load_checkpoint(tmp_path), some_ids(2, 33)
    mask = torch.ones_like(ids)
    mask[0, :5] = 0
    close(ours(ids), theirs(ids).logits)
    real = mask.bool()
    close(ours(ids, mask)[real], theirs(ids, attention_mask=mask, position_ids=positions(mask)).logits[real])


def positions(mask):
    return (mask.cumsum(-1) - 1).clamp_min(0)


@pytest.mark.parametrize("family", DECODERS)
@torch.no_grad()
def test_decoder_streams_are_those_of_transformers(tmp_path, family):
    """Not only the logits: what enters each block is the same."""
    theirs = saved(tmp_path, *DECODERS[family])
    ours, ids, seen = load_checkpoint(tmp_path), some_ids(1, 12), {}
    with observe(seen.__setitem__):
        ours(ids)
    hidden = theirs(ids, output_hidden_states=True).hidden_states
    for i in range(3):
        close(seen[f"blocks.{i}.hook_resid_pre"], hidden[i])


@pytest.mark.parametrize("family", ENCODERS)
@torch.no_grad()
def test_encoder_equals_transformers(tmp_path, family):
    theirs = saved(tmp_path, *ENCODERS[family])
    ours, ids, seen = load_checkpoint(tmp_path), some_ids(3, 14).clamp_min(4), {}
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    with observe(seen.__setitem__):
        out = ours(ids, mask)
    padded = ids.masked_fill(mask == 0, theirs.config.pad_token_id)  # RoBERTa counts positions by the padding id
    expected = theirs(padded, attention_mask=mask, output_hidden_states=True)
    real = mask.bool()
    for i in range(3):
        close(seen[f"blocks.{i}.hook_resid_pre"][real], expected.hidden_states[i][real])
    if ours.config.head == "none":
        close(out[real], expected.hidden_states[-1][real])
        assert "hook_logits" not in seen
    else:
        close(out[real], getattr(expected, "prediction_logits", getattr(expected, "logits", None))[real])


def test_heads_are_told_by_the_class(tmp_path):
    for name, (model, config, options) in ENCODERS.items():
        saved(tmp_path / name, model, config, options)
        head = "mlm" if model.__name__.endswith(("MaskedLM", "PreTraining")) else "none"
        assert read_config(tmp_path / name)[0].head == head


def test_names_of_old_files(tmp_path):
    """BERT's first files say gamma and beta; a bare GPT-2 has no "transformer." in front, and holds masks."""
    from safetensors.torch import load_file, save_file

    ids = some_ids(1, 9).clamp_min(4)
    for family, old in (
        ("bert, masked", lambda n: n.replace("LayerNorm.weight", "LayerNorm.gamma")),
        ("gpt2", lambda n: n.removeprefix("transformer.")),
    ):
        folder = tmp_path / family
        saved(folder, *(DECODERS | ENCODERS)[family])
        with torch.no_grad():
            before = load_checkpoint(folder)(ids)
        tensors = {old(name): x for name, x in load_file(folder / "model.safetensors").items()}
        tensors |= {"h.0.attn.bias": torch.ones(1, 1, 64, 64)} if family == "gpt2" else {}
        save_file(tensors, folder / "model.safetensors")
        with torch.no_grad():
            assert torch.equal(load_checkpoint(folder)(ids), before)
