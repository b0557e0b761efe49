"""What may import what. (The order at the top of each file is in tests/test_project.py; here is what happens later.)"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_project import ORDER

ROOT = Path(__file__).resolve().parents[2]
MODEL = sorted((ROOT / "model").rglob("*.py"))
PAGES = [*sorted((ROOT / "pages").rglob("*.py")), ROOT / "app.py"]

# Imports inside functions that reach below themselves, each with its reason.
LAZY = {
    ("config.py", "model.zoo.families"): "TransformerConfig.from_hf asks the families, which need TransformerConfig",
}


def imports(path):
    """Every import of a file, wherever it stands: (dotted module, whether inside a function)."""
    found = []

    def visit(node, inside):
        if isinstance(node, ast.Import):
            found.extend((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            found.extend((f"{node.module}.{alias.name}", inside) for alias in node.names)
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(ast.parse(path.read_text(encoding="utf-8")), False)
    return found


@pytest.mark.parametrize("path", MODEL, ids=lambda path: str(path.relative_to(ROOT)))
def test_late_imports_do_not_reach_below_themselves(path):
    name = str(path.relative_to(ROOT / "model"))
    own = Path(name).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for module, inside in imports(path):
        parts = module.split(".")
        if inside and parts[0] == "model" and ORDER.index(parts[1]) > ORDER.index(own):
            assert any(name == file and module.startswith(allowed) for file, allowed in LAZY), (name, module)


def test_every_exception_is_still_needed():
    for file, allowed in LAZY:
        late = [module for module, inside in imports(ROOT / "model" / file) if inside]
        assert any(module.startswith(allowed) for module in late)


def test_names_need_the_config_alone():
    own = {module for module, _ in imports(ROOT / "model" / "names.py") if module.startswith("model.")}
    assert own == {"model.config.TransformerConfig"}


@pytest.mark.parametrize("path", MODEL, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_model_room_knows_nothing_of_the_screen_nor_of_pickle(path):
    roots = {module.split(".")[0] for module, _ in imports(path)}
    assert not roots & {"streamlit", "plotly", "pages", "app", "tests", "transformers", "pickle", "joblib", "dill"}
    if path.relative_to(ROOT / "model").parts[0] != "training":  # a training run reads back what it wrote itself
        calls = {
            ast.unparse(node)
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Attribute)
        }
        assert "torch.load" not in calls


def test_importing_the_model_room_loads_no_screen():
    code = "import sys, model, model.__main__, model.analysis; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"streamlit", "plotly", "pages", "transformers", "pandas", "matplotlib"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_compute_nothing(path):
    """Whatever takes a tensor operation lives in model/, so that it can be tested without a screen."""
    roots = {module.split(".")[0] for module, _ in imports(path)}
    allowed = {"torch"} if path.name == "loading.py" else set()  # it chooses device, threads and memory
    assert not roots & ({"torch", "tokenizers", "safetensors", "transformers", "scipy"} - allowed)
    inner = {"attention", "block", "transformer", "kernels", "cache", "masks", "norms", "feedforward", "positions"}
    assert not {module.split(".")[1] for module, _ in imports(path) if module.startswith("model.")} & (
        inner - {"masks"}
    )
