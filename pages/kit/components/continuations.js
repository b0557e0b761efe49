// Continuations side by side. A chip is a token; a continuation grows at its end while it is being written.

class Continuations {
  constructor(parent) {
    this.picks = new Picks();
    this.root = element("div", "atlas written continuations");
    this.cards = element("div", "cards");
    this.spoken = element("div", "spoken");
    this.spoken.setAttribute("aria-live", "polite");
    this.root.append(this.cards, this.spoken);
    parent.append(this.root);
    this.tip = new Tip(this.root);
    this.shown = []; // per row: its elements and what they show
    this.row = this.place = null;
    this.listen();
  }

  update({ header }) {
    if (!(this.data && this.picks.ahead(header.last_pick))) {
      this.row = header.row;
      this.place = header.place;
    }
    this.data = header;
    this.palette = dress(this.root, header.palettes);
    this.colours = ramp(this.palette.sequential);
    this.cards.setAttribute("aria-label", header.words.label);
    this.cards.setAttribute("role", "group");
    while (this.shown.length > header.rows.length) this.shown.pop().card.remove();
    header.rows.forEach((row, index) => this.draw(row, index));
    this.mark();
    if (header.ask !== this.asked && header.rows.some((row) => row.writing)) {
      this.asked = header.ask;
      this.picks.send({ query: null, key: null }); // a pick of nothing: Python only runs this part again
    }
  }

  /** A row per token. */
  numbers() {
    return this.data.rows.flatMap((row) => row.chips.map((token, i) => [row.title, i + 1, token.label, token.p]));
  }

  draw(row, index) {
    const shown = (this.shown[index] ??= this.card(index));
    const { words } = this.data;
    shown.title.textContent = row.title;
    shown.note.textContent = row.note;
    shown.body.setAttribute("aria-label", row.title);
    shown.body.setAttribute("aria-description", words.help);
    shown.card.classList.toggle("writing", row.writing);
    // Labels of a character change while its bytes come in, so the last chips are compared too.
    let same = 0;
    while (same < shown.chips.length && same < row.chips.length && shown.keys[same] === keyOf(row.chips[same])) same += 1;
    for (const chip of shown.chips.splice(same)) chip.remove();
    shown.keys.length = same;
    const grows = same > 0 || row.writing;
    row.chips.slice(same).forEach((token, i) => {
      const chip = this.chip(token);
      if (grows) {
        chip.classList.add("fresh");
        chip.style.animationDelay = `${Math.min(i * 14, 200)}ms`;
      }
      shown.body.insertBefore(chip, shown.caret);
      shown.chips.push(chip);
      shown.keys.push(keyOf(token));
    });
    for (const [i, chip] of shown.chips.entries()) paint(chip, row.chips[i].p, this.colours);
  }

  card(index) {
    const card = element("section", "card");
    const head = element("div", "head");
    const title = element("div", "title");
    const note = element("div", "note");
    const body = element("div", "body");
    const caret = element("span", "caret");
    body.setAttribute("role", "listbox");
    body.setAttribute("aria-orientation", "horizontal");
    body.dataset.row = index;
    body.append(caret);
    head.append(title, note);
    card.append(head, body);
    this.cards.append(card);
    return { card, title, note, body, caret, chips: [], keys: [] };
  }

  chip(token) {
    const names = ["chip", token.special && "special", token.joined && "joined", token.by_reader && "by-reader"];
    const chip = element("span", names.filter(Boolean).join(" "));
    chip.setAttribute("role", "option");
    letter(chip, token.label, token.spaces);
    return chip;
  }

  mark() {
    for (const [row, { chips }] of this.shown.entries()) {
      const here = chips.indexOf(this.root.getRootNode().activeElement);
      const stop = here >= 0 ? here : row === this.row ? this.place : 0;
      for (const [i, chip] of chips.entries()) {
        const chosen = row === this.row && i === this.place;
        chip.classList.toggle("chosen", chosen);
        chip.setAttribute("aria-selected", String(chosen));
        chip.tabIndex = i === stop ? 0 : -1;
      }
    }
  }

  // -------------------------------------------------------------------------------------------- reading, picking

  explain(row, place, touch = false) {
    const { words, rows } = this.data;
    const token = rows[row].chips[place];
    const list = [
      [`${words.token} ${place + 1}`, token.label, "strong"],
      [words.id, String(token.id), "number"],
      [words.probability, format(token.p, 3), "number apart"],
      [words.rank, token.rank, "number"],
      [words.final, token.final, "number"],
      ...(token.by_reader ? [["", words.by_reader]] : []),
      ...token.instead.map(([label, p], i) => [i ? "" : words.instead, `${p}  ${label}`, i ? "number" : "number apart"]),
    ];
    const box = this.shown[row].chips[place].getBoundingClientRect();
    const hint = words.hint ? [element("p", "hint", words.hint)] : [];
    const y = touch ? box.top + 20 : box.bottom - 8;
    this.tip.show(list, touch ? box.left + box.width / 2 : box.left - 16, y, hint, touch);
  }

  pick(row, place) {
    this.row = row;
    this.place = place;
    this.mark();
    const { words, rows } = this.data;
    const { title, chips } = rows[row];
    this.spoken.textContent = `${title}, ${words.token} ${place + 1}: ${chips[place].label}, ${format(chips[place].p, 3)}`;
    this.picks.send({ query: place, key: row });
  }

  find(event) {
    const chip = event.target.closest?.(".chip");
    const row = this.shown.findIndex(({ chips }) => chips.includes(chip));
    return row < 0 ? null : { row, place: this.shown[row].chips.indexOf(chip) };
  }

  listen() {
    const { cards } = this;
    cards.addEventListener("pointerover", (event) => {
      if (event.pointerType === "touch") return;
      const at = this.find(event);
      if (at) this.explain(at.row, at.place);
      else this.tip.hide();
    });
    cards.addEventListener("pointerleave", () => this.tip.hide());
    cards.addEventListener("pointerdown", (event) => { this.touch = event.pointerType === "touch"; });
    cards.addEventListener("click", (event) => {
      const at = this.find(event);
      if (!at) return;
      this.pick(at.row, at.place);
      if (this.touch) this.explain(at.row, at.place, true);
    });
    cards.addEventListener("focusin", (event) => {
      const at = this.find(event);
      if (at && event.target.matches(":focus-visible")) this.explain(at.row, at.place);
    });
    cards.addEventListener("focusout", () => this.tip.hide());
    cards.addEventListener("keydown", (event) => this.press(event));
    this.ignoreOutside = pressedOutside(this.root, () => this.tip.hide());
  }

  press(event) {
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    if (event.key === "Escape") return this.tip.hide();
    const at = this.find(event);
    if (!at) return;
    const { chips } = this.shown[at.row];
    const last = chips.length - 1;
    const goals = { ArrowLeft: at.place - 1, ArrowRight: at.place + 1, Home: 0, End: last };
    if (event.key in goals) {
      chips[Math.min(Math.max(goals[event.key], 0), last)].focus();
      this.mark();
    } else if (event.key === "Enter" || event.key === " ") this.pick(at.row, at.place);
    else return;
    event.preventDefault();
  }

  close() {
    this.picks.stop();
    this.tip.hide();
    this.ignoreOutside();
    this.root.remove();
  }
}

const keyOf = (token) => JSON.stringify([token.label, token.id, token.p, token.joined]);

export default renderer(Continuations);
