// Attention as lines from queries (left) to keys (right), as wide and opaque as the weight.

class Lines {
  static ROW = 24;
  static INSET = 4; // room for the strongest line and its label above the first and below the last row

  constructor(parent) {
    this.picks = new Picks();
    this.hover = null; // {side: "query" | "key", index}
    this.root = element("div", "atlas lines");
    this.inner = element("div", "inner");
    this.heads = element("div", "heads");
    this.frame = element("div", "frame");
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.spacer = element("div");
    this.spoken = element("div", "spoken");
    this.spoken.setAttribute("aria-live", "polite");
    this.spacer.append(this.canvas);
    this.frame.append(this.spacer);
    this.inner.append(this.heads, this.frame);
    this.root.append(this.inner, this.spoken);
    parent.append(this.root);
    this.tip = new Tip(this.root);
    this.listen();
    this.stopWatching = watch(this.root, () => this.redraw());
  }

  update({ header, arrays }) {
    const { labels_q: labelsQ, labels_k: labelsK, words } = header;
    const fits = this.query < labelsQ.length && this.key < labelsK.length;
    const before = this.query;
    if (!(this.data && fits && this.picks.ahead(header.last_pick))) {
      this.query = header.query;
      this.key = header.key;
    }
    if (this.hover && this.hover.index >= (this.hover.side === "query" ? labelsQ : labelsK).length) this.point(null);
    this.data = header;
    [this.weights] = arrays;
    this.heads.replaceChildren(element("span", "query", words.query), element("span", "key", words.key));
    this.canvas.setAttribute("aria-label", words.label);
    this.canvas.setAttribute("aria-description", words.help);
    this.redraw();
    if (this.query !== before) this.reveal(this.query);
  }

  /** A row per pair of tokens. */
  numbers() {
    const { labels_q: labelsQ, labels_k: labelsK, words } = this.data;
    const pairs = labelsQ.flatMap((q, r) => labelsK.map((k, c) => [q, k, this.weights[r * labelsK.length + c]]));
    return [[words.query, words.key, words.weight ?? "weight"], ...pairs];
  }

  /** Sizes, then everything. */
  redraw() {
    if (!this.data || !this.root.clientWidth) return;
    const { labels_q: labelsQ, labels_k: labelsK, max_height: most } = this.data;
    this.palette = dress(this.root, this.data.palettes);
    const family = getComputedStyle(this.root).fontFamily;
    this.font = (strong, size = 13) => `${strong ? 650 : 400} ${size}px ${family}`;
    const code = getComputedStyle(this.root).getPropertyValue("--st-code-font");
    this.numerals = `12px ${code || "monospace"}`;
    const total = Math.max(labelsQ.length, labelsK.length) * Lines.ROW + 2 * Lines.INSET;
    this.frame.style.maxHeight = `${most}px`;
    this.spacer.style.height = `${total}px`;
    this.height = Math.min(total, most);
    this.width = this.frame.clientWidth;
    const pen = this.canvas.getContext("2d");
    pen.font = this.font(true);
    const widest = (labels) => Math.max(...labels.map((label) => pen.measureText(label.slice(0, 60)).width));
    const cut = (labels, room) => labels.map((label) => shortened(pen, label, room));
    this.value = 10 * (this.data.digits + 2) * 0.72 + 10; // room for a number outside of the labels
    const room = Math.max(40, Math.min(150, this.width * 0.27 - this.value / 2));
    this.left = this.value + Math.min(room, Math.ceil(widest(labelsQ))) + 10;
    this.right = this.width - this.value - Math.min(room, Math.ceil(widest(labelsK))) - 10;
    this.textsQ = cut(labelsQ, room);
    this.textsK = cut(labelsK, room);
    const [head, tail] = this.heads.children;
    head.style.width = `${this.left - 8}px`;
    tail.style.marginLeft = `${this.right - this.left + 16}px`;
    this.paint();
    // Where the columns are, for those who look from outside (tests).
    Object.assign(this.canvas.dataset, { left: this.left, right: this.right, row: Lines.ROW, inset: Lines.INSET });
  }

  /** What is seen of it at the current scroll position. */
  paint() {
    if (!this.width) return;
    const pen = sized(this.canvas, this.width, this.height, sharpness(this.width, this.height));
    const { labels_q: labelsQ, labels_k: labelsK } = this.data;
    const only = this.hover ?? (this.query === null ? null : { side: "query", index: this.query });
    pen.lineCap = "round";
    if (!this.hover) {
      // Of a text that scrolls, the rows that are seen: those of hundreds more would be one dark block.
      for (let q = 0; q < labelsQ.length; q++) {
        if (q !== this.query && this.inSight(q)) this.paintFrom(pen, q, this.palette.accent, 0.42);
      }
    }
    if (only?.side === "query") this.paintFrom(pen, only.index, this.palette.query, 0.9);
    if (only?.side === "key") {
      for (let q = 0; q < labelsQ.length; q++) this.paintLine(pen, q, only.index, channels(this.palette.key), 0.9);
    }
    pen.textBaseline = "middle";
    for (let q = 0; q < labelsQ.length; q++) this.paintToken(pen, "query", q, only);
    for (let k = 0; k < labelsK.length; k++) this.paintToken(pen, "key", k, only);
    const written = (value) => (value === null || value === undefined ? "" : String(value));
    Object.assign(this.root.dataset, {
      query: written(this.query),
      key: written(this.key),
      hoverQuery: written(this.hover?.side === "query" ? this.hover.index : null),
      hoverKey: written(this.hover?.side === "key" ? this.hover.index : null),
    });
  }

  paintFrom(pen, q, colour, most) {
    const rgb = channels(colour);
    for (let k = 0; k < this.data.labels_k.length; k++) this.paintLine(pen, q, k, rgb, most);
  }

  /** One line, if it is to be drawn at all and passes through what is seen. */
  paintLine(pen, q, k, rgb, most) {
    const weight = this.weight(q, k);
    const share = Math.min(weight / this.data.high, 1);
    if (!(weight >= this.data.threshold && share * most > 1 / 255)) return;
    const [from, to] = [this.y(q), this.y(k)];
    if (Math.max(from, to) < 0 || Math.min(from, to) > this.height) return;
    const middle = (this.left + this.right) / 2;
    pen.strokeStyle = css(rgb, share * most);
    pen.lineWidth = 0.8 + 3.2 * share;
    pen.beginPath();
    pen.moveTo(this.left, from);
    pen.bezierCurveTo(middle, from, middle, to, this.right, to);
    pen.stroke();
  }

  /** A token, its ground by the weight that the shown lines bring it, and that weight outside of it. */
  paintToken(pen, side, index, only) {
    const y = this.y(index);
    if (y < -Lines.ROW || y > this.height + Lines.ROW) return;
    const left = side === "query";
    const { ink, muted } = this.palette;
    const role = left ? this.palette.query : this.palette.key;
    const text = (left ? this.textsQ : this.textsK)[index];
    const chosen = (left ? this.query : this.key) === index;
    const pointed = this.hover?.side === side && this.hover.index === index;
    pen.font = this.font(chosen || pointed);
    pen.textAlign = left ? "right" : "left";
    const [edge, out] = left ? [this.left - 8, -1] : [this.right + 8, 1];
    const reached = only && only.side !== side;
    const weight = !reached ? NaN : left ? this.weight(index, only.index) : this.weight(only.index, index);
    if (weight >= this.data.threshold && weight > 0) {
      const wide = pen.measureText(text).width + 10;
      pen.fillStyle = css(channels(this.palette[only.side]), 0.3 * Math.min(weight / this.data.high, 1));
      pen.beginPath();
      pen.roundRect(left ? edge + 5 - wide : edge - 5, y - 10, wide, 20, 4);
      pen.fill();
    }
    pen.fillStyle = chosen ? role : reached && Number.isNaN(weight) ? muted : ink;
    pen.fillText(text, edge, y);
    if (!(weight >= Math.max(this.data.threshold, 0.5 * 10 ** -this.data.digits))) return;
    const wide = pen.measureText(text).width;
    pen.font = this.numerals;
    pen.fillStyle = muted;
    pen.fillText(format(weight, this.data.digits), edge + out * (wide + 10), y);
  }

  weight(q, k) {
    return this.weights[q * this.data.labels_k.length + k];
  }

  /** The middle of a row, on the canvas. */
  y(index) {
    return (index + 0.5) * Lines.ROW + Lines.INSET - this.frame.scrollTop;
  }

  inSight(index) {
    const y = this.y(index);
    return y >= 0 && y <= this.height;
  }

  // -------------------------------------------------------------------------------------------- reading, picking

  rowsOf(query, key) {
    const { words, labels_q: labelsQ, labels_k: labelsK, digits } = this.data;
    const rows = [];
    if (query !== null) rows.push([`${words.query} ${query}`, labelsQ[query], "strong query"]);
    if (key !== null) rows.push([`${words.key} ${key}`, labelsK[key], "strong key"]);
    if (query !== null && key !== null) {
      const weight = this.weight(query, key);
      const none = (key === 0 && this.data.left_out) || words.masked;
      const text = Number.isNaN(weight) ? none : format(weight, digits);
      rows.push([words.weight, text, "number apart"]);
    }
    return rows;
  }

  explain() {
    const { side, index } = this.hover;
    const rows = side === "query" ? this.rowsOf(index, this.key) : this.rowsOf(this.query, index);
    this.tip.show(rows, this.pointer.x, this.pointer.y, [], this.touch);
  }

  point(place) {
    const changed = this.hover?.side !== place?.side || this.hover?.index !== place?.index;
    this.hover = place;
    this.canvas.classList.toggle("pointing", place !== null);
    if (!place) this.tip.hide();
    if (changed && this.data) this.paint();
  }

  pick(query, key) {
    if (query === this.query && key === this.key) return;
    this.query = query;
    this.key = key;
    this.paint();
    this.spoken.textContent = this.rowsOf(query, key).map((row) => row.slice(0, 2).join(" ")).join(", ");
    this.picks.send({ query, key });
  }

  /** Scroll the frame, and only it, so that a row is seen. */
  reveal(index) {
    if (index === null) return;
    const top = index * Lines.ROW;
    const { scrollTop } = this.frame;
    if (top < scrollTop) this.frame.scrollTop = Math.max(0, top - Lines.ROW);
    if (top + Lines.ROW > scrollTop + this.height) this.frame.scrollTop = top + 2 * Lines.ROW - this.height;
    this.paint();
  }

  placeOf(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const index = Math.floor((y + this.frame.scrollTop - Lines.INSET) / Lines.ROW);
    const side = x <= this.left ? "query" : x >= this.right ? "key" : null;
    const count = side === "query" ? this.data.labels_q.length : this.data.labels_k.length;
    return side && index >= 0 && index < count ? { side, index } : null;
  }

  listen() {
    this.canvas.addEventListener("pointermove", (event) => {
      if (event.pointerType === "touch") return;
      this.touch = false;
      this.pointer = { x: event.clientX, y: event.clientY };
      this.point(this.placeOf(event));
      if (this.hover) this.explain();
    });
    this.canvas.addEventListener("pointerleave", (event) => {
      if (event.pointerType !== "touch") this.point(null);
    });
    this.canvas.addEventListener("pointerdown", (event) => { this.touch = event.pointerType === "touch"; });
    this.canvas.addEventListener("click", (event) => {
      const place = this.placeOf(event);
      if (!place) return;
      this.pick(place.side === "query" ? place.index : this.query, place.side === "key" ? place.index : this.key);
      if (!this.touch) return;
      this.pointer = { x: event.clientX, y: event.clientY };
      this.point(place);
      this.explain();
    });
    this.canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.point(null);
      const { labels_q: labelsQ, labels_k: labelsK } = this.data;
      const next = moved(event, this.query, this.key, labelsQ.length, labelsK.length);
      if (!next) return;
      event.preventDefault();
      this.point(null);
      const row = next.query !== this.query ? next.query : next.key;
      this.pick(next.query, next.key);
      this.reveal(row);
    });
    this.canvas.addEventListener("blur", () => this.point(null));
    this.frame.addEventListener("scroll", () => {
      this.tip.hide();
      this.hover = null;
      this.paint();
    }, { passive: true });
    this.ignoreOutside = pressedOutside(this.root, () => this.point(null));
  }

  close() {
    this.stopWatching();
    this.picks.stop();
    this.tip.hide();
    this.ignoreOutside();
    this.root.remove();
  }
}

export default renderer(Lines);
