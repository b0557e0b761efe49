"""Maps: PCA against numpy's SVD, t-SNE deterministic and near what it should be, neighbours counted."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.manifold import trustworthiness

from model.analysis.projection import MIN_POINTS, neighbours_kept, pca, project, tsne


def cloud(n: int = 40, d: int = 16, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)) * np.linspace(3, 0.2, d)).float()


def groups() -> torch.Tensor:
    """Three groups of ten, far apart."""
    generator = np.random.default_rng(1)
    centres = 5 * generator.normal(size=(3, 30))
    return torch.from_numpy(np.repeat(centres, 10, axis=0) + 0.3 * generator.normal(size=(30, 30))).float()


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_pca_is_the_singular_value_decomposition(dimensions, seed):
    vectors = cloud(seed=seed)
    centred = vectors.double().numpy() - vectors.double().numpy().mean(0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    found = pca(vectors, dimensions)
    expected = centred @ axes[:dimensions].T
    for column in range(dimensions):
        own, their = found.points[:, column].numpy(), expected[:, column]
        np.testing.assert_allclose(own, their * np.sign(own @ their), atol=1e-5)
    np.testing.assert_allclose(found.shares, (sizes**2 / (sizes**2).sum())[:dimensions], atol=1e-6)
    left, lengths, _ = torch.pca_lowrank(vectors, q=16)
    torch.testing.assert_close(found.points.abs(), (left * lengths)[:, :dimensions].abs(), atol=1e-3, rtol=0)
    total = torch.from_numpy(centred).square().sum()
    assert float(found.points.square().sum() / total) == pytest.approx(sum(found.shares), abs=1e-5)


def test_pca_has_a_sign_of_its_own():
    """Mirrored axes are as good, so one of them is chosen: the same cloud must not flip between two readers."""
    vectors = cloud()
    first = pca(vectors, 3).points
    for order in (torch.arange(39, -1, -1), torch.randperm(40, generator=torch.Generator().manual_seed(3))):
        torch.testing.assert_close(pca(vectors[order], 3).points, first[order], atol=1e-4, rtol=1e-4)


def test_a_distance_on_the_pca_map_is_never_longer():
    vectors = cloud()
    for dimensions in (2, 3):
        points = pca(vectors, dimensions).points
        shown, real = ((x[:, None] - x[None]).norm(dim=-1) for x in (points, vectors))
        assert bool((shown <= real + 1e-4).all())


@pytest.mark.parametrize("vectors", [cloud(1), cloud(2), torch.ones(5, 4)])
def test_pca_of_next_to_nothing(vectors):
    found = pca(vectors, 3)
    assert found.points.shape == (len(vectors), 3)
    assert bool(found.points.isfinite().all())
    assert sum(found.shares) == pytest.approx(1 if len(vectors) == 2 else 0)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_tsne_is_the_same_every_time_and_keeps_groups(dimensions):
    vectors = groups()
    found = tsne(vectors, dimensions)
    assert torch.equal(found.points, tsne(vectors, dimensions).points)
    assert found.points.shape == (30, dimensions)
    distances = torch.cdist(found.points, found.points)
    same = torch.arange(30)[:, None] // 10 == torch.arange(30)[None] // 10
    distances.fill_diagonal_(torch.inf)
    assert bool(same[torch.arange(30), distances.argmin(1)].all())
    assert found.shares == ()


def test_tsne_keeps_more_neighbours_than_pca(storyteller):
    vectors = torch.nn.functional.normalize(storyteller.transformer.embed.weight[300:360], dim=1)
    for dimensions in (2, 3):
        near, wide = tsne(vectors, dimensions), pca(vectors, dimensions)
        assert near.kept > wide.kept + 0.1
        scores = [trustworthiness(vectors.numpy(), one.points.numpy(), n_neighbors=5) for one in (near, wide)]
        assert scores[0] > scores[1], "scikit-learn's own measure says so too"


def test_kept_neighbours_against_counting():
    generator = torch.Generator().manual_seed(0)
    vectors, points = torch.randn(12, 6, generator=generator), torch.randn(12, 2, generator=generator)
    shares = []
    for i in range(12):
        near = [sorted(set(range(12)) - {i}, key=lambda j: float((x[i] - x[j]).norm()))[:5] for x in (vectors, points)]
        shares.append(len(set(near[0]) & set(near[1])) / 5)
    assert neighbours_kept(vectors, points) == pytest.approx(sum(shares) / 12)
    assert neighbours_kept(vectors, vectors) == 1
    assert neighbours_kept(vectors[:1], points[:1]) == 1
    assert neighbours_kept(vectors[:3], points[:3]) == 1, "all others are neighbours"


def test_projections_by_name():
    vectors = cloud(MIN_POINTS)
    assert torch.equal(project(vectors.numpy(), "pca", 2).points, pca(vectors, 2).points)
    assert torch.equal(project(vectors.numpy(), "tsne", 2).points, tsne(vectors, 2).points)
    with pytest.raises(ValueError, match="umap"):
        project(vectors.numpy(), "umap", 2)
    with pytest.raises(ValueError, match="at least 5"):
        tsne(vectors[:4], 2)


def test_the_library_is_not_loaded_before_somebody_asks():
    code = "import sys, model.analysis.projection; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
