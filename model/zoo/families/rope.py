"""How configs of all families write RoPE and its extension to longer texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.positions import llama3_divisors


def rope(data: Mapping[str, Any], d_rotary: int, theta: float = 10_000.0) -> dict[str, Any]:
    """`rope_theta` and `rope_divisors` for heads of which `d_rotary` features are turned.

    Raises:
        ValueError: for a scaling that we do not compute.
    """
    values = data.get("rope_parameters") or data.get("rope_scaling") or {}
    kind = values.get("rope_type", values.get("type", "default"))
    theta = values.get("rope_theta") or data.get("rope_theta") or theta
    if kind == "default":
        return {"rope_theta": theta}
    try:
        factor = values["factor"]
        if kind == "linear":  # Chen et al. 2023
            return {"rope_theta": theta, "rope_divisors": (factor,) * (d_rotary // 2)}
        if kind == "llama3":
            low, high = values["low_freq_factor"], values["high_freq_factor"]
            trained = values["original_max_position_embeddings"]
            divisors = llama3_divisors(d_rotary, theta, factor, low, high, trained)
            return {"rope_theta": theta, "rope_divisors": divisors}
    except KeyError as missing:
        raise ValueError(f"The RoPE scaling lacks {missing}.") from None
    raise ValueError(f"RoPE scaling of type {kind!r:.60} is not supported; known are default, linear and llama3.")
