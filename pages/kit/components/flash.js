// Flash attention, tile by tile: step, play, and look at one row's arithmetic. All numbers come from Python.

class Flash {
  constructor(parent) {
    this.picks = new Picks();
    this.timer = 0;
    this.hover = null;
    this.root = element("div", "atlas flash");
    this.bar = element("div", "bar");
    this.said = element("div", "said");
    this.said.setAttribute("aria-live", "polite");
    this.frame = element("div", "frame");
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.frame.append(this.canvas);
    this.box = element("div", "sums");
    this.root.append(this.bar, this.said, this.frame, this.box);
    parent.append(this.root);
    this.tip = new Tip(this.root);
    this.query = null; // the row that the reader chose; without one, the row that changes most is looked at
    this.buttons = {};
    for (const name of ["first", "back", "play", "next", "last"]) {
      this.buttons[name] = element("button", name);
      this.buttons[name].append(sign(name));
      this.buttons[name].type = "button";
      this.buttons[name].addEventListener("click", () => this.press(name));
      this.bar.append(this.buttons[name]);
    }
    this.slider = element("input");
    Object.assign(this.slider, { type: "range", min: 0, step: 1 });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.bar.append(this.slider);
    this.listen();
    this.stopWatching = watch(this.root, () => this.redraw());
  }

  /** Take over what the app sent. While the same walk is shown, the reader's own last step counts. */
  update({ header, arrays }) {
    const same = this.data && this.data.id === header.id;
    if (!same || !(this.timer || this.picks.ahead(header.last_pick))) {
      if (!same) this.pause(false);
      this.step = header.step;
      this.query = header.query;
    }
    this.data = same ? Object.assign(this.data, header) : { ...header, tiles: cut(header, arrays), final: arrays[4] };
    const { words } = header;
    for (const [name, button] of Object.entries(this.buttons)) this.name(button, words[name]);
    this.slider.max = header.places.length;
    this.slider.setAttribute("aria-label", words.slider);
    this.canvas.setAttribute("aria-label", words.label);
    this.canvas.setAttribute("aria-description", words.help);
    this.showPlaying();
    this.redraw();
  }

  name(button, text) {
    button.title = text;
    button.setAttribute("aria-label", text);
  }

  redraw() {
    const width = this.root.clientWidth;
    if (!this.data || !width) return;
    const { labels, d, words } = this.data;
    this.palette = dress(this.root, this.data.palettes);
    const family = getComputedStyle(this.root).fontFamily;
    this.look = { ...this.palette, font: (size, strong) => `${strong ? 650 : 400} ${size}px ${family}` };
    const pen = this.canvas.getContext("2d");
    const measure = (text, size) => {
      pen.font = this.look.font(size, true);
      return Math.min(pen.measureText(text.slice(0, 60)).width, 200);
    };
    const ratio = window.devicePixelRatio || 1;
    this.layout = flashLayout({ width: Math.floor(width), n: labels.length, d, labels, measure, ratio });
    pen.font = this.look.font(this.layout.size, true);
    this.texts = labels.map((label) => shortened(pen, label, this.layout.gutter - 12));
    this.textsAbove = labels.map((label) => shortened(pen, label, this.layout.above));
    this.ratio = sharpness(this.layout.width, this.layout.height);
    const context = sized(this.canvas, this.layout.width, this.layout.height, this.ratio);
    this.root.dataset.gutter = this.layout.gutter; // for those who look from outside (tests)
    this.hatch = hatching(context, this.palette, this.ratio);
    this.paint();
  }

  paint() {
    const { layout, data, look, step } = this;
    if (!layout) return;
    const query = this.row();
    const done = step >= data.places.length;
    const context = sized(this.canvas, layout.width, layout.height, this.ratio);
    const last = this.lastTiles();
    paintGrid(context, layout, data, step, look, this.hatch);
    paintState(context, layout, data, step, last, look);
    paintHeads(context, layout, data.words, done, look);
    const { cell, grid, state, rows, strip } = layout;
    frame(context, grid.x, grid.y + query * cell, rows * cell, cell, look.query, 1.5, cell);
    frame(context, state.x - 1, state.y + query * cell, strip.x + strip.width - state.x + 1, cell, look.query, 1.5, cell);
    paintColumnLabels(context, layout, grid, this.textsAbove, null, null, look);
    paintRowLabels(context, layout, grid, this.texts, query, null, look);
    if (layout.narrow) paintRowLabels(context, layout, state, this.texts, query, null, look);
    this.tell(last, query);
    Object.assign(this.root.dataset, { step, steps: data.places.length + 1, query, playing: Boolean(this.timer) });
  }

  /** The row whose arithmetic is shown: the chosen one, else that of the tile whose sums shrink most. */
  row() {
    if (this.query !== null) return this.query;
    const { places, tiles } = this.data;
    const at = Math.min(this.step, places.length - 1);
    const [q0, q1] = places[at];
    let [found, smallest] = [q0, Infinity];
    for (let row = q0; row < q1; row++) {
      const [, factor, , total] = tiles[at].rows.subarray(4 * (row - q0));
      const size = total === 0 ? Infinity : factor === 0 ? 2 : factor; // 2: only begins here
      if (size < smallest) [found, smallest] = [row, size];
    }
    return found;
  }

  /** Of each row the last tile that it was in, up to the one that is shown; −1 for none. */
  lastTiles() {
    const last = new Int32Array(this.layout.rows).fill(-1);
    for (let i = 0; i <= Math.min(this.step, this.data.places.length - 1); i++) {
      last.fill(i, this.data.places[i][0], this.data.places[i][1]);
    }
    return last;
  }

  // ------------------------------------------------------------------------------------------------------ words

  /** The line above the picture, and the chosen row's arithmetic below it. */
  tell(last, query) {
    const { data, step } = this;
    const { words, places, labels } = data;
    const done = step >= places.length;
    this.slider.value = step;
    this.slider.setAttribute("aria-valuetext", `${step + 1} / ${places.length + 1}`);
    for (const name of ["first", "back"]) this.buttons[name].disabled = step === 0;
    for (const name of ["next", "last"]) this.buttons[name].disabled = done;
    const [q0, q1, k0, k1] = done ? [0, 0, 0, 0] : places[step];
    const range = (from, to) => (to - from === 1 ? `${from}` : `${from}–${to - 1}`);
    this.said.textContent = done ? words.dividing : filled(words.at, {
      tile: step + 1, tiles: places.length, queries: range(q0, q1), keys: range(k0, k1),
    });
    this.box.replaceChildren();
    const inside = !done && query >= q0 && query < q1;
    this.box.append(element("p", "who", labels[query]));
    if (!inside && !done) {
      this.box.append(element("p", "note", last[query] < 0 ? words.not_yet : words.waits));
      return;
    }
    const list = element("ol");
    for (const [name, ...lines] of done ? division(data, last[query], query) : arithmetic(data, step, query)) {
      const item = element("li");
      item.append(element("span", "", name), ...lines.map((line) => element("code", "", line)));
      list.append(item);
    }
    this.box.append(list);
  }

  // --------------------------------------------------------------------------------------------- stepping, playing

  press(name) {
    const end = this.data.places.length;
    if (name === "play") return this.timer ? this.pause(true) : this.play();
    this.go({ first: 0, back: this.step - 1, next: this.step + 1, last: end }[name]);
  }

  /** Show a step that the reader asked for. */
  go(step) {
    this.pause(false);
    this.step = Math.min(Math.max(step, 0), this.data.places.length);
    this.paint();
    this.send();
  }

  play() {
    if (this.step >= this.data.places.length) this.step = -1;
    const pause = Math.min(900, Math.max(50, 9000 / (this.data.places.length + 1)));
    const advance = () => {
      this.step += 1;
      this.timer = this.step < this.data.places.length ? setTimeout(advance, pause) : 0;
      this.paint();
      if (this.timer) return;
      this.showPlaying();
      this.send();
    };
    this.timer = 1;
    advance();
    this.showPlaying();
  }

  pause(send) {
    clearTimeout(this.timer);
    this.timer = 0;
    if (!this.data) return;
    this.showPlaying();
    this.root.dataset.playing = "false";
    if (send) this.send();
  }

  showPlaying() {
    this.buttons.play.replaceChildren(sign(this.timer ? "pause" : "play"));
    this.name(this.buttons.play, this.timer ? this.data.words.stop : this.data.words.play);
  }

  send() {
    this.picks.send({ query: this.query, key: this.step });
  }

  // ----------------------------------------------------------------------------------------------- pointer, keys

  /** What lies under the pointer: {row, column (null beside the matrix)} or null. */
  under(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const { cell, grid, state, rows, strip } = this.layout;
    const row = (from) => {
      const found = Math.floor((y - from) / cell);
      return found >= 0 && found < rows ? found : null;
    };
    const column = Math.floor((x - grid.x) / cell);
    if (row(grid.y) !== null && column >= 0 && column < rows) return { row: row(grid.y), column };
    if (row(state.y) !== null && x >= state.x && x < strip.x + strip.width) return { row: row(state.y), column: null };
    if (row(grid.y) !== null && x < grid.x) return { row: row(grid.y), column: null };
    return null;
  }

  explain(place, event, touch) {
    const rows = whatIsThere(this.data, this.step, this.lastTiles(), place);
    this.tip.show(rows, event.clientX, event.clientY, [], touch);
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => {
      if (event.pointerType === "touch") return;
      const place = this.under(event);
      canvas.classList.toggle("pointing", place !== null);
      if (place) this.explain(place, event);
      else this.tip.hide();
    });
    canvas.addEventListener("pointerleave", () => this.tip.hide());
    canvas.addEventListener("pointerdown", (event) => { this.touch = event.pointerType === "touch"; });
    canvas.addEventListener("click", (event) => {
      const place = this.under(event);
      if (!place) return;
      this.choose(place.row === this.query ? null : place.row);
      if (this.touch) this.explain(place, event, true);
    });
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return this.tip.hide();
      if (event.altKey || event.metaKey || event.ctrlKey) return;
      const { rows } = this.layout;
      const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };
      if (!(event.key in moves)) return;
      event.preventDefault();
      if (/Left|Right/.test(event.key)) this.go(this.step + moves[event.key]);
      else this.choose(Math.min(Math.max(this.row() + moves[event.key], 0), rows - 1));
    });
    this.ignoreOutside = pressedOutside(this.root, () => this.tip.hide());
  }

  choose(row) {
    this.query = row;
    this.paint();
    if (!this.timer) this.send();
  }

  close() {
    this.stopWatching();
    clearTimeout(this.timer);
    this.picks.stop();
    this.tip.hide();
    this.ignoreOutside();
    this.root.remove();
  }
}

export default renderer(Flash);
