"""The attention layer: projections, rotation, cache, kernel, and the hook points between them."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn

from model.cache import KVCache, Plan
from model.config import TransformerConfig
from model.hooks import HookPoint, listening
from model.kernels import Visible, explicit, fused
from model.linear import Linear
from model.norms import Normalization
from model.positions import rotate, rotate_part


@dataclass
class Pass:
    """What all layers of one forward pass share."""

    visible: Visible
    rotation: tuple[Tensor, Tensor] | None = None
    cache: KVCache | None = None
    plan: Plan | None = None
    source: Tensor | None = None  # the encoder's output (B, S, d_model), or None once the cache has its keys
    source_visible: Visible = field(default_factory=Visible)
    source_kv: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # its keys and values, by layer
    kernels: dict[str, str] = field(default_factory=dict)  # layer name -> kernel, filled while listening


class Attention(nn.Module):
    """Multi-head, grouped-query or multi-query attention; self-attention, or cross-attention over a source."""

    def __init__(self, config: TransformerConfig, name: str, layer: int, cross: bool = False) -> None:
        super().__init__()
        self.name, self.layer, self.cross = name, layer, cross
        self.n_heads, self.n_kv_heads, self.d_head = config.n_heads, config.n_kv_heads, config.d_head
        d_q, d_kv = config.n_heads * config.d_head, config.n_kv_heads * config.d_head
        self.W_Q = Linear(config.d_model, d_q, bias=config.qkv_bias)
        self.W_K = Linear(config.d_model, d_kv, bias=config.qkv_bias)
        self.W_V = Linear(config.d_model, d_kv, bias=config.qkv_bias)
        self.W_O = Linear(d_q, config.d_model, bias=config.out_bias)
        self.d_rotary = config.rotary
        normed = config.qk_norm and not cross
        self.q_norm = Normalization(config, f"{name}.q_norm", head=True) if normed else None
        self.k_norm = Normalization(config, f"{name}.k_norm", head=True) if normed else None
        self.hook_q = HookPoint(f"{name}.hook_q")
        self.hook_k = HookPoint(f"{name}.hook_k")
        self.hook_v = HookPoint(f"{name}.hook_v")
        self.hook_rot_q = HookPoint(f"{name}.hook_rot_q")
        self.hook_rot_k = HookPoint(f"{name}.hook_rot_k")
        self.hook_attn_scores = HookPoint(f"{name}.hook_attn_scores")
        self.hook_pattern = HookPoint(f"{name}.hook_pattern")
        self.hook_z = HookPoint(f"{name}.hook_z")

    def forward(self, x: Tensor, run: Pass) -> Tensor:
        """`(B, T, d_model)` to the same shape."""
        q = self.hook_q(self.W_Q(x).view(*x.shape[:-1], self.n_heads, self.d_head))  # (B, T, H, D)
        if self.cross:
            k, v = self._source_kv(run)
            visible = run.source_visible
        else:
            k, v = self._project_kv(x)  # (B, T, H_kv, D)
            if run.rotation is not None:
                if self.q_norm is not None and self.k_norm is not None:
                    q, k = self.q_norm(q), self.k_norm(k)
                q = self.hook_rot_q(self._rotate(q, run.rotation))
                k = self.hook_rot_k(self._rotate(k, run.rotation))
            k, v = k.transpose(1, 2), v.transpose(1, 2)  # (B, H_kv, T, D)
            if run.cache is not None and run.plan is not None:
                k, v = run.cache.append(self.layer, k, v, run.plan.first)  # (B, H_kv, S, D)
            visible = run.visible
        q = q.transpose(1, 2)  # (B, H, T, D)
        if self.hook_attn_scores.edited or self.hook_pattern.edited:
            attended = explicit(q, k, v, visible, self.hook_attn_scores, self.hook_pattern)
        else:
            attended = fused(q, k, v, visible, name_kernel=listening())
        if listening():
            run.kernels[self.name] = attended.kernel
        z = self.hook_z(attended.out.transpose(1, 2))  # (B, T, H, D)
        out: Tensor = self.W_O(z.flatten(2))
        return out

    def _rotate(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        if self.d_rotary == self.d_head:
            return rotate(x, rotation)
        return rotate_part(x, rotation, self.d_rotary)

    def _project_kv(self, x: Tensor) -> tuple[Tensor, Tensor]:
        shape = (*x.shape[:-1], self.n_kv_heads, self.d_head)
        k = self.hook_k(self.W_K(x).view(shape))
        v = self.hook_v(self.W_V(x).view(shape))
        return k, v

    def _source_kv(self, run: Pass) -> tuple[Tensor, Tensor]:
        """The source's keys and values `(B, H_kv, S, D)`: computed once a text, then kept with the cache."""
        if self.layer not in run.source_kv:
            assert run.source is not None
            k, v = self._project_kv(run.source)
            run.source_kv[self.layer] = k.transpose(1, 2), v.transpose(1, 2)
        return run.source_kv[self.layer]
