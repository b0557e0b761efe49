"""The carried-over cases are well formed, and the same as the shared ones where those are at hand."""

import json
import unicodedata
from pathlib import Path

import pytest

from tests.cases import SAMPLING, TEXTS


def test_names_are_unique() -> None:
    names = [name for name, _ in TEXTS]
    assert len(set(names)) == len(names) == 26


def test_invisible_characters_survived_the_file() -> None:
    texts = dict(TEXTS)
    assert {"\u200b", "\u200d", "\ufeff", "\u00a0", "\u3000"} <= set(texts["zero_width"])
    assert {"\a", "\0", "\x1b"} <= set(texts["control"])
    assert "\r\n" in texts["newlines"]
    assert unicodedata.normalize("NFC", texts["combining"]) != texts["combining"]
    assert texts["empty"] == ""
    assert len(texts["long_text"]) == 18_000


@pytest.mark.parametrize("case", SAMPLING, ids=lambda case: case.why)
def test_sampling_cases_are_distributions(case) -> None:
    assert sum(case.probs) == pytest.approx(1.0)
    assert case.settings
    assert list(case.kept) == sorted(set(case.kept))
    assert set(case.kept) <= set(range(len(case.probs)))


def test_same_as_shared(shared_dir: Path) -> None:
    lines = (shared_dir / "cases" / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    assert [(row["name"], row["text"]) for row in map(json.loads, lines)] == TEXTS

    rows = json.loads((shared_dir / "cases" / "sampling.json").read_text(encoding="utf-8"))
    ours = [{"why": c.why, "probs": list(c.probs), **c.settings, "kept": list(c.kept)} for c in SAMPLING]
    assert ours == rows
