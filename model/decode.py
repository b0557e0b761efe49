"""One token at a time: the forward pass of a Llama-like decoder over its cache, written out for speed.

The same sums as `Transformer.forward`, whose general code (hook points, masks, batches, a module a step) takes as long
for a small model as the products themselves. What makes it fast on a CPU: queries, keys and values come from one
product, and so do gate and up projection, because their weights lie side by side in memory (`side_by_side`); every
result has its place, made once a text; angles are computed once a text, and views of the cache once a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import linear, scaled_dot_product_attention, silu

from model import int8
from model.attention import Attention
from model.block import Block
from model.cache import KVCache
from model.config import TransformerConfig
from model.feedforward import FeedForward
from model.hooks import listening
from model.int8 import Int8Embedding, Int8Matrix
from model.positions import rope_rotation
from model.transformer import Transformer


def side_by_side(transformer: Transformer) -> None:
    """Lay the weights out for products of one row: matrices that read the same row together, fp32 as `(in, out)`.

    Nothing changes but the places: every parameter keeps its shape and values. Reading a matrix is all the work of a
    product with one row. In fp32 it is about 1.3 times as fast with the outputs next to each other; in bf16, and of
    integers, torch's kernels are faster with the inputs next to each other, as they are.
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


def _pack(layers: Sequence[Module]) -> None:
    if isinstance(layers[0], Int8Matrix):
        for name in ("codes", "scale"):
            tensors = [getattr(layer, name) for layer in layers]
            for tensor, part in zip(tensors, torch.cat(tensors).split([len(t) for t in tensors]), strict=True):
                tensor.data = part
        return
    weights = [layer.get_parameter("weight") for layer in layers]
    together = torch.cat([weight.detach() for weight in weights])  # (all out, in)
    if together.dtype == torch.float32:
        together = together.t().contiguous().t()
    for weight, part in zip(weights, together.split([len(w) for w in weights]), strict=True):
        weight.data = part


def _joined(tensors: Sequence[Tensor]) -> Tensor | None:
    """The one tensor `(all out, …)` of which these are the parts, if they lie side by side; else None."""
    first, offset = tensors[0], tensors[0].storage_offset()
    for part in tensors:
        there = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not there or part.storage_offset() != offset or part.stride() != first.stride():
            return None
        offset += len(part) * first.stride(0)
    return first.detach().as_strided((sum(map(len, tensors)), *first.shape[1:]), first.stride())


class _Product:
    """A matrix in fp32 that one row is multiplied with. `row_dtype`: what a row is best kept in before."""

    row_dtype = torch.float32

    def __init__(self, matrix: Tensor) -> None:
        self.matrix, self.transposed = matrix, matrix.t()

    def into(self, row: Tensor, scale: float, out: Tensor) -> None:
        """`out` becomes the product times `scale`."""
        torch.addmm(out, row, self.transposed, beta=0, alpha=scale, out=out)

    def add_to(self, x: Tensor, row: Tensor) -> None:
        """The product is added to `x`."""
        x.addmm_(row, self.transposed)


class _BFloat16Product(_Product):
    """The same in bf16: row and product are rounded to it, what flows stays fp32."""

    row_dtype = torch.bfloat16

    def of(self, row: Tensor) -> Tensor:
        return linear(row.bfloat16(), self.matrix)

    def into(self, row: Tensor, scale: float, out: Tensor) -> None:
        torch.mul(self.of(row), scale, out=out)

    def add_to(self, x: Tensor, row: Tensor) -> None:
        x.add_(self.of(row))


class _Int8Product(_BFloat16Product):
    """The same with integers for weights, see `model.int8`."""

    def __init__(self, codes: Tensor, scale: Tensor) -> None:
        super().__init__(codes)
        self.scale = scale

    def of(self, row: Tensor) -> Tensor:
        return int8.kernel(row.bfloat16(), self.matrix, self.scale)


def _product(layers: Sequence[Module]) -> _Product | None:
    """The one product of layers that lie side by side; None if they do not, or nothing here computes it."""
    if isinstance(layers[0], Int8Matrix):
        codes, scale = (_joined([getattr(layer, name) for layer in layers]) for name in ("codes", "scale"))
        if codes is None or scale is None or not int8.has_kernel("cpu", codes.shape[1]):
            return None
        return _Int8Product(codes, scale)
    matrix = _joined([layer.get_parameter("weight") for layer in layers])
    if matrix is None or matrix.stride(1 if matrix.dtype == torch.bfloat16 else 0) != 1:
        return None
    return _BFloat16Product(matrix) if matrix.dtype == torch.bfloat16 else _Product(matrix)


class _Layer(NamedTuple):
    """A block's products, and the gains of its two norms in fp32."""

    norm: Tensor
    qkv: _Product
    out: _Product
    norm_mlp: Tensor
    gate_and_up: _Product
    down: _Product


class OneToken:
    """The pass of one token over one text's cache; see `of`."""

    def __init__(self, transformer: Transformer, cache: KVCache, layers: list[_Layer], head: _Product) -> None:
        assert transformer.ln_final is not None
        c = self.config = transformer.config
        self.cache, self.layers, self.head = cache, layers, head
        self.embed = transformer.embed
        self.x = torch.empty(1, c.d_model)
        self.final = transformer.ln_final.weight.float()
        cos, sin = rope_rotation(torch.arange(cache.room)[None], c.d_head, c.rope_theta, c.rope_divisors)
        self.cos, self.sin = cos[0], sin[0]  # (room, 1, 2, D / 2)
        # Where results go, layer after layer. What flows is fp32; rows are what the products read.
        turned, group = c.n_heads + c.n_kv_heads, (c.n_kv_heads, c.d_head)
        self.row = torch.empty(1, c.d_model, dtype=head.row_dtype)
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
        self.post = torch.empty(1, c.d_ff, dtype=head.row_dtype)
        self.logits = torch.empty(1, c.vocab_size)

    @classmethod
    def of(cls, transformer: Transformer, cache: KVCache | None) -> OneToken | None:
        """The fast pass, or None where the general one is needed.

        It serves a decoder on a CPU whose options are Llama's, with its weights in fp32, bf16 or INT8 and
        `side_by_side`, and a cache of one row without padding, window and quantisation. Whoever listens needs the
        general pass, too.
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
        if c != TransformerConfig(*sizes, **same) or transformer.device.type != "cpu":
            return None
        if transformer.weights_dtype not in (torch.float32, torch.bfloat16, torch.int8):
            return None
        if cache is None or cache.batch != 1 or not cache.dense_and_plain or listening():
            return None
        layers = []
        for block in transformer.blocks:
            assert isinstance(block, Block)
            attn, mlp = block.attn, block.mlp
            if mlp.W_gate is None:
                return None
            products = [_product([attn.W_Q, attn.W_K, attn.W_V]), _product([attn.W_O])]
            products += [_product([mlp.W_gate, mlp.W_in]), _product([mlp.W_out])]
            qkv, out, gate_and_up, down = products
            if qkv is None or out is None or gate_and_up is None or down is None:
                return None
            norms = block.ln1.weight.float(), block.ln2.weight.float()
            layers.append(_Layer(norms[0], qkv, out, norms[1], gate_and_up, down))
        head = _product([transformer.embed if transformer.unembed is None else transformer.unembed])
        return None if head is None else cls(transformer, cache, layers, head)

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
        for layer, (k_slot, v_slot), (k, v) in zip(self.layers, slots, read, strict=True):
            layer.qkv.into(row, self._norm(x, layer.norm), self.qkv)
            torch.mul(self.unturned, cos, out=turned)
            first.addcmul_(second_before, sin_first)
            second.addcmul_(first_before, sin_second)
            k_slot.copy_(self.k)
            v_slot.copy_(self.v)
            z = scaled_dot_product_attention(self.q if same else self.q.to(k.dtype), k, v)
            layer.out.add_to(x, z.view(1, -1))
            layer.gate_and_up.into(row, self._norm(x, layer.norm_mlp), self.gate_and_up)
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
