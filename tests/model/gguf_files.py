"""GGUF files for tests: tiny random models of Transformers, named and written by the `gguf` package."""

import gguf
import numpy as np

TYPES = gguf.GGMLQuantizationType


def neighbours(w, heads):
    """Rows of each head from RoPE's halves to neighbours, as the converter of the llama.cpp project does."""
    return w.reshape(heads, 2, -1, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def rows_by_part(w, heads):
    """Query, key and value of each head in turn to all queries, all keys, all values, as that converter does."""
    return w.reshape(heads, 3, -1, *w.shape[1:]).swapaxes(0, 1).reshape(w.shape)


def spelled(config):
    """The architecture as the format spells it."""
    return config.model_type.replace("_", "")


def write(path, theirs, kind=TYPES.F32, change=lambda name, x: (name, x), more=lambda writer: None):
    """Write a causal LM of Transformers; matrices whose rows fit are stored as `kind`, everything else as F32."""
    config = theirs.config
    architecture = spelled(config)
    writer = gguf.GGUFWriter(path, architecture)
    gpt2 = architecture == "gpt2"
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(4 * config.hidden_size if gpt2 else config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    if gpt2:
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    elif architecture == "gptneox":
        writer.add_layer_norm_eps(config.layer_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        writer.add_parallel_residual(config.use_parallel_residual)
        d_head = config.hidden_size // config.num_attention_heads
        writer.add_rope_dimension_count(int(d_head * config.rope_parameters["partial_rotary_factor"]))
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        writer.add_key_length(theirs.model.layers[0].self_attn.head_dim)
        writer.add_value_length(theirs.model.layers[0].self_attn.head_dim)
        writer.add_rope_dimension_count(theirs.model.layers[0].self_attn.head_dim)
    tokens = [*"abcdef", "ab", "cd", *(f"t{i}" for i in range(8, config.vocab_size))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * len(tokens))
    writer.add_token_merges(["a b", "c d"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    more(writer)
    for name, x in tensors(theirs).items():
        name, x = change(name, x)
        if x is None:
            continue
        if x.ndim == 2 and kind != TYPES.F32 and x.shape[1] % gguf.GGML_QUANT_SIZES[kind][0] == 0:
            raw = gguf.quants.quantize(x, kind)
            writer.add_tensor(name, raw, raw_dtype=kind)
        else:
            writer.add_tensor(name, x)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensors(theirs):
    """Its weights under the names of the format, (out, in)."""
    config = theirs.config
    architecture = next(k for k, name in gguf.MODEL_ARCH_NAMES.items() if name == spelled(config))
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": getattr(config, "num_key_value_heads", 0)}
    found = {}
    for name, parameter in theirs.named_parameters():
        x = parameter.detach().numpy().astype(np.float32)
        if config.model_type == "gpt2" and x.ndim == 2 and ".h." in name:
            x = x.T
        if config.model_type == "gpt_neox" and "query_key_value" in name:
            x = rows_by_part(x, config.num_attention_heads)
        if config.model_type == "llama" and name.split(".")[-2] in heads:
            x = neighbours(x, heads[name.split(".")[-2]])
        found[names.get_name(name, try_suffixes=(".weight", ".bias"))] = np.ascontiguousarray(x)
    return found
