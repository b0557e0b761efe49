"""A formula whose value is computed from the very factors that are shown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Factor(NamedTuple):
    """A named number: `symbol` is how it is written in a formula ("d", "L"); a plain number names itself."""

    symbol: str
    value: float


def number(value: int) -> Factor:
    """A constant of the formula."""
    return Factor(str(value), value)


Product = tuple[Factor, ...]


@dataclass(frozen=True)
class Formula:
    """`outer` · (sum of `terms`), each of them a product.

    `symbols` and `numbers` write it with names and with the numbers put in; terms that are 0 stay in the first
    alone. `value` is exact while all factors are whole numbers or binary fractions below 2^53.
    """

    terms: tuple[Product, ...]
    outer: Product = ()

    @property
    def value(self) -> float:
        """What it comes to."""
        return math.prod(f.value for f in self.outer) * sum(math.prod(f.value for f in term) for term in self.terms)

    @property
    def count(self) -> int:
        """The value as a whole number: what is counted in parameters, bytes or operations."""
        return round(self.value)

    @property
    def symbols(self) -> str:
        """L·(2·d·d_q + 2·d·d_kv)"""
        return self._written(factor.symbol for factor in self._factors())

    @property
    def numbers(self) -> str:
        """32·(2·4,096·4,096 + 2·4,096·1,024)"""
        return self._written(_printed(factor.value) for factor in self._factors())

    def factors(self) -> dict[str, float]:
        """Every named factor once, in order of appearance; constants left out."""
        return {f.symbol: f.value for f in self._factors() if not f.symbol[0].isdigit()}

    def _factors(self) -> Iterator[Factor]:
        for product in (self.outer, *self.terms):
            yield from product

    def _written(self, words: Iterator[str]) -> str:
        outer, *terms = ["·".join(next(words) for _ in product) for product in (self.outer, *self.terms)]
        inside = " + ".join(terms)
        if not outer:
            return inside
        return f"{outer}·({inside})" if len(terms) > 1 else f"{outer}·{inside}"


def _printed(value: float) -> str:
    if float(value).is_integer():
        return f"{int(value):,}"
    # Above 0 and no whole number: bytes per value (0.5, 1.25), or what a machine does, given by its reader.
    return f"{value:,.6g}"
