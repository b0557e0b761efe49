// The token strip. A chip is a piece of text that people read as one; below it are the ids of its tokens.

class Chips {
  static HOLD = 500; // ms of a long press

  constructor(parent) {
    this.picks = new Picks();
    this.root = element("div", "atlas chips");
    this.strip = element("div", "strip");
    this.strip.setAttribute("role", "listbox");
    this.strip.setAttribute("aria-orientation", "horizontal");
    this.spoken = element("div", "spoken");
    this.spoken.setAttribute("aria-live", "polite");
    this.root.append(this.strip, this.spoken);
    parent.append(this.root);
    this.tip = new Tip(this.root);
    this.listen();
    this.stopWatching = watch(this.root, () => this.data && this.fade());
  }

  update({ header }) {
    const before = this.data;
    const query = this.query;
    if (!(before && Math.max(this.query, this.key) < header.n_tokens && this.picks.ahead(header.last_pick))) {
      this.query = header.query;
      this.key = header.key;
    }
    this.data = header;
    this.figure = header.shade !== null; // else it is there to choose from
    this.palette = dress(this.root, header.palettes);
    this.strip.style.maxHeight = `${header.max_height}px`;
    this.strip.setAttribute("aria-label", header.words.label);
    this.strip.setAttribute("aria-description", header.words.help);
    const content = JSON.stringify([header.pieces, header.ask_next, header.words.next]);
    if (content !== this.content) {
      this.content = content;
      this.tip.hide();
      this.build();
    }
    this.shade();
    this.mark();
    if (this.query !== query) this.reveal();
    this.fade();
  }

  /** A row per chip. */
  numbers() {
    const { pieces, shade, words } = this.data;
    const rows = pieces.map((piece, i) => [piece.start, piece.label, piece.ids.join(" "), piece.bytes, shade.values[i] ?? ""]);
    return [[words.position, "", words.id, words.bytes, shade.name], ...rows];
  }

  build() {
    const { pieces, ask_next: askNext, words } = this.data;
    const focused = this.chips?.indexOf(this.root.getRootNode().activeElement) ?? -1;
    this.owner = []; // chip of each token
    this.chips = pieces.map((piece, index) => {
      const chip = element("div", piece.special ? "chip special" : "chip");
      chip.setAttribute("role", "option");
      const text = element("div", "text token");
      letter(text, piece.label, piece.spaces);
      text.dataset.label = piece.label;
      const ids = element("div", "ids");
      for (const [i, id] of piece.ids.entries()) {
        const shown = element("span", "id", String(id));
        shown.dataset.token = piece.start + i;
        ids.append(shown);
        this.owner[piece.start + i] = index;
      }
      chip.classList.toggle("several", piece.ids.length > 1);
      chip.append(text, ids);
      return chip;
    });
    this.strip.replaceChildren(...this.chips);
    if (askNext) {
      const next = element("div", "chip next");
      next.setAttribute("role", "option");
      next.setAttribute("aria-disabled", "true");
      next.append(element("div", "text", "?"), element("div", "ids", words.next));
      this.strip.append(next);
    }
    this.stop = Math.min(this.stop ?? 0, this.chips.length - 1);
    if (focused >= 0) this.chips[Math.min(focused, this.chips.length - 1)]?.focus({ preventScroll: true });
  }

  /** The ground of each chip, and text that is readable on it. */
  shade() {
    const { shade } = this.data;
    const colours = shade && ramp(this.palette.sequential);
    for (const [i, chip] of this.chips.entries()) {
      const value = shade?.values[i] ?? null;
      for (const name of ["--ground", "--on-ground"]) chip.style.removeProperty(name);
      if (value === null) continue;
      paint(chip, value / shade.high, colours);
    }
  }

  /** Which chips are query and key, and which one the tab key stops at. */
  mark() {
    const [query, key] = [this.owner[this.query], this.owner[this.key]];
    const here = this.chips.indexOf(this.root.getRootNode().activeElement);
    this.stop = here >= 0 ? here : query ?? this.stop;
    for (const [i, chip] of this.chips.entries()) {
      chip.classList.toggle("is-query", i === query);
      chip.classList.toggle("is-key", i === key);
      chip.setAttribute("aria-selected", String(i === query));
      chip.tabIndex = i === this.stop ? 0 : -1;
    }
    for (const id of this.strip.querySelectorAll(".several .id")) {
      id.classList.toggle("query", Number(id.dataset.token) === this.query);
      id.classList.toggle("key", Number(id.dataset.token) === this.key);
    }
    const written = (value) => (value === null ? "" : String(value));
    Object.assign(this.root.dataset, { query: written(this.query), key: written(this.key) });
  }

  /** Scroll the strip, and only it, so that the query is seen. */
  reveal() {
    const chip = this.chips[this.owner[this.query]];
    if (!chip) return;
    const { scrollTop, clientHeight } = this.strip;
    const [top, bottom] = [chip.offsetTop, chip.offsetTop + chip.offsetHeight];
    if (top < scrollTop) this.strip.scrollTop = top - 3;
    if (bottom > scrollTop + clientHeight) this.strip.scrollTop = bottom - clientHeight + 3;
  }

  /** Tell by a fade at an edge that the strip goes on. */
  fade() {
    const { scrollTop, clientHeight, scrollHeight } = this.strip;
    this.strip.classList.toggle("less", scrollTop > 4);
    this.strip.classList.toggle("more", scrollTop + clientHeight < scrollHeight - 4);
  }

  // -------------------------------------------------------------------------------------------- reading, picking

  rowsOf(index) {
    const { words, shade } = this.data;
    const { label, start, ids, bytes, special, meaning } = this.data.pieces[index];
    const roles = [
      this.owner[this.query] === index ? words.query : "",
      this.owner[this.key] === index ? words.key : "",
    ].filter(Boolean).join(", ");
    const role = this.owner[this.query] === index ? "query" : this.owner[this.key] === index ? "key" : "";
    const look = `strong ${role}`;
    const last = start + ids.length - 1;
    const rows = [
      [`${words.position} ${ids.length > 1 ? `${start}–${last}` : start}`, label, look],
      [words.id, ids.join(" "), "number wrap"],
      [words.bytes, bytes, "number wrap"],
    ];
    const value = shade?.values[index] ?? null;
    if (value !== null) rows.push([shade.name, format(value, shade.digits), "number apart"]);
    if (roles) rows.push(["", roles, look]);
    if (special) rows.push(["", meaning || words.special]);
    return rows;
  }

  explain(index, touch = false) {
    const box = this.chips[index].getBoundingClientRect();
    const hint = this.data.words.hint ? [element("p", "hint", this.data.words.hint)] : [];
    const y = touch ? box.top + 20 : box.bottom - 8;
    this.tip.show(this.rowsOf(index), touch ? box.left + box.width / 2 : box.left - 16, y, hint, touch);
  }

  pick(token, asKey) {
    const [query, key] = asKey ? [this.query, token] : [token, this.key];
    if (query === this.query && key === this.key) return;
    this.query = query;
    this.key = key;
    this.mark();
    const { words, pieces } = this.data;
    this.spoken.textContent = `${asKey ? words.key : words.query} ${token} ${pieces[this.owner[token]].label}`;
    this.picks.send({ query, key });
  }

  /** The token that a chip stands for: the one whose id is pointed at, else its last, which completes the text. */
  tokenOf(event, index) {
    const id = event.target.closest?.(".id");
    if (id) return Number(id.dataset.token);
    const { start, ids } = this.data.pieces[index];
    return start + ids.length - 1;
  }

  chipOf(event) {
    return this.chips.indexOf(event.target.closest?.(".chip"));
  }

  listen() {
    const { strip } = this;
    strip.addEventListener("pointerover", (event) => {
      if (event.pointerType === "touch") return;
      const index = this.chipOf(event);
      if (index >= 0) this.explain(index);
      else this.tip.hide();
    });
    strip.addEventListener("pointerleave", () => { if (!this.held) this.tip.hide(); });
    strip.addEventListener("scroll", () => {
      this.tip.hide();
      this.fade();
    }, { passive: true });
    strip.addEventListener("pointerdown", (event) => {
      this.touch = event.pointerType === "touch";
      this.held = false;
      const index = this.chipOf(event);
      if (!this.touch || index < 0) return;
      this.holding = setTimeout(() => {
        this.held = true;
        this.pick(this.tokenOf(event, index), true);
        this.explain(index, true);
      }, Chips.HOLD);
    });
    for (const type of ["pointerup", "pointercancel", "pointermove"]) {
      strip.addEventListener(type, (event) => {
        if (type !== "pointermove" || Math.hypot(event.movementX, event.movementY) > 6) clearTimeout(this.holding);
      });
    }
    strip.addEventListener("contextmenu", (event) => { if (this.touch) event.preventDefault(); });
    strip.addEventListener("click", (event) => {
      const index = this.chipOf(event);
      if (index < 0) return;
      if (this.held) {
        this.held = false;
        return;
      }
      this.pick(this.tokenOf(event, index), event.shiftKey);
      this.explain(index, this.touch);
    });
    strip.addEventListener("focusin", (event) => {
      const index = this.chipOf(event);
      if (index < 0) return;
      this.mark();
      if (this.chips[index].matches(":focus-visible")) this.explain(index);
    });
    strip.addEventListener("focusout", () => this.tip.hide());
    strip.addEventListener("keydown", (event) => this.press(event));
    this.ignoreOutside = pressedOutside(this.root, () => this.tip.hide());
  }

  press(event) {
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    if (event.key === "Escape") return this.tip.hide();
    const index = this.chipOf(event);
    if (index < 0) return;
    const last = this.chips.length - 1;
    const goals = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: last };
    if (event.key === "ArrowUp" || event.key === "ArrowDown") goals[event.key] = this.vertical(index, event.key);
    if (event.key in goals) this.chips[Math.min(Math.max(goals[event.key], 0), last)].focus();
    else if (event.key === "Enter" || event.key === " ") {
      this.pick(this.tokenOf(event, index), event.shiftKey);
      this.explain(index);
    } else return;
    event.preventDefault();
  }

  /** The chip in the next row, up or down, nearest to the place of this one. */
  vertical(index, arrow) {
    const middle = (chip) => chip.offsetLeft + chip.offsetWidth / 2;
    const [from, down] = [this.chips[index], arrow === "ArrowDown"];
    const beyond = (chip) => (down ? chip.offsetTop > from.offsetTop : chip.offsetTop < from.offsetTop);
    const tops = this.chips.filter(beyond).map((chip) => chip.offsetTop);
    if (!tops.length) return index;
    const row = down ? Math.min(...tops) : Math.max(...tops);
    const far = (i) => (this.chips[i].offsetTop === row ? Math.abs(middle(this.chips[i]) - middle(from)) : Infinity);
    return this.chips.reduce((best, _, i) => (far(i) < far(best) ? i : best), 0);
  }

  close() {
    this.stopWatching();
    this.picks.stop();
    this.tip.hide();
    clearTimeout(this.holding);
    this.ignoreOutside();
    this.root.remove();
  }
}

export default renderer(Chips);
