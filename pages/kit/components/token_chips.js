// Chips of tokens, as several components draw them: the words on them and the colour behind those.

/** Put a token's label into an element, the spaces that it begins with apart from the rest. */
function letter(place, label, spaces) {
  const [before, rest] = [label.slice(0, spaces), label.slice(spaces)];
  place.replaceChildren(...(before ? [element("span", "space", before)] : []), rest);
}

/** The colour that stands for a share from 0 to 1 behind a chip, and ink that is readable on it. */
function paint(chip, share, colours) {
  const ground = colours[Math.round(Math.min(Math.max(share, 0), 1) * (colours.length - 1))];
  const light = luminance(ground);
  chip.style.setProperty("--ground", css(ground));
  chip.style.setProperty("--on-ground", 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#fff" : "#000");
}
