// A figure of elements as a picture: its grounds, borders, texts, canvases and drawings, painted where they stand.

/** The figures as one canvas, as they stand to each other on the page. */
async function painted(figures, ground) {
  const strokes = [];
  for (const figure of figures) await gather(figure, strokes, null, 1);
  const edge = (pick, side) => strokes.reduce((most, one) => pick(most, one.box[side]), pick === Math.min ? Infinity : -Infinity);
  const [left, top] = [edge(Math.min, "left") - PAINT_MARGIN, edge(Math.min, "top") - PAINT_MARGIN];
  const width = edge(Math.max, "right") + PAINT_MARGIN - left;
  const height = edge(Math.max, "bottom") + PAINT_MARGIN - top;
  const ratio = Math.min(3, 16000 / width, 16000 / height, Math.sqrt(64e6 / (width * height)));
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width * ratio);
  canvas.height = Math.ceil(height * ratio);
  const pen = canvas.getContext("2d");
  pen.fillStyle = ground;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.setTransform(ratio, 0, 0, ratio, -left * ratio, -top * ratio);
  for (const { draw, clip, alpha } of strokes) {
    pen.save();
    pen.globalAlpha = alpha;
    if (clip) {
      pen.beginPath();
      pen.rect(clip.left, clip.top, clip.right - clip.left, clip.bottom - clip.top);
      pen.clip();
    }
    draw(pen);
    pen.restore();
  }
  return canvas;
}

const PAINT_MARGIN = 12;

/** What is to be painted of an element and of all in it, from back to front. */
async function gather(node, strokes, clip, alpha) {
  const style = getComputedStyle(node);
  if (style.display === "none" || style.visibility === "hidden" || Number(style.opacity) === 0) return;
  const box = node.getBoundingClientRect();
  const seen = alpha * Number(style.opacity);
  const add = (draw, place = box) => {
    const cut = clip ? within(place, clip) : place;
    if (cut.right > cut.left && cut.bottom > cut.top) strokes.push({ draw, clip, alpha: seen, box: cut });
  };
  if (box.width && box.height && style.display !== "contents") ground(node, style, box, add);
  for (const which of ["::before", "::after"]) ghost(node, which, style, box, add);
  if (node.localName === "canvas" && node.width && node.height) {
    add((pen) => pen.drawImage(node, box.left, box.top, box.width, box.height));
    return;
  }
  if (node.localName === "svg") {
    const image = await drawing(node, box);
    add((pen) => pen.drawImage(image, box.left, box.top, box.width, box.height));
    return;
  }
  // What scrolls is painted whole where nothing stands below it; what is cut off for good is cut off here, too.
  const covered = /auto|scroll/.test(style.overflowY) && node.scrollHeight > node.clientHeight + 1 && node.nextElementSibling;
  const cut = covered || (style.overflowX === "hidden" && style.overflowY !== "auto");
  const inner = cut ? (clip ? within(box, clip) : box) : clip;
  for (const child of (node.shadowRoot ?? node).childNodes) {
    if (child.nodeType === Node.ELEMENT_NODE && child.localName !== "style") await gather(child, strokes, inner, seen);
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
  if (!/^rgba\(.*, 0\)$|^transparent$/.test(style.backgroundColor)) {
    add((pen) => {
      pen.fillStyle = style.backgroundColor;
      pen.beginPath();
      pen.roundRect(box.left, box.top, box.width, box.height, radius);
      pen.fill();
    });
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
  add((pen) => {
    pen.fillStyle = style[`border${side}Color`];
    pen.beginPath();
    for (const [x, y] of [corners[first], corners[(first + 1) % 4], tip]) pen.lineTo(x, y);
    pen.fill();
  }, place);
}

/** The words of a text node, each where the browser has put it. */
function words(node, style, strokes, clip, alpha) {
  const range = document.createRange();
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
      pen.fillStyle = style.color;
      pen.fillText(text, box.left, box.top + pen.measureText(text).fontBoundingBoxAscent);
    };
    strokes.push({ draw, clip, alpha, box: cut });
  };
  for (const match of node.data.matchAll(/\p{Script=Han}|[^\s\p{Script=Han}]+/gu)) put(match.index, match.index + match[0].length);
}

/** A drawing with its colours written into it: as a picture it does not know the page's style sheets. */
async function drawing(svg, box) {
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
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  return image;
}
