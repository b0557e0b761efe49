"""What a smaller cache costs on a text: fewer key/value heads, integers, a window; measured with the model itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.cache import KVCache, dequantise, quantise
from model.int8 import Int8Matrix
from model.losses import token_losses
from model.trace import Trace
from model.transformer import Transformer

BITS = (8, 4)


@dataclass(frozen=True)
class CacheChoice:
    """How keys and values are kept: `kv_heads` of them a layer, in integers of `bits` (None: as the model computes),
    of the last `window` tokens (None: all)."""

    kv_heads: int
    bits: int | None = None
    window: int | None = None


@dataclass(frozen=True)
class CacheCost:
    """One way to keep a text, measured.

    `nbytes` for the whole text, `per_token` of it, from what the cache allocated. `loss`: mean
    cross-entropy of the text's tokens in bits, None for a single token. `key_error`, `value_error`: root mean square
    of the change of the numbers, relative to their own; None where none is changed.
    """

    choice: CacheChoice
    nbytes: int
    per_token: float
    loss: float | None
    key_error: float | None
    value_error: float | None


def head_counts(n_kv_heads: int) -> tuple[int, ...]:
    """Into how many equal groups the key/value heads can be merged, from all of them down to one."""
    return tuple(n for n in range(n_kv_heads, 0, -1) if n_kv_heads % n == 0)


def merged(x: Tensor, groups: int, dim: int) -> Tensor:
    """Neighbouring heads along `dim` (from the front) averaged, so that `groups` are left."""
    out: Tensor = x.unflatten(dim, (groups, -1)).mean(dim + 1)
    return out


def with_merged_heads(transformer: Transformer, kv_heads: int) -> Transformer:
    """The model with `kv_heads` key/value heads, each the mean of a group of its own (Ainslie et al. 2023, figure 1).

    The paper trains on afterwards, for 5 % of the original steps; here nothing is trained. All other weights are
    those of `transformer` itself, not copies. Of integers (`model.int8`) the merged matrices become fp32.

    Raises:
        ValueError: if the heads cannot be merged into so many equal groups.
    """
    config = transformer.config
    if kv_heads not in head_counts(config.n_kv_heads):
        raise ValueError(f"{config.n_kv_heads} heads cannot be merged into {kv_heads} equal groups.")
    if kv_heads == config.n_kv_heads:
        return transformer
    weights = dict(transformer.state_dict())
    with torch.device("meta"):
        smaller = Transformer(config.replace(n_kv_heads=kv_heads))
    integers: dict[str, Int8Matrix] = {}
    for name, module in transformer.named_modules():
        if name.endswith(("attn.W_K", "attn.W_V")):
            for part in ("weight", "bias"):
                value = getattr(module, part)
                if value is not None:
                    heads = value.unflatten(0, (config.n_kv_heads, config.d_head))
                    weights[f"{name}.{part}"] = merged(heads.float(), kv_heads, 0).flatten(0, 1).to(value.dtype)
        elif isinstance(module, Int8Matrix):
            integers[name] = module
            smaller.set_submodule(name, nn.Identity())  # its place, while the rest is filled
    smaller.load_state_dict({name: weights[name] for name in smaller.state_dict()}, strict=True, assign=True)
    for name, module in integers.items():
        smaller.set_submodule(name, module)
    return smaller.requires_grad_(False).eval()


def cache_cost(run: Trace, transformer: Transformer, choice: CacheChoice) -> CacheCost:
    """The text of `run` read once through a cache of this kind.

    Every query reads the keys and values as the cache gives them back, its own token's too: what writing the text
    token by token would do. Time: one pass.

    Raises:
        ValueError: for heads that cannot be merged so, bits other than 8 and 4, a window below 1, or a model that
            is no decoder.
    """
    config = transformer.config
    if config.kind != "decoder":
        raise ValueError("Only a decoder keeps a cache of what it has read.")
    smaller = with_merged_heads(transformer, choice.kv_heads)
    device, n = transformer.device, len(run.tokens)
    window = None if choice.window is None or choice.window >= n else choice.window
    cache = KVCache(smaller.config, room=n, window=window, bits=choice.bits, dtype=transformer.dtype, device=device)
    with torch.no_grad():
        logits = smaller(torch.tensor([run.tokens], device=device), cache=cache)[0]
    per_token = cache.nbytes / n
    kept = n if window is None else window
    return CacheCost(
        choice=CacheChoice(choice.kv_heads, choice.bits, window),
        nbytes=round(per_token * kept),
        per_token=per_token,
        loss=float(token_losses(logits, run.tokens).double().mean()) / math.log(2) if n > 1 else None,
        key_error=_error(run, choice, "k"),
        value_error=_error(run, choice, "v"),
    )


def _error(run: Trace, choice: CacheChoice, kind: str) -> float | None:
    """Relative root mean square change of the run's own keys or values, all layers and heads together."""
    config = run.config
    if choice.bits is None and choice.kv_heads == config.n_kv_heads:
        return None
    changed = whole = 0.0
    for layer in range(config.n_layers):
        name = "hook_v" if kind == "v" else "hook_rot_k" if config.positions == "rope" else "hook_k"
        x = run[f"blocks.{layer}.attn.{name}"].float()  # (T, H_kv, D)
        y = merged(x, choice.kv_heads, 1)
        if choice.bits is not None:
            y = dequantise(*quantise(y, choice.bits), choice.bits)
        y = y.repeat_interleave(config.n_kv_heads // choice.kv_heads, dim=1)
        changed += float((x - y).double().square().sum())
        whole += float(x.double().square().sum())
    return (changed / whole) ** 0.5 if whole else 0.0
