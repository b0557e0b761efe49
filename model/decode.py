"""One token at a time: the forward pass of a Llama-like decoder over its cache, written out for speed.

The same sums in the same order as `Transformer.forward`, whose general code (hook points, masks, batches, a module a
step) takes as long for a small model as the products themselves. What makes it fast on a CPU: queries, keys and
values come from one product, and so do gate and up projection, because their weights lie side by side in memory
(`side_by_side`); the residual is added by the product that makes its other half; angles are computed once a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention, silu

from model.attention import Attention
from model.block import Block
from model.cache import KVCache
from model.config import TransformerConfig
from model.feedforward import FeedForward
from model.hooks import listening
from model.positions import rope_rotation
from model.transformer import Transformer


def side_by_side(transformer: Transformer) -> None:
    """Lay the weights out for products of one row: `(in, out)` in memory, and those that read the same row together.

    Nothing changes but the places: every parameter keeps its shape and values. Reading a matrix is all the work of a
    product with one row, and with the outputs next to each other it is about 1.4 times as fast on a CPU.
    """
    for module in transformer.modules():
        if isinstance(module, Attention):
            _pack([module.W_Q] if module.cross else [module.W_Q, module.W_K, module.W_V])
            if module.cross:
                _pack([module.W_K, module.W_V])
            _pack([module.W_O])
        elif isinstance(module, FeedForward):
            _pack([module.W_in] if module.W_gate is None else [module.W_gate, module.W_in])
            _pack([module.W_out])
    _pack([transformer.embed])
    if transformer.unembed is not None:
        _pack([transformer.unembed])


def _pack(layers: Sequence[torch.nn.Module]) -> None:
    weights = [layer.get_parameter("weight") for layer in layers]
    together = torch.cat([weight.detach().t() for weight in weights], dim=1).contiguous()  # (in, all out)
    for weight, part in zip(weights, together.split([len(w) for w in weights], dim=1), strict=True):
        weight.data = part.t()


def _joined(layers: Sequence[torch.nn.Linear]) -> Tensor | None:
    """The product's one matrix `(in, all out)` if the layers' weights lie side by side, else None."""
    parts = [layer.weight.detach().t() for layer in layers]
    first, width = parts[0], sum(part.shape[1] for part in parts)
    offset = first.storage_offset()
    for part in parts:
        there = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not there or part.storage_offset() != offset or part.stride() != (width, 1):
            return None
        offset += part.shape[1]
    return first.as_strided((first.shape[0], width), (width, 1))


class OneToken:
    """The pass of one token over one text's cache; see `of`."""

    def __init__(self, transformer: Transformer, cache: KVCache, products: list[tuple[Tensor, Tensor]]) -> None:
        self.config, self.cache, self.products = transformer.config, cache, products
        self.embed = transformer.embed.weight
        self.head = (transformer.embed if transformer.unembed is None else transformer.unembed).weight.t()
        self.blocks = [
            (block.ln1.weight, qkv, block.attn.W_O.weight.t(), block.ln2.weight, up, block.mlp.W_out.weight.t())
            for block, (qkv, up) in zip(_blocks(transformer), products, strict=True)
        ]
        assert transformer.ln_final is not None
        self.final = transformer.ln_final.weight
        c = self.config
        cos, sin = rope_rotation(torch.arange(cache.room)[None], c.d_head, c.rope_theta, c.rope_divisors)
        self.cos, self.sin = cos[0], sin[0]  # (room, 1, 2, D / 2)

    @classmethod
    def of(cls, transformer: Transformer, cache: KVCache | None) -> OneToken | None:
        """The fast pass, or None where the general one is needed.

        It serves a decoder in fp32 on a CPU whose options are Llama's, with its weights `side_by_side`, and a cache
        of one row without window and quantisation. Whoever listens needs the general pass, too.
        """
        c = transformer.config
        sizes = (c.vocab_size, c.d_model, c.n_layers, c.n_heads, c.n_kv_heads, c.d_head, c.d_ff, c.max_positions)
        same: dict[str, Any] = {
            "rope_theta": c.rope_theta,
            "rope_divisors": c.rope_divisors,
            "norm_eps": c.norm_eps,
            "tied_embeddings": c.tied_embeddings,
        }
        same |= {"bos_id": c.bos_id, "eos_id": c.eos_id, "pad_id": c.pad_id, "more_eos_ids": c.more_eos_ids}
        weight = transformer.embed.weight
        if c != TransformerConfig(*sizes, **same) or weight.device.type != "cpu" or weight.dtype != torch.float32:
            return None
        if cache is None or cache.batch != 1 or cache.window is not None or cache.bits is not None or listening():
            return None
        products = []
        for block in _blocks(transformer):
            qkv = _joined([block.attn.W_Q, block.attn.W_K, block.attn.W_V])
            up = None if block.mlp.W_gate is None else _joined([block.mlp.W_gate, block.mlp.W_in])
            if qkv is None or up is None:
                return None
            products.append((qkv, up))
        return cls(transformer, cache, products)

    @torch.inference_mode()
    def __call__(self, token: int) -> Tensor:
        """The logits `(V,)` after one more token.

        Raises:
            CacheFullError: if the cache has no room left; nothing has been written.
        """
        c, cache = self.config, self.cache
        plan = cache.plan(1)
        cos, sin = self.cos[cache.length], self.sin[cache.length]
        q_and_k = c.n_heads + c.n_kv_heads
        x = self.embed[token : token + 1]  # (1, d_model)
        for layer, (ln1, w_qkv, w_o, ln2, w_up, w_out) in enumerate(self.blocks):
            heads = torch.mm(_rms_norm(x, ln1, c.norm_eps), w_qkv).view(-1, 2, c.d_head // 2)  # (H + 2 H_kv, 2, D / 2)
            turned = heads[:q_and_k]
            turned = torch.mul(turned, cos).addcmul_(turned.flip(1), sin).view(1, q_and_k, 1, c.d_head)
            q, k = turned[:, : c.n_heads], turned[:, c.n_heads :]
            k, v = cache.append(layer, k, heads[q_and_k:].view(1, c.n_kv_heads, 1, c.d_head))  # (1, H_kv, S, D)
            z = scaled_dot_product_attention(q, k, v, enable_gqa=c.n_heads != c.n_kv_heads)
            x = torch.addmm(x, z.view(1, -1), w_o)
            gate, linear = torch.mm(_rms_norm(x, ln2, c.norm_eps), w_up).split(c.d_ff, dim=1)
            x = torch.addmm(x, silu(gate).mul_(linear), w_out)
        logits = torch.mm(_rms_norm(x, self.final, c.norm_eps), self.head)
        cache.commit(plan)
        return logits[0]


def _blocks(transformer: Transformer) -> list[Block]:
    return [block for block in transformer.blocks if isinstance(block, Block)]


def _rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """torch's own takes five times as long for one row."""
    row = x[0]
    return torch.mul(x, weight).mul_((float(torch.dot(row, row)) / len(row) + eps) ** -0.5)
