"""Attention in plain Python, to be read: lists of numbers, no library but math."""

from __future__ import annotations

import math

Vector = list[float]
Matrix = list[Vector]

# fmt: off


def dot_products(q: Matrix, k: Matrix) -> Matrix:
    """Step 1: how well each query fits each key."""
    return [
        [sum(a * b for a, b in zip(query, key)) for key in k]
        for query in q
    ]


def scale(scores: Matrix, d: int) -> Matrix:
    """Step 2: divide by √d: long vectors must not mean large scores."""
    return [[score / math.sqrt(d) for score in row] for row in scores]


def mask(scores: Matrix, visible: list[list[bool]]) -> Matrix:
    """Step 3: what may not be seen gets minus infinity."""
    return [
        [score if seen else -math.inf for score, seen in zip(row, seens)]
        for row, seens in zip(scores, visible)
    ]


def softmax(scores: Matrix) -> Matrix:
    """Step 4: turn each row into shares that sum to 1."""
    pattern = []
    for row in scores:
        largest = max(row)
        if largest == -math.inf:  # nothing may be seen: no share for anyone
            pattern.append([0.0] * len(row))
            continue
        powers = [math.exp(score - largest) for score in row]
        total = sum(powers)
        pattern.append([power / total for power in powers])
    return pattern


def mix(pattern: Matrix, v: Matrix) -> Matrix:
    """Step 5: add up the values, each times its share."""
    return [
        [sum(share * value[j] for share, value in zip(row, v))
         for j in range(len(v[0]))]
        for row in pattern
    ]


# fmt: on
STEPS = (dot_products, scale, mask, softmax, mix)
