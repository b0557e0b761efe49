"""The published configs of real checkpoints, written down by hand: each is read as the model that it is."""

import json

import pytest
import torch

from model.config import TransformerConfig
from model.positions import llama3_divisors
from model.transformer import Transformer
from model.zoo.catalog import CATALOG
from model.zoo.readers import read_config

LLAMA3 = {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192}

# config.json as published (what changes nothing of the computation is left out), and parameters in millions
CONFIGS = {
    "gpt2": (
        {
            "activation_function": "gelu_new",
            "architectures": ["GPT2LMHeadModel"],
            "bos_token_id": 50256,
            "eos_token_id": 50256,
            "layer_norm_epsilon": 1e-05,
            "model_type": "gpt2",
            "n_ctx": 1024,
            "n_embd": 768,
            "n_head": 12,
            "n_layer": 12,
            "n_positions": 1024,
            "summary_type": "cls_index",
            "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
            "vocab_size": 50257,
        },
        124.44,
    ),
    "SmolLM2-135M-Instruct": (
        {
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": False,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "hidden_act": "silu",
            "hidden_size": 576,
            "intermediate_size": 1536,
            "is_llama_config": True,
            "max_position_embeddings": 8192,
            "model_type": "llama",
            "num_attention_heads": 9,
            "num_hidden_layers": 30,
            "num_key_value_heads": 3,
            "pad_token_id": 2,
            "pretraining_tp": 1,
            "rms_norm_eps": 1e-05,
            "rope_interleaved": False,
            "rope_scaling": None,
            "rope_theta": 100000,
            "tie_word_embeddings": True,
            "vocab_size": 49152,
        },
        134.52,
    ),
    "Llama-3.2-1B-Instruct": (
        {
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": False,
            "bos_token_id": 128000,
            "eos_token_id": [128001, 128008, 128009],
            "head_dim": 64,
            "hidden_act": "silu",
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "max_position_embeddings": 131072,
            "mlp_bias": False,
            "model_type": "llama",
            "num_attention_heads": 32,
            "num_hidden_layers": 16,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-05,
            "rope_scaling": LLAMA3 | {"rope_type": "llama3"},
            "rope_theta": 500000.0,
            "tie_word_embeddings": True,
            "vocab_size": 128256,
        },
        1235.81,
    ),
    "TinyLlama-1.1B": (
        {
            "architectures": ["LlamaForCausalLM"],
            "bos_token_id": 1,
            "eos_token_id": 2,
            "hidden_act": "silu",
            "hidden_size": 2048,
            "intermediate_size": 5632,
            "max_position_embeddings": 2048,
            "model_type": "llama",
            "num_attention_heads": 32,
            "num_hidden_layers": 22,
            "num_key_value_heads": 4,
            "rms_norm_eps": 1e-05,
            "rope_scaling": None,
            "tie_word_embeddings": False,
            "vocab_size": 32000,
        },
        1100.05,
    ),
    "Qwen2.5-0.5B": (
        {
            "architectures": ["Qwen2ForCausalLM"],
            "bos_token_id": 151643,
            "eos_token_id": 151643,
            "hidden_act": "silu",
            "hidden_size": 896,
            "intermediate_size": 4864,
            "max_position_embeddings": 32768,
            "max_window_layers": 24,
            "model_type": "qwen2",
            "num_attention_heads": 14,
            "num_hidden_layers": 24,
            "num_key_value_heads": 2,
            "rms_norm_eps": 1e-06,
            "rope_theta": 1000000.0,
            "sliding_window": 32768,
            "tie_word_embeddings": True,
            "use_sliding_window": False,
            "vocab_size": 151936,
        },
        494.03,
    ),
    "Qwen3-0.6B": (
        {
            "architectures": ["Qwen3ForCausalLM"],
            "attention_bias": False,
            "bos_token_id": 151643,
            "eos_token_id": 151645,
            "head_dim": 128,
            "hidden_act": "silu",
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "max_position_embeddings": 40960,
            "max_window_layers": 28,
            "model_type": "qwen3",
            "num_attention_heads": 16,
            "num_hidden_layers": 28,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-06,
            "rope_scaling": None,
            "rope_theta": 1000000,
            "sliding_window": None,
            "tie_word_embeddings": True,
            "use_sliding_window": False,
            "vocab_size": 151936,
        },
        596.05,
    ),
    "pythia-70m": (
        {
            "architectures": ["GPTNeoXForCausalLM"],
            "bos_token_id": 0,
            "eos_token_id": 0,
            "hidden_act": "gelu",
            "hidden_size": 512,
            "intermediate_size": 2048,
            "layer_norm_eps": 1e-05,
            "max_position_embeddings": 2048,
            "model_type": "gpt_neox",
            "num_attention_heads": 8,
            "num_hidden_layers": 6,
            "rotary_emb_base": 10000,
            "rotary_pct": 0.25,
            "tie_word_embeddings": False,
            "use_parallel_residual": True,
            "vocab_size": 50304,
        },
        70.43,
    ),
    "bert-base-uncased": (
        {
            "architectures": ["BertForMaskedLM"],
            "gradient_checkpointing": False,
            "hidden_act": "gelu",
            "hidden_size": 768,
            "intermediate_size": 3072,
            "layer_norm_eps": 1e-12,
            "max_position_embeddings": 512,
            "model_type": "bert",
            "num_attention_heads": 12,
            "num_hidden_layers": 12,
            "pad_token_id": 0,
            "position_embedding_type": "absolute",
            "type_vocab_size": 2,
            "vocab_size": 30522,
        },
        109.51,
    ),
    "roberta-base": (
        {
            "architectures": ["RobertaForMaskedLM"],
            "bos_token_id": 0,
            "eos_token_id": 2,
            "hidden_act": "gelu",
            "hidden_size": 768,
            "intermediate_size": 3072,
            "layer_norm_eps": 1e-05,
            "max_position_embeddings": 514,
            "model_type": "roberta",
            "num_attention_heads": 12,
            "num_hidden_layers": 12,
            "pad_token_id": 1,
            "type_vocab_size": 1,
            "vocab_size": 50265,
        },
        124.70,
    ),
    "distilbert-base-uncased": (
        {
            "activation": "gelu",
            "architectures": ["DistilBertForMaskedLM"],
            "dim": 768,
            "hidden_dim": 3072,
            "max_position_embeddings": 512,
            "model_type": "distilbert",
            "n_heads": 12,
            "n_layers": 6,
            "pad_token_id": 0,
            "sinusoidal_pos_embds": False,
            "tie_weights_": True,
            "vocab_size": 30522,
        },
        66.99,
    ),
    "all-MiniLM-L6-v2": (
        {
            "architectures": ["BertModel"],
            "hidden_act": "gelu",
            "hidden_size": 384,
            "intermediate_size": 1536,
            "layer_norm_eps": 1e-12,
            "max_position_embeddings": 512,
            "model_type": "bert",
            "num_attention_heads": 12,
            "num_hidden_layers": 6,
            "pad_token_id": 0,
            "position_embedding_type": "absolute",
            "type_vocab_size": 2,
            "vocab_size": 30522,
        },
        22.57,
    ),
}
CONFIGS["distilgpt2"] = CONFIGS["gpt2"][0] | {"n_layer": 6}, 81.91
CONFIGS["pythia-160m"] = (
    CONFIGS["pythia-70m"][0]
    | {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12},
    162.32,
)


def read(name):
    return TransformerConfig.from_hf(CONFIGS[name][0])


@pytest.mark.parametrize("name", CONFIGS)
def test_the_model_has_the_published_number_of_parameters(name):
    with torch.device("meta"):
        count = sum(p.numel() for p in Transformer(read(name)).parameters())
    assert count / 1e6 == pytest.approx(CONFIGS[name][1], abs=0.005)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name.lower() in CATALOG])
def test_the_catalogue_states_it_too(name):
    with torch.device("meta"):
        count = sum(p.numel() for p in Transformer(read(name)).parameters())
    assert CATALOG[name.lower()].parameters == count


def test_most_of_the_catalogue_is_checked():
    assert len([name for name in CONFIGS if name.lower() in CATALOG]) >= 9


def test_options_of_each_family():
    gpt2, llama, pythia = read("gpt2"), read("Llama-3.2-1B-Instruct"), read("pythia-70m")
    assert (gpt2.positions, gpt2.activation, gpt2.tied_embeddings) == ("learned", "gelu_tanh", True)
    assert llama.eos_ids == (128001, 128008, 128009)
    assert (pythia.parallel, pythia.d_rotary, pythia.d_head, pythia.activation) == (True, 16, 64, "gelu_erf")
    assert read("Qwen2.5-0.5B").qkv_bias
    assert not read("Qwen2.5-0.5B").out_bias
    assert read("Qwen3-0.6B").qk_norm
    assert (read("Qwen3-0.6B").d_head, read("Qwen3-0.6B").n_heads) == (128, 16)
    assert read("roberta-base").max_positions == 512
    assert (read("bert-base-uncased").head, read("all-MiniLM-L6-v2").head) == ("mlm", "none")


def test_divisors_of_llama_3():
    """Pairs that turn often are left alone, slow ones get the whole factor, none is outside these two."""
    divisors = read("Llama-3.2-1B-Instruct").rope_divisors
    assert len(divisors) == 32
    assert divisors[:15] == (1.0,) * 15
    assert divisors[-13:] == pytest.approx((32.0,) * 13)
    assert list(divisors) == sorted(divisors)
    # By hand: pair 16 turns 8192 / (2 pi) * 500000 ** -0.5 = 1.8438 times; (1.8438 - 1) / 3 = 0.28127.
    assert llama3_divisors(64, 500_000.0, 32.0, 1.0, 4.0, 8192)[16] == pytest.approx(
        1 / (0.28127 + (1 - 0.28127) / 32), rel=1e-4
    )


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ("gpt2", {"activation_function": "mish"}, "mish"),
        ("gpt2", {"n_embd": None}, "cannot|unsupported|n_embd|d_model"),
        ("Qwen2.5-0.5B", {"use_sliding_window": True}, "use_sliding_window"),
        ("Qwen2.5-0.5B", {"rope_scaling": {"type": "yarn", "factor": 4.0}}, "yarn"),
        ("pythia-70m", {"rotary_pct": 0.0}, "d_rotary"),
        ("pythia-70m", {"rotary_pct": 1.5}, "d_rotary"),
        ("bert-base-uncased", {"position_embedding_type": "relative_key"}, "relative_key"),
        ("bert-base-uncased", {"is_decoder": True}, "is_decoder"),
        ("bert-base-uncased", {"type_vocab_size": -1}, "n_token_types"),
        ("roberta-base", {"pad_token_id": 600}, "max_positions"),
        ("distilbert-base-uncased", {"activation": "silu"}, "silu"),
        ("Llama-3.2-1B-Instruct", {"rope_scaling": LLAMA3 | {"rope_type": "llama3", "factor": 0.0}}, "."),
        ("Llama-3.2-1B-Instruct", {"rope_scaling": LLAMA3 | {"rope_type": "llama3", "factor": -1.0}}, "rope_divisors"),
        ("Llama-3.2-1B-Instruct", {"rope_scaling": LLAMA3 | {"rope_type": "llama3", "factor": "8"}}, "."),
        ("Llama-3.2-1B-Instruct", {"eos_token_id": [1, "</s>"]}, "more_eos_ids"),
    ],
    ids=str,
)
def test_what_we_do_not_compute_is_refused(tmp_path, name, changes, says):
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[name][0] | changes))
    with pytest.raises(ValueError, match=says) as error:
        read_config(tmp_path)
    assert "cannot be used" in str(error.value)


def test_generation_config_may_name_more_ends(tmp_path):
    """Qwen 2.5's config names the end of a document, its generation config also the end of a turn."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["Qwen2.5-0.5B"][0]))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [151645, 151643]}))
    assert read_config(tmp_path)[0].eos_ids == (151643, 151645)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": 151643}))
    assert read_config(tmp_path)[0].eos_ids == (151643,)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": ["x"]}))
    with pytest.raises(ValueError, match="it must be whole numbers"):
        read_config(tmp_path)
