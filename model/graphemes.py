"""Characters as people see them: where they end, and signs for those that cannot be seen."""

from __future__ import annotations

import regex  # unlike unicodedata it knows clusters, and Unicode's latest characters

_CLUSTER = regex.compile(r"\X")
_MARK = regex.compile(r"\p{M}")
# Controls, formats, private use, unassigned, separators, default-ignorables and the empty braille cell; not the
# Arabic signs that are formats by category and do have a shape.
_INVISIBLE = regex.compile(r"[[\p{C}\p{Z}\p{DI}\u2800]--[\p{Prepended_Concatenation_Mark}]]", regex.V1)

_SIGNS = {" ": "·", "\n": "↵", "\t": "⇥", "\u00a0": "⍽"}
_CONTROLS = (
    "NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
)
_NAMES = {
    **dict(enumerate(_CONTROLS.split())), 0x7F: "DEL",
    0x00AD: "SHY", 0x034F: "CGJ", 0x061C: "ALM", 0x200B: "ZWSP", 0x200C: "ZWNJ", 0x200D: "ZWJ", 0x200E: "LRM",
    0x200F: "RLM", 0x2028: "LS", 0x2029: "PS", 0x202A: "LRE", 0x202B: "RLE", 0x202C: "PDF", 0x202D: "LRO",
    0x202E: "RLO", 0x2060: "WJ", 0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI", 0xFEFF: "BOM",
    **{0xFE00 + i: f"VS{i + 1}" for i in range(16)},
}  # fmt: skip
_ZWJ = "\u200d"
_EMOJI_STYLES = "\ufe0e\ufe0f"
_BLACK_FLAG = "\U0001f3f4"
_TAGS = (0xE0020, 0xE007F)


def boundaries(text: str) -> list[int]:
    """Offsets in `text` where an extended grapheme cluster ends, ascending (Unicode Standard Annex #29)."""
    return [match.end() for match in _CLUSTER.finditer(text)]


def visible(text: str) -> str:
    """`text` with a sign in place of every character that has no shape of its own.

    Space ·, line feed ↵, tab ⇥, no-break space ⍽, the rest by abbreviation or number (⟨CR⟩, ⟨ZWJ⟩, ⟨U+3000⟩: few
    fonts draw pictures of controls). What joins or selects the shapes of a cluster (a family of emoji, a flag,
    ❤️) stays; a mark with nothing to sit on gets a circle (◌́). Empty only for an empty text.
    """
    return "".join(_cluster(match.group()) for match in _CLUSTER.finditer(text))


def _cluster(cluster: str) -> str:
    if len(cluster) == 1 and cluster.isascii() and cluster.isprintable() and cluster != " ":
        return cluster
    out, based = "", False
    for place, char in enumerate(cluster):
        if _INVISIBLE.match(char):
            kept = based and _shapes(cluster, place)
            out += char if kept else sign(char)
            based = kept
        else:
            out += "◌" + char if _MARK.match(char) and not based else char
            based = True
    return out


def _shapes(cluster: str, place: int) -> bool:
    """Whether an invisible character changes how the visible ones around it look."""
    char = cluster[place]
    if char == _ZWJ:
        return place + 1 < len(cluster)
    return char in _EMOJI_STYLES or (cluster[0] == _BLACK_FLAG and _TAGS[0] <= ord(char) <= _TAGS[1])


def sign(char: str) -> str:
    """What is shown in place of a character without a shape: ↵, ⟨NUL⟩, ⟨ZWJ⟩, ⟨U+E000⟩."""
    return _SIGNS.get(char) or f"⟨{_NAMES.get(ord(char), f'U+{ord(char):04X}')}⟩"
