"""The matrices of a Llama-like decoder as one row is multiplied with them: what writing a token mostly is.

A product with one row takes as long as its matrix takes to be read. So matrices that read the same row lie together in
memory (`side_by_side`) and are one product; and where torch has a kernel that reads a matrix from fewer bytes, or in a
better order, it gets a copy made for it, when the first token is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import Module, functional

from model import int8, linear
from model.attention import Attention
from model.block import Block
from model.config import TransformerConfig
from model.feedforward import FeedForward
from model.int8 import Int8Matrix
from model.transformer import Transformer

_SMALL = 2**18  # weights; a product with fewer takes no longer than it takes to call it
_HALF_ON_INTEL = 2**19  # weights; MKL reads fewer from fp32 faster than FBGEMM starts
_HALVED_AT_MOST = 2**25  # weights of a model; to copy a weight takes as long as its copy saves in 100 tokens


def side_by_side(transformer: Transformer) -> None:
    """Lay matrices that read the same row together in memory, one below the other.

    Nothing changes but the places: every parameter keeps its shape and values, and all those of a model that has
    other options than Llama's stay where they are.
    """
    if is_llama(transformer.config):
        for module in transformer.modules():
            if isinstance(module, Attention):
                _pack([module.W_Q, module.W_K, module.W_V])
            elif isinstance(module, FeedForward):
                _pack([_gate(module), module.W_in])


def _gate(mlp: FeedForward) -> Module:
    assert mlp.W_gate is not None  # Llama has one
    return mlp.W_gate


def _pack(layers: Sequence[Module]) -> None:
    names = ("codes", "scale") if isinstance(layers[0], Int8Matrix) else ("weight",)
    for name in names:
        tensors = [getattr(layer, name) for layer in layers]
        together = torch.cat([tensor.detach() for tensor in tensors])  # (all out, …)
        for tensor, part in zip(tensors, together.split([len(t) for t in tensors]), strict=True):
            tensor.data = part


def _joined(tensors: Sequence[Tensor]) -> Tensor | None:
    """The one tensor `(all out, …)` of which these are the parts, if they lie one below the other; else None."""
    first, offset = tensors[0], tensors[0].storage_offset()
    for part in tensors:
        there = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not there or part.storage_offset() != offset or not part.is_contiguous():
            return None
        offset += part.numel()
    return first.detach().as_strided((sum(map(len, tensors)), *first.shape[1:]), first.stride())


class Product:
    """A matrix `(out, in)` in fp32 that one row is multiplied with. `row_dtype`: what a row is best kept in before."""

    row_dtype = torch.float32

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix
        with_onednn = linear.prefers_onednn() if matrix.dtype == torch.float32 else linear.has_onednn(matrix.dtype)
        self.way = linear.onednn_product if with_onednn else functional.linear

    def is_fresh(self) -> bool:
        """Whether the matrix is still as it was."""
        return True

    def of(self, row: Tensor) -> Tensor:
        """`(1, in)` to `(1, out)`."""
        return self.way(row, self.matrix)

    def into(self, row: Tensor, scale: float, out: Tensor) -> None:
        """`out` becomes the product times `scale`."""
        torch.mul(self.of(row), scale, out=out)

    def add_to(self, x: Tensor, row: Tensor) -> None:
        """The product is added to `x`."""
        x.add_(self.of(row))


class SmallProduct(Product):
    """The same in a single call, which is what the product of a small matrix costs."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__(matrix)
        self.transposed = matrix.t()

    def into(self, row: Tensor, scale: float, out: Tensor) -> None:
        torch.addmm(out, row, self.transposed, beta=0, alpha=scale, out=out)

    def add_to(self, x: Tensor, row: Tensor) -> None:
        x.addmm_(row, self.transposed)


class CopyingProduct(Product):
    """What reads a copy of its matrix, and so has to know whether that has changed."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__(matrix)
        self.sums = _row_sums(matrix)

    def is_fresh(self) -> bool:
        return torch.equal(_row_sums(self.matrix), self.sums)


def _row_sums(matrix: Tensor) -> Tensor:
    """A number for each row of a matrix, of all its bits: far faster to take than to copy it.

    torch's own count of changes does not know of those through `.data`, and does not count in inference mode.
    """
    whole = all(n * matrix.itemsize % 8 == 0 for n in (matrix.shape[1], matrix.storage_offset()))
    return (matrix.view(torch.int64) if whole else matrix.double()).sum(1)


class HalfProduct(CopyingProduct):
    """The same, equal sums in fp32, where each weight is a number of fp16 times `unit`: half the bytes are read."""

    def __init__(self, matrix: Tensor, half: Tensor, unit: float) -> None:
        super().__init__(matrix)
        self.copy, self.unit = linear.packed_for_half(half), unit

    def of(self, row: Tensor) -> Tensor:
        return linear.half_product(row, self.copy).mul_(self.unit)

    def into(self, row: Tensor, scale: float, out: Tensor) -> None:
        torch.mul(linear.half_product(row, self.copy), scale * self.unit, out=out)

    def add_to(self, x: Tensor, row: Tensor) -> None:
        x.add_(linear.half_product(row, self.copy), alpha=self.unit)


class BFloat16Product(CopyingProduct):
    """The same in bf16: row and product are rounded to it, what flows stays fp32."""

    row_dtype = torch.bfloat16

    def __init__(self, matrix: Tensor) -> None:
        super().__init__(matrix)
        self.copy = linear.packed_for_onednn(matrix) if linear.has_onednn(torch.bfloat16) else None

    def of(self, row: Tensor) -> Tensor:
        return self.way(row.bfloat16(), self.matrix if self.copy is None else self.copy)


class Int8Product(Product):
    """The same with integers for weights, see `model.int8`."""

    row_dtype = torch.bfloat16

    def __init__(self, codes: Tensor, scale: Tensor) -> None:
        super().__init__(codes)
        self.scale = scale

    def of(self, row: Tensor) -> Tensor:
        return int8.kernel(row.bfloat16(), self.matrix, self.scale)


def _product(layers: Sequence[Module], halved: bool) -> Product | None:
    """The one product of layers that lie side by side; None if they do not, or nothing here computes it.

    `halved`: whether a copy in fp16 may be made of a matrix in fp32 that fp16 holds exactly.
    """
    if isinstance(layers[0], Int8Matrix):
        codes, scale = (_joined([getattr(layer, name) for layer in layers]) for name in ("codes", "scale"))
        if codes is None or scale is None or not int8.has_kernel("cpu", codes.shape[1]):
            return None
        return Int8Product(codes, scale)
    matrix = _joined([layer.get_parameter("weight") for layer in layers])
    if matrix is None:
        return None
    if matrix.dtype == torch.bfloat16:
        return BFloat16Product(matrix)
    if matrix.numel() < _SMALL:
        return SmallProduct(matrix)
    halved = halved and linear.has_half_kernel() and matrix.numel() >= (_HALF_ON_INTEL if linear.by_intel() else 0)
    half = linear.exactly_half(matrix) if halved else None
    return Product(matrix) if half is None else HalfProduct(matrix, *half)


class Layer(NamedTuple):
    """A block's products."""

    qkv: Product
    out: Product
    gate_and_up: Product
    down: Product


class Products(NamedTuple):
    """A transformer's products, and where in memory its weights were when they were made."""

    places: list[int]
    layers: list[Layer]
    head: Product

    def are_fresh(self, transformer: Transformer) -> bool:
        """Whether the weights are still where and what they were."""
        return self.places == _places(transformer) and all(
            product.is_fresh() for layer in [*self.layers, [self.head]] for product in layer
        )


def _places(transformer: Transformer) -> list[int]:
    return [tensor.data_ptr() for tensor in (*transformer.parameters(), *transformer.buffers())]


_prepared: WeakKeyDictionary[Transformer, Products] = WeakKeyDictionary()
_preparing = Lock()


def products_of(transformer: Transformer) -> Products | None:
    """All products of a transformer, made once for as long as its weights stay as they are.

    None if its options are not Llama's, if its matrices are not `side_by_side`, or if torch has no kernel for them.
    Readers who write at once share them.
    """
    if not is_llama(transformer.config) or transformer.device.type != "cpu":
        return None
    if transformer.weights_dtype not in (torch.float32, torch.bfloat16, torch.int8):
        return None
    with _preparing:
        known = _prepared.get(transformer)
        if known is None or not known.are_fresh(transformer):
            known = _prepare(transformer)
            if known is not None:
                _prepared[transformer] = known
        return known


def _prepare(transformer: Transformer) -> Products | None:
    halved = _may_be_halved(transformer)
    layers = []
    for block in transformer.blocks:
        assert isinstance(block, Block)
        attn, mlp = block.attn, block.mlp
        read = ([attn.W_Q, attn.W_K, attn.W_V], [attn.W_O], [_gate(mlp), mlp.W_in], [mlp.W_out])
        qkv, out, gate_and_up, down = (_product(parts, halved) for parts in read)
        if qkv is None or out is None or gate_and_up is None or down is None:
            return None
        layers.append(Layer(qkv, out, gate_and_up, down))
    head = _product([transformer.embed if transformer.unembed is None else transformer.unembed], halved)
    return None if head is None else Products(_places(transformer), layers, head)


def _may_be_halved(transformer: Transformer) -> bool:
    in_fp32 = transformer.weights_dtype == torch.float32
    return in_fp32 and sum(p.numel() for p in transformer.parameters()) <= _HALVED_AT_MOST


def copies_nbytes(transformer: Transformer) -> int:
    """Bytes that copies of the weights take, at most, once this model has written something."""
    if transformer.device.type != "cpu" or not is_llama(transformer.config):
        return 0
    if transformer.weights_dtype == torch.bfloat16:
        return transformer.nbytes if linear.has_onednn(torch.bfloat16) else 0
    return transformer.nbytes // 2 if _may_be_halved(transformer) and linear.has_half_kernel() else 0


def is_llama(c: TransformerConfig) -> bool:
    """Whether all options are Llama's."""
    sizes = (c.vocab_size, c.d_model, c.n_layers, c.n_heads, c.n_kv_heads, c.d_head, c.d_ff, c.max_positions)
    same: dict[str, Any] = {
        "rope_theta": c.rope_theta,
        "rope_divisors": c.rope_divisors,
        "norm_eps": c.norm_eps,
        "tied_embeddings": c.tied_embeddings,
    }
    same |= {"bos_id": c.bos_id, "eos_id": c.eos_id, "pad_id": c.pad_id, "more_eos_ids": c.more_eos_ids}
    return c == TransformerConfig(*sizes, **same)
