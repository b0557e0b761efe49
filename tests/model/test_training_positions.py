"""The recipe of the five small models that differ only in how they know the order."""

import json
from pathlib import Path

import pytest
import torch

from model.analysis.position_loss import windows
from model.analysis.position_models import SCHEMES, load_position_models, read_loss_curves
from model.training.positions import measure, untrained
from model.training.recipes import main
from tests.model.training_text import write_corpus


def test_they_begin_with_the_same_weights() -> None:
    first = {scheme: dict(untrained(scheme).named_parameters()) for scheme in SCHEMES}
    for scheme in SCHEMES:
        for name, weight in first["none"].items():
            assert torch.equal(first[scheme][name], weight)
        assert (set(first[scheme]) - set(first["none"])) == ({"pos_embed.weight"} if scheme == "learned" else set())


def test_windows():
    assert windows(range(7), 3, 2).tolist() == [[0, 1, 2, 3], [2, 3, 4, 5]]
    with pytest.raises(ValueError, match="needs 4"):
        windows([1, 2, 3], 3, 1)


def test_the_recipe_runs_stops_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tales = [f"Once there was a cat with {i} mice. It was happy, and so were {i} dogs." * 3 for i in range(60)]
    write_corpus(tmp_path, "tinystories.txt.xz", "".join(f"{tale}\n<|endoftext|>\n" for tale in tales))
    write_corpus(tmp_path, "heldout_stories.txt.xz", "".join(f"{tale} The end.\n<|endoftext|>\n" for tale in tales))
    write_corpus(tmp_path, "en_sentences.txt.xz", "".join(f"I have {i} apples.\n" for i in range(100)))
    line = ["positions", "--corpora", str(tmp_path), "--out", str(tmp_path / "out"), "--steps", "1"]
    assert main(line) == 0
    said = capsys.readouterr().out
    found = load_position_models(tmp_path / "out")
    assert all(f"{scheme}: from step 0 of 1" in said for scheme in SCHEMES)
    figures = json.loads((tmp_path / "out" / "loss.json").read_text())
    assert set(figures["bits_per_token"]) == set(figures["story"]) == set(SCHEMES)
    assert read_loss_curves(tmp_path / "out").windows == figures["windows"]
    # Trained already: nothing is trained again, and the same is measured.
    assert main(line) == 0
    assert "rope: from step 1 of 1" in capsys.readouterr().out
    assert measure(tmp_path / "out", tmp_path) == figures
    assert main(["positions-loss", "--corpora", str(tmp_path), "--models", str(tmp_path / "out"), "--out",
                 str(tmp_path / "again.json")]) == 0  # fmt: skip
    assert json.loads((tmp_path / "again.json").read_text()) == figures
    for lm in found.values():
        assert torch.isfinite(lm.trace("a cat").logits).all()
    (tmp_path / "out" / "loss.json").write_text("{}")
    with pytest.raises(ValueError, match="cannot be read"):
        read_loss_curves(tmp_path / "out")
