// What is drawn: cells once per run, size and theme; marks and labels at every move of the pointer.

/** One pixel a cell, in the colours of the panel's scale; masked cells stay clear. */
function pixels(panel, values, rows, columns, palette) {
  const colours = ramp(panel.scale === "diverging" ? palette.diverging : palette.sequential);
  const words = new Uint32Array(colours.map(([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0));
  const last = colours.length - 1;
  const { high, log_from: from, threshold } = panel;
  const share =
    panel.scale === "diverging" ? (v) => (v / high + 1) / 2
    : from !== null ? (v) => (v > from && v >= threshold ? Math.log(v / from) / Math.log(high / from) : 0)
    : (v) => (v >= threshold ? v / high : 0);
  const image = new ImageData(columns, rows);
  const cells = new Uint32Array(image.data.buffer);
  for (let i = 0; i < values.length; i++) {
    if (!Number.isNaN(values[i])) cells[i] = words[Math.round(Math.min(Math.max(share(values[i]), 0), 1) * last)];
  }
  const canvas = new OffscreenCanvas(columns, rows);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Diagonal lines on paper, for cells that are masked; `dotted`: dots, for those that are left out. */
function hatching(context, palette, ratio, dotted = false) {
  const size = Math.max(4, Math.round(5 * ratio));
  const tile = new OffscreenCanvas(size, size);
  const pen = tile.getContext("2d");
  const [paper, muted] = [channels(palette.paper), channels(palette.muted)];
  pen.fillStyle = palette.paper;
  pen.fillRect(0, 0, size, size);
  pen.strokeStyle = css(paper.map((v, i) => v + (muted[i] - v) * 0.4));
  pen.lineWidth = Math.max(1, ratio * 0.8);
  if (dotted) {
    pen.fillStyle = pen.strokeStyle;
    pen.beginPath();
    pen.arc(size / 2, size / 2, Math.max(0.8, ratio * 0.9), 0, 2 * Math.PI);
    pen.fill();
  }
  for (const shift of dotted ? [] : [-size, 0, size]) {
    pen.beginPath();
    pen.moveTo(shift - 1, size + 1);
    pen.lineTo(shift + size + 1, -1);
    pen.stroke();
  }
  const pattern = context.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

/** Draw one panel's cells at `place`; with `dots`, the first key is left out. */
function paintPanel(context, layout, place, image, values, palette, hatch, dots = null) {
  const { cell, rows, columns } = layout;
  const [wide, tall] = [columns * cell, rows * cell];
  context.imageSmoothingEnabled = false;
  context.drawImage(image, place.x, place.y, wide, tall);
  if (cell >= 7) {
    context.fillStyle = palette.paper;
    for (let i = 1; i < columns; i++) context.fillRect(place.x + i * cell - 0.5, place.y, 1, tall);
    for (let i = 1; i < rows; i++) context.fillRect(place.x, place.y + i * cell - 0.5, wide, 1);
  }
  context.fillStyle = hatch;
  context.beginPath();
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      if (!Number.isNaN(values[row * columns + column])) continue;
      const first = column;
      while (column < columns && Number.isNaN(values[row * columns + column])) column++;
      context.rect(place.x + first * cell, place.y + row * cell, (column - first) * cell, cell);
    }
  }
  context.fill();
  if (dots) {
    context.fillStyle = dots;
    context.fillRect(place.x, place.y, cell, tall);
  }
  context.strokeStyle = palette.line;
  context.lineWidth = 1;
  context.strokeRect(place.x - 0.5, place.y - 0.5, wide + 1, tall + 1);
}

/** A frame around cells, outside of small ones so that it hides none of them. On a `ground` it is seen on any colour. */
function frame(context, x, y, width, height, colour, thickness, cell, ground = null) {
  const out = cell < 7 ? thickness / 2 + 0.5 : 0;
  const box = [x - out, y - out, width + 2 * out, height + 2 * out];
  for (const [stroke, wide] of [[ground, thickness + 2], [colour, thickness]]) {
    if (stroke === null) continue;
    context.strokeStyle = stroke;
    context.lineWidth = wide;
    context.strokeRect(...box);
  }
}

/** Frames of a chosen or pointed-at row, column and cell in one panel. */
function paintMarks(context, layout, place, { query, key }, look) {
  const { cell, rows, columns } = layout;
  const [x, y] = [place.x + (key ?? 0) * cell, place.y + (query ?? 0) * cell];
  if (look.row && query !== null) frame(context, place.x, y, columns * cell, cell, look.row, look.thin, cell);
  if (look.column && key !== null) frame(context, x, place.y, cell, rows * cell, look.column, look.thin, cell);
  if (query !== null && key !== null) frame(context, x, y, cell, cell, look.cell, look.strong, cell, look.paper);
}

/** Labels above a panel, those of tokens slanted. `texts` are already cut to size. */
function paintColumnLabels(context, layout, place, texts, chosen, hovered, look) {
  const { cell, size, columns, step, angle, tokens } = layout;
  for (const i of labelled(columns, step, [chosen, hovered])) {
    const strong = i === chosen || i === hovered;
    context.save();
    context.translate(place.x + (i + 0.5) * cell, place.y - 5);
    context.font = look.font(size, strong);
    context.fillStyle = i === chosen ? look.key : i === hovered ? look.ink : step > 1 ? look.muted : look.ink;
    if (tokens) {
      context.rotate(-angle);
      context.fillText(texts[i], size * 0.2, size * 0.33 * Math.sin(angle));
    } else {
      context.textAlign = "center";
      context.fillText(texts[i], 0, 0);
    }
    context.restore();
  }
}

/** Labels left of the rows, on the canvas of the gutter. */
function paintRowLabels(context, layout, place, texts, chosen, hovered, look) {
  const { cell, size, rows, step, gutter } = layout;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const i of labelled(rows, step, [chosen, hovered])) {
    const strong = i === chosen || i === hovered;
    context.font = look.font(size, strong);
    context.fillStyle = i === chosen ? look.query : i === hovered ? look.ink : step > 1 ? look.muted : look.ink;
    context.fillText(texts[i], gutter - 8, place.y + (i + 0.5) * cell + 0.5);
  }
}

/** The neighbourhood of a cell, enlarged: where cells are a few pixels small, this is what the pointer is on. */
function magnified(values, image, layout, { query, key }, palette, ratio, leftOut) {
  const [reach, zoom] = [5, 11];
  const wide = (2 * reach + 1) * zoom;
  const canvas = document.createElement("canvas");
  const context = sized(canvas, wide, wide, ratio);
  context.fillStyle = palette.paper;
  context.fillRect(0, 0, wide, wide);
  context.imageSmoothingEnabled = false;
  const [left, top] = [(reach - key) * zoom, (reach - query) * zoom];
  const [columns, rows] = [layout.columns * zoom, layout.rows * zoom];
  context.fillStyle = hatching(context, palette, ratio);
  context.fillRect(left, top, columns, rows);
  if (leftOut) {
    context.fillStyle = hatching(context, palette, ratio, true);
    context.fillRect(left, top, zoom, rows);
  }
  context.drawImage(image, left, top, columns, rows);
  context.fillStyle = palette.paper;
  for (let i = 1; i <= 2 * reach; i++) {
    context.fillRect(i * zoom - 0.5, 0, 1, wide);
    context.fillRect(0, i * zoom - 0.5, wide, 1);
  }
  frame(context, reach * zoom, reach * zoom, zoom, zoom, palette.ink, 2, zoom, palette.paper);
  return canvas;
}
