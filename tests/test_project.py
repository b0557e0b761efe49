"""The frame: exact pins, a README command that CI runs, a readable theme, one direction of imports."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from streamlit import config

ROOT = Path(__file__).resolve().parent.parent
THEME = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))


def _requirements(path: str) -> list[str]:
    lines = (line.split("#")[0].strip() for line in (ROOT / path).read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


@pytest.mark.parametrize("path", ["requirements.txt", "tests/requirements.txt"])
def test_every_requirement_is_pinned(path: str) -> None:
    lines = [line for line in _requirements(path) if not line.startswith("-r ")]
    assert lines
    pinned = r"[\w.-]+(\[[\w,]+\])?==[\w.]+( ?; sys_platform == 'linux')?"
    assert [line for line in lines if not re.fullmatch(pinned, line)] == []


def test_ci_runs_the_readme_command() -> None:
    commands = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if "&& pytest" in line]
    assert len(commands) == 1
    assert commands[0] in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def _flat(table: dict, prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in table.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


def test_every_setting_exists_in_streamlit() -> None:
    assert set(_flat(THEME)) <= set(config.get_config_options())


def _luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def _contrast(one: str, other: str) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_colours_are_readable(mode: str) -> None:
    """WCAG 2.2, success criterion 1.4.3: at least 4.5 : 1, on both grounds and on a colour's own tint."""
    theme = THEME["theme"][mode]
    names = [name for name in theme if name.endswith("extColor")] + ["primaryColor", "linkColor"]
    assert len(names) > 8
    for name in names:
        tint = name.replace("TextColor", "BackgroundColor")
        for ground in {"backgroundColor", "secondaryBackgroundColor", tint} & set(theme) - {name}:
            assert _contrast(theme[name], theme[ground]) >= 4.5, (name, ground)


# Import order of model/: a module may import from those before it, never from those after it.
# fmt: off
ORDER = [
    "devices", "config", "names", "hooks", "norms", "positions", "masks", "linear", "feedforward", "head", "int8",
    "cache", "flash_triton", "kernels", "attention", "block", "transformer", "products", "decode", "graphemes",
    "byte_level", "merges", "tokenizer", "chat_render", "chat", "settings", "losses", "ledger", "sampling",
    "generation", "beam", "trace", "zoo", "language", "loading", "analysis", "training", "__main__",
]
# fmt: on
SOURCES = sorted((ROOT / "model").rglob("*.py"))


def _imported(path: Path) -> set[str]:
    """Dotted names that a file imports while it is being imported (what is inside functions comes later)."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    found = set()
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{module}.{alias.name}" for alias in node.names}
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_model_imports_only_what_comes_before(path: Path) -> None:
    own = path.relative_to(ROOT / "model").parts[0].removesuffix(".py")
    imports = _imported(path)
    assert not {name.split(".")[0] for name in imports} & {"streamlit", "plotly", "pages", "app", "tests"}
    if own == "__init__":
        return
    assert own in ORDER, f"add {own} to the import order"
    parts = {name.split(".")[1] for name in imports if name.startswith("model.")}
    assert {part for part in parts & set(ORDER) if ORDER.index(part) > ORDER.index(own)} == set()


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "browser").glob("test_*.py")), ids=lambda path: path.stem)
def test_browser_tests_bear_an_element_that_stands_there_twice(path: Path) -> None:
    """See tests/browser/conftest.py: a list of texts is waited for, a text alone fails at once on two elements."""
    alone = re.compile(r"\.(?:not_)?to_(?:have|contain)_text\((?!\[)")
    assert [line for line in path.read_text(encoding="utf-8").splitlines() if alone.search(line)] == []
