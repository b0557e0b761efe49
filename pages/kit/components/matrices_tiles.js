// Cells that are pictures of their own: the patterns of all heads, as head_tiles.py sends them.

/** The levels of all tiles, one after the other: 1 (nothing) to 255 (all), 0 where a cell is masked. */
function tileLevels({ down, across }, bytes) {
  const size = down * across;
  const visible = [];
  for (let i = 0; i < size; i++) if (bytes[i]) visible.push(i);
  const count = visible.length ? (bytes.length - size) / visible.length : 0;
  const levels = new Uint8Array(count * size);
  let from = size;
  for (let start = 0; start < levels.length; start += size) {
    for (const cell of visible) levels[start + cell] = bytes[from++];
  }
  return levels;
}

/** Draw every tile in its cell of the layout. A row of them is one image of a pixel a cell, cut up: all might be too high. */
function paintTiles(context, layout, place, { down, across, left_out: leftOut }, levels, palette, hatch, dots, ratio) {
  const { cell, rows, columns } = layout;
  const words = new Uint32Array(256); // the first stays clear
  for (const [i, [r, g, b]] of ramp(palette.sequential, 255).entries()) {
    words[i + 1] = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  }
  const image = new ImageData(across, down * columns);
  const pixels = new Uint32Array(image.data.buffer);
  const strip = new OffscreenCanvas(image.width, image.height);
  const gap = Math.max(1, Math.round(cell * ratio * 0.04)) / ratio;
  const unit = (cell - 2 * gap) / Math.max(down, across);
  const [wide, tall] = [across * unit, down * unit];
  // Of more cells than pixels none may be lost: those that share a pixel mix.
  context.imageSmoothingEnabled = unit * ratio < 1;
  context.imageSmoothingQuality = "high";
  context.strokeStyle = palette.line;
  context.lineWidth = 1;
  for (let row = 0; row < rows; row++) {
    for (let i = 0; i < pixels.length; i++) pixels[i] = words[levels[row * pixels.length + i]];
    strip.getContext("2d").putImageData(image, 0, 0);
    for (let column = 0; column < columns; column++) {
      const [x, y] = [place.x + column * cell + gap, place.y + row * cell + gap];
      context.fillStyle = hatch;
      context.fillRect(x, y, wide, tall);
      if (leftOut) {
        context.fillStyle = dots;
        context.fillRect(x, y, unit, tall);
      }
      context.drawImage(strip, 0, column * down, across, down, x, y, wide, tall);
      context.strokeRect(x - 0.5, y - 0.5, wide + 1, tall + 1);
    }
  }
}
