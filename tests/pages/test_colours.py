"""Colours of both palettes: text is readable, and meaning survives the two common kinds of colour blindness."""

import itertools

import numpy as np
import pytest

from pages.kit.figures import style
from pages.kit.palette import DARK, LIGHT, Palette

PALETTES = pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])

# Machado, Oliveira and Fernandes (2009), severity 1.0; for linear RGB.
SIMULATIONS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
}


def _linear(colour: str) -> np.ndarray:
    share = np.array(style.rgb(colour)) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def _lab(linear: np.ndarray) -> np.ndarray:
    """CIE L*a*b* under D65 of a linear RGB colour."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = to_xyz @ np.clip(linear, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = [t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def _distance(first: str, second: str, kind: str) -> float:
    matrix = np.array(SIMULATIONS[kind])
    return float(np.linalg.norm(_lab(matrix @ _linear(first)) - _lab(matrix @ _linear(second))))


@PALETTES
@pytest.mark.parametrize("name", ["ink", "muted", "accent", "query", "key", "value"])
@pytest.mark.parametrize("ground", ["paper", "panel"])
def test_text_is_readable(palette: Palette, name: str, ground: str) -> None:
    assert style.contrast(getattr(palette, name), getattr(palette, ground)) >= 4.5


def test_contrast_is_the_published_formula() -> None:
    assert style.contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert style.contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("kind", SIMULATIONS)
@PALETTES
def test_query_key_and_value_stay_apart(palette: Palette, kind: str) -> None:
    for first, second in itertools.combinations((palette.query, palette.key, palette.value), 2):
        assert _distance(first, second, kind) > 20, (first, second)


@pytest.mark.parametrize("kind", SIMULATIONS)
@PALETTES
def test_both_ends_of_the_diverging_scale_stay_apart(palette: Palette, kind: str) -> None:
    low, middle, high = palette.diverging
    assert _distance(low, high, kind) > 20
    assert min(_distance(low, middle, kind), _distance(high, middle, kind)) > 35


@pytest.mark.parametrize("kind", SIMULATIONS)
@PALETTES
def test_the_sequential_scale_runs_one_way(palette: Palette, kind: str) -> None:
    matrix = np.array(SIMULATIONS[kind])
    lightness = [_lab(matrix @ _linear(style.at(palette.sequential, share)))[0] for share in np.linspace(0, 1, 31)]
    steps = np.diff(lightness)
    assert np.all(steps < 0) or np.all(steps > 0)


def test_simulation_confuses_what_it_should() -> None:
    """A red and a green of the same kind, far apart for most readers, come close without red or green cones."""
    plain = float(np.linalg.norm(_lab(_linear("#C04040")) - _lab(_linear("#6B7A1E"))))
    assert plain > 60
    assert _distance("#C04040", "#6B7A1E", "deuteranopia") < plain / 2


def test_readable_ink_on_any_fill() -> None:
    for grey in range(0, 256, 5):
        fill = f"#{grey:02X}{grey:02X}{grey:02X}"
        assert style.contrast(style.readable_on(fill), fill) >= 4.5


def test_palettes_differ() -> None:
    for name in ("paper", "ink", "accent", "query", "key", "value", "sequential", "diverging"):
        assert getattr(LIGHT, name) != getattr(DARK, name)
