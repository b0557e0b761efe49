// The numbers of a figure as rows of a table, each row a list of texts and numbers.

/** The rows of whatever is drawn there: what it says of itself, its curves and cells, its tables, else its words. */
function rowsOf(figure) {
  if (figure.matches(".js-plotly-plot")) return plotRows(figure);
  const own = figure.atlasView?.numbers?.();
  if (own) return own;
  const inside = figure.shadowRoot ?? figure;
  const stated = figure.dataset.rows ?? inside.querySelector("[data-rows]")?.dataset.rows;
  if (stated) return JSON.parse(stated);
  const tables = inside.querySelectorAll("table");
  if (tables.length) return Array.from(tables).flatMap((table) => Array.from(table.rows, (row) => cellsOf(row.cells)));
  const parts = inside.querySelectorAll("header, li, dl > div, .group");
  if (parts.length) return Array.from(parts, (part) => cellsOf(part.children)).filter((row) => row.length);
  return [[inside.textContent ?? ""]];
}

const VALUES = "td:not(.token, .text), dd, small, code, .n"; // every other cell names something, often with a token

function cellsOf(elements) {
  const cells = Array.from(elements, (cell) => {
    const text = worded(cell).trim().replace(/\s*\n+\s*/g, " · ");
    return cell.matches(VALUES) ? read(text) : text;
  });
  while (cells.length && cells.at(-1) === "") cells.pop(); // a bar has no text
  return cells;
}

/** What an element says; a raised exponent gets a sign, without which it would be further digits. */
function worded(element) {
  if (!element.querySelector("sup")) return element.innerText ?? element.textContent;
  const copy = element.cloneNode(true);
  for (const raised of copy.querySelectorAll("sup")) raised.replaceWith(`^${raised.textContent}`);
  return copy.textContent;
}

/** Plotly's own tags and entities taken out of a text. */
function untagged(text) {
  untagged.reader ??= document.createElement("template");
  untagged.reader.innerHTML = String(text ?? "").replace(/<br\s*\/?>/g, " ");
  return untagged.reader.content.textContent;
}

/** A row per point or cell: whose it is, where it stands on both axes, and its value. */
function plotRows(graph) {
  const layout = graph._fullLayout;
  const axis = (trace, letter) => layout[(trace[`${letter}axis`] ?? letter).replace(letter, `${letter}axis`)] ?? {};
  const heads = ["x", "y"].map((letter) => untagged(graph.layout[`${letter}axis`]?.title?.text) || letter);
  const rows = [];
  let deep = false;
  for (const trace of graph._fullData) {
    if (trace.visible !== true) continue;
    const [across, down] = [axis(trace, "x"), axis(trace, "y")];
    const name = /^trace \d+$/.test(trace.name) ? "" : untagged(trace.name); // plotly's own name for what has none
    if (trace.type === "heatmap") {
      deep = true;
      const shown = Array.isArray(trace.customdata) && typeof trace.customdata[0]?.[0] === "number" ? trace.customdata : trace.z;
      const [x, y] = [places(across, trace, "x", shown[0].length), places(down, trace, "y", shown.length)];
      shown.forEach((line, r) => Array.from(line).forEach((value, c) => rows.push([name, x[c], y[r], value])));
    } else {
      const [x, y] = [named(across, trace.x), named(down, trace.y)];
      const points = trace.type.startsWith("scatter") && typeof trace.customdata?.[0] === "string" ? trace.customdata : [];
      for (let i = 0; i < Math.max(x.length, y.length); i++) {
        if (trace.z) deep = true;
        rows.push([points.length ? untagged(points[i]) : name, x[i], y[i], ...(trace.z ? [trace.z[i]] : [])]);
      }
    }
  }
  return [["", ...heads, ...(deep ? ["value"] : [])], ...rows];
}

/** What is written at the places of an axis, if each of them has a name there; else the places, which are numbers. */
function named(axis, values) {
  const ticks = new Map(Array.from(axis.ticktext ? axis.tickvals ?? [] : [], (tick, i) => [Number(tick), axis.ticktext[i]]));
  const names = Array.from(values ?? [], (value) => ticks.get(Number(value)));
  return axis.type !== "log" && names.every((name) => name !== undefined) ? names.map(untagged) : Array.from(values ?? []);
}

/** Where `count` cells stand: they are given by their middles, by their edges, or by a first one and a step. */
function places(axis, trace, letter, count) {
  const given = trace[letter];
  const at = (i) => (given.length > count ? (given[i] + given[i + 1]) / 2 : given[i]);
  const stepped = (i) => (trace[`${letter}0`] ?? 0) + i * (trace[`d${letter}`] ?? 1);
  return named(axis, Array.from({ length: count }, (_, i) => (given ? at(i) : stepped(i))));
}

const NUMERAL = /^[−+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?(e-?\d+)?$/;

/** A value as the app prints it for people (−1,234 and 2.1·10⁻³) as a number; what is none stays as it is. */
function read(text) {
  const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const plain = text.replace(/·10(⁻?)([⁰¹²³⁴⁵⁶⁷⁸⁹]+)$/, (_, minus, power) => `e${minus && "-"}${Array.from(power, (d) => digits.indexOf(d)).join("")}`);
  return NUMERAL.test(plain) ? Number(plain.replace("−", "-").replaceAll(",", "")) : text;
}

/** Rows as CSV. Numbers stand as programs read them, texts as they are, but none that a spreadsheet would run. */
function csv(rows) {
  const cell = (value) => {
    if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
    let text = String(value ?? "");
    if (/^[=+\-@＝＋－＠\t\r\n]/.test(text) && !NUMERAL.test(text)) text = `'${text}`; // would begin a formula
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n");
}
