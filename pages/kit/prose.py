"""The words of the app: Markdown files with named sections, values put in so that nothing in them is interpreted.

A text file is `pages/text/<language>/<page>.md`. A line `## name` opens a section; what follows, up to the next,
is its text. Words that several pages share are in common.md. A section that a language lacks is read in English.

`{name}` takes a value, `{name:.2f}` formats it as Python does. `{name:code}` sets it as code, the form for token
text; `{name:query}`, `{name:key}` and `{name:value}` do so in the colour of that role. Braces that belong to a
formula (`\\frac{a}{b}`, `x_{ij}`) stay as they are.
"""

import html
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pages.kit.figures.style import visible

TEXT = Path(__file__).resolve().parent.parent / "text"
LANGUAGES = {"en": "English", "zh": "中文"}
COMMON = "common"
_HEADING = re.compile(r"^## (\S+)[ \t]*$", re.MULTILINE)
# Not after a backslash command, a subscript, a superscript or another argument: those braces are LaTeX.
PLACEHOLDER = re.compile(r"(?<![\\_^}A-Za-z])\{([a-z][a-z0-9_]*)(?::([^{}\n]*))?\}")
_ROLE_COLOURS = {"query": "blue", "key": "orange", "value": "green"}
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
# Replaced in the finished text, after escapes are gone: names of emoji and icons, addresses, arrows.
_REPLACED_LATER = re.compile(
    r"(?<=:)(?=[\w+/-]+:)|(?<=http:)|(?<=https:)|(?<=www)(?=\.)|(?<=@)(?=[\w-])|(?<=[<>~-])(?=[=>-])", re.IGNORECASE
)
_WORD_JOINER = "\u2060"


class MissingTextError(KeyError):
    """A section that no file has, or a value that a section needs and did not get."""


@lru_cache(maxsize=64)
def sections(page: str, lang: str) -> Mapping[str, str]:
    """The sections of a page's file in one language, by name; empty where there is no such file.

    Raises:
        ValueError: if two sections have the same name.
    """
    path = TEXT / lang / f"{page}.md"
    if not path.is_file():
        return {}
    parts = _HEADING.split(path.read_text(encoding="utf-8"))
    names = parts[1::2]
    if len(set(names)) < len(names):
        raise ValueError(f"{path.name}: a section name is used twice")
    return dict(zip(names, (text.strip() for text in parts[2::2]), strict=True))


def escape(text: str) -> str:
    """`text` for Markdown, drawn as it stands: no Markdown, LaTeX, HTML, emoji name, arrow or link comes of it."""
    joined = _REPLACED_LATER.sub(_WORD_JOINER, visible(text))
    return _PUNCTUATION.sub(r"\\\1", joined)


def code(text: str) -> str:
    """`text` as Markdown code, whatever backticks and spaces it has."""
    shown = visible(text) or " "
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    # Markdown takes one space off both ends, unless there is nothing but spaces.
    pad = " " if shown.strip(" ") and (shown[0] in "` " or shown[-1] in "` ") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


class Prose:
    """The texts of one page in one language."""

    def __init__(self, page: str, lang: str = "en") -> None:
        self.page, self.lang = page, lang

    def __call__(self, section: str, /, **values: Any) -> str:
        """The section as Markdown, for `st.markdown` and for labels of widgets.

        Raises:
            MissingTextError: if there is no such section, or a value is missing.
        """
        return self._fill(section, values, _markdown)

    def label(self, section: str, /, **values: Any) -> str:
        """The section on one line, as Markdown: for labels of widgets, tabs and metrics."""
        return " ".join(self(section, **values).split())

    def plain(self, section: str, /, **values: Any) -> str:
        """The section as plain text with the values as they are, for figures, captions and components."""
        return self._fill(section, values, _plain)

    def html(self, section: str, /, **values: Any) -> str:
        """The section as one run of HTML text, everything escaped, for `st.html`."""
        return html.escape(self.plain(section, **values))

    def __contains__(self, section: str) -> bool:
        return self._find(section) is not None

    def _find(self, section: str) -> str | None:
        for lang in dict.fromkeys((self.lang, "en")):
            for page in (self.page, COMMON):
                found = sections(page, lang).get(section)
                if found is not None:
                    return found
        return None

    def _fill(self, section: str, values: Mapping[str, Any], write: Any) -> str:
        text = self._find(section)
        if text is None:
            raise MissingTextError(f"{self.page}.md has no section {section!r}, and common.md neither")

        def value(match: re.Match[str]) -> str:
            name, form = match.group(1), match.group(2) or ""
            if name not in values:
                raise MissingTextError(f"section {section!r} of {self.page}.md needs a value for {name!r}")
            return str(write(values[name], form))

        return PLACEHOLDER.sub(value, text)


def _markdown(value: Any, form: str) -> str:
    if form == "code":
        return code(str(value))
    if form in _ROLE_COLOURS:
        return f":{_ROLE_COLOURS[form]}[{code(str(value))}]"
    return escape(format(value, form))


def _plain(value: Any, form: str) -> str:
    return str(value) if form == "code" or form in _ROLE_COLOURS else format(value, form)
