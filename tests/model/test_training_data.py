"""Training: schedules, corpora, token files, streams and their mixture."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from model.training.data import Corpus, Mixture, Stream, TokenFile, tokenise
from model.training.schedule import Schedule
from tests.model.training_text import Letters, token_file, write_corpus

# --- schedule


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("linear", {0.0: 1.0, 0.25: 0.75, 1.0: 0.0}),
        ("cosine", {0.0: 1.0, 1 / 3: 0.75, 0.5: 0.5, 1.0: 0.0}),
        ("wsd", {0.0: 1.0, 0.3: 1.0, 0.65: 0.5, 1.0: 0.0, 1.1: 0.0}),
    ],
)
def test_schedule_shapes(shape: str, expected: dict[float, float]) -> None:
    schedule = Schedule(shape, warmup=0, hold=0.3)  # type: ignore[arg-type]
    for progress, factor in expected.items():
        assert schedule.factor(1000, progress) == pytest.approx(factor)


def test_schedule_warms_up_and_keeps_its_floor() -> None:
    schedule = Schedule("linear", warmup=4, floor=0.1)
    assert [schedule.factor(step, 0.0) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert schedule.factor(100, 1.0) == pytest.approx(0.1)
    with pytest.raises(ValueError, match="choose one of cosine, linear, wsd"):
        Schedule("square")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="hold"):
        Schedule(hold=1.0)


# --- data


def test_held_out_documents_are_apart_from_training(tmp_path: Path) -> None:
    write_corpus(tmp_path, "c.xz", "".join(f"{letter * 3}\n<|endoftext|>\n" for letter in "abcdefg"))
    training, held_out = Corpus("c", "c.xz", 1.0, held_out=2, first=1, stop=6).documents(tmp_path)
    assert training == ["bbb", "ccc", "ddd"]
    assert held_out == ["eee", "fff"]
    with pytest.raises(ValueError, match="7 are held out"):
        Corpus("c", "c.xz", 1.0, held_out=7).documents(tmp_path)
    with pytest.raises(ValueError, match="cannot be read"):
        Corpus("c", "missing.xz", 1.0).documents(tmp_path)
    (tmp_path / "plain.xz").write_text("not compressed")
    with pytest.raises(ValueError, match="cannot be read"):
        Corpus("c", "plain.xz", 1.0).documents(tmp_path)


def test_sentences_are_grouped_each_once(tmp_path: Path) -> None:
    write_corpus(tmp_path, "s.xz", "".join(f"{letter}\n" for letter in "abcdefghij"))
    documents, _ = Corpus("s", "s.xz", 1.0, lines_per_document=4).documents(tmp_path)
    assert [document.count("\n") + 1 for document in documents] == [4, 4, 2]
    assert sorted("\n".join(documents).split("\n")) == list("abcdefghij")


def test_token_files_are_made_once_and_again_when_their_source_changes(tmp_path: Path) -> None:
    calls = 0

    class Counting(Letters):
        def encode(self, text: str) -> list[int]:
            nonlocal calls
            calls += 1
            return super().encode(text)

    write_corpus(tmp_path, "c.xz", "ab\n<|endoftext|>\nc\n<|endoftext|>\ndd\n<|endoftext|>\n")
    corpus = Corpus("c", "c.xz", 1.0, held_out=1)

    def made(corpus: Corpus = corpus, fingerprint: str = "one") -> TokenFile:
        return tokenise(corpus, tmp_path, tmp_path / "cache", Counting(), 0, fingerprint)

    first = made()
    assert first.tokens.tolist() == [0, 1, 2, 0, 3]
    assert first.tokens.dtype == np.uint16
    assert first.starts.tolist() == [0, 3, 5]
    assert made().tokens.tolist() == first.tokens.tolist()
    assert calls == 2
    assert len(json.loads((tmp_path / "cache" / "c.json").read_text())["held_out"]) == 1
    made(fingerprint="two")
    assert calls == 4
    assert made(replace(corpus, held_out=0), "two").tokens.tolist() == [0, 1, 2, 0, 3, 0, 4, 4]
    write_corpus(tmp_path, "c.xz", "zz\n<|endoftext|>\n")
    assert made(replace(corpus, held_out=0), "two").tokens.tolist() == [0, 26, 26]


def test_ids_beyond_16_bits_are_refused(tmp_path: Path) -> None:
    write_corpus(tmp_path, "c.xz", "\U00020000\n<|endoftext|>\n")
    with pytest.raises(ValueError, match="16 bits"):
        tokenise(Corpus("c", "c.xz", 1.0), tmp_path, tmp_path / "cache", Letters(), 0, "x")


DOCUMENTS = [[0, *range(10 * i, 10 * i + 2 + i)] for i in range(1, 6)]


def test_every_epoch_reads_every_document_once_in_a_new_order() -> None:
    stream = Stream(token_file(DOCUMENTS), seed=(3, 0))
    size = sum(map(len, DOCUMENTS))
    epochs = []
    for epoch in range(4):
        ids = stream.read(epoch * size, size).tolist()
        starts = [i for i, token in enumerate(ids) if token == 0] + [size]
        documents = [ids[a:b] for a, b in pairwise(starts)]
        assert sorted(documents) == sorted(DOCUMENTS)
        epochs.append(documents)
    assert any(documents != epochs[0] for documents in epochs[1:])
    assert stream.read(0, 40).tolist() != Stream(token_file(DOCUMENTS), seed=(4, 0)).read(0, 40).tolist()


def test_a_position_is_all_that_reading_depends_on() -> None:
    whole = Stream(token_file(DOCUMENTS), seed=(1, 2)).read(0, 200)
    again = Stream(token_file(DOCUMENTS), seed=(1, 2))
    for start in (150, 0, 77, 31, 32, 33, 3):  # forwards and backwards, in and between epochs
        assert again.read(start, 50).tolist() == whole[start : start + 50].tolist()


def test_mixture_keeps_its_shares_at_every_step_and_resumes() -> None:
    def mixture() -> Mixture:
        return Mixture([Stream(token_file([[k] * 7]), seed=(0, k)) for k in range(3)], [5, 3, 2])

    one = mixture()
    rows = one.batch(40, 8)
    assert rows.shape == (40, 9)
    for count in range(1, 41):
        given = np.bincount(rows[:count, 0], minlength=3)
        assert np.abs(given - np.array([0.5, 0.3, 0.2]) * count).max() <= 1
    two = mixture()
    two.batch(15, 8)
    three = mixture()
    three.positions = list(two.positions)
    assert three.batch(25, 8).tolist() == rows[15:].tolist()
