// A figure of elements as a picture: its grounds, borders, texts, canvases and drawings, painted where they stand.

/** What stands on the page as one canvas: rows of what stands beside each other, without the empty room around them. */
async function painted(nodes, paper) {
  const parts = [];
  for (const node of nodes) {
    const strokes = [];
    gather(node, strokes, null, 1);
    if (strokes.length) parts.push({ strokes, ...bounds(strokes.map(({ box }) => box)) });
  }
  const rows = inRows(parts);
  const width = Math.max(...rows.map((row) => row.right - row.left)) + 2 * PAINT_MARGIN;
  const height = rows.at(-1).at + rows.at(-1).bottom - rows.at(-1).top + PAINT_MARGIN;
  const ratio = Math.min(3, 16000 / width, 16000 / height, Math.sqrt(64e6 / (width * height)));
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width * ratio);
  canvas.height = Math.ceil(height * ratio);
  const pen = canvas.getContext("2d");
  pen.fillStyle = paper;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  for (const row of rows) {
    pen.setTransform(ratio, 0, 0, ratio, (PAINT_MARGIN - row.left) * ratio, (row.at - row.top) * ratio);
    for (const { draw, clip, alpha, image } of row.strokes) {
      pen.save();
      pen.globalAlpha = alpha;
      if (clip) {
        pen.beginPath();
        pen.rect(clip.left, clip.top, clip.right - clip.left, clip.bottom - clip.top);
        pen.clip();
      }
      draw(pen, await image);
      pen.restore();
    }
  }
  return canvas;
}

const PAINT_MARGIN = 12;
const PAINT_GAPS = [8, 20]; // the least and the most between two rows

function bounds(boxes) {
  const most = (pick, side) => boxes.reduce((found, box) => pick(found, box[side]), boxes[0][side]);
  return { left: most(Math.min, "left"), top: most(Math.min, "top"), right: most(Math.max, "right"), bottom: most(Math.max, "bottom") };
}

/** Whether a part would lie on another, as below something that scrolls on the page and is painted whole. */
function lies(one, other) {
  const cut = within(one, other);
  return cut.right > cut.left + 4 && cut.bottom > cut.top + 4;
}

/** Parts that stand beside each other joined, from top to bottom, each with the height `at` which it goes. */
function inRows(parts) {
  const rows = [];
  let at = PAINT_MARGIN;
  for (const part of parts.sort((one, other) => one.top - other.top)) {
    const last = rows.at(-1);
    const beside = last && part.top < last.bottom - 4 && !last.parts.some((other) => lies(part, other));
    if (beside) Object.assign(last, bounds([last, part]), { parts: [...last.parts, part], strokes: [...last.strokes, ...part.strokes] });
    else rows.push({ ...part, parts: [part] });
  }
  return rows.map((row, i) => {
    const gap = i && Math.min(Math.max(row.top - rows[i - 1].bottom, PAINT_GAPS[0]), PAINT_GAPS[1]);
    const placed = { ...row, at: at + gap };
    at += gap + row.bottom - row.top;
    return placed;
  });
}

/**
 * What is to be painted of an element and of all in it, from back to front. It is all noted at once: while images are
 * made of drawings, the app may draw the page anew.
 */
function gather(node, strokes, clip, alpha) {
  // A switch or a slider is no part of a picture.
  if (node.matches(".atlas-save") || node.querySelector(":scope > input")) return;
  const style = getComputedStyle(node);
  if (style.display === "none" || style.visibility === "hidden" || Number(style.opacity) === 0) return;
  const box = node.getBoundingClientRect();
  const seen = alpha * Number(style.opacity);
  const add = (draw, place = box, image = null) => {
    const cut = clip ? within(place, clip) : place;
    if (cut.right > cut.left && cut.bottom > cut.top) strokes.push({ draw, clip, alpha: seen, box: cut, image });
  };
  const picture = (pen, image) => pen.drawImage(image, box.left, box.top, box.width, box.height);
  if (node.matches(".js-plotly-plot")) return add(picture, box, plot(node));
  if (box.width && box.height && style.display !== "contents") ground(node, style, box, add);
  for (const which of ["::before", "::after"]) ghost(node, which, style, box, add);
  if (node.localName === "canvas" && node.width && node.height) {
    return add((pen) => picture(pen, node));
  }
  if (node.localName === "svg") return add(picture, box, drawing(node, box));
  // What scrolls is painted whole where it would lie on nothing else; what is cut off for good is cut off here, too.
  const scrolled = /auto|scroll/.test(style.overflowY) && node.scrollHeight > node.clientHeight + 1;
  const covered = scrolled && (node.nextElementSibling || node.scrollTop !== 0 || style.flexDirection === "column-reverse");
  const cut = covered || (style.overflowX === "hidden" && style.overflowY !== "auto");
  const inner = cut ? (clip ? within(box, clip) : box) : clip;
  for (const child of (node.shadowRoot ?? node).childNodes) {
    if (child.nodeType === Node.ELEMENT_NODE && child.localName !== "style") gather(child, strokes, inner, seen);
    if (child.nodeType === Node.TEXT_NODE) words(child, style, strokes, inner, seen);
  }
}

function within(one, other) {
  return {
    left: Math.max(one.left, other.left), top: Math.max(one.top, other.top),
    right: Math.min(one.right, other.right), bottom: Math.min(one.bottom, other.bottom),
  };
}

/** The ground of an element, its border and its outline. */
function ground(node, style, box, add) {
  const radius = Math.min(parseFloat(style.borderTopLeftRadius) || 0, box.height / 2);
  const { backgroundColor, backgroundImage } = style;
  if (!/^rgba\(.*, 0\)$|^transparent$/.test(backgroundColor)) {
    add((pen) => {
      pen.fillStyle = backgroundColor;
      pen.beginPath();
      pen.roundRect(box.left, box.top, box.width, box.height, radius);
      pen.fill();
    });
  }
  // The gradients of a table say that it scrolls, which a picture does not.
  if (/gradient\(/.test(backgroundImage) && node.closest(".atlas-caption, .atlas-arithmetic")) {
    add((pen) => shade(pen, backgroundImage, box));
  }
  const side = (name) => (style[`border${name}Style`] === "none" ? 0 : parseFloat(style[`border${name}Width`]) || 0);
  const widths = ["Top", "Right", "Bottom", "Left"].map(side);
  const colours = ["Top", "Right", "Bottom", "Left"].map((name) => style[`border${name}Color`]);
  const stroke = (width, colour, dashed, out) => (pen) => {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    if (dashed) pen.setLineDash([3, 3]);
    pen.beginPath();
    pen.roundRect(box.left - out, box.top - out, box.width + 2 * out, box.height + 2 * out, radius + Math.max(0, out));
    pen.stroke();
  };
  if (widths.every((width, i) => width && width === widths[0] && colours[i] === colours[0])) {
    add(stroke(widths[0], colours[0], style.borderTopStyle === "dashed", -widths[0] / 2));
  } else {
    const [t, r, b, l] = widths;
    const bars = [
      [box.left, box.top, box.width, t], [box.right - r, box.top, r, box.height],
      [box.left, box.bottom - b, box.width, b], [box.left, box.top, l, box.height],
    ];
    bars.forEach(([x, y, width, height], i) => {
      if (!widths[i] || /^rgba\(.*, 0\)$/.test(colours[i])) return;
      add((pen) => {
        pen.fillStyle = colours[i];
        pen.fillRect(x, y, width, height);
      });
    });
  }
  const outline = style.outlineStyle === "none" || node.matches(":focus") ? 0 : parseFloat(style.outlineWidth);
  if (outline) add(stroke(outline, style.outlineColor, false, parseFloat(style.outlineOffset) + outline / 2));
}

/** The gradients of a swatch: a scale from left to right, the hatching of what is masked, the dots of what is left out. */
function shade(pen, image, box) {
  const colours = image.match(/(?:rgba?|color|oklch|oklab)\([^)]*\)/g);
  if (!colours) return;
  pen.beginPath();
  pen.rect(box.left, box.top, box.width, box.height);
  pen.clip();
  if (image.startsWith("repeating")) {
    pen.strokeStyle = colours[0];
    pen.beginPath();
    for (let x = box.left; x < box.right + box.height; x += 4 * Math.SQRT2) {
      pen.moveTo(x, box.top);
      pen.lineTo(x - box.height, box.bottom);
    }
    pen.stroke();
    return;
  }
  if (image.startsWith("radial")) {
    pen.fillStyle = colours[0];
    pen.beginPath();
    for (let x = box.left + 2; x < box.right; x += 4) {
      for (let y = box.top + 2; y < box.bottom; y += 4) {
        pen.moveTo(x + 1, y);
        pen.arc(x, y, 1, 0, 2 * Math.PI);
      }
    }
    pen.fill();
    return;
  }
  const gradient = pen.createLinearGradient(box.left, 0, box.right, 0);
  colours.forEach((colour, i) => gradient.addColorStop(i / Math.max(1, colours.length - 1), colour));
  pen.fillStyle = gradient;
  pen.fill();
}

/** What a style sheet draws in an element without there being one: lines and arrows that stand at fixed places. */
function ghost(node, which, around, box, add) {
  const style = getComputedStyle(node, which);
  if (style.content === "none" || style.position !== "absolute" || around.position === "static") return;
  const number = (name) => parseFloat(style[name]) || 0;
  const [l, t, r, b] = ["Left", "Top", "Right", "Bottom"].map((name) => number(`border${name}Width`));
  const content = style.boxSizing === "border-box";
  const width = Math.max(number("width") + (content ? 0 : l + r), l + r);
  const height = Math.max(number("height") + (content ? 0 : t + b), t + b);
  const left = box.left + (parseFloat(around.borderLeftWidth) || 0) + number("left");
  const top = box.top + (parseFloat(around.borderTopWidth) || 0) + number("top");
  const place = { left, top, width, height, right: left + width, bottom: top + height };
  if (width > l + r || height > t + b) return ground(node, style, place, (draw) => add(draw, place));
  const seen = (name) => number(`border${name}Width`) && !/^rgba\(.*, 0\)$/.test(style[`border${name}Color`]);
  const side = ["Left", "Top", "Right", "Bottom"].find(seen);
  if (!side) return;
  const corners = [[left, top], [place.right, top], [place.right, place.bottom], [left, place.bottom]];
  const first = { Left: 3, Top: 0, Right: 1, Bottom: 2 }[side];
  const tip = [side === "Left" ? place.right : side === "Right" ? left : left + width / 2,
    side === "Top" ? place.bottom : side === "Bottom" ? top : top + height / 2];
  const colour = style[`border${side}Color`];
  add((pen) => {
    pen.fillStyle = colour;
    pen.beginPath();
    for (const [x, y] of [corners[first], corners[(first + 1) % 4], tip]) pen.lineTo(x, y);
    pen.fill();
  }, place);
}

/** The words of a text node, each where the browser has put it. */
function words(node, style, strokes, clip, alpha) {
  const range = document.createRange();
  const { color } = style; // of an element that has left the page it would be none
  const font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const put = (from, to) => {
    range.setStart(node, from);
    range.setEnd(node, to);
    const boxes = Array.from(range.getClientRects()).filter((box) => box.width);
    if (boxes.length > 1 && graphemes(node.data.slice(from, to)).length > 1) { // broken in the middle
      for (const sign of graphemes(node.data.slice(from, to))) {
        put(from, from + sign.length);
        from += sign.length;
      }
      return;
    }
    const [box] = boxes;
    const cut = box && (clip ? within(box, clip) : box);
    if (!cut || cut.right <= cut.left || cut.bottom <= cut.top) return;
    const text = node.data.slice(from, to);
    const draw = (pen) => {
      pen.font = font;
      pen.fillStyle = color;
      pen.fillText(text, box.left, box.top + pen.measureText(text).fontBoundingBoxAscent);
    };
    strokes.push({ draw, clip, alpha, box: cut });
  };
  for (const match of node.data.matchAll(/\p{Script=Han}|[^\s\p{Script=Han}]+/gu)) put(match.index, match.index + match[0].length);
}

/** A drawing with its colours written into it: as a picture it does not know the page's style sheets. */
function drawing(svg, box) {
  const copy = svg.cloneNode(true);
  const [from, to] = [[svg, ...svg.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  from.forEach((one, i) => {
    const style = getComputedStyle(one);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font", "text-anchor"]) {
      to[i].style.setProperty(name, style.getPropertyValue(name));
    }
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  return imageOf(new XMLSerializer().serializeToString(copy));
}

/** A chart as plotly draws it. */
async function plot(graph) {
  const { width, height } = graph._fullLayout;
  return imageOf(await Plotly.toImage(graph, { format: "svg", imageDataOnly: true, width, height }));
}

async function imageOf(svg) {
  const sheet = document.createElementNS("http://www.w3.org/2000/svg", "style");
  sheet.textContent = (await fontsOf(svg)).join("");
  const image = new Image();
  const whole = svg.replace(/<svg[^>]*>/, (open) => open + new XMLSerializer().serializeToString(sheet));
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(whole)}`;
  await image.decode();
  return image;
}

/** The rules of a style sheet; those of another origin, as a browser's extension adds, may not be read. */
function rulesOf(sheet) {
  try {
    return Array.from(sheet.cssRules);
  } catch {
    return [];
  }
}

/** The rules of the page's fonts that an SVG names, with the fonts in them: a picture can load none. */
function fontsOf(svg) {
  const rules = Array.from(document.styleSheets).flatMap(rulesOf);
  const named = (rule) => svg.includes(rule.style.getPropertyValue("font-family").replaceAll('"', ""));
  const own = rules.filter((rule) => rule instanceof CSSFontFaceRule && named(rule) && rule.style.getPropertyValue("font-style") !== "italic");
  return Promise.all(own.map(async (rule) => {
    const found = rule.style.getPropertyValue("src").match(/url\("?([^")]+)"?\)/);
    if (!found) return ""; // a font of the reader's machine
    const [address, path] = found;
    const font = await (await fetch(new URL(path, rule.parentStyleSheet.href ?? document.baseURI))).blob();
    const reader = new FileReader();
    await new Promise((done) => { reader.onload = done; reader.readAsDataURL(font); });
    return rule.cssText.replace(address, `url(${reader.result})`);
  }));
}
