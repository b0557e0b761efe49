"""Where the parts of a tree of texts stand: columns by depth, and rows so that branches do not lie on each other."""

from collections.abc import Sequence

ENDLESS = 1_000_000  # columns; for what needs the rest of its row


def rows(parents: Sequence[int | None], columns: Sequence[int], widths: Sequence[int]) -> list[int]:
    """The row of every part, 0 the uppermost.

    parents: for each part the one before it, which comes earlier in the list; None at the root. columns: where each
    stands. widths: how many columns it takes up. The first child goes on in its parent's row, each other one begins a
    row below it, the nearest that is free as far as its branch goes: short branches share a row where they can.
    """
    children: dict[int | None, list[int]] = {}
    for part, parent in enumerate(parents):
        children.setdefault(parent, []).append(part)
    taken: list[list[tuple[int, int]]] = []  # per row: first column, and the first that is free again
    found = [0] * len(parents)
    waiting = [(part, 0) for part in reversed(children.get(None, []))]
    while waiting:
        part, above = waiting.pop()
        branch = [part]
        while branch[-1] in children:
            branch.append(children[branch[-1]][0])
        first, end = columns[part], max(columns[one] + widths[one] for one in branch)
        row = above
        while row < len(taken) and any(first < stop and start < end for start, stop in taken[row]):
            row += 1
        taken += [[] for _ in range(row + 1 - len(taken))]
        taken[row].append((first, end))
        # The deepest branch is put down first, right below; so no branch has to cross one that leaves further right.
        for one in branch:
            found[one] = row
            waiting += [(child, row + 1) for child in reversed(children.get(one, [])[1:])]
    return found
