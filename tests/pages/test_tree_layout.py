"""The layout of a tree of texts: no branch lies on another, and short ones share rows."""

import random

from pages.kit.components.tree_layout import ENDLESS, rows


def test_a_layout_made_by_hand() -> None:
    # 0 ─ 1 ─ 2 ─ 3        two short branches from 0 and from 2, one long from 1
    #     └───────── 5 ─ 6
    parents = [None, 0, 1, 2, 0, 1, 5, 2]
    columns = [0, 1, 2, 3, 1, 2, 3, 3]
    assert rows(parents, columns, [1] * 8) == [0, 0, 0, 0, 1, 2, 2, 1]
    assert rows(parents, columns, [1, 1, 1, 1, ENDLESS, 1, 1, 1]) == [0, 0, 0, 0, 3, 2, 2, 1]
    assert rows([], [], []) == []
    assert rows([None, None], [0, 0], [1, 1]) == [0, 1]


def test_no_two_parts_stand_in_one_place() -> None:
    chance = random.Random(4)
    for _ in range(60):
        parents: list[int | None] = [None]
        columns, widths = [0], [1]
        for part in range(1, 80):
            parent = chance.randrange(max(0, part - 12), part)
            parents.append(parent)
            columns.append(columns[parent] + 1)
            widths.append(chance.choice([1, 1, 1, 2]))
        found = rows(parents, columns, widths)
        places = [(found[i], column) for i in range(80) for column in range(columns[i], columns[i] + 1)]
        assert len(set(places)) == 80
        leaves = set(range(80)) - set(parents)
        cells = [(found[i], c) for i in leaves for c in range(columns[i], columns[i] + widths[i])]
        assert len(set(cells)) == len(cells)
        for part, parent in enumerate(parents):
            if parent is not None:
                assert found[part] >= found[parent]
