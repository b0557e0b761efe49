"""The recipe of the five small models that differ only in how they know the order."""

import json
from pathlib import Path

import pytest
import torch

from model.analysis.position_loss import windows
from model.analysis.position_models import SCHEMES, load_position_models, read_loss_curves
from model.training.positions import untrained
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


def test_the_recipe_runs_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    end = "\n<|endoftext|>\n"
    tales = [f"Once there was a cat with {i} mice. It was happy, and so were {i} dogs." * 3 for i in range(40)]
    write_corpus(tmp_path, "tinystories.txt.xz", "".join(tale + end for tale in tales))
    write_corpus(tmp_path, "heldout_stories.txt.xz", "".join(f"A cat with {i} mice.{end}" for i in range(60)))
    write_corpus(tmp_path, "en_sentences.txt.xz", "".join(f"I have {i} apples.\n" for i in range(100)))
    out = tmp_path / "out"
    line = ["positions", "--corpora", str(tmp_path), "--out", str(out), "--steps", "1"]
    assert main([*line, "--schemes", "rope", "none"]) == 0
    assert "measured once all five are there" in capsys.readouterr().out
    assert main(line) == 0
    said = capsys.readouterr().out
    assert "rope: from step 1 of 1" in said, "trained already"
    assert "alibi: from step 0 of 1" in said
    for lm in load_position_models(out).values():
        assert torch.isfinite(lm.trace("a cat").logits).all()
    figures = json.loads((out / "loss.json").read_text())
    assert set(figures["bits_per_token"]) == set(figures["story"]) == set(SCHEMES)
    assert read_loss_curves(out).windows == figures["windows"] > 0
    again = tmp_path / "again.json"
    assert main(["positions-loss", "--corpora", str(tmp_path), "--models", str(out), "--out", str(again)]) == 0
    assert json.loads(again.read_text()) == figures
    (out / "loss.json").write_text("{}")
    with pytest.raises(ValueError, match="cannot be read"):
        read_loss_curves(out)
    assert main([*line[:-1], "2"]) == 2
    assert "other settings: steps" in capsys.readouterr().err
