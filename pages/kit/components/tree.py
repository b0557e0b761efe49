"""Texts with one beginning as a tree: each token a chip on the ground of its probability, on a branch as thick."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pages.kit.components.mounting import Picked, mount, register
from pages.kit.components.packing import wording
from pages.kit.components.tree_layout import ENDLESS, rows

WORDS = ("label", "help", "root", "token", "probability", "total", "mean", "kept", "dropped", "hint")
KINDS = ("text", "kept", "dropped")
_component = register("tree", "token_chips.css", "token_chips.js", "tree_walk.js", "tree.js")


@dataclass(frozen=True)
class Twig:
    """One token of the tree.

    serial: its number for as long as the figure is there, 1 or more; the root has 0. parent: its place in the list of
    twigs, None at the root. label: as people read it, of whose characters the first `spaces` stand for spaces.
    probability: 0 to 1. kind: one of `KINDS`. total, mean: printed.
    """

    serial: int
    parent: int | None
    label: str
    spaces: int
    probability: float
    kind: str
    total: str
    mean: str
    special: bool = False


@dataclass(frozen=True)
class Leaf:
    """What stands at the end of a text, behind the twig `parent`. Of the kind "dropped" it needs little room.

    short: stands at the edge of the frame as long as the end lies beyond it; "" for nothing.
    """

    parent: int
    text: str
    kind: str
    short: str = ""


def tree(
    root: str,
    twigs: Sequence[Twig],
    leaves: Sequence[Leaf],
    here: int | None,
    *,
    key: str,
    words: Mapping[str, str],
    writing: bool = False,
    on_change: Callable[[int], None] | None = None,
) -> None:
    """Draw the tree behind `root`, the text that all share; it scrolls in its frame.

    here: the serial of the twig that is marked, None for none. words: the translated words of `WORDS`; "hint" tells
    in the tooltip what picking does. writing: it grows, and the frame follows. on_change: called with the serial of the
    twig that the reader picks, 0 for the root.

    Raises:
        ValueError: if a probability is not between 0 and 1, a parent comes after its twig, or a word is missing.
    """
    header = encode(root, twigs, leaves, here, words=words, writing=writing)
    serials = {0, *(twig.serial for twig in twigs)}

    def changed(pick: Picked) -> None:
        if on_change and pick.query in serials and pick.query is not None:
            on_change(pick.query)

    mount(_component, key, header, (), (max(serials) + 1, 1), changed)


def encode(
    root: str,
    twigs: Sequence[Twig],
    leaves: Sequence[Leaf],
    here: int | None,
    *,
    words: Mapping[str, str],
    writing: bool = False,
) -> dict[str, Any]:
    """What `tree` sends: the twigs with their column and row, the root being alone in column 0.

    Raises: as `tree`.
    """
    parents: list[int | None] = [None]
    columns, widths = [0], [1]
    for number, twig in enumerate(twigs):
        if not 0 <= twig.probability <= 1 + 1e-6:
            raise ValueError(f"a probability of {twig.probability}")
        if twig.kind not in KINDS:
            raise ValueError(f"twig {number} is of the kind {twig.kind!r}")
        if twig.parent is not None and not 0 <= twig.parent < number:
            raise ValueError(f"the parent of twig {number} is {twig.parent}")
        parent = 0 if twig.parent is None else twig.parent + 1
        parents.append(parent)
        columns.append(columns[parent] + 1)
        widths.append(1)
    for leaf in leaves:
        if not 0 <= leaf.parent < len(twigs):
            raise ValueError(f"there is no twig {leaf.parent}")
        parents.append(leaf.parent + 1)
        columns.append(columns[leaf.parent + 1] + 1)
        widths.append(1 if leaf.kind == "dropped" else ENDLESS)
    places = rows(parents, columns, widths)
    behind = len(twigs) + 1
    return {
        "root": root,
        "twigs": [
            {
                "s": twig.serial,
                "parent": parents[i],
                "column": columns[i],
                "row": places[i],
                "label": twig.label,
                "spaces": twig.spaces,
                "p": round(float(twig.probability), 6),
                "kind": twig.kind,
                "total": twig.total,
                "mean": twig.mean,
                "special": twig.special,
            }
            for i, twig in enumerate(twigs, start=1)
        ],
        "leaves": [
            {
                "parent": parents[i],
                "column": columns[i],
                "row": places[i],
                "text": leaf.text,
                "kind": leaf.kind,
                "short": leaf.short,
            }
            for i, leaf in enumerate(leaves, start=behind)
        ],
        "rows": max(places) + 1,
        "here": here,
        "writing": writing,
        "words": wording(words, WORDS),
    }
