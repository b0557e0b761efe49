"""A BPE learned merge by merge: the merges of the `tokenizers` library's own trainer, and what is shown of them."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers, trainers

from model.analysis.bpe_training import MIN_COUNT, N_BYTES, BpeTraining
from model.byte_level import spelled
from tests.cases import TEXTS

WORDS = "low lower lowest newer newest wider widest 猫咪 猫 小猫 low low aaaa aaa 👩‍👩‍👧 é"


def learned(text: str, vocab_size: int) -> BpeTraining:
    training = BpeTraining(text, vocab_size)
    while training.advance() is not None:
        pass
    return training


def reference(text: str, vocab_size: int) -> list[tuple[bytes, bytes]]:
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=MIN_COUNT,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator([text], trainer)
    merges = json.loads(library.to_str())["model"]["merges"]
    return [(spelled(left), spelled(right)) for left, right in merges]


@settings(max_examples=60)
@given(st.text(alphabet="abc 猫é\n'", max_size=120))
@example(WORDS)
@example("aaaaaaaaaaaaa aaaa aaa aaaaaaa")
def test_merges_are_those_of_the_library(text: str) -> None:
    training = learned(text, 300)
    assert [(merge.left, merge.right) for merge in training.merges] == reference(text, 300)


def test_most_frequent_pair_first() -> None:
    (first, *_) = learned("ab ab ab xy xy", 257).merges
    # " a" and "ab" both occur at least twice; "ab" three times
    assert (first.left, first.right, first.count, first.id) == (b"a", b"b", 3, N_BYTES)


@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(text: str) -> None:
    text = text[:1500]
    training = learned(text, 330)
    plain = training.text
    for n in {0, len(training.merges) // 2, len(training.merges)}:
        tokenizer = training.tokenizer(n)
        ids = tokenizer.encode(plain)
        assert tokenizer.decode(ids) == plain
        assert len(ids) == training.n_tokens_at[n]
    assert training.size <= 330
    assert len(training.n_tokens_at) == len(training.merges) + 1
    assert all(merge.count >= MIN_COUNT for merge in training.merges)


def test_nothing_to_learn() -> None:
    for text in ("", "a", "abcdefg"):
        training = BpeTraining(text, 400)
        assert training.done
        assert training.advance() is None


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="256"):
        BpeTraining("abc", 200)
    with pytest.raises(ValueError, match="merges were learned"):
        learned("ab ab", 300).tokenizer(99)


def test_two_runs_of_a_page_take_turns() -> None:
    text = dict(TEXTS)["long_text"]
    shared = BpeTraining(text, 1_000)

    def learn() -> None:
        while shared.advance() is not None:
            pass

    with ThreadPoolExecutor(2) as pool:
        for run in [pool.submit(learn) for _ in range(2)]:
            run.result()
    assert shared.merges == learned(text, 1_000).merges
