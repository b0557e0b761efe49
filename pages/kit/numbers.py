"""Numbers as the pages print them: three digits where readers compare, units always."""

import math
from collections.abc import Sequence


def three_digits(value: float) -> str:
    """At least three digits without an exponent: 0.0421, 3.14, 57.3, 1,204."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 6)}f}"


def milliseconds(seconds: float) -> str:
    """The number of milliseconds, without the unit."""
    return three_digits(1e3 * seconds)


def megabytes(nbytes: int) -> str:
    """The number of megabytes (10⁶ bytes), without the unit."""
    return three_digits(nbytes / 1e6)


def short_count(count: int) -> str:
    """A count in three digits: 256, 3.33 K, 197 K, 2.10 M, 6.52 M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if count >= size:
            return f"{three_digits(count / size)} {suffix}"
    return str(count)


def shape(sizes: Sequence[int]) -> str:
    """10 × 8,192"""
    return " × ".join(f"{size:,}" for size in sizes)
