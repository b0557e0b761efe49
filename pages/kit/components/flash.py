"""Flash attention tile by tile: a matrix that is never there, and what is remembered of its rows; step and play."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pages.kit.components.mounting import Picked, mount, register
from pages.kit.components.packing import position, wording

WORDS = (
    "label", "help", "slider", "first", "back", "play", "stop", "next", "last", "at", "dividing", "query", "key",
    "masked", "tile", "score", "scores", "weight", "weights", "largest", "factor", "total", "values", "output",
    "before", "nothing_before", "rescaled", "first_values", "divided", "first_number", "not_yet", "waits", "later",
    "gone", "skipped",
)  # fmt: skip
_component = register(
    "flash", "matrices_layout.js", "matrices_paint.js", "flash_paint.js", "flash_words.js", "flash.js"
)

Place = tuple[int, int, int, int]


@dataclass(frozen=True)
class Step:
    """One tile of R rows and C columns at `place` (first query, last + 1, first key, last + 1).

    scores, weights: (R, C), scores not finite where masked. largest, factor, added, total: (R,). out: (R, D), not yet
    divided.
    """

    place: Place
    scores: ArrayLike
    weights: ArrayLike
    largest: ArrayLike
    factor: ArrayLike
    added: ArrayLike
    total: ArrayLike
    out: ArrayLike


def flash(
    steps: Sequence[Step],
    skipped: Sequence[Place],
    out: ArrayLike,
    labels: Sequence[str],
    step: int,
    query: int | None,
    *,
    id: str,
    key: str,
    words: Mapping[str, str],
    on_change: Callable[[Picked], None] | None = None,
) -> Picked | None:
    """Draw the walk through `steps`, as it is after number `step`; one more, the last, divides the sums.

    skipped: tiles with nothing visible. out: (T, D), the divided result. labels: of the T tokens. query: the row whose
    arithmetic is shown, None for the one whose sums shrink most in each step. id: names these numbers; while it stays,
    a walk that is being played goes on. on_change: called with a pick whose `query` is the chosen row or None, and
    whose `key` is the step gone to. words: the translated words of `WORDS`; "at" has {tile}, {tiles}, {queries} and
    {keys}, "rescaled" {factor}, "divided" {total}: the component fills them in.

    Raises:
        ValueError: if there is no tile, a shape does not fit, a position does not exist or a word is missing.
    """
    header, arrays = encode(steps, skipped, out, labels, step, query, id=id, words=words)
    return mount(_component, key, header, arrays, (len(labels), len(steps) + 1), on_change)


def encode(
    steps: Sequence[Step],
    skipped: Sequence[Place],
    out: ArrayLike,
    labels: Sequence[str],
    step: int,
    query: int | None,
    *,
    id: str,
    words: Mapping[str, str],
) -> tuple[dict[str, Any], list[NDArray[np.float32]]]:
    """What `flash` sends: five flat float32 arrays (scores, weights, numbers of rows, outputs, result).

    Raises: as `flash`.
    """
    if not steps or not labels:
        raise ValueError("no tile")
    final = np.asarray(out, dtype=np.float32)
    if final.ndim != 2 or final.shape[0] != len(labels):
        raise ValueError(f"a result of shape {final.shape} for {len(labels)} tokens")
    cells = [_cells(one, final.shape[1]) for one in steps]
    scores, weights, rows, outs = (np.concatenate([part[i].ravel() for part in cells]) for i in range(4))
    header = {
        "id": id,
        "labels": list(labels),
        "places": [list(map(int, one.place)) for one in steps],
        "skipped": [list(map(int, place)) for place in skipped],
        "d": int(final.shape[1]),
        "step": position(step, len(steps) + 1, "step"),
        "query": position(query, len(labels), "query"),
        "scores_high": _extent(scores),
        "total_high": _extent(rows.reshape(-1, 4)[:, 3]),
        "out_high": _extent(outs),
        "final_high": _extent(final),
        "words": wording(words, WORDS),
    }
    return header, [scores, weights, rows, outs, final]


def _cells(step: Step, d: int) -> tuple[NDArray[np.float32], ...]:
    first_query, last_query, first_key, last_key = step.place
    shape = (last_query - first_query, last_key - first_key)
    scores = np.array(step.scores, dtype=np.float32)
    scores[~np.isfinite(scores)] = np.nan
    weights = np.asarray(step.weights, dtype=np.float32)
    numbers = [np.asarray(x, dtype=np.float32) for x in (step.largest, step.factor, step.added, step.total)]
    out = np.asarray(step.out, dtype=np.float32)
    fits = scores.shape == weights.shape == shape and out.shape == (shape[0], d)
    if not fits or any(x.shape != shape[:1] for x in numbers):
        raise ValueError(f"the tile at {tuple(step.place)}: its numbers have other shapes")
    return scores, weights, np.stack(numbers, axis=1), out


def _extent(values: NDArray[np.float32]) -> float:
    """The largest size of a finite value, for a scale; 1 where there is none above 0."""
    finite = values[np.isfinite(values)]
    return float(np.abs(finite).max(initial=0.0)) or 1.0
