"""Numbers as the pages print them, on every page alike: one way for each kind of quantity, a real minus, 1,204.

three_digits    sizes and lengths that readers compare
signed_digits   the same where the range is wide
signed          logits and scores, two decimals
bits            entropies and costs
probability     probabilities and weights
percent         parts of a whole
power_of_ten    differences that should be 0
memory          bytes, in powers of 1,024
with_prefix     operations, bytes a second: large numbers with a unit
count           parameters
"""

import math
from collections.abc import Sequence


def three_digits(value: float) -> str:
    """At least three digits without an exponent: 0.0421, 3.14, 57.3, 1,204."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}".replace("-", "−")
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 6)}f}".replace("-", "−")


def probability(value: float) -> str:
    """Three decimals; below 0.001 the first digit that is not 0: 0.285, 0.00003, and < 0.000001."""
    if value >= 1e-3 or value == 0:
        return f"{value:.3f}"
    return "< 0.000001" if value < 1e-6 else f"{value:.{-math.floor(math.log10(value))}f}"


def bits(value: float) -> str:
    """Two decimals, without the unit: 3.18; a rounding error below zero is 0.00."""
    return signed(value)


def percent(share: float, decimals: int = 1) -> str:
    """A share of 1: 12.3%, −1.5%; < 0.1% for what is more than nothing, 0.0% for nothing."""
    least = 0.1**decimals
    if share and abs(100 * share) < least:
        return f"{'<' if share > 0 else '> −'} {least:.{decimals}f}%".replace("− ", "−")
    return f"{signed(100 * share, decimals)}%"


def interval(low: float, high: float, *inside: float) -> list[str]:
    """Numbers between 0 and 1 with as many decimals as tell `low` from `high`, four at least."""
    decimals = next((n for n in range(4, 16) if f"{low:.{n}f}" != f"{high:.{n}f}"), 16)
    return [f"{value:.{decimals}f}" for value in (low, high, *inside)]


def decimals_of_ratio(one: float, other: float) -> int:
    """How many decimals two numbers need, at least two, for the quotient of what is printed to be theirs to one."""
    wanted = f"{one / other:.1f}"
    for decimals in range(2, 12):
        upper, lower = (float(f"{value:.{decimals}f}") for value in (one, other))
        if lower and f"{upper / lower:.1f}" == wanted:
            return decimals
    return 12


def plain(value: float) -> str:
    """A number that somebody typed: 1,000,000,000, 0.35, −3; beyond what anybody reads, 1.0·10³⁰⁰."""
    if value and not 1e-6 <= abs(value) < 1e15:
        return power_of_ten(value)
    return f"{value:,.6f}".rstrip("0").rstrip(".").replace("-", "−")


def milliseconds(seconds: float) -> str:
    """The number of milliseconds, without the unit."""
    return three_digits(1e3 * seconds)


def mebibytes(nbytes: int) -> str:
    """The number of MiB (2²⁰ bytes), without the unit."""
    return three_digits(nbytes / 2**20)


def memory(nbytes: float) -> str:
    """Bytes in powers of 1,024, with the unit: 512 B, 6.00 KiB, 2.00 GiB, 1.27 TiB."""
    for power, unit in ((70, "ZiB"), (60, "EiB"), (50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes >= 2**power:
            return f"{three_digits(nbytes / 2**power)}\u00a0{unit}"
    return f"{nbytes:,.4g}\u00a0B"


def with_prefix(value: float, unit: str = "") -> str:
    """A large number in three digits with the prefix of its thousands: 350 GFLOP, 3.35 TB/s, 26.4 M."""
    for size, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")):
        if value >= size:
            if value >= 1e4 * size:  # beyond the last prefix
                return f"{power_of_ten(value)}\u00a0{unit}".rstrip()
            return f"{three_digits(value / size)}\u00a0{prefix}{unit}"
    return f"{value:,.4g}\u00a0{unit}".rstrip()


def count(value: float) -> str:
    """Parameters or tokens in three digits, as the field writes them: 6.52 M, 175 B, 1.40 T."""
    return with_prefix(value).replace("G", "B")


def short_count(count: int) -> str:
    """A count in three digits: 256, 3.33 K, 197 K, 2.10 M, 6.52 M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if count >= size:
            return f"{three_digits(count / size)} {suffix}"
    return str(count)


def shape(sizes: Sequence[int]) -> str:
    """10 × 8,192"""
    return " × ".join(f"{size:,}" for size in sizes)


def signed(value: float, decimals: int = 2) -> str:
    """With a real minus, and none before zero: −1.50, 0.00, 20.19."""
    printed = f"{value:,.{decimals}f}"
    return f"−{printed[1:]}" if printed.startswith("-") and printed.strip("-0.,") else printed.removeprefix("-")


def signed_digits(value: float) -> str:
    """`three_digits` with a real minus: −0.0421, 57.3; from 100,000 on as a power of ten."""
    size = abs(value)
    printed = power_of_ten(size) if 1e5 <= size < math.inf else three_digits(size)
    return f"−{printed}" if value < 0 else printed


def power_of_ten(value: float) -> str:
    """Two digits and a power of ten, for differences: 1.9·10⁻⁶, −2.0·10⁻⁸; 0 for none at all."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}".replace("-", "−")
    digits, exponent = f"{value:.1e}".replace("-", "−", value < 0).split("e")
    return f"{digits}·10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
