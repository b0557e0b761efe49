"""Fixtures for every test, and the rules of a run: no network, one torch thread, no hidden browser tests."""

import os
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

# Read at import time by the reference libraries, so set before any of them is imported.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("WANDB_MODE", "disabled")
# What somebody has fetched must not change what the tests see; those of real weights go there by themselves.
os.environ["ATLAS_REAL_MODELS"] = os.environ.get("ATLAS_MODELS", "")
os.environ["ATLAS_MODELS"] = "/nonexistent"

import pytest
import torch
from hypothesis import settings

from tests.cases import TEXTS

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is imported: our CUDA kernel then runs on a CPU

if TYPE_CHECKING:
    from model.language import LanguageModel

REPOSITORY = Path(__file__).resolve().parent.parent
BROWSER_REQUIRED = os.environ.get("ATLAS_REQUIRE_BROWSER") == "1"

# Correctness must not depend on how busy the machine is; on CI not on which examples are drawn today either.
settings.register_profile("atlas", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("atlas")


def pytest_configure() -> None:
    torch.set_num_threads(1)  # small matrices: a second thread costs more than it brings


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if REPOSITORY / "tests" / "browser" in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if BROWSER_REQUIRED and report.skipped and item.get_closest_marker("browser"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"ATLAS_REQUIRE_BROWSER=1, but the test was skipped. {reason}"
    return report


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Material that is not part of the repository: the folder that $ATLAS_SHARED names."""
    folder = Path(os.environ.get("ATLAS_SHARED", REPOSITORY / "no-such-folder"))
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}: set ATLAS_SHARED to run this test")
    return folder


@pytest.fixture(scope="session")
def case_texts() -> list[tuple[str, str]]:
    """(name, text) of every awkward input. To parametrize instead: `from tests.cases import TEXTS`."""
    return TEXTS


@pytest.fixture(scope="session")
def storyteller() -> "LanguageModel":
    """The bundled model in fp32 on the CPU. Shared by all tests: never change its weights."""
    from model import load

    return load("storyteller", device="cpu")


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the Chromium that browser tests drive: $ATLAS_CHROMIUM, or one on the PATH."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("ATLAS_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("no Chromium on the PATH: install it, or set ATLAS_CHROMIUM")
    return found
