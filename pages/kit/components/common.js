// What the components share: data from Python, colours, text, tooltip, picks. It precedes each component's script.

/** Header, float32 arrays and the rest of the bytes that `packing.pack` wrote. */
function unpack(bytes) {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const { buffer } = bytes.slice(4 + length);
  let start = 0;
  const arrays = header.arrays.map((shape) => {
    const size = shape.reduce((product, n) => product * n, 1);
    const numbers = new Float32Array(buffer, start, size);
    start += 4 * size;
    return numbers;
  });
  return { header, arrays, rest: new Uint8Array(buffer, start) };
}

/** An element with a class and, where given, its text. */
function element(tag, className = "", text = null) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== null) made.textContent = text;
  return made;
}

// ---------------------------------------------------------------------------------------------------- colours

/** Red, green and blue of any CSS colour. */
function channels(colour) {
  channels.context ??= new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  channels.context.fillStyle = "#fff";
  channels.context.fillRect(0, 0, 1, 1);
  channels.context.fillStyle = colour;
  channels.context.fillRect(0, 0, 1, 1);
  return [...channels.context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

/** Relative luminance, 0 to 1, as WCAG 2 defines it. */
function luminance(rgb) {
  const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** `size` colours, each [red, green, blue], evenly along `stops`; an odd number has the middle one, zero's. */
function ramp(stops, size = 257) {
  const ends = stops.map(channels);
  return Array.from({ length: size }, (_, i) => {
    const place = (i / (size - 1)) * (ends.length - 1);
    const from = Math.min(Math.floor(place), ends.length - 2);
    return ends[from].map((v, c) => Math.round(v + (ends[from + 1][c] - v) * (place - from)));
  });
}

const css = (rgb, alpha = 1) => `rgb(${rgb.join(" ")} / ${alpha})`;

/** The palette that fits the theme around `root`; its colours become CSS variables of `root`. */
function dress(root, palettes) {
  const ground = getComputedStyle(root).getPropertyValue("--st-background-color").trim() || "#fff";
  const palette = luminance(channels(ground)) < 0.2 ? palettes.dark : palettes.light;
  for (const [name, colour] of Object.entries(palette)) {
    if (typeof colour === "string") root.style.setProperty(`--${name}`, colour);
  }
  return palette;
}

// ------------------------------------------------------------------------------------------------ text, canvas

/** A number as the app prints it (`probability` of numbers.py): what is smaller than `digits` can tell has its first digit. */
function format(value, digits) {
  const size = Math.abs(value);
  if (size > 0 && size < 1e-6) return (value < 0 ? "> −" : "< ") + "0.000001";
  const first = size > 0 && size < 10 ** -digits ? -Math.floor(Math.log10(size)) : digits;
  return value.toFixed(first).replace("-", "−");
}

/** Text as people count it: an emoji or a letter with its marks is one. */
function graphemes(text) {
  if (!Intl.Segmenter) return Array.from(text);
  graphemes.segmenter ??= new Intl.Segmenter(undefined, { granularity: "grapheme" });
  return Array.from(graphemes.segmenter.segment(text), (part) => part.segment);
}

/** `text` cut with … to at most `width` pixels in the context's font, and piles of marks to three. */
function shortened(context, full, width) {
  const text = full.replace(/(\p{M}{3})\p{M}+/gu, "$1");
  if (text.length < 400 && context.measureText(text).width <= width) return text;
  const parts = graphemes(text.slice(0, 400));
  let low = 0;
  let high = parts.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(parts.slice(0, middle).join("") + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return parts.slice(0, low).join("") + "…";
}

/** Device pixels per CSS pixel for a canvas of this size, within what browsers can hold. */
function sharpness(width, height) {
  const most = Math.min(16000 / width, 16000 / height, Math.sqrt(16e6 / (width * height)));
  return Math.min(window.devicePixelRatio || 1, most);
}

/** Size a canvas and return its context, scaled to CSS pixels and cleared. */
function sized(canvas, width, height, ratio) {
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Calls back when the width of `root`, the pixel ratio or the fonts change; returns how to stop it. */
function watch(root, changed) {
  let width = root.clientWidth;
  let query = null;
  const observer = new ResizeObserver(() => requestAnimationFrame(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    changed();
  }));
  const rescaled = () => {
    query?.removeEventListener("change", rescaled);
    query = matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
    query.addEventListener("change", rescaled);
    changed();
  };
  observer.observe(root);
  query = matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
  query.addEventListener("change", rescaled);
  document.fonts.addEventListener("loadingdone", changed);
  return () => {
    observer.disconnect();
    query.removeEventListener("change", rescaled);
    document.fonts.removeEventListener("loadingdone", changed);
  };
}

// ---------------------------------------------------------------------------------------------- tooltip, picks

/** A box at the pointer. Everything in it is set as text. */
class Tip {
  constructor(root) {
    this.box = element("div", "tip");
    this.box.setAttribute("aria-hidden", "true"); // screen readers have the live region
    if (this.box.showPopover) this.box.popover = "manual"; // above everything, cut off by nothing
    root.append(this.box);
  }

  /** rows: [name, value, classes of the value]. extra: elements that follow. At (x, y) of the window. */
  show(rows, x, y, extra = [], touch = false) {
    const list = element("dl");
    for (const [name, value, look = ""] of rows) {
      const apart = look.includes("apart") ? "apart" : "";
      list.append(element("dt", apart, name), element("dd", look, value));
    }
    this.box.replaceChildren(list, ...extra);
    this.box.classList.add("shown");
    if (this.box.popover && !this.box.matches(":popover-open")) this.box.showPopover();
    const { width, height } = this.box.getBoundingClientRect();
    const gap = touch ? 28 : 16;
    let left = touch ? x - width / 2 : x + gap;
    if (left + width > innerWidth - 8) left = touch ? innerWidth - 8 - width : x - gap - width;
    let top = touch ? y - gap - height : y + gap;
    if (top + height > innerHeight - 8) top = y - gap - height;
    if (top < 8) top = touch ? y + gap : 8;
    this.box.style.left = `${Math.max(8, left)}px`;
    this.box.style.top = `${Math.max(8, top)}px`;
  }

  hide() {
    if (!this.box.classList.contains("shown")) return;
    this.box.classList.remove("shown");
    if (this.box.popover && this.box.matches(":popover-open")) this.box.hidePopover();
  }
}

/** Sends picks: the first at once, then at most one every `PAUSE` ms, the last one always. */
class Picks {
  static PAUSE = 120;
  static PATIENCE = 5000; // after that long without an answer the app's own choice counts again

  constructor() {
    this.number = 0;
    this.waiting = null;
    this.timer = 0;
    this.sentAt = -Infinity;
  }

  send(pick) {
    this.waiting = pick;
    if (!this.timer) this.flush();
  }

  flush() {
    this.timer = 0;
    if (!this.waiting) return;
    this.number = Math.max(this.number + 1, Date.now());
    this.sentAt = performance.now();
    this.deliver({ ...this.waiting, number: this.number });
    this.waiting = null;
    this.timer = setTimeout(() => this.flush(), Picks.PAUSE);
  }

  /** Whether the reader is ahead of an app that has seen pick number `last`. */
  ahead(last) {
    if (this.waiting) return true;
    return last < this.number && performance.now() - this.sentAt < Picks.PATIENCE;
  }

  stop() {
    clearTimeout(this.timer);
  }
}

/**
 * The function that Streamlit calls for every run and every change of theme. One `View` lives as long as its
 * element, so that focus, scroll and hover outlive the runs.
 */
function renderer(View) {
  const views = new WeakMap();
  return ({ data, parentElement, setTriggerValue }) => {
    let view = views.get(parentElement);
    if (!view) {
      view = new View(parentElement);
      views.set(parentElement, view);
      if (parentElement.host) parentElement.host.atlasView = view; // for saving its numbers
    }
    view.picks.deliver = (pick) => setTriggerValue("picked", pick);
    view.update(unpack(data));
    // Streamlit also runs this when a newer call has overtaken an older one, and then the element is still there.
    return () => setTimeout(() => {
      if (parentElement.host?.isConnected) return;
      view.close();
      views.delete(parentElement);
    });
  };
}

/** Call `then` when something outside of `root` is pressed; returns what ends it. */
function pressedOutside(root, then) {
  const look = (event) => {
    if (!event.composedPath().includes(root)) then();
  };
  document.addEventListener("pointerdown", look);
  return () => document.removeEventListener("pointerdown", look);
}

/** Where a key press moves the choice in a figure of `rows` × `columns` tokens; null for keys that move nothing. */
function moved(event, query, key, rows, columns) {
  if (event.altKey || event.metaKey || event.ctrlKey) return null;
  const step = event.shiftKey ? 10 : 1;
  const moves = { ArrowUp: [-step, 0], ArrowDown: [step, 0], ArrowLeft: [0, -step], ArrowRight: [0, step] };
  const ends = { Home: 0, End: columns - 1 };
  if (!(event.key in moves) && !(event.key in ends)) return null;
  if (query === null || key === null) return { query: query ?? 0, key: key ?? 0 };
  if (event.key in ends) return { query, key: ends[event.key] };
  const [down, right] = moves[event.key];
  return {
    query: Math.min(Math.max(query + down, 0), rows - 1),
    key: Math.min(Math.max(key + right, 0), columns - 1),
  };
}
