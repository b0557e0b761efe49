"""The whole model once more, in plain numpy and float64, one row and one query at a time.

Written from the papers' formulas and not from our modules, slow on purpose: nothing here is batched,
masked, cached or fused.
"""

import math

import numpy as np


def logits(config, weights, ids, source=(), window=None, prefix=0, causal=None):
    """`(len(ids), vocabulary)`; `weights` maps our parameter names to float64 arrays."""
    w = weights
    encoded = None
    if config.kind == "encoder_decoder":
        encoded = embed(config, w, source, "encoder_pos_embed", "encoder_embed_norm")
        for i in range(config.n_encoder_layers):
            encoded = block(config, w, f"encoder_blocks.{i}", encoded, lambda q, k: True)
        encoded = norm(config, w, "encoder_ln_final", encoded) if config.norm_place == "pre" else encoded
    causal = config.kind != "encoder" if causal is None else causal

    def allowed(q, k):
        return ((k <= q or not causal) and (window is None or abs(q - k) < window)) or k < prefix

    x = embed(config, w, ids, "pos_embed", "embed_norm")
    for i in range(config.n_layers):
        x = block(config, w, f"blocks.{i}", x, allowed, encoded)
    x = norm(config, w, "ln_final", x) if config.norm_place == "pre" else x
    if config.head == "none":
        return x
    if config.head == "mlm":
        x = norm(config, w, "mlm_head.ln", CURVES[config.activation](linear(w, "mlm_head.W", x)))
    return x @ w["embed.weight" if config.tied_embeddings else "unembed.weight"].T + w.get("unembed_bias", 0)


def embed(config, w, ids, table, norm_name):
    x = w["embed.weight"][list(ids)] * (math.sqrt(config.d_model) if config.scale_embeddings else 1)
    for t in range(len(ids)):
        if config.positions == "learned":
            x[t] += w[f"{table}.weight"][t]
        elif config.positions == "sinusoidal":
            for j in range(config.d_model):
                angle = t / 10_000 ** ((j - j % 2) / config.d_model)
                x[t, j] += math.cos(angle) if j % 2 else math.sin(angle)
    if config.n_token_types:
        x = x + w["type_embed"][0]
    return norm(config, w, norm_name, x) if config.embedding_norm else x


def block(config, w, name, x, allowed, encoded=None):
    post = config.norm_place == "post"

    def sublayer(norm_name, x, f):
        return norm(config, w, norm_name, x + f(x)) if post else x + f(norm(config, w, norm_name, x))

    if config.parallel:
        h = norm(config, w, f"{name}.ln1", x)
        written = attention(config, w, f"{name}.attn", h, h, allowed, config.positions)
        return x + written + feed_forward(config, w, f"{name}.mlp", norm(config, w, f"{name}.ln2", x))
    x = sublayer(f"{name}.ln1", x, lambda h: attention(config, w, f"{name}.attn", h, h, allowed, config.positions))
    if encoded is not None:
        x = sublayer(
            f"{name}.ln_cross",
            x,
            lambda h: attention(config, w, f"{name}.cross_attn", h, encoded, lambda q, k: True, "none"),
        )
    return sublayer(f"{name}.ln2", x, lambda h: feed_forward(config, w, f"{name}.mlp", h))


def norm(config, w, name, x):
    if config.norm == "layernorm":
        x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + config.norm_eps) * w[f"{name}.weight"]
    return x + w[f"{name}.bias"] if config.norm == "layernorm" else x


def linear(w, name, x):
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)


def turn(config, x, position):
    """RoPE of one vector: feature i and feature i + half are the real and imaginary part of a number."""
    size = len(x) if config.d_rotary is None else config.d_rotary
    half = size // 2
    angle = position * config.rope_theta ** (-np.arange(half) / half) / np.array(config.rope_divisors or 1)
    turned = (x[:half] + 1j * x[half:size]) * np.exp(1j * angle)
    return np.concatenate([turned.real, turned.imag, x[size:]])


def head_norm(config, x, gain):
    return x / math.sqrt((x**2).mean() + config.norm_eps) * gain


def slope(head, n_heads):
    """ALiBi's slope of a head: the powers of 2^(-8/n), and between them where n is no power of two."""
    closest = 2 ** math.floor(math.log2(n_heads))
    return 2 ** (-8 * (head + 1) / closest) if head < closest else 2 ** (-4 * (2 * (head - closest) + 1) / closest)


def attention(config, w, name, x, source, allowed, positions):
    q, k, v = linear(w, f"{name}.W_Q", x), linear(w, f"{name}.W_K", source), linear(w, f"{name}.W_V", source)
    size, z = config.d_head, np.zeros((len(x), config.n_heads * config.d_head))
    for head in range(config.n_heads):
        shared = head // (config.n_heads // config.n_kv_heads)
        mine, theirs = slice(head * size, (head + 1) * size), slice(shared * size, (shared + 1) * size)
        for t in range(len(x)):
            keys = [s for s in range(len(source)) if allowed(t, s)]
            query, scores = q[t, mine], []
            for s in keys:
                key = k[s, theirs]
                asking = query
                if config.qk_norm and positions == "rope":
                    asking = head_norm(config, query, w[f"{name}.q_norm.weight"])
                    key = head_norm(config, key, w[f"{name}.k_norm.weight"])
                if positions == "rope":
                    asking, key = turn(config, asking, t), turn(config, key, s)
                score = asking @ key / math.sqrt(size)
                scores.append(score - (slope(head, config.n_heads) * abs(t - s) if positions == "alibi" else 0))
            share = np.exp(np.array(scores) - max(scores))
            z[t, mine] = share / share.sum() @ v[keys, theirs]
    return linear(w, f"{name}.W_O", z)


def feed_forward(config, w, name, x):
    curve = CURVES[config.activation]
    if config.activation in ("swiglu", "geglu"):
        return linear(w, f"{name}.W_out", curve(linear(w, f"{name}.W_gate", x)) * linear(w, f"{name}.W_in", x))
    return linear(w, f"{name}.W_out", curve(linear(w, f"{name}.W_in", x)))


def gelu_tanh(x):
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


CURVES = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu_erf": np.vectorize(lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2)))),
    "gelu_tanh": gelu_tanh,
    "swiglu": lambda x: x / (1 + np.exp(-x)),
    "geglu": gelu_tanh,
}
