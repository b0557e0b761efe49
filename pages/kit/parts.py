"""What names like “垫 1–2/3” and “⟨0xE9⟩” mean, said where they appear."""

import re
from collections.abc import Iterable

import streamlit as st

from pages.kit.page import Page

_PART = re.compile(r"(\S+) (\d(?:–\d)?)/(\d)(?=\s|$)")
_BYTES = re.compile(r"(?:⟨0x[0-9A-F]{2}⟩)+(?=\s|$)")


def explain(page: Page, labels: Iterable[str]) -> None:
    """A line about the first of `labels` that names a part of a character, and about the first that names bytes alone;
    nothing where there are none."""
    names = list(labels)
    said = []
    if part := next(filter(None, map(_PART.search, names)), None):
        character, places, of = part.groups()
        said.append(page.say("part_of_character", label=part[0], character=character, places=places, of=of))
    if alone := next(filter(None, map(_BYTES.search, names)), None):
        said.append(page.say("byte_of_character", label=alone[0]))
    if said:
        st.caption(" ".join(said))
