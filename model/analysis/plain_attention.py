"""Attention in plain Python, to be read: lists of numbers, no library but math."""

from math import exp, sqrt

Row = list[float]
Rows = list[Row]


def attention(q: Row, k: Rows, v: Rows, mask: Row, d: int) -> Rows:
    """What one token takes from the others.

    q: its query, d numbers. k, v: key and value of every token.
    mask: 0 for tokens that it may look at, -infinity for others.
    """
    scores = [sum(a * b for a, b in zip(q, key)) for key in k]
    scaled = [score / sqrt(d) for score in scores]
    masked = [score + hidden for score, hidden in zip(scaled, mask)]
    powers = [exp(score - max(masked)) for score in masked]
    pattern = [power / sum(powers) for power in powers]
    z = [sum(share * x for share, x in zip(pattern, xs)) for xs in zip(*v)]
    return [scores, scaled, masked, pattern, z]
