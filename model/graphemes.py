"""Characters as people see them: where they end, and signs for those that cannot be seen."""

from __future__ import annotations

import unicodedata

import regex

_CLUSTER = regex.compile(r"\X")
_SIGNS = {" ": "·", "\n": "↵", "\t": "⇥", "\r": "␍", "\u00a0": "⍽", "\u3000": "□", "\u007f": "␡"}
_NAMES = {
    "\u200b": "ZWSP", "\u200c": "ZWNJ", "\u200d": "ZWJ", "\ufeff": "BOM", "\u200e": "LRM", "\u200f": "RLM",
    "\u2028": "LS", "\u2029": "PS", "\u00ad": "SHY", "\u2060": "WJ",
}  # fmt: skip


def boundaries(text: str) -> frozenset[int]:
    """Offsets in `text` where an extended grapheme cluster ends (Unicode Standard Annex #29)."""
    return frozenset(match.end() for match in _CLUSTER.finditer(text))


def visible(text: str) -> str:
    """`text` with whitespace, controls and characters without a shape drawn as signs.

    Joiners and marks inside a cluster that has a shape (a family of emoji, é) stay as they are.
    """
    return "".join(_cluster(match.group()) for match in _CLUSTER.finditer(text))


def _cluster(cluster: str) -> str:
    if any(_has_shape(c) for c in cluster):
        return cluster
    return "".join(map(_sign, cluster))


def _has_shape(character: str) -> bool:
    return unicodedata.category(character)[0] not in "CZM"


def _sign(character: str) -> str:
    if character in _SIGNS:
        return _SIGNS[character]
    if character in _NAMES:
        return f"⟨{_NAMES[character]}⟩"
    if ord(character) < 0x20:
        return chr(0x2400 + ord(character))
    category = unicodedata.category(character)
    if category[0] == "M":  # a mark with nothing to sit on: give it a circle
        return "◌" + character
    if category in ("Cn", "Co", "Cs", "Cc", "Cf") or category[0] == "Z":
        return f"⟨U+{ord(character):04X}⟩"
    return character
