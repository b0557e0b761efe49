"""Each config option against Transformers, on tiny random models of the family that has it.

The name tables are spelled out here: they are the test's own knowledge of the other side.
"""

import torch
from transformers import (
    BertConfig,
    BertModel,
    BloomConfig,
    BloomForCausalLM,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MarianConfig,
    MarianMTModel,
    OPTConfig,
    OPTForCausalLM,
)

from model.analysis.sight import last_vectors
from model.cache import KVCache
from model.hooks import observe
from model.trace import Trace
from model.transformer import Transformer
from tests.model.tiny import close, fill, randomise, some_ids, tiny_config

LAYERS = 2
CLASSIC = {"n_kv_heads": 4, "norm": "layernorm", "qkv_bias": True, "out_bias": True, "mlp_bias": True}


def affine(theirs, names):
    """Weight and bias of each pair (ours, theirs), from their state dict."""
    return {f"{ours}.{part}": theirs[f"{name}.{part}"] for ours, name in names.items() for part in ("weight", "bias")}


@torch.no_grad()
def test_gpt2_learned_positions_layernorm_gelu_tanh():
    options = {"vocab_size": 50, "n_embd": 32, "n_inner": 40, "n_layer": LAYERS, "n_head": 4, "n_positions": 64}
    theirs = randomise(GPT2LMHeadModel(GPT2Config(**options, bos_token_id=1, eos_token_id=1))).eval()
    w = theirs.transformer.state_dict()
    weights = {"embed.weight": w["wte.weight"], "pos_embed.weight": w["wpe.weight"]}
    weights |= affine(w, {"ln_final": "ln_f"})
    for i in range(LAYERS):
        weights |= affine(w, {f"blocks.{i}.ln1": f"h.{i}.ln_1", f"blocks.{i}.ln2": f"h.{i}.ln_2"})
        # GPT-2 stores its matrices as (in, out), queries, keys and values side by side.
        for part in ("weight", "bias"):
            q, k, v = w[f"h.{i}.attn.c_attn.{part}"].chunk(3, -1)
            for name, x in zip("QKV", (q, k, v), strict=True):
                weights[f"blocks.{i}.attn.W_{name}.{part}"] = x.T if x.dim() == 2 else x
            for ours, name in (("attn.W_O", "attn.c_proj"), ("mlp.W_in", "mlp.c_fc"), ("mlp.W_out", "mlp.c_proj")):
                x = w[f"h.{i}.{name}.{part}"]
                weights[f"blocks.{i}.{ours}.{part}"] = x.T if x.dim() == 2 else x
    config = tiny_config(positions="learned", activation="gelu_tanh", **CLASSIC)
    ours, ids = fill(Transformer(config), weights), some_ids(2, 13)
    close(ours(ids), theirs(ids).logits)

    # The exact GELU gives visibly other numbers.
    exact = fill(Transformer(config.replace(activation="gelu_erf")), weights)
    assert (exact(ids) - theirs(ids).logits).abs().max() > 1e-4


@torch.no_grad()
def test_bert_encoder_post_norm_gelu_erf():
    options = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": LAYERS}
    options |= {"num_attention_heads": 4, "max_position_embeddings": 64, "layer_norm_eps": 1e-12}
    theirs = randomise(BertModel(BertConfig(**options), add_pooling_layer=False)).eval()
    w = theirs.state_dict()
    # We have no token types: type 0 is part of every position.
    weights = {
        "embed.weight": w["embeddings.word_embeddings.weight"],
        "pos_embed.weight": w["embeddings.position_embeddings.weight"]
        + w["embeddings.token_type_embeddings.weight"][0],
    }
    weights |= affine(w, {"embed_norm": "embeddings.LayerNorm"})
    for i in range(LAYERS):
        ours, name = f"blocks.{i}", f"encoder.layer.{i}"
        names = {
            f"{ours}.attn.W_{n}": f"{name}.attention.self.{m}"
            for n, m in zip("QKV", ("query", "key", "value"), strict=True)
        }
        names |= {
            f"{ours}.attn.W_O": f"{name}.attention.output.dense",
            f"{ours}.ln1": f"{name}.attention.output.LayerNorm",
        }
        names |= {f"{ours}.mlp.W_in": f"{name}.intermediate.dense", f"{ours}.mlp.W_out": f"{name}.output.dense"}
        weights |= affine(w, names | {f"{ours}.ln2": f"{name}.output.LayerNorm"})
    config = tiny_config(
        kind="encoder",
        positions="learned",
        norm_place="post",
        norm_eps=1e-12,
        activation="gelu_erf",
        embedding_norm=True,
        **CLASSIC,
    )
    ours, ids = fill(Transformer(config), weights), some_ids(3, 12)
    mask = torch.ones(3, 12, dtype=torch.long)
    mask[1, 8:] = 0
    hidden = theirs(ids, attention_mask=mask, output_hidden_states=True).hidden_states
    seen = {}
    with observe(seen.__setitem__):
        logits = ours(ids, mask)
    real = mask.bool()
    for i in range(LAYERS):
        close(seen[f"blocks.{i}.hook_resid_pre"][real], hidden[i][real])
    close(logits[real], (hidden[-1] @ ours.embed.weight.T)[real])


@torch.no_grad()
def test_bloom_alibi_and_embedding_norm():
    for heads in (4, 6):  # a power of two and one that is none
        options = {"vocab_size": 50, "hidden_size": 8 * heads, "n_layer": LAYERS, "n_head": heads}
        theirs = randomise(BloomForCausalLM(BloomConfig(**options))).eval()
        w = theirs.transformer.state_dict()
        weights = {"embed.weight": w["word_embeddings.weight"]}
        weights |= affine(w, {"embed_norm": "word_embeddings_layernorm", "ln_final": "ln_f"})
        for i in range(LAYERS):
            ours, name = f"blocks.{i}", f"h.{i}"
            names = {f"{ours}.ln1": f"{name}.input_layernorm", f"{ours}.ln2": f"{name}.post_attention_layernorm"}
            names |= {
                f"{ours}.attn.W_O": f"{name}.self_attention.dense",
                f"{ours}.mlp.W_in": f"{name}.mlp.dense_h_to_4h",
            }
            weights |= affine(w, names | {f"{ours}.mlp.W_out": f"{name}.mlp.dense_4h_to_h"})
            for part in ("weight", "bias"):  # query, key and value of each head in turn
                fused = w[f"{name}.self_attention.query_key_value.{part}"].unflatten(0, (heads, 3, 8))
                weights |= {f"{ours}.attn.W_{n}.{part}": fused[:, j].flatten(0, 1) for j, n in enumerate("QKV")}
        sizes = {"d_model": 8 * heads, "d_ff": 32 * heads, "n_heads": heads, "n_kv_heads": heads}
        config = tiny_config(positions="alibi", activation="gelu_tanh", embedding_norm=True, **CLASSIC | sizes)
        ours, ids = fill(Transformer(config), weights), some_ids(2, 14)
        close(ours(ids), theirs(ids).logits)


@torch.no_grad()
def test_gemma_geglu_and_scaled_embeddings():
    options = {
        "vocab_size": 50,
        "hidden_size": 32,
        "intermediate_size": 40,
        "num_hidden_layers": LAYERS,
        "head_dim": 12,
    }
    options |= {"num_attention_heads": 4, "num_key_value_heads": 1, "hidden_activation": "gelu_pytorch_tanh"}
    theirs = randomise(GemmaForCausalLM(GemmaConfig(**options))).eval()
    w = theirs.model.state_dict()
    # Gemma stores its gains minus 1.
    weights = {"embed.weight": w["embed_tokens.weight"], "ln_final.weight": 1 + w["norm.weight"]}
    for i in range(LAYERS):
        ours, name = f"blocks.{i}", f"layers.{i}"
        weights |= {f"{ours}.attn.W_{n}.weight": w[f"{name}.self_attn.{n.lower()}_proj.weight"] for n in "QKVO"}
        weights |= {
            f"{ours}.mlp.W_{n}.weight": w[f"{name}.mlp.{m}_proj.weight"]
            for n, m in (("gate", "gate"), ("in", "up"), ("out", "down"))
        }
        weights[f"{ours}.ln1.weight"] = 1 + w[f"{name}.input_layernorm.weight"]
        weights[f"{ours}.ln2.weight"] = 1 + w[f"{name}.post_attention_layernorm.weight"]
    config = tiny_config(n_kv_heads=1, d_head=12, activation="geglu", scale_embeddings=True, norm_eps=1e-6)
    ours, ids = fill(Transformer(config), weights), some_ids(2, 13)
    close(ours(ids), theirs(ids).logits)


@torch.no_grad()
def test_opt_relu_learned_positions_pre_norm():
    options = {
        "vocab_size": 50,
        "hidden_size": 32,
        "ffn_dim": 40,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
    }
    theirs = randomise(OPTForCausalLM(OPTConfig(**options, max_position_embeddings=64, word_embed_proj_dim=32))).eval()
    w = theirs.model.decoder.state_dict()
    # OPT's table has two unused rows in front.
    weights = {"embed.weight": w["embed_tokens.weight"], "pos_embed.weight": w["embed_positions.weight"][2:]}
    weights |= affine(w, {"ln_final": "final_layer_norm"})
    for i in range(LAYERS):
        weights |= affine(w, marian_block(f"blocks.{i}", f"layers.{i}"))
    config = tiny_config(positions="learned", activation="relu", **CLASSIC)
    ours, ids = fill(Transformer(config), weights), some_ids(2, 13)
    close(ours(ids), theirs(ids).logits)


def marian_block(ours, name, cross=False):
    """The names that OPT, BART and Marian share."""
    attn = {f"attn.W_{n}": f"self_attn.{m}_proj" for n, m in zip("QKVO", ("q", "k", "v", "out"), strict=True)}
    names = attn | {"ln1": "self_attn_layer_norm", "mlp.W_in": "fc1", "mlp.W_out": "fc2", "ln2": "final_layer_norm"}
    if cross:
        names |= {f"cross_{o}": t.replace("self_attn", "encoder_attn") for o, t in attn.items()}
        names |= {"ln_cross": "encoder_attn_layer_norm"}
    return {f"{ours}.{o}": f"{name}.{t}" for o, t in names.items()}


def marian():
    """A tiny Marian and ours with the same weights: post-norm, ReLU, sinusoidal, encoder-decoder."""
    options = {"vocab_size": 50, "d_model": 32, "encoder_layers": 3, "decoder_layers": LAYERS, "encoder_ffn_dim": 40}
    options |= {
        "decoder_ffn_dim": 40,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "scale_embedding": True,
    }
    options |= {
        "activation_function": "relu",
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
    }
    theirs = randomise(MarianMTModel(MarianConfig(**options))).eval()
    w = theirs.model.state_dict()
    weights = {"embed.weight": w["shared.weight"]}
    for i in range(3):
        weights |= affine(w, marian_block(f"encoder_blocks.{i}", f"encoder.layers.{i}"))
    for i in range(LAYERS):
        weights |= affine(w, marian_block(f"blocks.{i}", f"decoder.layers.{i}", cross=True))
    # Marian puts all sines before all cosines, the paper takes turns: the same features in another order.
    order = torch.arange(32).view(2, 16).T.flatten()
    for name, x in weights.items():
        reads = name == "embed.weight" or (
            "W_" in name and x.dim() == 2 and not name.endswith(("W_O.weight", "W_out.weight"))
        )
        writes = name.endswith(("W_O.weight", "W_O.bias", "W_out.weight", "W_out.bias")) or ".ln" in name
        weights[name] = x[:, order] if reads else x[order] if writes else x
    options = {"kind": "encoder_decoder", "n_encoder_layers": 3, "positions": "sinusoidal", "norm_place": "post"}
    config = tiny_config(activation="relu", scale_embeddings=True, **options, **CLASSIC)
    return theirs, fill(Transformer(config), weights)


@torch.no_grad()
def test_marian_encoder_decoder():
    theirs, ours = marian()
    source, target = some_ids(2, 12), some_ids(2, 9, seed=2)
    mask = torch.ones_like(source)
    mask[0, 7:] = 0
    expected = theirs(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
    close(ours(target, encoder_ids=source, encoder_mask=mask), expected)


@torch.no_grad()
def test_marian_patterns_of_all_three_kinds():
    theirs, ours = marian()
    theirs.set_attn_implementation("eager")
    source, target = some_ids(1, 12), some_ids(1, 9, seed=2)
    expected = theirs(input_ids=source, decoder_input_ids=target, output_attentions=True)
    run = Trace(ours, None, target[0].tolist(), source=source[0].tolist())
    for i, pattern in enumerate(expected.cross_attentions):
        close(run[f"blocks.{i}.cross_attn.hook_pattern"], pattern[0])
        close(run[f"blocks.{i}.attn.hook_pattern"], expected.decoder_attentions[i][0])
    for i, pattern in enumerate(expected.encoder_attentions):
        close(run[f"encoder.blocks.{i}.attn.hook_pattern"], pattern[0])
    # The features of ours come in another order (see `marian`), which changes no largest difference.
    order = torch.arange(32).view(2, 16).T.flatten()
    close(last_vectors(run, "encoder."), expected.encoder_last_hidden_state[0][:, order])


@torch.no_grad()
def test_marian_with_a_cache():
    theirs, ours = marian()
    source, target = some_ids(2, 12), some_ids(2, 9, seed=2)
    mask = torch.ones_like(source)
    mask[0, 7:] = 0
    expected = theirs(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
    cache = KVCache(ours.config, room=9, batch=2)
    first = ours(target[:, :4], cache=cache, encoder_ids=source, encoder_mask=mask)
    rest = [ours(target[:, i : i + 1], cache=cache) for i in range(4, 9)]
    close(torch.cat([first, *rest], dim=1), expected)
