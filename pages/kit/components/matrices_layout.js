// Where everything is: sizes of cells, labels and panels for a width, and what lies under a point.

const GAP = 22; // between panels
const NARROW = 600; // below this width the panels stay in one row and scroll sideways under fixed row labels
const LABELLED = 9.5; // cells of at least this size have all their labels
const STEEPEST = (75 / 180) * Math.PI; // of column labels that still lean

/** The size of labels every `pitch` pixels. Chinese characters fill their line, so in small cells they have to be smaller. */
function labelSize(pitch, labels) {
  if (labels.some((label) => /\p{Script=Han}/u.test(label))) return Math.max(9, Math.min(13, Math.floor(0.9 * pitch)));
  return pitch >= 15 ? 13 : pitch >= 12 ? 12 : 11;
}

/** How steeply column labels rise: the narrower the columns, the steeper, so that neighbours do not touch. Numbers do not lean. */
function slope(pitch, size, tokens) {
  if (!tokens) return Math.PI / 2;
  return Math.max(Math.PI / 4, Math.min(STEEPEST, Math.asin(Math.min(1, (1.15 * size) / pitch))));
}

/** The cell size that a text of `n` tokens asks for before panels move to a second row. */
function comfortable(n) {
  return n <= 48 ? Math.min(16, Math.max(LABELLED, 220 / n)) : Math.min(9, Math.max(1.2, 300 / n));
}

/**
 * Everything in CSS pixels, relative to the canvas of the cells; row labels have a canvas of their own, `gutter` wide.
 *
 * width: the room. heads, notes: heights of what is written above and below the panels, for a given slot width.
 * measure: the width of a text at a font size. Returns cell, gutter, head (height of column labels), step (every how
 * many tokens a label), size (of labels), angle (of column labels), slot (width per panel), places [{x, y, top, bottom}], width, height.
 */
function arrange({ width, count, rows, columns, side, tokens, labelsQ, labelsK, measure, heights, ratio, least = null, most = 48 }) {
  const longest = (labels, size, most) => Math.min(most, Math.max(...labels.map((label) => measure(label, size))));
  const narrow = width < NARROW;
  const limit = Math.min(most, Math.max(side, Math.min(LABELLED * columns, 660)) / Math.max(rows, columns));
  const per = (n) => {
    const labels = longest(labelsQ, 13, narrow ? 84 : 120) + 12;
    const tail = tokens ? longest(labelsK, 13, 96) * Math.SQRT1_2 : 0;
    return { labels, tail, cell: (width - labels - tail - (n - 1) * GAP) / (n * columns) };
  };
  let across = count;
  let cell;
  if (narrow) {
    const top = count > 1 ? Math.min(limit, 24) : limit; // one alone takes the room there is
    const low = least ?? Math.min(12, Math.min(side, 420) / columns); // before the frame scrolls
    cell = Math.max(columns > 256 ? 1 : 2, Math.min(Math.max(per(1).cell, low), top));
  } else {
    const wanted = Math.min(comfortable(columns), limit);
    for (const n of new Set([count, Math.ceil(count / 2), 1])) {
      across = n;
      cell = Math.min(per(n).cell, n < count ? 1.4 * limit : limit);
      if (cell >= wanted) break;
    }
    cell = Math.max(least ?? 1, cell);
  }
  // Whole device pixels: every cell is equally large and its edges are sharp.
  cell = Math.max(1, Math.floor(cell * ratio)) / ratio;
  const step = cell >= LABELLED ? 1 : Math.ceil(12 / cell);
  const size = labelSize(cell * step, [...labelsQ, ...labelsK]);
  const gutter = Math.ceil(longest(labelsQ, size, narrow ? 84 : 120)) + 12;
  const angle = slope(cell * step, size, tokens);
  const text = longest(labelsK, size, 96);
  const head = Math.ceil(tokens ? text * Math.sin(angle) + size * Math.cos(angle) : size) + 8;
  const slot = Math.max(columns * cell, Math.min(200, (width - gutter - 4) / across - GAP));
  const tail = Math.max(0, text * Math.cos(angle) + size - (slot - columns * cell) - cell / 2);
  const { above, below } = heights(slot);
  const tall = above + head + rows * cell + below;
  const places = Array.from({ length: count }, (_, i) => {
    const line = Math.floor(i / across);
    const x = Math.round((i % across) * (slot + GAP));
    const top = Math.round(line * (tall + GAP));
    return { x: x + 2, top, y: Math.round(top + above + head), bottom: Math.round(top + tall - below) };
  });
  return {
    cell, size, step, gutter, head, angle, text, slot, across, places, rows, columns, tokens,
    width: Math.ceil(Math.min(count, across) * (slot + GAP) - GAP + tail) + 4,
    height: Math.ceil(Math.ceil(count / across) * (tall + GAP) - GAP) + 4,
  };
}

/** What lies at (x, y) of the cells' canvas: {panel, query, key}, with null for the one that is not pointed at. */
function under(layout, x, y) {
  const { cell, rows, columns, head, angle, places } = layout;
  for (const [panel, place] of places.entries()) {
    const row = Math.floor((y - place.y) / cell);
    const column = Math.floor((x - place.x) / cell);
    if (row >= 0 && row < rows && column >= 0 && column < columns) return { panel, query: row, key: column };
    const rise = place.y - y;
    if (rise > 0 && rise <= head) {
      const slanted = Math.floor((x - rise / Math.tan(angle) - place.x) / cell);
      if (slanted >= 0 && slanted < columns) return { panel, query: null, key: slanted };
    }
  }
  return null;
}

/** The row at height `y`: {panel, query, key: null} or null. */
function rowAt(layout, y) {
  for (const [panel, place] of layout.places.entries()) {
    const row = Math.floor((y - place.y) / layout.cell);
    if (row >= 0 && row < layout.rows) return { panel, query: row, key: null };
  }
  return null;
}

/** Positions of the labels that are drawn: every `step`-th, and those in `always`, which others make room for. */
function labelled(count, step, always) {
  const chosen = [...new Set(always.filter((i) => i !== null && i < count))];
  const every = [];
  for (let i = 0; i < count; i += step) {
    if (chosen.every((c) => Math.abs(c - i) >= step)) every.push(i);
  }
  return [...every, ...chosen];
}
