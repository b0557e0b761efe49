"""The index of the texts that light neurons up: the bundled one against the weights, and the command that makes it."""

import re
import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch

from model.__main__ import main
from model.analysis import neuron_index
from model.analysis.neuron_index import ENDS, FILE, NeuronIndex, along_text, fingerprint, load_index
from model.hooks import observe
from model.training import neuron_index as recipe
from model.zoo.catalog import CATALOG

FOLDER = CATALOG["storyteller"].folder
NEURONS = [(layer, number) for layer in range(6) for number in (7, 32, 181, 448, 591)]
CHINESE = re.compile("[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def bundled() -> NeuronIndex:
    index = load_index(FOLDER)
    assert index is not None, "make the index anew: python -m model index storyteller --corpora DIR"
    return index


@pytest.fixture(scope="module")
def sentences(bundled) -> list[tuple[int, ...]]:
    return [bundled.ids(i) for i in range(bundled.n_sentences)]


@pytest.fixture(scope="module")
def extremes(storyteller, sentences) -> dict[str, torch.Tensor]:
    """(neurons, sentences): largest and smallest activation of `NEURONS` in every sentence."""
    by_length = defaultdict(list)
    for number, ids in enumerate(sentences):
        by_length[len(ids)].append(number)
    found = {end: torch.zeros(len(NEURONS), len(sentences)) for end in ENDS}
    for numbers in by_length.values():
        seen: dict[str, torch.Tensor] = {}
        with torch.no_grad(), observe(seen.__setitem__):
            storyteller.transformer(torch.tensor([sentences[i] for i in numbers]))
        for row, (layer, number) in enumerate(NEURONS):
            post = seen[f"blocks.{layer}.mlp.hook_post"][..., number]
            found["highest"][row, numbers], found["lowest"][row, numbers] = post.amax(1), post.amin(1)
    return found


def test_the_sample(bundled, sentences, storyteller):
    assert (FOLDER / FILE).stat().st_size <= 1_500_000
    assert 2_000 <= len(sentences) == len(set(sentences))
    assert all(6 <= len(ids) <= 48 for ids in sentences)
    texts = [storyteller.tokenizer.decode(ids) for ids in sentences]
    assert all(storyteller.tokenizer.encode(text) == list(ids) for text, ids in zip(texts, sentences, strict=True))
    assert 100 < sum(bool(CHINESE.search(text)) for text in texts) < len(texts) - 1_000
    ours = {line for language in recipe.LANGUAGES for line in recipe.own_lines("sentences", language)}
    assert {text for text, by_model in zip(texts, bundled.written, strict=True) if not by_model} <= ours
    assert bundled.n_sentences - bundled.n_written > 100


def test_no_written_sentence_stands_in_the_training_text(bundled, sentences, storyteller, shared_dir):
    texts = [storyteller.tokenizer.decode(ids) for ids in sentences[:: max(1, len(sentences) // 150)]]
    assert len(recipe.apart_from(texts, shared_dir / "corpora")) == len(texts)


def test_activations_are_the_weights_own(bundled, storyteller):
    for layer, number in NEURONS[::2]:
        for end in ENDS:
            for context in bundled.contexts(layer, number, end):
                values = along_text(storyteller, context.ids, layer, number)
                trace = storyteller.trace(context.ids)[f"blocks.{layer}.mlp.hook_post"][:, number]
                assert values == tuple(trace.tolist())
                assert values[context.position] == pytest.approx(context.activation, rel=1e-4, abs=1e-5)
                best = max(values) if end == "highest" else min(values)
                assert best == pytest.approx(context.activation, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("end", ENDS)
def test_no_other_sentence_goes_further(bundled, sentences, extremes, end):
    sign = 1 if end == "highest" else -1
    for row, (layer, number) in enumerate(NEURONS):
        contexts = bundled.contexts(layer, number, end)
        activations = [sign * context.activation for context in contexts]
        assert activations == sorted(activations, reverse=True)
        prefixes = {context.ids[: context.position + 1] for context in contexts}
        values = sign * extremes[end][row]
        assert float(values.max()) == pytest.approx(activations[0], rel=1e-4, abs=1e-5)
        further = torch.nonzero(values > activations[-1] + 1e-4)[:, 0].tolist()
        if len(prefixes) < len(contexts):  # there were not enough that differ
            continue
        for sentence in set(further) - {context.sentence for context in contexts}:
            assert any(sentences[sentence][: len(prefix)] == prefix for prefix in prefixes), (layer, number, sentence)


def test_contexts_differ_where_they_can(bundled):
    places = np.stack([bundled.sentences["highest"][layer, number] for layer, number in NEURONS])
    assert all(len(set(row)) == len(row) for row in places.tolist())
    differing = [
        len({c.ids[: c.position + 1] for c in bundled.contexts(layer, number)}) == recipe.KEPT
        for layer, number in NEURONS
    ]
    assert sum(differing) >= 0.9 * len(differing)


def test_the_same_command_writes_the_same_file(tmp_path, capsys):
    for name in ("one", "two"):
        argv = ["index", "storyteller", "--out", str(tmp_path / name), "--prompts", "1", "--samples", "2"]
        assert main(argv) == 0
    assert "sentences" in capsys.readouterr().out
    assert (tmp_path / "one" / FILE).read_bytes() == (tmp_path / "two" / FILE).read_bytes()


def test_saved_and_loaded(bundled, tmp_path):
    shutil.copyfile(FOLDER / "model.safetensors", tmp_path / "model.safetensors")
    bundled.save(tmp_path)
    assert (tmp_path / FILE).read_bytes() == (FOLDER / FILE).read_bytes()
    loaded = load_index(tmp_path)
    assert loaded is not None
    assert loaded.contexts(3, 5, "lowest") == bundled.contexts(3, 5, "lowest")
    assert loaded.about["weights"] == fingerprint(FOLDER)
    with pytest.raises(IndexError, match="does not exist"):
        loaded.contexts(6, 0)


def test_other_weights_have_no_index(tmp_path):
    assert load_index(tmp_path) is None
    shutil.copyfile(FOLDER / FILE, tmp_path / FILE)
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    assert load_index(tmp_path) is None


def test_a_damaged_index_is_said(tmp_path):
    (tmp_path / FILE).write_bytes(b"\x08\0\0\0\0\0\0\0{}      ")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match=re.escape(FILE)):
        load_index(tmp_path)


def test_text_is_cut_into_sentences():
    parts = recipe.sentences_of('He ran. "Stop!" she said.\nWhy? 他走了。“好！”她说。半句')
    assert parts == ["He ran.", '"Stop!"', "she said.", "Why?", "他走了。", "“好！”", "她说。"]


def test_what_the_training_text_has_is_left_out(tmp_path, monkeypatch):
    class Corpus:
        def documents(self, folder: Path) -> tuple[list[str], list[str]]:
            return ["One day  a cat\nsat down. It slept."], ["The end."]

    monkeypatch.setattr(recipe, "CORPORA", (Corpus(),))
    monkeypatch.setattr(recipe, "YARDSTICK", Corpus())
    found = recipe.apart_from(["a cat sat down.", "The end.", "It slept well."], tmp_path)
    assert found == ["It slept well."]


def test_too_little_text_is_refused(storyteller):
    with pytest.raises(ValueError, match="Only 1 sentences"):
        recipe.build(storyteller, ["A cat sat on the mat."], ["no"], {})


@pytest.mark.parametrize(
    "argv", [["storyteller", "--samples", "0"], ["nobody"], ["storyteller", "--corpora", "/no/such/folder"]]
)
def test_what_does_not_fit_is_said(argv, capsys, monkeypatch):
    monkeypatch.setattr(recipe, "continuations", lambda *_: ["A cat sat on the mat."])
    assert main(["index", *argv]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert neuron_index.load_index(FOLDER) is not None
