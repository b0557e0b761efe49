"""Tokens made of bytes: GPT-2's alphabet for bytes (Radford et al. 2019), and characters that tokens cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from model.graphemes import visible


def _alphabet() -> dict[str, int]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


BYTE_OF = _alphabet()  # printable Latin-1 bytes stand for themselves, the other 68 are written from U+0100 on


def spelled(token: str) -> bytes:
    """The bytes that a vocabulary entry spells in GPT-2's alphabet; one not spelled in it is its own UTF-8."""
    try:
        return bytes([BYTE_OF[char] for char in token])
    except KeyError:
        return token.encode("utf-8")


class Character(NamedTuple):
    """A decoded character and the bytes `start` … `end` - 1 that make it; not `valid`: bytes that are none."""

    text: str
    start: int
    end: int
    valid: bool


def characters(data: bytes) -> list[Character]:
    """The characters of UTF-8 bytes; each longest run of bytes that begins none becomes one U+FFFD, as in
    `data.decode("utf-8", "replace")`."""
    out: list[Character] = []
    at = 0
    while at < len(data):
        try:
            good, bad = data[at:].decode("utf-8"), 0
        except UnicodeDecodeError as error:
            good, bad = data[at : at + error.start].decode("utf-8"), error.end - error.start
        for char in good:
            size = len(char.encode("utf-8"))
            out.append(Character(char, at, at + size, True))
            at += size
        if bad:
            out.append(Character("\ufffd", at, at + bad, False))
            at += bad
    return out


def labels(parts: Sequence[bytes]) -> list[str]:
    """A visible name for each part of a run of bytes; empty only for an empty part.

    A part of a character is named after it with the place of its bytes ("猫 1/3", "猫 2–3/3"); a byte that belongs
    to no character is ⟨0xE7⟩.
    """
    data = b"".join(parts)
    found = characters(data)
    names, start, first = [], 0, 0
    for part in parts:
        end = start + len(part)
        while first < len(found) and found[first].end <= start:
            first += 1
        names.append(_label(data, found, first, start, end))
        start = end
    return names


def _label(data: bytes, found: Sequence[Character], first: int, start: int, end: int) -> str:
    words: list[str] = []
    whole = ""  # characters that are completely inside, kept together: a mark needs its base
    for place in range(first, len(found)):  # a slice would copy the whole rest for every part
        char = found[place]
        if char.start >= end:
            break
        low, high = max(char.start, start), min(char.end, end)
        if not char.valid:
            words += [visible(whole), "".join(f"⟨0x{byte:02X}⟩" for byte in data[low:high])]
        elif high - low < char.end - char.start:
            places = f"{low - char.start + 1}–{high - char.start}".removeprefix(f"{high - char.start}–")
            words += [visible(whole), f"{visible(char.text)} {places}/{char.end - char.start}"]
        else:
            whole += char.text
            continue
        whole = ""
    return " ".join(filter(None, [*words, visible(whole)]))
