"""The Transformer: decoder, encoder or encoder-decoder, from one config (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from model.attention import Pass
from model.block import Block
from model.cache import KVCache, Plan
from model.config import TransformerConfig
from model.head import MaskedHead
from model.hooks import HookPoint
from model.int8 import Int8Embedding, Int8Linear, Int8Matrix
from model.kernels import Visible
from model.linear import Linear, product
from model.masks import MaskRule
from model.norms import Normalization
from model.positions import PositionEmbedding, alibi_bias, alibi_slopes, positions_from_mask, rope_rotation


class Transformer(nn.Module):
    """Token ids in, one logit per vocabulary entry and position out (without a head: one vector per position).

    An encoder-decoder has a second stack, the encoder, whose output the main stack reads by cross-attention.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        two = config.kind == "encoder_decoder"
        absolute = config.positions in ("learned", "sinusoidal")
        final = config.norm_place == "pre"  # post-norm blocks already end in a norm
        # Not nn.Embedding(…): its own draw, on the meta device of a plan, imports torch's compiler for a second.
        empty = torch.empty(config.vocab_size, config.d_model)
        self.embed: nn.Embedding | Int8Embedding = nn.Embedding.from_pretrained(empty, freeze=False)
        self.pos_embed = PositionEmbedding(config) if absolute else None
        # The type of a sentence alone is 0; ours are never pairs.
        types = config.n_token_types
        self.type_embed = nn.Parameter(torch.empty(types, config.d_model)) if types else None
        self.embed_norm = Normalization(config, "embed_norm") if config.embedding_norm else None
        self.encoder_pos_embed = PositionEmbedding(config) if absolute and two else None
        self.encoder_embed_norm = Normalization(config, "encoder.embed_norm") if config.embedding_norm and two else None
        self.encoder_blocks = nn.ModuleList(
            Block(config, f"encoder.blocks.{i}", i) for i in range(config.n_encoder_layers)
        )
        self.encoder_ln_final = Normalization(config, "encoder.ln_final") if final and two else None
        self.blocks = nn.ModuleList(Block(config, f"blocks.{i}", i, cross=two) for i in range(config.n_layers))
        self.ln_final = Normalization(config, "ln_final") if final else None
        self.mlm_head = MaskedHead(config) if config.head == "mlm" else None
        own = config.head != "none" and not config.tied_embeddings
        self.unembed: Linear | Int8Linear | None = (
            Linear(config.d_model, config.vocab_size, bias=False) if own else None
        )
        bias = config.head != "none" and config.unembed_bias
        self.unembed_bias = nn.Parameter(torch.zeros(config.vocab_size)) if bias else None
        self.hook_embed = HookPoint("hook_embed")
        self.hook_pos_embed = HookPoint("hook_pos_embed")
        self.hook_token_type_embed = HookPoint("hook_token_type_embed")
        self.hook_output = HookPoint("hook_output")
        self.hook_logits = HookPoint("hook_logits")
        self.encoder_hook_embed = HookPoint("encoder.hook_embed")
        self.encoder_hook_pos_embed = HookPoint("encoder.hook_pos_embed")
        self.reset_parameters()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.embed.parameters()).device

    @property
    def weights_dtype(self) -> torch.dtype:
        """How the numbers of the matrices are kept; `torch.int8` for integers (see `model.int8`)."""
        return next(self.embed.parameters()).dtype

    @property
    def dtype(self) -> torch.dtype:
        """What flows through the model: the weights' own dtype, fp32 where they are integers."""
        return torch.float32 if self.weights_dtype == torch.int8 else self.weights_dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the weights in memory, the scales of integers included; a tied matrix counts once."""
        return sum(tensor.nbytes for tensor in (*self.parameters(), *self.buffers()))

    @property
    def output_matrix(self) -> Tensor:
        """The vocabulary's matrix `(vocab_size, d_model)` before the logits; of integers a copy in fp32."""
        return self.embed.weight if self.unembed is None else self.unembed.weight

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new weights: normal with std 0.02, projections into the stream scaled by 1/√(2·layers) (GPT-2).

        generator: where the numbers come from; None: torch's global one.
        """
        if self.device.type == "meta":  # only a plan of a model: nothing to draw
            return
        deep = 0.02 / math.sqrt(2 * max(1, self.config.n_layers))
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                std = deep if name.endswith(("W_O.weight", "W_out.weight")) else 0.02
                nn.init.normal_(parameter, std=std, generator=generator)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.ones_(parameter)

    def forward(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        cache: KVCache | None = None,
        *,
        last_only: bool = False,
        only: Tensor | None = None,
        encoder_ids: Tensor | None = None,
        encoder_mask: Tensor | None = None,
        rule: MaskRule | None = None,
        passes: list[Pass] | None = None,
    ) -> Tensor:
        """One pass.

        Args:
            ids: token ids `(B, T)`; with a cache, only the new ones.
            attention_mask: `(B, T)`, 0 or false for padding, on either side; None: no padding.
            cache: keys and values of what has been read already; extended by `ids`.
            last_only: compute logits for each row's last real token only, `(B, 1, vocab_size)`.
            only: `(B, T)`, true where logits are wanted: those alone, row after row, `(N, vocab_size)`.
            encoder_ids, encoder_mask: the source `(B, S)` of an encoder-decoder; with a cache only the first
                pass needs it.
            rule: what the main stack's queries may read, instead of the config's own causality.
            passes: the pass (what was visible, which kernels ran) is appended, for whoever records it.

        Returns:
            Logits `(B, T, vocab_size)`; of a model without a head its last vectors `(B, T, d_model)`.

        Raises:
            CacheFullError: if `ids` do not fit into the cache (nothing was written).
            ValueError: for a position that a learned table does not have, a missing source, a cache made for another
                number of rows, or a prefix that a cache with a window would forget.
        """
        if cache is not None and cache.batch != ids.shape[0]:
            raise ValueError(f"The cache was made for {cache.batch} rows and the ids have {ids.shape[0]}.")
        mask = None if attention_mask is None or bool(attention_mask.all()) else attention_mask.bool()
        plan = None if cache is None else cache.plan(ids.shape[1], mask)
        positions = plan.positions if plan else _positions(ids, mask)
        source = None
        known = cache is not None and bool(cache.cross)  # the source's keys and values, from an earlier pass
        if known and cache is not None:
            encoder_mask = cache.encoder_mask
        elif self.config.kind == "encoder_decoder":
            if encoder_ids is None:
                raise ValueError("An encoder-decoder needs encoder_ids, the text to read.")
            source = self.encode(encoder_ids, encoder_mask)
        run = Pass(
            visible=self._visible(positions, mask, rule or MaskRule(causal=self.config.causal), plan, cache),
            rotation=self._rotation(positions),
            cache=cache,
            plan=plan,
            source=source,
            source_visible=Visible(mask=None if encoder_mask is None else encoder_mask.bool()[:, None, None]),
            source_kv=dict(cache.cross) if cache is not None else {},
        )
        if passes is not None:
            passes.append(run)
        x = self._embed(ids, positions, self.pos_embed, self.embed_norm, self.hook_embed, self.hook_pos_embed)
        for block in self.blocks:
            x = block(x, run)
        if last_only:
            x = _last_token(x, mask)
        if only is not None:
            x = x[only]
        if self.ln_final is not None:
            x = self.ln_final(x)
        out = self.hook_output(x) if self.config.head == "none" else self.hook_logits(self._unembed(x))
        if cache is not None and plan is not None:  # last, so that a pass that failed can be repeated
            cache.commit(plan)
            cache.cross, cache.encoder_mask = run.source_kv, encoder_mask
        return out

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The encoder's output `(B, S, d_model)` for source ids `(B, S)`."""
        mask = None if attention_mask is None or bool(attention_mask.all()) else attention_mask.bool()
        positions = _positions(ids, mask)
        visible = self._visible(positions, mask, MaskRule(causal=False))
        run = Pass(visible, rotation=self._rotation(positions))
        hooks = self.encoder_hook_embed, self.encoder_hook_pos_embed
        x = self._embed(ids, positions, self.encoder_pos_embed, self.encoder_embed_norm, *hooks)
        for block in self.encoder_blocks:
            x = block(x, run)
        return x if self.encoder_ln_final is None else self.encoder_ln_final(x)

    def visible(self, ids: Tensor, attention_mask: Tensor | None = None, rule: MaskRule | None = None) -> Visible:
        """What the main stack's queries may read in a pass over `ids` `(B, T)` without a cache; see `forward`."""
        mask = None if attention_mask is None or bool(attention_mask.all()) else attention_mask.bool()
        return self._visible(_positions(ids, mask), mask, rule or MaskRule(causal=self.config.causal))

    def _embed(
        self,
        ids: Tensor,
        positions: Tensor,
        table: PositionEmbedding | None,
        norm: Normalization | None,
        hook: HookPoint,
        pos_hook: HookPoint,
    ) -> Tensor:
        x = self.embed(ids)  # (B, T, d_model)
        if self.config.scale_embeddings:
            x = x * math.sqrt(self.config.d_model)
        x = hook(x)
        if table is not None:
            x = x + pos_hook(table(positions).to(x.dtype))
        if self.type_embed is not None:
            x = x + self.hook_token_type_embed(self.type_embed[0].expand_as(x))
        return x if norm is None else norm(x)

    def _unembed(self, x: Tensor) -> Tensor:
        x = x if self.mlm_head is None else self.mlm_head(x)
        matrix = self.embed if self.unembed is None else self.unembed
        if isinstance(matrix, Int8Matrix):
            out = matrix.product(x)
            return out if self.unembed_bias is None else out + self.unembed_bias
        return product(x, matrix.weight, self.unembed_bias)

    def _rotation(self, positions: Tensor) -> tuple[Tensor, Tensor] | None:
        if self.config.positions != "rope":
            return None
        return rope_rotation(positions, self.config.rotary, self.config.rope_theta, self.config.rope_divisors)

    def _visible(
        self,
        positions: Tensor,
        mask: Tensor | None,
        rule: MaskRule,
        plan: Plan | None = None,
        cache: KVCache | None = None,
    ) -> Visible:
        """What this pass's queries may read, with no mask built where none is needed."""
        keys = plan.key_positions if plan else positions
        bias = None
        if self.config.positions == "alibi":
            bias = alibi_bias(positions, keys, alibi_slopes(self.config.n_heads, positions.device))
        narrower = rule.window is not None  # than what the cache hands out
        if cache is not None and cache.window is not None:
            if rule.prefix:
                raise ValueError(
                    f"A cache with a window of {cache.window} forgets the first tokens, so a prefix of {rule.prefix} "
                    "cannot stay open to all: use a cache without a window, or no prefix."
                )
            narrower = rule.window is not None and rule.window < cache.window
            rule = rule if narrower else replace(rule, window=cache.window)
        if plan.plain if plan else mask is None:
            if rule == MaskRule(causal=False):
                return Visible(bias=bias)
            if positions.shape[1] == 1 and plan is not None and not narrower:
                return Visible(bias=bias)  # the last token reads all slots that the cache hands out
            if rule == MaskRule(causal=True) and keys.shape[1] == positions.shape[1]:
                return Visible(causal=True, bias=bias)
        valid = plan.key_valid if plan else mask
        if valid is None:
            valid = torch.ones_like(keys, dtype=torch.bool)
        return Visible(mask=rule.mask(positions, keys, valid), bias=bias)


def _positions(ids: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    return positions_from_mask(mask)


def _last_token(x: Tensor, mask: Tensor | None) -> Tensor:
    """Each row's last real token `(B, 1, d_model)` (a row of padding only: its last slot)."""
    if mask is None:
        return x[:, -1:]
    slots = torch.arange(x.shape[1], device=x.device)
    last = torch.where(mask, slots, -1).amax(-1)
    last = torch.where(last < 0, x.shape[1] - 1, last)
    return x[torch.arange(x.shape[0], device=x.device), last][:, None]
