"""Maps of high-dimensional vectors: principal components, and t-SNE, which keeps neighbours together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

PROJECTIONS = ("pca", "tsne")
DIMENSIONS = (2, 3)
MIN_POINTS = 5  # fewer have no neighbourhoods that a map could keep
_PERPLEXITY = 8.0  # about how many neighbours count: small, as the maps are small
# The library's own learning rate and exaggeration are for thousands of points. They scatter a few dozen.
_LEARNING_RATE = 5.0
_EXAGGERATION = 4.0
_STEPS = 500


@dataclass(frozen=True)
class Projection:
    """`points` `(n, dimensions)`. `shares`: of the variance, by component; none where axes have no meaning.
    `kept`: see `neighbours_kept`."""

    points: Tensor
    shares: tuple[float, ...]
    kept: float


def project(vectors: np.ndarray, kind: str, dimensions: int) -> Projection:
    """`pca` or `tsne` of `(n, d)` vectors, by its name.

    Raises:
        ValueError: for another kind.
    """
    if kind not in PROJECTIONS:
        raise ValueError(f"The kinds of map are {', '.join(PROJECTIONS)}, not {kind!r}.")
    return (pca if kind == "pca" else tsne)(torch.from_numpy(vectors), dimensions)


def pca(vectors: Tensor, dimensions: int) -> Projection:
    """Principal components (Pearson 1901) of `(n, d)` vectors: the directions in which they differ most.

    Of each component's two signs the one with a positive largest weight is taken.
    """
    centred = (vectors - vectors.mean(0)).double()
    _, sizes, axes = torch.linalg.svd(centred, full_matrices=False)
    found = min(dimensions, len(sizes))
    axes = axes[:found]
    axes = axes * axes.gather(1, axes.abs().argmax(1, keepdim=True)).sign()
    points = torch.zeros(len(vectors), dimensions)
    points[:, :found] = (centred @ axes.T).float()
    variance = sizes.square()
    shares = variance[:found] / variance.sum().clamp_min(torch.finfo(torch.float64).tiny)
    every = (*shares.tolist(), *[0.0] * (dimensions - found))
    return Projection(points, every, neighbours_kept(vectors, points))


def tsne(vectors: Tensor, dimensions: int) -> Projection:
    """t-SNE (van der Maaten and Hinton 2008) of `(n, d)` vectors by scikit-learn, begun from the principal components.

    The same vectors give the same map.

    Raises:
        ValueError: for fewer than `MIN_POINTS` vectors.
    """
    if len(vectors) < MIN_POINTS:
        raise ValueError(f"A map of neighbours needs at least {MIN_POINTS} points, not {len(vectors)}.")
    from sklearn.manifold import TSNE  # takes a second, so not before somebody asks

    fit = TSNE(
        dimensions,
        perplexity=min(_PERPLEXITY, (len(vectors) - 1) / 3),
        early_exaggeration=_EXAGGERATION,
        learning_rate=_LEARNING_RATE,
        max_iter=_STEPS,
        init=pca(vectors, dimensions).points.numpy() * 1e-3,  # small, so that the forces decide
        method="exact",  # the approximation gains nothing below hundreds of points
        random_state=0,
    )
    points = torch.from_numpy(fit.fit_transform(vectors.double().numpy())).float()
    return Projection(points, (), neighbours_kept(vectors, points))


def neighbours_kept(vectors: Tensor, points: Tensor, count: int = 5) -> float:
    """Of each vector's `count` nearest (or all others, where there are fewer), the share that is among its nearest on
    the map too; mean over all. 1 for a single vector."""
    count = min(count, len(vectors) - 1)
    if count < 1:
        return 1.0
    found = []
    for places in (vectors.double(), points.double()):
        distances = torch.cdist(places, places, compute_mode="donot_use_mm_for_euclid_dist")
        found.append(distances.fill_diagonal_(torch.inf).argsort(dim=1, stable=True)[:, :count])
    shared = (found[0][:, :, None] == found[1][:, None, :]).any(-1)
    return float(shared.double().mean())
