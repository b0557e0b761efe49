"""Training a reader: what is hidden, the loss, what is held out, the command line."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from model.tokenizer import Tokenizer
from model.training.masking import MaskedTokens, Masks, hide, masked_score
from model.training.small_tokenizer import train_tokenizer
from tests.model.tiny import tiny
from tests.model.training_text import write_corpus

MASKS = Masks(vocab_size=50, mask=3, n_special=4)
ENCODER = {"kind": "encoder", "positions": "learned", "norm": "layernorm", "activation": "gelu_erf"}
ROWS = [[1, 7, 8, 9, 10, 2], [1, 30, 2], [1, *range(10, 40), 2], [1, 11, 12, 2]]


def test_fifteen_percent_are_asked_for_by_the_rule_of_80_10_10() -> None:
    generator = np.random.default_rng(0)
    row = [1, *([20] * 40), 2]
    masked = swapped = left = 0
    for _ in range(2000):
        shown, asked = hide(row, MASKS, generator)
        assert sum(asked) == 6  # 15 % of 40
        assert not asked[0]
        assert not asked[-1]
        for token, seen, hidden in zip(row, shown, asked, strict=True):
            if not hidden:
                assert seen == token
            elif seen == MASKS.mask:
                masked += 1
            elif seen == token:
                left += 1
            else:
                assert seen >= MASKS.n_special
                swapped += 1
    total = masked + swapped + left
    # One random token in 46 is the token itself.
    assert masked / total == pytest.approx(0.8, abs=0.015)
    assert swapped / total == pytest.approx(0.1 * 45 / 46, abs=0.01)
    assert left / total == pytest.approx(0.1 + 0.1 / 46, abs=0.01)


def test_of_a_short_text_one_token_is_hidden_and_of_none_none() -> None:
    generator = np.random.default_rng(1)
    assert sum(hide([1, 9, 2], MASKS, generator)[1]) == 1
    assert hide([1, 2], MASKS, generator) == ([1, 2], [False, False])


def test_the_loss_is_that_of_each_text_alone() -> None:
    model = tiny(**ENCODER)
    task = MaskedTokens(ROWS, MASKS, seed=0)
    part = task.part(range(4), np.random.default_rng(5))
    generator = np.random.default_rng(5)
    expected = 0.0
    for row in ROWS:
        shown, asked = hide(row, MASKS, generator)
        logprobs = model(torch.tensor([shown]))[0].double().log_softmax(-1)
        expected -= sum(float(logprobs[i, row[i]]) for i in range(len(row)) if asked[i])
    assert float(task.loss(model, part)) == pytest.approx(expected, rel=1e-5)
    assert len(part[-1]) == 1 + 1 + round(0.15 * 30) + 1


def test_a_model_that_knows_the_answer_scores_one() -> None:
    """All texts are of one token, and the model says nothing else."""
    model = tiny(**ENCODER)
    task = MaskedTokens([[1, 9, 9, 9, 2]] * 5, MASKS, seed=0)

    def always(shown: torch.Tensor, real: torch.Tensor, only: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(int(only.sum()), 50)
        logits[:, 9] = 5.0
        return logits

    model.forward = always  # type: ignore[method-assign, assignment]
    score = masked_score(model, task)
    assert score["hidden"] == 5
    assert score["accuracy"] == 1.0
    assert score["nats_per_token"] == pytest.approx(math.log(math.exp(5) + 49) - 5, abs=1e-4)
    with pytest.raises(ValueError, match="no held-out text"):
        masked_score(model, MaskedTokens([[1, 2]], MASKS, seed=0))


def test_batches_follow_from_seed_and_number() -> None:
    task, other = MaskedTokens(ROWS, MASKS, seed=0), MaskedTokens(ROWS, MASKS, seed=0)
    first = task.draw(64, 32, 0, 0, 1)
    assert first.predicted == sum(len(part[-1]) for part in first.parts)
    assert first.tokens == sum(int(part[1].sum()) for part in first.parts)
    state = json.loads(json.dumps(task.state()))
    following = task.draw(64, 32, 0, 0, 1)
    other.restore(state)
    again = other.draw(64, 32, 0, 0, 1)
    assert all(torch.equal(a, b) for x, y in zip(following.parts, again.parts, strict=True) for a, b in zip(x, y))
    with pytest.raises(ValueError, match="the texts"):
        MaskedTokens(ROWS[:2], MASKS, seed=0).restore(state)


def test_the_mask_takes_the_space_before_it() -> None:
    from model.training.reader import BEGIN, END, MASK, SPECIAL

    made = train_tokenizer(["the cat is red.", "我很高兴。"], 300, SPECIAL, BEGIN, END, MASK)
    tokenizer = Tokenizer(made.to_str())
    whole = tokenizer.encode("the cat is red.")
    assert (whole[0], whole[-1]) == (1, 2)
    ids = tokenizer.encode("the [MASK] is red.", parse_special=True)
    at = ids.index(SPECIAL.index(MASK))
    tail = tokenizer.encode("is red.")[1:]
    assert ids[at + 1 :] == tail
    assert ids[:at] == tokenizer.encode("the")[:-1]
    assert SPECIAL.index(MASK) not in tokenizer.encode("the [MASK] is red.")  # in a reader's text it is text


# --- the recipe


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    folder = tmp_path / "corpora"
    folder.mkdir()
    end = "\n<|endoftext|>\n"
    sentences = [f"I have {i} red apples." for i in range(1100)]
    write_corpus(folder, "en_sentences.txt.xz", "\n".join(sentences) + "\n")
    tales = [f"There were {i} cats. They saw a dog.\nIt was red." for i in range(70)]
    write_corpus(folder, "tinystories.txt.xz", "".join(tale + end for tale in tales))
    write_corpus(folder, "heldout_stories.txt.xz", "".join(tale + end for tale in tales[:60]))
    chinese = [f"我有{i}只猫。\n你有{i + 1}本书。" for i in range(470)]
    write_corpus(folder, "zh_prose.txt.xz", "".join(text + end for text in chinese))
    return folder


def test_no_held_out_line_is_trained_on(corpora: Path) -> None:
    from model.training.pairs import same_sentence
    from model.training.reader import text

    found = text(corpora)
    assert {name: len(lines) > 0 for name, lines in found.held_out.items()} == dict.fromkeys(
        ("sentences", "stories", "chinese_sentences", "chinese_prose"), True
    )
    trained = {same_sentence(line) for line in found.training}
    assert trained.isdisjoint({same_sentence(line) for lines in found.held_out.values() for line in lines})
    assert "There were 65 cats. They saw a dog." in found.training
    assert "It was red." not in found.training  # it stands in a held-out story too


def test_train_a_reader_and_measure_it(
    corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from model import load
    from model.training import reader
    from model.training.recipes import main

    shape = reader.READER.replace(
        vocab_size=400, d_model=16, d_ff=24, n_layers=1, n_heads=2, n_kv_heads=2, d_head=8, max_positions=24
    )
    monkeypatch.setattr(reader, "READER", shape)
    monkeypatch.setattr(reader, "MASKS", Masks(400, 3, 4))
    out = tmp_path / "out"
    line = ["reader", "--corpora", str(corpora), "--out", str(out), "--steps", "4", "--batch-tokens", "1024"]
    line += ["--micro-tokens", "512", "--device", "cpu"]
    assert main(line) == 0
    result = json.loads((out / "result.json").read_text())
    capsys.readouterr()
    assert main(["evaluate", "--model", str(out / "reader"), "--corpora", str(corpora), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result["held_out"]
    assert all(score["hidden"] > 0 for score in result["held_out"].values())
    assert load(out / "reader", device="cpu").config == shape
    assert main(["evaluate", "--corpora", str(corpora), "--model", str(out / "none")]) == 2


def test_long_lines_become_several_passages() -> None:
    from model.training.reader import READER, passages

    class Framed:
        def encode(self, text: str) -> list[int]:
            return [1, *(ord(letter) for letter in text), 2]

        def decode(self, ids: object) -> str:
            return ""

    room = READER.max_positions - 2
    rows = passages(["a" * (room + 5), "", "b"], Framed())
    assert [len(row) for row in rows] == [READER.max_positions, 7, 3]
    assert all((row[0], row[-1]) == (1, 2) for row in rows)
