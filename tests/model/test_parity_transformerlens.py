"""Every hook name of TransformerLens carries the same values here, or stands in the list of those we lack.

TransformerLens 4 wraps the model of Transformers ("bridge"); its names are spelled without a layer below: `{i}`.
"""

import re
from copy import deepcopy

import pytest
import torch
from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from model.hooks import edit, observe
from model.kernels import attention_pattern, attention_scores
from model.names import hook_table
from model.transformer import Transformer
from model.zoo.readers import load_checkpoint
from tests.model.tiny import close, fill, randomise, some_ids, tiny_config

# TransformerLens' name -> why we have none of that name. What is an alias says of what; the values are compared too.
ALIASES = {
    "embed.hook_out": "hook_embed",
    "pos_embed.hook_out": "hook_pos_embed",
    "blocks.{i}.hook_in": "blocks.{i}.hook_resid_pre",
    "blocks.{i}.hook_out": "blocks.{i}.hook_resid_post",
    "blocks.{i}.ln1.hook_in": "blocks.{i}.hook_resid_pre",
    "blocks.{i}.ln2.hook_in": "blocks.{i}.hook_resid_mid",
    "blocks.{i}.attn.q.hook_out": "blocks.{i}.attn.hook_q",
    "blocks.{i}.attn.k.hook_out": "blocks.{i}.attn.hook_k",
    "blocks.{i}.attn.v.hook_out": "blocks.{i}.attn.hook_v",
    "blocks.{i}.attn.o.hook_in": "blocks.{i}.attn.hook_z",
    "blocks.{i}.attn.o.hook_out": "blocks.{i}.hook_attn_out",
    "blocks.{i}.attn.hook_out": "blocks.{i}.hook_attn_out",
    "blocks.{i}.attn.hook_hidden_states": "blocks.{i}.hook_attn_out",
    "blocks.{i}.mlp.gate.hook_out": "blocks.{i}.mlp.hook_pre",
    "blocks.{i}.mlp.out.hook_in": "blocks.{i}.mlp.hook_post",
    "blocks.{i}.mlp.out.hook_out": "blocks.{i}.hook_mlp_out",
    "blocks.{i}.mlp.hook_out": "blocks.{i}.hook_mlp_out",
    "ln_final.hook_in": "blocks.1.hook_resid_post",
    "unembed.hook_out": "hook_logits",
    "hook_unembed": "hook_logits",
}
LACKED = {
    "embed.hook_in": "the token ids: a trace has them as `tokens`",
    "pos_embed.hook_in": "the positions, which the mask decides",
    "rotary_emb.hook_in": "only tells the table its dtype and device",
    "rotary_emb.hook_cos": "a table that depends on positions alone: model.positions.rope_rotation",
    "rotary_emb.hook_sin": "as above",
    "blocks.{i}.attn.hook_cos": "as above",
    "blocks.{i}.attn.hook_sin": "as above",
    "blocks.{i}.ln1.hook_out": "the norm's output after the gain: hook_normalized times the weights",
    "blocks.{i}.ln2.hook_out": "as above",
    "ln_final.hook_out": "as above",
    "blocks.{i}.attn.hook_in": "as above (it is ln1's output)",
    "blocks.{i}.attn.q.hook_in": "as above",
    "blocks.{i}.attn.k.hook_in": "as above",
    "blocks.{i}.attn.v.hook_in": "as above",
    "blocks.{i}.mlp.hook_in": "as above (it is ln2's output)",
    "blocks.{i}.mlp.gate.hook_in": "as above",
    "blocks.{i}.mlp.in.hook_in": "as above",
    "unembed.hook_in": "as above (it is ln_final's output)",
}
# "in" is the linear branch of a gated network and the only one of a plain network.
IN_OUT = {True: "blocks.{i}.mlp.hook_pre_linear", False: "blocks.{i}.mlp.hook_pre"}


def llama(tmp_path):
    options = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2}
    options |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    theirs = randomise(LlamaForCausalLM(LlamaConfig(**options))).eval()
    theirs.save_pretrained(tmp_path)
    return load_checkpoint(tmp_path), build_bridge_from_module(theirs, "LlamaForCausalLM", hf_config=theirs.config)


def gpt2(tmp_path):
    options = {"vocab_size": 50, "n_embd": 32, "n_inner": 40, "n_layer": 2, "n_head": 4, "n_positions": 64}
    theirs = randomise(GPT2LMHeadModel(GPT2Config(**options, bos_token_id=1, eos_token_id=1))).eval()
    w = deepcopy(theirs.transformer.state_dict())
    weights = {"embed.weight": w["wte.weight"], "pos_embed.weight": w["wpe.weight"]}
    for part in ("weight", "bias"):
        weights[f"ln_final.{part}"] = w[f"ln_f.{part}"]
        for i in range(2):
            weights |= {f"blocks.{i}.ln{n}.{part}": w[f"h.{i}.ln_{n}.{part}"] for n in (1, 2)}
            layers = dict(zip("QKV", w[f"h.{i}.attn.c_attn.{part}"].chunk(3, -1), strict=True))
            layers["O"] = w[f"h.{i}.attn.c_proj.{part}"]
            weights |= {f"blocks.{i}.attn.W_{n}.{part}": x.T if x.dim() == 2 else x for n, x in layers.items()}
            layers = {"in": w[f"h.{i}.mlp.c_fc.{part}"], "out": w[f"h.{i}.mlp.c_proj.{part}"]}
            weights |= {f"blocks.{i}.mlp.W_{n}.{part}": x.T if x.dim() == 2 else x for n, x in layers.items()}
    bias = {"qkv_bias": True, "out_bias": True, "mlp_bias": True, "n_kv_heads": 4}
    config = tiny_config(positions="learned", norm="layernorm", activation="gelu_tanh", **bias)
    return fill(Transformer(config), weights), build_bridge_from_module(
        theirs, "GPT2LMHeadModel", hf_config=theirs.config
    )


def ours_with_derived(transformer, ids):
    """All activations by name, with batch axis; scores, patterns and results by the functions that derive them."""
    kept, passes = {}, []
    with observe(kept.__setitem__):
        transformer(ids, passes=passes)
    rotated = "rot_" if transformer.config.positions == "rope" else ""
    for i, block in enumerate(transformer.blocks):
        at = f"blocks.{i}.attn"
        q, k = (kept[f"{at}.hook_{rotated}{x}"].transpose(1, 2) for x in "qk")
        scores = kept[f"{at}.hook_attn_scores"] = attention_scores(q, k, passes[0].visible)
        kept[f"{at}.hook_pattern"] = attention_pattern(scores)
        heads = block.attn.W_O.weight.view(transformer.config.d_model, 4, 8)
        kept[f"{at}.hook_result"] = torch.einsum("bthd,mhd->bthm", kept[f"{at}.hook_z"], heads)
    return kept


@pytest.mark.parametrize("family", [llama, gpt2])
@torch.no_grad()
def test_same_names_same_values(tmp_path, family):
    transformer, bridge = family(tmp_path)
    bridge.cfg.use_attn_result = True
    ids = some_ids(2, 9)
    logits, cache = bridge.run_with_cache(ids)
    ours = ours_with_derived(transformer, ids)
    assert set(ours) == set(hook_table(transformer.config))
    close(transformer(ids), logits)

    gated = transformer.config.gated
    compared, unknown = set(), []
    for name, value in cache.items():
        layer = re.search(r"(?<=blocks\.)\d+", name)
        pattern = re.sub(r"(?<=blocks\.)\d+", "{i}", name)
        if pattern in LACKED:
            continue
        alias = IN_OUT[gated] if pattern == "blocks.{i}.mlp.in.hook_out" else ALIASES.get(pattern, pattern)
        mine = alias.format(i=layer[0]) if layer else alias
        if mine not in ours:
            unknown.append(name)
            continue
        compared.add(mine)
        if name.endswith("hook_attn_scores"):  # masked: minus infinity here, the lowest finite number there
            seen = ours[mine].isfinite()
            assert torch.equal(seen, torch.ones(9, 9).tril().bool().expand_as(seen))
            close(ours[mine][seen], value[seen])
        else:
            close(ours[mine], value)
    assert unknown == [], "new in TransformerLens: compare it, or say in LACKED why we have none"
    # The other way round: what we have beyond TransformerLens is nothing.
    assert set(ours) - compared == set()


EDITED = [f"attn.hook_{x}" for x in ("q", "k", "v", "rot_q", "attn_scores", "pattern", "z")]
EDITED += ["mlp.hook_pre", "mlp.hook_pre_linear", "mlp.hook_post", "ln1.hook_normalized", "ln1.hook_scale"]
# Not hook_resid_mid: the bridge has it at the input of ln2 alone, where an edit does not reach the stream.
EDITED += ["hook_resid_pre", "hook_attn_out", "hook_mlp_out"]


@pytest.mark.filterwarnings("ignore:A forward hook edited")
@pytest.mark.parametrize("name", EDITED)
@torch.no_grad()
def test_edits_mean_the_same_as_in_transformerlens(tmp_path, name):
    transformer, bridge = llama(tmp_path)
    ids, full = some_ids(1, 8), f"blocks.1.{name}"
    expected = bridge.run_with_hooks(ids, fwd_hooks=[(full, lambda x, hook: x * 1.5)])
    with edit({full: lambda x, _: x * 1.5}):
        edited = transformer(ids)
    close(edited, expected)
    assert (edited - transformer(ids)).abs().max() > 1e-3
