"""The words: every section that code asks for exists, none lies idle, both languages take the same values, and what
is put in is not interpreted."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages.kit import prose
from pages.kit.prose import PLACEHOLDER, TEXT, MissingTextError, Prose, code, escape, sections
from pages.kit.sitemap import PAGES
from tests.cases import TEXTS
from tests.conftest import REPOSITORY

SOURCES = [REPOSITORY / "app.py", *sorted((REPOSITORY / "pages").rglob("*.py"))]
FILES = sorted(path.stem for path in (TEXT / "en").glob("*.md"))
FORMULA = re.compile(r"\$.+?\$", re.DOTALL)
# What Chinese writes with these letters too, where it is the whole text.
TERMS = {
    "english", "flash attention", "gelu (erf)", "gelu (tanh)", "layernorm", "logit", "logits", "min-p", "one-hot",
    "post-norm", "pre-norm", "rmsnorm", "top-k", "top-p", "transformer atlas", "triton", "unigram", "wordpiece",
}  # fmt: skip


def asked_for(path: Path) -> set[str]:
    """Sections that a file names where it asks for text: `say("…")`, `say.plain("…" if … else "…")`, …"""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args and re.search(r"\bsay(\.\w+)?$", ast.unparse(node.func)):
            first = node.args[0]
            options = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
            found |= {one.value for one in options if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return found


@cache
def mentioned() -> tuple[frozenset[str], tuple[re.Pattern[str], ...]]:
    """Every string in the code, and every pattern of a string that is put together."""
    strings: set[str] = set()
    patterns: set[str] = set()
    for path in (*SOURCES, *sorted((REPOSITORY / "model" / "analysis").glob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = [re.escape(p.value) if isinstance(p, ast.Constant) else r"\w+" for p in node.values]
                if any(isinstance(p, ast.Constant) and re.fullmatch(r"\w+", p.value) for p in node.values):
                    patterns.add("".join(parts))
    return frozenset(strings), tuple(re.compile(p) for p in patterns)


def test_every_page_has_its_text() -> None:
    assert set(FILES) >= {*PAGES, prose.COMMON}
    for name in PAGES:
        assert {"title", "lead"} <= set(sections(name, "en"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_sections_that_code_asks_for_exist(path: Path) -> None:
    own = {path.stem} if path.stem in FILES else set(FILES)  # the kit's files are used by several pages
    there = {name for file in own | {prose.COMMON} for name in sections(file, "en")}
    assert asked_for(path) - there == set()


@pytest.mark.parametrize("file", FILES)
def test_no_section_lies_idle(file: str) -> None:
    strings, patterns = mentioned()
    idle = [n for n in sections(file, "en") if n not in strings and not any(p.fullmatch(n) for p in patterns)]
    assert idle == []


@pytest.mark.parametrize("file", FILES)
def test_chinese_says_all_that_english_says(file: str) -> None:
    """A section that is missing would be read in English. Examples are the same texts in both languages."""
    english, chinese = sections(file, "en"), sections(file, "zh")
    assert list(chinese) == [name for name in english if not re.fullmatch(r"example_\w+_text", name)]
    for name, text in chinese.items():
        # Which values, not in which order; a sentence may need one twice in one language.
        assert set(PLACEHOLDER.findall(text)) == set(PLACEHOLDER.findall(english[name])), name
        has_words = re.search(r"[a-z]{3}", PLACEHOLDER.sub("", FORMULA.sub("", english[name])))
        assert re.search("[一-鿿]", text) or not has_words or english[name].strip("*").lower() in TERMS, name


@pytest.mark.parametrize("lang", prose.LANGUAGES)
@pytest.mark.parametrize("file", FILES)
def test_every_brace_is_of_a_value_or_a_formula(file: str, lang: str) -> None:
    for name, text in sections(file, lang).items():
        words = re.sub(r"\$[^$]+\$", "", text)
        assert words.count("{") == len(PLACEHOLDER.findall(words)), name


def test_there_are_two_languages() -> None:
    assert list(prose.LANGUAGES) == ["en", "zh"], "the tests above are for these"


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(prose, "TEXT", tmp_path)
    sections.cache_clear()
    for lang in prose.LANGUAGES:
        (tmp_path / lang).mkdir()
    yield tmp_path
    sections.cache_clear()


def write(folder: Path, file: str, text: str, lang: str = "en") -> None:
    (folder / lang / f"{file}.md").write_text(text, encoding="utf-8")


def test_sections_and_values(texts: Path) -> None:
    write(texts, "page", "## one\n\n{n:,} tokens\n\nof {name}\n\n## two\nx\n")
    say = Prose("page")
    assert say("one", n=12345, name="*") == "12\\,345 tokens\n\nof \\*"
    assert say.plain("one", n=12345, name="*") == "12,345 tokens\n\nof *"
    assert say.label("one", n=1, name="a") == "1 tokens of a"
    assert say.html("one", n=1, name="<b>") == "1 tokens\n\nof &lt;b&gt;"
    assert say("two") == "x"
    assert "two" in say
    assert "three" not in say


def test_the_pages_own_words_come_first_and_english_last(texts: Path) -> None:
    write(texts, "page", "## a\npage en\n## b\npage b en\n")
    write(texts, "page", "## a\npage zh\n", "zh")
    write(texts, "common", "## a\ncommon\n## c\ncommon c en\n")
    write(texts, "common", "## c\ncommon c zh\n", "zh")
    zh = Prose("page", "zh")
    assert [zh("a"), zh("b"), zh("c"), Prose("page")("a")] == ["page zh", "page b en", "common c zh", "page en"]


def test_what_is_missing_is_said(texts: Path) -> None:
    write(texts, "page", "## a\n{value}\n")
    with pytest.raises(MissingTextError, match="'b'"):
        Prose("page")("b")
    with pytest.raises(MissingTextError, match="'value'"):
        Prose("page")("a", other=1)
    write(texts, "twice", "## a\n1\n## a\n2\n")
    with pytest.raises(ValueError, match="used twice"):
        Prose("twice")("a")


def test_braces_of_formulas_stay(texts: Path) -> None:
    formula = r"$\frac{q \cdot k}{\sqrt{d}} + x_{ij}^{n} = \text{softmax}(a)$, so {n}"
    write(texts, "page", f"## a\n{formula}\n")
    assert Prose("page")("a", n=3) == formula.replace("{n}", "3").replace("^3", "^{n}")


def test_tokens_are_set_as_code_in_the_colour_of_their_role(texts: Path) -> None:
    write(texts, "page", "## a\n{t:code} {t:query} {t:key} {t:value}\n")
    assert Prose("page")("a", t="·it") == "`·it` :blue[`·it`] :orange[`·it`] :green[`·it`]"
    assert Prose("page").plain("a", t="·it") == "·it ·it ·it ·it"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a`b", "``a`b``"),
        ("`", "`` ` ``"),
        ("``", "``` `` ```"),
        (" x", "`  x `"),
        ("a\nb", "`a↵b`"),
        ("\x1b[31m", "`⟨ESC⟩[31m`"),
        ("", "` `"),
    ],
)
def test_code_holds_any_text(text: str, expected: str) -> None:
    assert code(text) == expected


@given(st.text())
def test_escaped_text_keeps_its_characters_and_no_bare_punctuation(text: str) -> None:
    escaped = escape(text)
    assert not re.search(r"(?<!\\)(?:\\\\)*[!-/:-@\[^-`{-~]", re.sub(r"\\[!-/:-@\[-`{-~]", "", escaped))
    bare = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", escaped).replace("\u2060", "")
    assert bare == prose.visible(text).replace("\u2060", "")


@pytest.mark.parametrize("text", [":smile:", ":material/home:", "www.a.b", "https://a.b", "a@b.c", "a -> b", "x <= y"])
def test_what_markdown_replaces_after_unescaping_is_broken_up(text: str) -> None:
    assert "\u2060" in escape(text)


def test_plain_words_and_numbers_stay_searchable() -> None:
    for text in ("Self-attention, step by step", "1,000 × 3.14", "a: b", *(t for name, t in TEXTS if name == "plain")):
        assert "\u2060" not in escape(text)
