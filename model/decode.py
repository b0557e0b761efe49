"""One token at a time: the forward pass of a Llama-like decoder over its cache, written out for speed.

The same sums as `Transformer.forward`, whose general code (hook points, masks, batches, a module a step) takes as long
for a small model as the products themselves (`model.products`). Every result has its place, made once a text; angles
are computed once a text, and views of the cache once a token.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention, silu

from model.block import Block
from model.cache import KVCache
from model.hooks import listening
from model.int8 import Int8Embedding
from model.positions import rope_rotation
from model.products import Products, products_of
from model.transformer import Transformer


class OneToken:
    """The pass of one token over one text's cache; see `of`."""

    def __init__(self, transformer: Transformer, cache: KVCache, products: Products) -> None:
        assert transformer.ln_final is not None
        c = self.config = transformer.config
        self.cache, self.layers, self.head = cache, products.layers, products.head
        self.embed = transformer.embed
        self.x = torch.empty(1, c.d_model)
        self.norms: list[tuple[Tensor, Tensor]] = []
        for block in transformer.blocks:
            assert isinstance(block, Block)
            self.norms.append((block.ln1.weight.float(), block.ln2.weight.float()))
        self.final = transformer.ln_final.weight.float()
        cos, sin = rope_rotation(torch.arange(cache.room)[None], c.d_head, c.rope_theta, c.rope_divisors)
        self.cos, self.sin = cos[0], sin[0]  # (room, 1, 2, D / 2)
        # Where results go, layer after layer. What flows is fp32; rows are what the products read.
        turned, group = c.n_heads + c.n_kv_heads, (c.n_kv_heads, c.d_head)
        self.row = torch.empty(1, c.d_model, dtype=self.head.row_dtype)
        self.qkv = torch.empty(1, (c.n_heads + 2 * c.n_kv_heads) * c.d_head)
        heads = self.qkv.view(-1, 2, c.d_head // 2)  # (H + 2 H_kv, 2, D / 2)
        self.unturned, self.v = heads[:turned], heads[turned:].view(group)
        self.turned = torch.empty_like(self.unturned)
        # Query heads that share keys and values are rows of one head: nothing has to be repeated.
        self.q = self.turned[: c.n_heads].view(1, c.n_kv_heads, c.queries_per_kv, c.d_head)
        self.k = self.turned[c.n_heads :].view(group)
        self.halves = [(self.turned[:, i], self.unturned[:, 1 - i]) for i in range(2)]
        self.gate_and_up = torch.empty(1, 2 * c.d_ff)
        self.gate, self.up = self.gate_and_up.split(c.d_ff, dim=1)
        self.post = torch.empty(1, c.d_ff, dtype=self.head.row_dtype)
        self.logits = torch.empty(1, c.vocab_size)

    @classmethod
    def of(cls, transformer: Transformer, cache: KVCache | None) -> OneToken | None:
        """The fast pass, or None where the general one is needed.

        It serves a decoder on a CPU whose options are Llama's, with its weights in fp32, bf16 or INT8 and
        `side_by_side`, and a cache of one row without padding, window and quantisation. Whoever listens needs the
        general pass, too.
        """
        if cache is None or cache.batch != 1 or not cache.dense_and_plain or listening():
            return None
        products = products_of(transformer)
        return None if products is None else cls(transformer, cache, products)

    @torch.inference_mode()
    def __call__(self, token: int) -> Tensor:
        """The logits `(V,)` after one more token, in fp32; the next call writes over them.

        Raises:
            CacheFullError: if the cache has no room left; nothing has been written.
        """
        row, turned, gate = self.row, self.turned, self.gate
        slots, read = self.cache.next_slot()
        place = self.cache.length
        cos, sin = self.cos[place], self.sin[place, 0]
        (first, second_before), (second, first_before) = self.halves
        sin_first, sin_second = sin
        same = self.cache.dtype == torch.float32
        x = self._embedded(token)  # (1, d_model)
        for layer, (norm, norm_mlp), (k_slot, v_slot), (k, v) in zip(self.layers, self.norms, slots, read, strict=True):
            layer.qkv.into(row, self._norm(x, norm), self.qkv)
            torch.mul(self.unturned, cos, out=turned)
            first.addcmul_(second_before, sin_first)
            second.addcmul_(first_before, sin_second)
            k_slot.copy_(self.k)
            v_slot.copy_(self.v)
            z = scaled_dot_product_attention(self.q if same else self.q.to(k.dtype), k, v)
            layer.out.add_to(x, z.view(1, -1))
            layer.gate_and_up.into(row, self._norm(x, norm_mlp), self.gate_and_up)
            torch.mul(silu(gate, inplace=True), self.up, out=self.post)
            layer.down.add_to(x, self.post)
        self.head.into(row, self._norm(x, self.final), self.logits)
        self.cache.advance()
        return self.logits[0]

    def _embedded(self, token: int) -> Tensor:
        """The token's row, in its place."""
        if isinstance(self.embed, Int8Embedding):
            return self.x.copy_(self.embed.codes[token : token + 1]).mul_(self.embed.scale[token])
        return self.x.copy_(self.embed.weight[token : token + 1])

    def _norm(self, x: Tensor, gain: Tensor) -> float:
        """The RMS norm of `x` is `row` times the number that is returned: the next product takes both.

        torch's own norm takes ten times as long for one row.
        """
        flat = x[0]
        torch.mul(x, gain, out=self.row)
        mean_square = torch.dot(flat, flat).item() / self.config.d_model
        return float((mean_square + self.config.norm_eps) ** -0.5)
