// Saves what stands above a caption: as a picture (PNG), or its numbers as a table (CSV).

/** Figures, captions, headings and names (paragraphs all in bold or small) of the page in reading order. */
function* landmarks(node) {
  for (const child of node.children) {
    if (child.matches("h1, h2, h3, h4")) yield { what: "heading", node: child };
    else if (isName(child)) yield { what: "name", node: child };
    else if (child.matches(".atlas-caption")) yield { what: "caption", node: child };
    else if (isFigure(child)) {
      const { width, height } = child.getBoundingClientRect();
      if (width > 1 && height > 1) yield { what: "figure", node: child };
    } else yield* landmarks(child);
  }
}

const NO_FIGURE = ":is(.atlas-caption, .atlas-remark, .atlas-idle, .atlas-count, .atlas-brand, .atlas-section, .atlas-legend)";

function isFigure(node) {
  if (node.matches(".js-plotly-plot")) return true;
  if (node.shadowRoot) return node.atlasView ? node.atlasView.figure !== false : !!node.shadowRoot.querySelector("[class^=atlas-]");
  return node.matches("[class^='atlas-']") && !node.matches(NO_FIGURE);
}

function isName(node) {
  if (node.matches("[data-testid=stCaptionContainer] p")) return true;
  return node.matches("p:has(> strong:only-child)") && node.innerText === node.firstElementChild.innerText;
}

const column = (node) => node.closest("[data-testid=stColumn]");

/** Each figure with the caption that speaks of it: the next one, or the one before, up to a heading, in its column. */
function captioned(main) {
  const marks = [...landmarks(main)];
  const fits = (figure, caption, step) => {
    const own = column(figure);
    if (!own || own.contains(caption) || !own.querySelector(".atlas-caption")) return true;
    return step < 0 && !column(caption);
  };
  const look = (from, step) => {
    for (let i = from + step; marks[i] && marks[i].what !== "heading"; i += step) {
      if (marks[i].what === "caption") return fits(marks[from].node, marks[i].node, step) ? marks[i].node : null;
    }
    return null;
  };
  return marks.flatMap((mark, i) => (mark.what === "figure" ? [[mark.node, look(i, 1) ?? look(i, -1)]] : []));
}

/** The heading that figures stand under, and the name right above each of them (undefined where there is none). */
function titlesOf(main, figures) {
  const marks = [...landmarks(main)];
  const places = figures.map((figure) => marks.findIndex(({ node }) => node === figure));
  const over = ({ what, node }) => what === "heading" && (!column(node) || column(node).contains(figures[0]));
  const names = places.map((place, i) => {
    const above = marks[place - 1];
    return above?.what === "name" && column(above.node) === column(figures[i]) ? above.node : undefined;
  });
  return { heading: marks.slice(0, places[0]).findLast(over)?.node, names };
}

/** The key that a figure, or the section it stands in, has in the app; what is named after code (tickets.py) is none. */
function keyOf(figure) {
  return figure.closest("[class*=st-key-]:not([class*=st-key-navigation], [class*=st-key-part_])")?.className.match(/st-key-(?:section_?)?([\w-]+)/)?.[1];
}

/** The words of a name; KaTeX writes each formula twice, once for screen readers. */
function said(name) {
  const copy = name.cloneNode(true);
  copy.querySelectorAll(".katex-mathml").forEach((twice) => twice.remove());
  return copy.textContent.trim();
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function save(button, page) {
  const caption = button.closest(".atlas-caption");
  const main = button.closest("[data-testid=stMain]");
  const figures = captioned(main).filter(([, own]) => own === caption).map(([figure]) => figure);
  if (!figures.length) return;
  const { heading, names } = titlesOf(main, figures);
  const key = keyOf(figures[0]);
  const name = [page, key].filter(Boolean).join("-");
  if (button.dataset.save === "csv") {
    const exact = document.querySelector(`.st-key-${key}-file button`); // what is drawn is less than the numbers
    if (exact) return exact.click();
    const named = (i) => (figures.length > 1 && names[i] ? [[said(names[i])]] : []);
    const text = figures.map((figure, i) => csv([...named(i), ...rowsOf(figure)])).join("\r\n\r\n");
    return download(new Blob(["\ufeff", text, "\r\n"], { type: "text/csv" }), `${name}.csv`);
  }
  const paper = getComputedStyle(document.querySelector(".stApp")).backgroundColor;
  const canvas = await painted([heading, ...names, ...figures, caption].filter(Boolean), paper);
  const blob = await new Promise((done) => canvas.toBlob(done));
  if (!blob) throw new Error(`no picture of ${canvas.width} × ${canvas.height} pixels`);
  download(blob, `${name}.png`);
}

/** Says for a moment, beside the buttons, that nothing was saved. */
function regret(button, words) {
  const place = button.parentElement;
  place.querySelector("[role=alert]")?.remove();
  const note = document.createElement("span");
  note.setAttribute("role", "alert");
  note.textContent = words;
  place.append(note);
  setTimeout(() => note.remove(), 10_000);
}

export default function ({ data }) {
  const page = () => document.querySelector(".stApp").dataset.atlasPage ?? data.page;
  const click = (event) => {
    const button = event.target.closest?.("[data-save]");
    if (!button) return;
    save(button, page()).catch((error) => {
      console.error(error);
      regret(button, data.words.failed);
    });
  };
  const name = (event) => {
    const button = event.target.closest?.("[data-save]");
    if (!button) return;
    button.title = data.words[button.dataset.save];
    const caption = button.closest(".atlas-caption");
    // Of words alone there is nothing to save. A figure may be drawn later, and a disabled button would hear no more of it.
    const empty = !captioned(button.closest("[data-testid=stMain]")).some(([, own]) => own === caption);
    button.setAttribute("aria-disabled", String(empty));
  };
  window.atlasCaptioned = () => captioned(document.querySelector("[data-testid=stMain]")); // for tests
  const heard = [["click", click], ["pointerover", name], ["focusin", name]];
  for (const [type, then] of heard) document.addEventListener(type, then);
  return () => {
    for (const [type, then] of heard) document.removeEventListener(type, then);
  };
}
