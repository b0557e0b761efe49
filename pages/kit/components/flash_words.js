// The walk through the tiles in words: one row's arithmetic, what lies under the pointer; and small parts.

/** What row `query` went through in the tile of `step`: [name, line, …] each. */
function arithmetic(data, step, query) {
  const { words, places } = data;
  const [q0, , k0, k1] = places[step];
  const wide = k1 - k0;
  const own = query - q0;
  const { scores, weights, rows } = data.tiles[step];
  const [largest, factor, added, total] = rows.subarray(4 * own, 4 * own + 4);
  let before = -1;
  for (let i = 0; i < step; i++) if (query >= places[i][0] && query < places[i][1]) before = i;
  const old = before < 0 ? null : data.tiles[before].rows.subarray(4 * (query - places[before][0]));
  const some = (values, digits) => {
    const shown = Array.from(values.subarray(own * wide, own * wide + Math.min(wide, 6)));
    const text = shown.map((v) => (Number.isNaN(v) ? words.masked : format(v, digits)));
    return text.join("  ") + (wide > 6 ? "  …" : "");
  };
  if (total === 0) return [[words.scores, some(scores, 2)], [words.total, words.not_yet]];
  // Four decimals: with fewer, who reckons it again gets other last digits.
  const in_ = (value) => (value < 0 ? `(${format(value, 4)})` : format(value, 4));
  const begun = old !== null && old[3] > 0;
  const was = begun ? format(old[0], 4) : "−∞";
  const wasTotal = begun ? format(old[3], 4) : "0";
  const shrunk = format(factor, factor < 0.1 ? 5 : 3);
  return [
    [words.scores, some(scores, 3)],
    [words.largest, `${words.before} ${was} → ${format(largest, 4)}`],
    [words.factor, begun ? `e^(${was} − ${in_(largest)}) = ${shrunk}` : words.nothing_before],
    [words.weights, `e^(${words.score} − ${in_(largest)}): ${some(weights, 3)}`],
    [words.total, begun ? `${wasTotal} · ${shrunk} + ${format(added, 4)} = ${format(total, 4)}` : format(total, 4)],
    [words.values, begun ? filled(words.rescaled, { factor: shrunk }) : words.first_values],
  ];
}

/** The last step of row `query`, whose last tile was number `at`. */
function division(data, at, query) {
  const own = query - data.places[at][0];
  const total = data.tiles[at].rows[4 * own + 3];
  const sum = data.tiles[at].out[own * data.d];
  const out = data.final[query * data.d];
  return [
    [data.words.output, filled(data.words.divided, { total: format(total, 4) })],
    [data.words.first_number, `${format(sum, 3)} ÷ ${format(total, 4)} = ${format(out, 3)}`],
  ];
}

/** The tooltip of a cell, or of a row beside the matrix (column null): [name, value, classes] each. */
function whatIsThere(data, step, last, place) {
  const { words, labels, places, skipped } = data;
  const { row, column } = place;
  const list = [[`${words.query} ${row}`, labels[row], "strong query"]];
  const holds = ([q0, q1, k0, k1]) => row >= q0 && row < q1 && column >= k0 && column < k1;
  if (column !== null) {
    list.push([`${words.key} ${column}`, labels[column], "strong key"]);
    const tile = places.findIndex(holds);
    if (tile < 0 && skipped.some(holds)) list.push([words.skipped, "", "apart"]);
    else if (tile > step) list.push([words.later, `${words.tile} ${tile + 1}`, "apart"]);
    else if (tile < step) list.push([words.gone, `${words.tile} ${tile + 1}`, "apart"]);
    else {
      const [q0, , k0, k1] = places[tile];
      const at = (row - q0) * (k1 - k0) + column - k0;
      const { scores, weights } = data.tiles[tile];
      const hidden = Number.isNaN(scores[at]);
      list.push([words.score, hidden ? words.masked : format(scores[at], 3), "number apart"]);
      if (!hidden) list.push([words.weight, format(weights[at], 3), "number"]);
    }
  } else {
    const at = last[row];
    if (at < 0 || !data.tiles[at].rows[4 * (row - places[at][0]) + 3]) list.push([words.not_yet, "", "apart"]);
    else {
      const [largest, , , total] = data.tiles[at].rows.subarray(4 * (row - places[at][0]));
      list.push([words.largest, format(largest, 3), "number apart"], [words.total, format(total, 3), "number"]);
    }
  }
  return list;
}

/** The picture on a button. */
function sign(name) {
  const paths = {
    first: "M2 2h2v12H2zM14 2v12L9 8zM9 2v12L4 8z",
    back: "M3 2h2v12H3zM13 2v12L5 8z",
    play: "M4 2l10 6-10 6z",
    pause: "M4 2h3v12H4zM9 2h3v12H9z",
    next: "M3 2l8 6-8 6zM11 2h2v12h-2z",
    last: "M2 2l5 6-5 6zM7 2l5 6-5 6zM12 2h2v12h-2z",
  };
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  picture.setAttribute("viewBox", "0 0 16 16");
  picture.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", paths[name]);
  picture.append(path);
  return picture;
}

/** The flat arrays, tile by tile: scores and weights (R, C), rows (R, 4), out (R, d). */
function cut({ places, d }, [scores, weights, rows, outs]) {
  let [cells, lines] = [0, 0];
  return places.map(([q0, q1, k0, k1]) => {
    const [size, high] = [(q1 - q0) * (k1 - k0), q1 - q0];
    const tile = {
      scores: scores.subarray(cells, cells + size),
      weights: weights.subarray(cells, cells + size),
      rows: rows.subarray(4 * lines, 4 * (lines + high)),
      out: outs.subarray(d * lines, d * (lines + high)),
    };
    cells += size;
    lines += high;
    return tile;
  });
}

/** `text` with its {names} replaced. */
const filled = (text, values) => text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
