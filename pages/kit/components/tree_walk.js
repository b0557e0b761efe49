// Ways through a tree: parts with their column and row, and for each the places of its children.

/** Each part behind its parent, branch by branch: the order in which a screen reader takes them for a tree. */
function branchByBranch(parts, children) {
  const order = [];
  const waiting = [0];
  while (waiting.length) {
    const index = waiting.pop();
    order.push(parts[index]);
    waiting.push(...[...children[index]].reverse());
  }
  return order;
}

/** The place that a key leads to from the part `index`; null for keys that lead nowhere. */
function walked(key, index, parts, children) {
  if (key === "ArrowLeft") return parts[index].parent ?? index;
  if (key === "ArrowRight") return children[index][0] ?? index;
  if (key === "ArrowUp") return beside(index, -1, parts);
  if (key === "ArrowDown") return beside(index, 1, parts);
  if (key === "Home") return 0;
  if (key !== "End") return null;
  let last = index;
  while (children[last].length) [last] = children[last];
  return last;
}

/** The nearest part in the next row that has one, above (−1) or below (1). */
function beside(index, way, parts) {
  const here = parts[index];
  const far = (other) => Math.abs(parts[other].row - here.row) * 1000 + Math.abs(parts[other].column - here.column);
  const there = [...parts.keys()].filter((other) => (parts[other].row - here.row) * way > 0);
  return there.reduce((best, other) => (far(other) < far(best) ? other : best), there[0] ?? index);
}
