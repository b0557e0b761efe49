"""Training a translator: what is held out, batches of pairs, the loss, the command line."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.tokenizer import Tokenizer
from model.training.lengths import LengthBatches, padded
from model.training.pairs import Pair, groups, read_pairs, same_sentence, split
from model.training.small_tokenizer import train_tokenizer
from model.training.translation import Translation, nats_per_token
from tests.cases import TEXTS as CASES
from tests.model.tiny import tiny
from tests.model.training_text import write_corpus

ENCODER_DECODER = {"kind": "encoder_decoder", "n_encoder_layers": 2, "positions": "sinusoidal", "norm": "layernorm"}

# --- what is held out

SENTENCES = st.text(alphabet="abAB .!我你", min_size=1, max_size=3)


def test_spellings_of_one_sentence_are_the_same() -> None:
    assert same_sentence("Don't go!") == same_sentence(" don’t GO ") == "dontgo"
    assert same_sentence("你好！") == same_sentence("你好。") != same_sentence("您好。")
    assert same_sentence("Ｔｏｍ") == same_sentence("tom")


def test_groups_hang_together_over_either_side() -> None:
    pairs = [Pair(*text.split("=")) for text in ("Hi=你好", "Hello=你好。", "hello!=喂", "Bye=再见", "Run=跑")]
    assert sorted(map(sorted, groups(pairs))) == [[0, 1, 2], [3], [4]]


@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=4, max_size=30), st.integers(1, 8))
def test_held_out_pairs_share_no_sentence_with_the_others(rows: list[tuple[str, str]], count: int) -> None:
    pairs = [Pair(*row) for row in rows]
    try:
        training, held_out = split(pairs, count)
    except ValueError:
        assert sum(map(len, groups(pairs)[:-1])) < len(pairs)
        return
    assert len(held_out) >= count
    assert sorted(training + held_out, key=repr) == sorted(pairs, key=repr)
    for side in ("source", "target"):
        seen = {same_sentence(getattr(pair, side)) for pair in training}
        assert seen.isdisjoint({same_sentence(getattr(pair, side)) for pair in held_out})
    assert split(pairs, count) == (training, held_out)


def test_the_bundled_split_holds_out_a_thousand_unseen_pairs(shared_dir: Path) -> None:
    from model.training.translator import pairs

    training, held_out = pairs(shared_dir / "corpora")
    assert len(training) + len(held_out) == 30_556
    assert len(held_out) >= 1_000
    for side in ("source", "target"):
        seen = {getattr(pair, side) for pair in training}
        assert not any(getattr(pair, side) in seen for pair in held_out)


def test_a_file_that_holds_no_pairs_is_refused(tmp_path: Path) -> None:
    write_corpus(tmp_path, "pairs.tsv.xz", "Hi\t你好\nBye\n")
    with pytest.raises(ValueError, match="a tab and its translation"):
        read_pairs(tmp_path / "pairs.tsv.xz")
    with pytest.raises(ValueError, match="cannot be read"):
        read_pairs(tmp_path / "none.xz")
    with pytest.raises(ValueError, match="only 2 pairs"):
        split([Pair("a", "b"), Pair("c", "d")], 2)


# --- batches


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(8, 80), st.integers(0, 9))
def test_every_row_comes_once_an_epoch_and_fits(lengths: list[int], size: int, seed: int) -> None:
    batches = LengthBatches(lengths, seed)
    for _ in range(2):
        seen: list[int] = []
        while len(seen) < len(lengths):
            part = batches.next(size)
            assert len(part) == 1 or max(lengths[i] for i in part) * len(part) <= size
            seen += part
        assert sorted(seen) == list(range(len(lengths)))
    assert sorted(i for part in batches.once(size) for i in part) == list(range(len(lengths)))


def test_little_of_a_batch_is_padding() -> None:
    lengths = np.random.default_rng(0).integers(4, 40, 3000).tolist()
    batches = LengthBatches(lengths, 0)
    parts = [batches.next(800) for _ in range(60)]
    filled = sum(lengths[i] for part in parts for i in part)
    assert filled > 0.95 * sum(len(part) * max(lengths[i] for i in part) for part in parts)


def test_the_number_drawn_is_the_whole_state() -> None:
    lengths = list(range(1, 40))
    whole = LengthBatches(lengths, 3)
    parts = [whole.next(50) for _ in range(60)]
    assert parts[:20] != parts[20:40]
    for start in (1, 25, 59):
        later = LengthBatches(lengths, 3)
        later.drawn = start
        assert [later.next(50) for _ in range(60 - start)] == parts[start:]
    with pytest.raises(ValueError, match="no text"):
        LengthBatches([], 0)


# --- the objective

PAIRS = [([5, 6, 3], [7, 3]), ([9, 3], [4, 8, 8, 3]), ([5, 4, 9, 3], [6, 3])]


def test_the_loss_is_that_of_each_pair_alone() -> None:
    """Smoothed by hand, from logits without any padding."""
    model = tiny(**ENCODER_DECODER)
    task = Translation(PAIRS, begin=0, seed=0, smoothing=0.1)
    part = task.part([0, 1, 2])
    expected = plain = 0.0
    for source, target in PAIRS:
        logits = model(torch.tensor([[0, *target[:-1]]]), encoder_ids=torch.tensor([source]))[0]
        logprobs = logits.double().log_softmax(-1)
        for row, token in zip(logprobs, target, strict=True):
            expected -= 0.9 * float(row[token]) + 0.1 * float(row.mean())
            plain -= float(row[token])
    assert float(task.loss(model, part)) == pytest.approx(expected, rel=1e-5)
    assert nats_per_token(model, task, micro_tokens=7) == pytest.approx(plain / 8, rel=1e-5)


def test_a_batch_counts_its_tokens_and_state_resumes_it() -> None:
    task = Translation(PAIRS, begin=0, seed=0, smoothing=0.0)
    batch = task.draw(24, 12, 0, 0, 1)
    assert batch.predicted == sum(len(part[-1]) for part in batch.parts)
    assert batch.tokens == sum(int(part[1].sum() + part[3].sum()) + len(part[0]) for part in batch.parts)
    state = task.state()
    following = task.draw(24, 12, 0, 0, 1)
    other = Translation(PAIRS, begin=0, seed=0, smoothing=0.0)
    other.restore(json.loads(json.dumps(state)))
    again = other.draw(24, 12, 0, 0, 1)
    assert all(torch.equal(a, b) for x, y in zip(following.parts, again.parts, strict=True) for a, b in zip(x, y))
    with pytest.raises(ValueError, match="the pairs"):
        Translation(PAIRS[:2], 0, 0, 0.0).restore(state)


def test_processes_share_a_batch() -> None:
    whole, first, second = (Translation(PAIRS, 0, 0, 0.0) for _ in range(3))
    batch = whole.draw(24, 12, 0, 0, 1)
    halves = [first.draw(24, 12, 0, 0, 2), second.draw(24, 12, 0, 1, 2)]
    assert {half.predicted for half in halves} == {batch.predicted}
    assert sum(len(part[-1]) for half in halves for part in half.parts) == batch.predicted


def test_padded_rows() -> None:
    ids, real = padded([[1, 2, 3], [4]], fill=9)
    assert ids.tolist() == [[1, 2, 3], [4, 9, 9]]
    assert real.tolist() == [[True, True, True], [True, False, False]]


# --- the tokenizer

TEXTS = ["Tom is here.", "tom was there", "I saw Tom.", "汤姆在这里。", "我看见汤姆。"] * 3


def small_tokenizer() -> Tokenizer:
    return Tokenizer(train_tokenizer(TEXTS, 320, ["<|endoftext|>"], None, "<|endoftext|>").to_str())


def test_a_word_is_one_token_wherever_it_stands() -> None:
    tokenizer = small_tokenizer()
    for text in ("Tom", "tom", "TOM", "I saw Tom", "我看见 tom"):
        assert tokenizer.label(tokenizer.encode(text)[-2]) == "·tom"
    assert tokenizer.encode("Tom")[-1] == 0


def test_chinese_characters_are_never_merged() -> None:
    tokenizer = small_tokenizer()
    assert tokenizer.token_strings(tokenizer.encode("汤姆在这里。"))[:-1] == ["汤", "姆", "在", "这", "里", "。"]


@pytest.mark.parametrize("text", [text for _, text in CASES], ids=[name for name, _ in CASES])
def test_every_text_comes_back_without_case(text: str) -> None:
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    tokenizer = small_tokenizer()
    back = tokenizer.decode(tokenizer.encode(text)[:-1])
    assert back.removeprefix(" ").lower() == text.replace("’", "'").lower().removeprefix(" ")


def test_a_vocabulary_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        train_tokenizer(TEXTS, 200, ["<|endoftext|>"], None, "<|endoftext|>")


# --- the command line


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    folder = tmp_path / "corpora"
    folder.mkdir()
    rows = [f"I have {i} red balls and {i + 7} dogs.\t我有{i}个红球和{i + 7}只狗。" for i in range(1300)]
    write_corpus(folder, "en_zh_pairs.tsv.xz", "\n".join(rows) + "\n")
    return folder


def test_train_a_translator_and_measure_it(
    corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from model import load
    from model.training import translator
    from model.training.recipes import main

    tiny_shape = translator.TRANSLATOR.replace(
        vocab_size=512, d_model=16, d_ff=24, n_layers=1, n_encoder_layers=1, n_heads=2, n_kv_heads=2, d_head=8
    )
    monkeypatch.setattr(translator, "TRANSLATOR", tiny_shape)
    out = tmp_path / "out"
    line = ["translator", "--corpora", str(corpora), "--out", str(out), "--steps", "4", "--batch-tokens", "1024"]
    line += ["--micro-tokens", "512", "--device", "cpu"]
    assert main(line) == 0
    result = json.loads((out / "result.json").read_text())
    assert result["pairs"] == {"training": 100, "held_out": 1200}
    assert 0 < result["held_out"]["nats_per_token"] < 2 * math.log(512)
    lm = load(out / "translator", device="cpu")
    assert lm.config == tiny_shape
    assert isinstance(lm.translate("I have 3 dogs.", beam=2), str)
    assert main(line) == 2
    assert "add --resume" in capsys.readouterr().err
    assert main([*line, "--resume"]) == 0


def test_without_sacrebleu_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from model.training.translator import translation_scores

    answers = {"Hello": "你好，世界。", "Go": "走"}
    known = SimpleNamespace(translate=lambda text, **_: answers[text])
    examples = [Pair("Hello", "你好，世界。"), Pair("Go", "去吧")]
    monkeypatch.setitem(__import__("sys").modules, "sacrebleu", None)
    with pytest.raises(ValueError, match="pip install sacrebleu"):
        translation_scores(known, examples, 1, 0.0)  # type: ignore[arg-type]
