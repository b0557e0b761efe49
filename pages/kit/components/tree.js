// A tree of texts. Python says which column and row each token stands in; here columns get their widths, and branches are drawn.

class Tree {
  static ROW = 34;
  static CHIP = 25;
  static GAP = 20; // between columns, where the branches are
  static WIDEST = 150;
  static LEAST = 24;

  constructor(parent) {
    this.picks = new Picks();
    this.root = element("div", "atlas written tree");
    this.frame = element("div", "frame");
    this.field = element("div", "field");
    this.edges = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.edges.setAttribute("aria-hidden", "true");
    this.spoken = element("div", "spoken");
    this.spoken.setAttribute("aria-live", "polite");
    this.field.setAttribute("role", "tree");
    this.names = element("div", "names"); // at the edge of the frame, over what scrolls
    this.field.append(this.edges, this.names);
    this.frame.append(this.field);
    this.root.append(this.frame, this.spoken);
    parent.append(this.root);
    this.tip = new Tip(this.root);
    this.chips = new Map(); // by serial
    this.notes = [];
    this.widths = new Map(); // of texts, by font and text
    this.follow = true; // until the reader scrolls
    this.measure = document.createElement("canvas").getContext("2d");
    this.listen();
    this.stopWatching = watch(this.root, () => {
      this.widths.clear();
      if (this.data) this.draw();
    });
  }

  update({ header }) {
    const wasWriting = this.data?.writing;
    if (!(this.data && this.picks.ahead(header.last_pick))) this.here = header.here;
    this.data = header;
    this.palette = dress(this.root, header.palettes);
    this.colours = ramp(this.palette.sequential);
    const root = { s: 0, parent: null, column: 0, row: 0, label: header.root, spaces: 0, p: null, kind: "root" };
    this.parts = [root, ...header.twigs];
    this.bySerial = new Map(this.parts.map((part, index) => [part.s, index]));
    this.children = this.parts.map(() => []);
    this.parts.forEach((part, index) => part.parent !== null && this.children[part.parent].push(index));
    this.field.setAttribute("aria-label", header.words.label);
    this.field.setAttribute("aria-description", header.words.help);
    this.draw();
    if (header.writing && this.follow) this.scroll(this.frame.scrollWidth);
    else if (wasWriting && !header.writing && this.follow) this.scroll(0);
  }

  /** A row per token, with the number of the one before it. */
  numbers() {
    const { words } = this.data;
    const rows = this.parts.map((part, i) => [i, part.parent ?? "", part.label, part.p ?? "", part.total ?? "", part.mean ?? "", words[part.kind] ?? ""]);
    return [["#", "← #", words.token, words.probability, words.total, words.mean, ""], ...rows];
  }

  // ------------------------------------------------------------------------------------------------------ drawing

  draw() {
    const left = this.columns();
    const last = this.parts.reduce((most, part) => Math.max(most, part.column), 0);
    const right = (part) => left[part.column] + part.width;
    const middle = (part) => part.row * Tree.ROW + Tree.ROW / 2;
    const kept = new Set();
    let before = this.edges;
    for (const part of branchByBranch(this.parts, this.children)) {
      kept.add(part.s);
      before = this.place(part, left[part.column], middle(part), before);
    }
    for (const [serial, { chip }] of this.chips) {
      if (kept.has(serial)) continue;
      chip.remove();
      this.chips.delete(serial);
    }
    let width = left[last] + this.parts.reduce((most, part) => (part.column === last ? Math.max(most, part.width) : most), 0);
    while (this.notes.length > this.data.leaves.length) this.notes.pop().remove();
    this.data.leaves.forEach((leaf, index) => {
      const parent = this.parts[leaf.parent];
      const note = (this.notes[index] ??= this.field.appendChild(element("span", "leaf")));
      // At the end of its own row it stands close to the token, in a row of its own below it.
      const x = leaf.row === parent.row ? right(parent) + 7 : left[leaf.column] ?? right(parent) + Tree.GAP;
      leaf.x = x;
      let first = parent;
      while (first.parent !== null && this.parts[first.parent].row === leaf.row) first = this.parts[first.parent];
      leaf.from = first.row === leaf.row ? left[first.column] : x;
      leaf.note = note;
      width = Math.max(width, x + this.width(leaf.text, "leaf"));
    });
    this.branches(left, right, middle);
    const height = this.data.rows * Tree.ROW;
    Object.assign(this.field.style, { width: `${width + 12}px`, height: `${height}px` });
    this.edges.setAttribute("width", width + 12);
    this.edges.setAttribute("height", height);
    this.pin();
    this.mark();
  }

  /** What stands behind a text; where that is out of sight, its short form stands in a column at the frame's edge. */
  pin() {
    const { leaves } = this.data;
    const column = 20 + Math.max(...leaves.map((leaf) => this.width(leaf.short, "leaf")), 0);
    const edge = this.frame.scrollLeft + this.frame.clientWidth - column - 10;
    let any = false;
    for (const leaf of leaves) {
      const pinned = leaf.short !== "" && leaf.x + this.width(leaf.short, "leaf") > edge && leaf.from < edge - 40;
      any ||= pinned;
      const text = pinned ? leaf.short : leaf.text;
      leaf.note.className = `leaf ${leaf.kind}${pinned ? " pinned" : ""}`;
      if (leaf.note.textContent !== text) leaf.note.textContent = text;
      const home = pinned ? this.names : this.field;
      if (leaf.note.parentElement !== home) home.append(leaf.note);
      leaf.note.style.transform = `translate(${pinned ? 10 : leaf.x}px, ${leaf.row * Tree.ROW}px)`;
    }
    this.names.hidden = !any;
    this.names.style.width = `${column}px`;
  }

  /** The left edge of each column; every part gets its width. */
  columns() {
    const widths = [];
    for (const part of this.parts) {
      const widest = part.kind === "root" ? 190 : Tree.WIDEST;
      part.width = Math.min(Math.max(this.width(part.label, "chip") + 14, Tree.LEAST), widest);
      widths[part.column] = Math.max(widths[part.column] ?? 0, part.width);
    }
    for (const leaf of this.data.leaves) {
      // What is short has its column to itself, so that the next token of that row stands clear of it.
      if (leaf.kind !== "dropped" || widths[leaf.column] === undefined) continue;
      const parent = this.parts[leaf.parent];
      const over = parent.width + 7 + this.width(leaf.text, "leaf") - widths[parent.column] - Tree.GAP;
      widths[leaf.column] = Math.max(widths[leaf.column], over);
    }
    const left = [0];
    widths.forEach((width, column) => { left[column + 1] = left[column] + width + Tree.GAP; });
    return left;
  }

  width(text, look) {
    const key = look + text;
    if (!this.widths.has(key)) {
      const family = getComputedStyle(this.root).fontFamily;
      this.measure.font = look === "chip" ? `600 14px ${family}` : `600 12.5px ${family}`;
      this.widths.set(key, this.measure.measureText(text.slice(0, 60)).width);
    }
    return this.widths.get(key);
  }

  /** Put a part there, a new one right behind the element `before`; returns its element. */
  place(part, x, y, before) {
    let shown = this.chips.get(part.s);
    const key = JSON.stringify([part.label, part.spaces, part.p, part.kind, part.special]);
    if (!shown) {
      const chip = element("span", "chip fresh");
      chip.setAttribute("role", "treeitem");
      chip.dataset.serial = part.s;
      before.after(chip);
      this.chips.set(part.s, (shown = { chip, key: null }));
    }
    const { chip } = shown;
    if (shown.key !== key) {
      shown.key = key;
      chip.className = ["chip", part.kind, part.special && "special", shown.seen ? "" : "fresh"].filter(Boolean).join(" ");
      shown.seen = true;
      letter(chip, part.label, part.spaces);
      chip.setAttribute("aria-label", part.p === null ? `${this.data.words.root}: ${part.label}` : `${part.label}, ${format(part.p, 3)}`);
      chip.setAttribute("aria-level", part.column + 1);
      if (part.p !== null) paint(chip, part.p, this.colours);
    } else if (part.p !== null && this.painted !== this.palette) paint(chip, part.p, this.colours);
    chip.style.width = `${part.width}px`;
    chip.style.left = `${x}px`;
    chip.style.top = `${y - Tree.CHIP / 2}px`;
    return chip;
  }

  /** A branch runs from a token to the next one, as thick as that one is probable. */
  branches(left, right, middle) {
    const lines = this.parts.slice(1).map((part) => {
      const parent = this.parts[part.parent];
      const [x, y, to, below] = [right(parent), middle(parent), left[part.column], middle(part)];
      const bend = Math.max(to - Tree.GAP, x);
      const end = below === y ? `H${to}` : `H${bend} C${bend + 12} ${y} ${bend + 6} ${below} ${to} ${below}`;
      return `<path class="${part.kind}" d="M${x} ${y} ${end}" stroke-width="${(1 + 5 * part.p).toFixed(2)}"/>`;
    });
    const notes = this.data.leaves.filter((leaf) => leaf.row !== this.parts[leaf.parent].row).map((leaf) => {
      const parent = this.parts[leaf.parent];
      const [x, y, to] = [right(parent), middle(parent), left[leaf.column] ?? right(parent) + Tree.GAP];
      const below = leaf.row * Tree.ROW + Tree.ROW / 2;
      const bend = Math.max(to - Tree.GAP, x);
      return `<path class="note" d="M${x} ${y} H${bend} C${bend + 12} ${y} ${bend + 6} ${below} ${to - 3} ${below}" stroke-width="1"/>`;
    });
    this.edges.innerHTML = lines.join("") + notes.join(""); // numbers and names of classes, no text
  }

  mark() {
    const focused = this.root.getRootNode().activeElement?.dataset?.serial;
    const stop = focused ?? String(this.bySerial.has(this.here) ? this.here : 0);
    for (const [serial, { chip }] of this.chips) {
      chip.classList.toggle("chosen", serial === this.here);
      chip.setAttribute("aria-selected", String(serial === this.here));
      chip.tabIndex = String(serial) === stop ? 0 : -1;
    }
    this.painted = this.palette;
  }

  scroll(left) {
    this.scrolling = true;
    this.frame.scrollLeft = left;
    requestAnimationFrame(() => { this.scrolling = false; });
  }

  // -------------------------------------------------------------------------------------------- reading, picking

  explain(part, touch = false) {
    const { words } = this.data;
    const list = [[`${words.token} ${part.column}`, part.label, "strong"]];
    list.push([words.probability, format(part.p, 3), "number apart"]);
    list.push([words.total, part.total, "number"], [words.mean, part.mean, "number"]);
    if (words[part.kind] && part.kind !== "root") list.push(["", words[part.kind]]);
    const box = this.chips.get(part.s).chip.getBoundingClientRect();
    const hint = words.hint ? [element("p", "hint", words.hint)] : [];
    this.tip.show(list, touch ? box.left + box.width / 2 : box.left - 16, touch ? box.top + 20 : box.bottom - 8, hint, touch);
  }

  pick(part) {
    this.here = part.s;
    this.mark();
    const { words } = this.data;
    this.spoken.textContent = part.p === null ? `${words.root}: ${part.label}` : `${words.token} ${part.column}: ${part.label}, ${format(part.p, 3)}`;
    this.picks.send({ query: part.s, key: 0 });
  }

  find(event) {
    const chip = event.target.closest?.(".chip");
    const index = chip ? this.bySerial.get(Number(chip.dataset.serial)) : undefined;
    return index === undefined ? null : this.parts[index];
  }

  listen() {
    const { field, frame } = this;
    const read = (event, touch = false) => {
      const part = this.find(event);
      if (part && part.p !== null) this.explain(part, touch);
      else this.tip.hide();
    };
    field.addEventListener("pointerover", (event) => { if (event.pointerType !== "touch") read(event); });
    field.addEventListener("pointerleave", () => this.tip.hide());
    field.addEventListener("pointerdown", (event) => { this.touch = event.pointerType === "touch"; });
    field.addEventListener("click", (event) => {
      const part = this.find(event);
      if (!part) return;
      this.pick(part);
      if (this.touch && part.p !== null) this.explain(part, true);
    });
    field.addEventListener("focusin", (event) => { if (event.target.matches(":focus-visible")) read(event); });
    field.addEventListener("focusout", () => this.tip.hide());
    field.addEventListener("keydown", (event) => this.press(event));
    frame.addEventListener("scroll", () => {
      this.tip.hide();
      this.pin();
      if (!this.scrolling) this.follow = false;
    });
    this.ignoreOutside = pressedOutside(this.root, () => this.tip.hide());
  }

  press(event) {
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    if (event.key === "Escape") return this.tip.hide();
    const part = this.find(event);
    if (!part) return;
    const goal = walked(event.key, this.bySerial.get(part.s), this.parts, this.children);
    if (goal !== null) {
      this.chips.get(this.parts[goal].s).chip.focus();
      this.mark();
    } else if (event.key === "Enter" || event.key === " ") this.pick(part);
    else return;
    event.preventDefault();
  }

  close() {
    this.picks.stop();
    this.tip.hide();
    this.stopWatching();
    this.ignoreOutside();
    this.root.remove();
  }
}

export default renderer(Tree);
