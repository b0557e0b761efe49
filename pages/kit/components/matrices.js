// Matrices of attention. Rows are queries, columns are keys; all panels have the same geometry.

class Matrices {
  constructor(parent) {
    this.picks = new Picks();
    this.hover = null;
    this.active = 0; // the panel that the keyboard's tooltip belongs to
    this.root = element("div", "atlas matrices");
    this.frame = element("div", "frame");
    this.rows = element("canvas", "rows");
    this.stage = element("div", "stage");
    this.cells = element("canvas", "cells");
    this.marks = element("canvas", "marks");
    this.marks.tabIndex = 0;
    this.marks.setAttribute("role", "application");
    this.spoken = element("div", "spoken");
    this.spoken.setAttribute("aria-live", "polite");
    this.stage.append(this.cells, this.marks);
    this.frame.append(this.rows, this.stage);
    this.root.append(this.frame, this.spoken);
    parent.append(this.root);
    this.tip = new Tip(this.root);
    this.listen();
    this.stopWatching = watch(this.root, () => this.redraw());
  }

  /** Take over what the app sent; the reader's own last pick counts until the app has seen it. */
  update({ header, arrays, rest }) {
    const { labels_q: labelsQ, labels_k: labelsK } = header;
    const fits = this.query < labelsQ.length && this.key < labelsK.length;
    if (!(this.data && fits && this.picks.ahead(header.last_pick))) {
      this.query = header.query;
      this.key = header.key;
    }
    if (this.hover && !(this.hover.query < labelsQ.length && this.hover.key < labelsK.length)) this.point(null);
    this.data = header;
    this.values = arrays;
    this.levels = header.tiles ? tileLevels(header.tiles, rest) : null;
    this.marks.setAttribute("aria-label", header.words.label);
    this.marks.setAttribute("aria-description", header.words.help);
    this.writeAround();
    this.redraw();
    if (this.hover) this.explain();
  }

  /** A row per cell, a column per panel; nothing where a cell is masked. Those of all heads are a file of the app. */
  numbers() {
    const { labels_q: labelsQ, labels_k: labelsK, panels, words } = this.data;
    const heads = [words.query, words.key, ...panels.map((panel) => [panel.title, panel.subtitle].filter(Boolean).join(", "))];
    const cells = labelsQ.flatMap((q, r) => labelsK.map((k, c) => [q, k, ...this.values.map((values) => values[r * labelsK.length + c])]));
    return [heads, ...cells];
  }

  /** Titles and notes are elements: they wrap, can be translated and are read aloud. */
  writeAround() {
    const text = JSON.stringify(this.data.panels.map((p) => [p.title, p.subtitle, p.note]));
    if (text === this.around) return;
    this.around = text;
    this.stage.querySelectorAll(".above, .below").forEach((old) => old.remove());
    this.above = this.data.panels.map((panel) => {
      const box = element("div", "above");
      box.append(element("div", "title", panel.title), element("div", "subtitle", panel.subtitle));
      return box;
    });
    this.below = this.data.panels.map((panel) => element("div", "below", panel.note));
    this.stage.append(...this.above, ...this.below);
  }

  /** Layout, cells, marks. */
  redraw() {
    const width = this.root.clientWidth;
    if (!this.data || !width) return;
    const { labels_q: labelsQ, labels_k: labelsK, panels } = this.data;
    this.palette = dress(this.root, this.data.palettes);
    if (!this.data.tokens) {
      const { accent } = this.palette;
      this.palette = { ...this.palette, query: accent, key: accent };
      for (const role of ["query", "key"]) this.root.style.setProperty(`--${role}`, accent);
    }
    const family = getComputedStyle(this.root).fontFamily;
    this.look = {
      ...this.palette,
      font: (size, strong) => `${strong ? 650 : 400} ${size}px ${family}`,
    };
    const pen = this.marks.getContext("2d");
    const measure = (text, size) => {
      pen.font = this.look.font(size, true);
      return Math.min(pen.measureText(text.slice(0, 60)).width, 200);
    };
    const heights = (slot) => {
      for (const box of [...this.above, ...this.below]) box.style.width = `${slot}px`;
      const tallest = (boxes) => Math.max(...boxes.map((box) => box.offsetHeight));
      return { above: tallest(this.above), below: panels.some((p) => p.note) ? tallest(this.below) : 0 };
    };
    this.layout = arrange({
      width, count: panels.length, rows: labelsQ.length, columns: labelsK.length, side: this.data.side, tokens: this.data.tokens,
      labelsQ, labelsK, measure, heights, ratio: window.devicePixelRatio || 1, ...this.data.tiles,
    });
    const { gutter, size, text, places, height } = this.layout;
    pen.font = this.look.font(size, true);
    this.textsQ = labelsQ.map((label) => shortened(pen, label, gutter - 12));
    this.textsK = labelsK.map((label) => shortened(pen, label, Math.ceil(text)));
    this.stage.style.width = `${this.layout.width}px`;
    this.stage.style.height = `${height}px`;
    for (const [i, place] of places.entries()) {
      Object.assign(this.above[i].style, { left: `${place.x}px`, top: `${place.top}px` });
      Object.assign(this.below[i].style, { left: `${place.x}px`, top: `${place.bottom}px` });
    }
    this.paintCells();
    this.paintMarks();
    // Where the cells are, for those who look from outside (tests).
    this.marks.dataset.cell = this.layout.cell;
    this.marks.dataset.panels = JSON.stringify(places.map(({ x, y }) => [x, y]));
  }

  paintCells() {
    const { width, height, places, rows, columns } = this.layout;
    const { panels } = this.data;
    this.ratio = sharpness(width, height);
    const context = sized(this.cells, width, height, this.ratio);
    const hatch = hatching(context, this.palette, this.ratio);
    const dots = hatching(context, this.palette, this.ratio, true);
    if (this.levels) {
      paintTiles(context, this.layout, places[0], this.data.tiles, this.levels, this.palette, hatch, dots, this.ratio);
      return;
    }
    this.images = panels.map((panel, i) => pixels(panel, this.values[i], rows, columns, this.palette));
    for (const [i, place] of places.entries()) {
      paintPanel(context, this.layout, place, this.images[i], this.values[i], this.palette, hatch, panels[i].left_out ? dots : null);
    }
  }

  paintMarks() {
    const { width, height, gutter, places, across } = this.layout;
    const stage = sized(this.marks, width, height, this.ratio);
    const rows = sized(this.rows, gutter, height, this.ratio);
    const hover = this.hover ?? { query: null, key: null };
    const { ink, muted, paper, query, key } = this.palette;
    for (const [i, place] of places.entries()) {
      // A row of pictures needs no frame round it.
      const chosen = { ...(this.levels ? { cell: key } : { row: query, column: key, cell: ink }), paper, thin: 1.5, strong: 2.5 };
      const pointed = { ...(this.levels ? {} : { row: muted, column: muted }), cell: ink, paper, thin: 1, strong: 1.5 };
      paintMarks(stage, this.layout, place, hover, pointed);
      paintMarks(stage, this.layout, place, { query: this.query, key: this.key }, chosen);
      paintColumnLabels(stage, this.layout, place, this.textsK, this.key, hover.key, this.look);
      if (i % across === 0) {
        paintRowLabels(rows, this.layout, place, this.textsQ, this.query, hover.query, this.look);
      }
    }
    // Likewise what is chosen and what is pointed at.
    const written = (value) => (value === null ? "" : String(value));
    Object.assign(this.root.dataset, {
      query: written(this.query),
      key: written(this.key),
      hoverQuery: written(hover.query),
      hoverKey: written(hover.key),
    });
  }

  // ----------------------------------------------------------------------------------------------- reading out

  /** Query, key and the value of every panel at a place with both; what there is of a place with one. */
  rowsOf({ query, key }) {
    const { words, labels_q: labelsQ, labels_k: labelsK, panels, tokens } = this.data;
    const name = (word, position) => (tokens ? `${word} ${position}` : word);
    const rows = [];
    if (query !== null) rows.push([name(words.query, query), labelsQ[query], "strong query"]);
    if (key !== null) rows.push([name(words.key, key), labelsK[key], "strong key"]);
    if (query === null || key === null || this.levels) return rows;
    for (const [i, panel] of panels.entries()) {
      const value = this.values[i][query * labelsK.length + key];
      const none = (key === 0 && panel.left_out) || words.masked;
      const text = Number.isNaN(value) ? none : format(value, panel.digits);
      rows.push([panel.title, text, `number${i === 0 ? " apart" : ""}`]);
    }
    return rows;
  }

  /** The tooltip of what is pointed at. */
  explain() {
    const { panel, query, key } = this.hover;
    const { x, y } = this.pointer;
    const extra = [];
    if (this.layout.cell < 7 && !this.levels && query !== null && key !== null) {
      extra.push(magnified(this.values[panel], this.images[panel], this.layout, this.hover, this.palette, this.ratio, this.data.panels[panel].left_out));
    }
    this.tip.show(this.rowsOf({ query, key }), x, y, extra, this.touch);
  }

  // ----------------------------------------------------------------------------------------------- pointer, keys

  /** Mark what is pointed at; null for nothing. */
  point(place) {
    const before = this.hover;
    this.hover = place;
    this.root.querySelectorAll("canvas").forEach((canvas) => canvas.classList.toggle("pointing", place !== null));
    if (!place) this.tip.hide();
    if (this.layout && (before?.query !== place?.query || before?.key !== place?.key)) this.paintMarks();
  }

  pick(query, key) {
    if (query === this.query && key === this.key) return;
    this.query = query;
    this.key = key;
    this.paintMarks();
    this.spoken.textContent = this.rowsOf({ query, key }).map((row) => row.slice(0, 2).join(" ")).join(", ");
    this.picks.send({ query, key });
  }

  placeOf(event) {
    const box = event.currentTarget.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return event.currentTarget === this.rows ? rowAt(this.layout, y) : under(this.layout, x, y);
  }

  listen() {
    for (const canvas of [this.rows, this.marks]) {
      canvas.addEventListener("pointermove", (event) => {
        if (event.pointerType === "touch") return;
        this.touch = false;
        this.pointer = { x: event.clientX, y: event.clientY };
        this.point(this.placeOf(event));
        if (this.hover) this.explain();
      });
      canvas.addEventListener("pointerleave", (event) => {
        if (event.pointerType !== "touch") this.point(null);
      });
      canvas.addEventListener("pointerdown", (event) => { this.touch = event.pointerType === "touch"; });
      canvas.addEventListener("click", (event) => {
        const place = this.placeOf(event);
        if (!place) return;
        this.active = place.panel;
        this.pick(place.query ?? this.query, place.key ?? this.key);
        if (!this.touch) return;
        this.pointer = { x: event.clientX, y: event.clientY };
        this.point(place);
        this.explain();
      });
    }
    this.marks.addEventListener("keydown", (event) => this.press(event));
    this.marks.addEventListener("blur", () => this.point(null));
    this.frame.addEventListener("scroll", () => {
      if (this.following) this.following = false;
      else this.point(null);
    }, { passive: true });
    this.ignoreOutside = pressedOutside(this.root, () => this.point(null));
  }

  press(event) {
    if (event.key === "Escape") this.point(null);
    const { labels_q: labelsQ, labels_k: labelsK } = this.data;
    const next = moved(event, this.query, this.key, labelsQ.length, labelsK.length);
    if (!next) return;
    event.preventDefault();
    this.pick(next.query, next.key);
    this.touch = false;
    // The panel may have scrolled out of sight: bring the column back, then explain the cell beside it.
    const { cell, places, gutter } = this.layout;
    const place = places[this.active] ?? places[0];
    const left = place.x + next.key * cell;
    const visible = this.frame.clientWidth - gutter;
    const before = this.frame.scrollLeft;
    if (left < before) this.frame.scrollLeft = left - cell;
    if (left + cell > before + visible) this.frame.scrollLeft = left + 2 * cell - visible;
    this.following = this.frame.scrollLeft !== before;
    const box = this.marks.getBoundingClientRect();
    this.pointer = { x: box.left + left + cell, y: box.top + place.y + (next.query + 1) * cell };
    this.point({ panel: this.active, query: next.query, key: next.key });
    this.explain();
  }

  close() {
    this.stopWatching();
    this.picks.stop();
    this.tip.hide();
    this.ignoreOutside();
    this.root.remove();
  }
}

export default renderer(Matrices);
