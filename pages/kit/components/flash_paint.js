// The walk through the tiles as a picture: the matrix that is never there, and beside it what is remembered of each row.

const WIDE = 780; // from this width on both stand side by side

/**
 * Where everything is, in CSS pixels. n: tokens, d: numbers a row of the output has. Returns cell, size, step, angle,
 * tokens, gutter, columns and rows as `matrices_layout.js` has them, above (how long a column's label may be), grid and
 * state {x, y}, slot (width of a number's column), strip {x, width}, numbers (whether they fit), width, height.
 */
function flashLayout({ width, n, d, labels, measure, ratio }) {
  const narrow = width < WIDE;
  const longest = (size, most) => Math.min(most, Math.max(...labels.map((label) => measure(label, size))));
  const gutter = Math.ceil(longest(13, narrow ? 84 : 120)) + 12;
  const above = narrow ? 64 : 96;
  const last = Math.max(24, longest(13, above) * Math.SQRT1_2); // what the last column's label leans over
  const side = Math.min(n > 128 ? 520 : 420, width - gutter - (narrow ? last : 0));
  const cell = Math.max(1, Math.floor(Math.min(30, side / n) * ratio)) / ratio;
  const step = cell >= LABELLED ? 1 : Math.ceil(12 / cell);
  const size = labelSize(cell * step, labels);
  const angle = slope(cell * step, size, true);
  const text = longest(size, above);
  const head = Math.ceil(Math.max(text * Math.sin(angle) + size * Math.cos(angle), 22)) + 8;
  const tail = Math.ceil(text * Math.cos(angle) + size);
  const numbers = cell >= 12;
  const slot = numbers ? (narrow ? 46 : 56) : 26;
  const tall = n * cell;
  const grid = { x: gutter, y: head };
  const state = narrow ? { x: gutter, y: head + tall + 44 } : { x: gutter + tall + Math.max(30, tail), y: head };
  const from = state.x + 3 * slot + 10;
  const wide = Math.max(60, Math.min(d * 10, width - from - 4));
  return {
    cell, size, step, angle, tokens: true, gutter, above, columns: n, rows: n, d,
    grid, state, slot, numbers, narrow, head,
    strip: { x: from, width: wide },
    width: Math.max(width, from + wide + 4),
    height: Math.ceil(state.y + tall) + 4,
  };
}

/** The matrix: tiles behind us in a tint, the one at work in colours, masked ones hatched, the rest not there. */
function paintGrid(context, layout, data, step, look, hatch) {
  const { cell, grid, rows } = layout;
  const box = ([q0, q1, k0, k1]) => [grid.x + k0 * cell, grid.y + q0 * cell, (k1 - k0) * cell, (q1 - q0) * cell];
  context.fillStyle = hatch;
  for (const place of data.skipped) context.fillRect(...box(place));
  context.fillStyle = css(channels(look.accent), 0.16);
  for (const place of data.places.slice(0, step)) context.fillRect(...box(place));
  context.strokeStyle = look.line;
  context.lineWidth = 1;
  const lines = [...data.places, ...data.skipped];
  if (lines.length <= 200) for (const place of lines) context.strokeRect(...box(place));
  context.strokeRect(grid.x - 0.5, grid.y - 0.5, rows * cell + 1, rows * cell + 1);
  if (step >= data.places.length) return;
  const place = data.places[step];
  const { scores } = data.tiles[step];
  const [high, wide] = [place[1] - place[0], place[3] - place[2]];
  const [x, y, width, height] = box(place);
  context.fillStyle = look.paper;
  context.fillRect(x, y, width, height);
  const panel = { scale: "diverging", high: data.scores_high, log_from: null, threshold: 0 };
  const part = { cell, rows: high, columns: wide };
  paintPanel(context, part, { x, y }, pixels(panel, scores, high, wide, look), scores, look, hatch);
  frame(context, x, y, width, height, look.ink, 2, cell);
}

/** What is remembered of every row after `step`: largest score, the last factor, sum of weights, sum of values. */
function paintState(context, layout, data, step, last, look) {
  const { cell, state, slot, strip, rows, d, numbers } = layout;
  const image = new ImageData(d, rows);
  const words = new Uint32Array(image.data.buffer);
  const colours = ramp(look.diverging);
  const pick = (scale, share) => scale[Math.round(Math.min(Math.max(share, 0), 1) * (scale.length - 1))];
  const rising = ramp(look.sequential);
  const done = step >= data.places.length;
  const high = done ? data.final_high : data.out_high;
  const now = done ? null : data.places[step];
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = look.font(Math.min(12, layout.size), false);
  for (let row = 0; row < rows; row++) {
    const at = last[row];
    if (at < 0) continue;
    const tile = data.tiles[at];
    const own = row - data.places[at][0];
    const [largest, factor, , total] = tile.rows.subarray(4 * own, 4 * own + 4);
    if (total === 0) continue; // all that this row has met is masked
    const fresh = now && row >= now[0] && row < now[1];
    const shades = [
      [largest, pick(colours, (largest / data.scores_high + 1) / 2)],
      [factor, pick(rising, 1 - factor)], // the more the sums shrink, the stronger
      [total, pick(rising, total / data.total_high)],
    ];
    const y = state.y + row * cell;
    for (const [i, [value, colour]] of shades.entries()) {
      if (i === 1 && !(fresh && factor > 0)) continue; // it belongs to a step, and to sums that were there before
      context.fillStyle = css(colour);
      context.fillRect(state.x + i * slot, y, slot - 2, cell - (cell >= 7 ? 1 : 0));
      if (!numbers) continue;
      context.fillStyle = luminance(colour) > 0.18 ? "#000" : "#fff";
      context.fillText(format(value, Math.abs(value) >= 100 ? 0 : 2), state.x + i * slot + slot / 2 - 1, y + cell / 2);
    }
    const values = done ? data.final.subarray(row * d, (row + 1) * d) : tile.out.subarray(own * d, (own + 1) * d);
    for (let i = 0; i < d; i++) {
      const [r, g, b] = pick(colours, (values[i] / high + 1) / 2);
      words[row * d + i] = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    }
  }
  const canvas = new OffscreenCanvas(d, rows);
  canvas.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, strip.x, state.y, strip.width, rows * cell);
  context.fillStyle = look.paper;
  if (cell >= 7) for (let i = 1; i < rows; i++) context.fillRect(strip.x, state.y + i * cell - 1, strip.width, 1);
  context.strokeStyle = look.line;
  context.lineWidth = 1;
  context.strokeRect(strip.x - 0.5, state.y - 0.5, strip.width + 1, rows * cell + 1);
  context.strokeRect(state.x - 1.5, state.y - 0.5, 3 * slot + 1, rows * cell + 1);
  if (now) {
    const tall = (now[1] - now[0]) * cell;
    frame(context, state.x - 1, state.y + now[0] * cell, strip.x + strip.width - state.x + 2, tall, look.ink, 2, cell);
  }
}

/** Titles of the columns of numbers. */
function paintHeads(context, layout, words, done, look) {
  const { state, slot, strip } = layout;
  context.font = look.font(12, false);
  context.fillStyle = look.muted;
  context.textBaseline = "bottom";
  context.textAlign = "center";
  if (layout.numbers) {
    for (const [i, name] of [words.largest, words.factor, words.total].entries()) {
      context.fillText(shortened(context, name, slot + 4), state.x + (i + 0.5) * slot - 1, state.y - 6);
    }
  } else {
    context.textAlign = "left";
    for (const [i, name] of [words.largest, words.factor, words.total].entries()) {
      context.save();
      context.translate(state.x + (i + 0.5) * slot - 2, state.y - 5);
      context.rotate(-Math.PI / 4);
      context.fillText(shortened(context, name, 60), 0, 4);
      context.restore();
    }
  }
  context.textAlign = "left";
  const title = done ? words.output : words.values;
  const room = layout.numbers ? 0 : 34; // beside the slanted titles
  context.fillText(shortened(context, title, strip.width - room), strip.x + room, state.y - 6);
}
