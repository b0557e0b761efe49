"""The bundled WordPiece and Unigram tokenizers, the vocabulary, one-hot vectors, and text as bytes."""

import lzma
import unicodedata
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.analysis import tokenizer_kinds as kinds
from model.analysis.one_hot import look_up
from model.analysis.text_bytes import byte_runs, measure
from model.analysis.vocabulary import Vocabulary
from model.language import LanguageModel
from model.training.recipes import main as train
from model.training.storyteller import CORPORA, STORYTELLER
from model.training.tokenizer_kinds import known_characters, train_unigram, train_wordpiece, training_lines
from tests.cases import TEXTS
from tests.model.test_bpe_training import learned

CASES = [pytest.param(text, id=name) for name, text in TEXTS]


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_bundled_vocabularies_are_as_large_as_the_models(kind: str) -> None:
    tokenizer = kinds.bundled(kind)
    assert tokenizer.kind.lower() == kind
    assert tokenizer.vocab_size == STORYTELLER.vocab_size == len(Vocabulary(tokenizer))


@pytest.mark.parametrize("kind", kinds.KINDS)
@pytest.mark.parametrize("text", CASES)
def test_strips_join_to_what_comes_back(kind: str, text: str) -> None:
    tokenizer = kinds.bundled(kind)
    reading = kinds.read(tokenizer, text)
    pieces = tokenizer.pieces(reading.ids)
    assert "".join(piece.text for piece in pieces) == tokenizer.decode(reading.ids) == reading.back
    assert bool(reading.lost) == (reading.back != text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


@given(st.text().filter(lambda text: "▁" not in text))
def test_unigram_gives_any_text_back(text: str) -> None:
    """All but its own sign for a space."""
    reading = kinds.read(kinds.bundled("unigram"), text)
    assert (reading.back, reading.lost, reading.n_unknown) == (text, (), 0)


@given(st.text())
def test_what_wordpiece_loses_is_named(text: str) -> None:
    reading = kinds.read(kinds.bundled("wordpiece"), text)
    assert bool(reading.lost) == (reading.back != text)
    assert ("unknown" in reading.lost) == (reading.n_unknown > 0 and reading.back != text)


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("the cat", ()),
        ("The cat", ("case",)),
        ("the café", ("accents",)),
        ("the  cat", ("spacing",)),
        ("猫猫", ("spacing",)),
        ("the 🐈", ("unknown",)),
        ("The Café 🐈", ("case", "accents", "unknown")),
    ],
)
def test_each_loss(text: str, lost: tuple[str, ...]) -> None:
    assert kinds.read(kinds.bundled("wordpiece"), text).lost == lost


def test_special_tokens_frame_a_text_and_are_not_counted(storyteller: LanguageModel) -> None:
    for kind, first, last in (("wordpiece", "[CLS]", "[SEP]"), ("unigram", None, "</s>")):
        tokenizer = kinds.bundled(kind)
        plain, framed = (kinds.read(tokenizer, "a cat", special=special) for special in (False, True))
        assert plain.n_tokens == framed.n_tokens == len(plain.ids)
        assert tokenizer.token(framed.ids[-1]) == last
        assert first is None or tokenizer.token(framed.ids[0]) == first
    own = kinds.read(storyteller.tokenizer, "a cat", special=True, start=0)
    assert own.ids == (0, *storyteller.tokenizer.encode("a cat"))
    typed = kinds.read(kinds.bundled("wordpiece"), "[SEP]")
    assert not set(typed.ids) & kinds.bundled("wordpiece").special_ids


def test_counts() -> None:
    reading = kinds.read(kinds.bundled("wordpiece"), "the cat")
    assert (reading.n_tokens, reading.n_characters, reading.tokens_per_character) == (2, 7, 2 / 7)
    assert kinds.read(kinds.bundled("unigram"), "").tokens_per_character is None
    with pytest.raises(ValueError, match="no tokenizer 'bpe'"):
        kinds.bundled("bpe")


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    """Files with the names of the training corpora and text of our own."""
    lines = [
        "The cat sat on the mat. Two cats catch a cat. The dogs ran to the dog.",
        "小猫坐在垫子上。小狗在家。",
    ] * 20
    document = "\n".join(lines)
    for corpus in CORPORA:
        text = "\n<|endoftext|>\n".join([document] * 520)
        with lzma.open(tmp_path / corpus.file, "wt", encoding="utf-8", preset=0) as file:
            file.write(text + "\n<|endoftext|>\n")
    return tmp_path


def test_training_of_both_kinds(corpora: Path) -> None:
    lines = training_lines(corpora, 30_000)
    known = known_characters(lines, 8)
    assert "猫" in known
    assert len([char for char in known if not char.isascii()]) == 8
    word_piece, unigram = (make(lines, 400, known) for make in (train_wordpiece, train_unigram))
    for coder in (word_piece, unigram):
        assert "cat" in " ".join(coder.get_vocab())
        kept = {char for token in coder.get_vocab() for char in token if unicodedata.category(char) == "Lo"}
        assert kept <= known
    assert unigram.decode(unigram.encode("  the 龘 cat ", add_special_tokens=False).ids) == "  the 龘 cat "


def test_a_vocabulary_without_room_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status = train(["tokenizers", "--corpora", str(tmp_path), "--out", str(tmp_path), "--vocab-size", "300"])
    assert status == 2
    assert "too small" in capsys.readouterr().err


def test_search_is_literal_and_bounded(storyteller: LanguageModel) -> None:
    tokenizer = storyteller.tokenizer
    entries = Vocabulary(tokenizer)
    for query in ("cat", " cat", "猫", "*", ".", "[", "\\", "%", "Ġthe", "<|"):
        wanted = {
            i
            for i in range(tokenizer.vocab_size)
            if query.encode() in tokenizer.token_bytes(i) or query in (tokenizer.token(i) or "")
        }
        found = entries.search(query, 8192)
        assert {entry.id for entry in found.entries} == wanted
        assert found.n_found == len(wanted)
        assert len(entries.search(query, 3).entries) <= 3
        assert all(entry.data == tokenizer.token_bytes(entry.id) for entry in found.entries)
    assert entries.search("cat", 1).entries[0].data.strip() == b"cat"
    assert entries.search("1043", 5).entries[0].id == 1043
    assert [entry.id for entry in entries.search("", 4).entries] == [0, 1, 2, 3]
    assert entries.search("zqxj", 5) == type(entries.search("", 1))((), 0)


def test_search_takes_any_query(storyteller: LanguageModel) -> None:
    entries = Vocabulary(storyteller.tokenizer)
    for _, text in TEXTS:
        entries.search(text[:40], 5)
    assert entries.search("²", 5).n_found >= 0  # a digit to Python, but no number


def test_looking_up_is_a_product_with_a_one_hot_vector(storyteller: LanguageModel) -> None:
    weight = storyteller.transformer.embed.weight
    for token in (0, 394, storyteller.config.vocab_size - 1):
        of = look_up(storyteller.transformer, token)
        assert torch.equal(of.row, weight[token].detach())
        assert of.difference == 0
        assert (of.one_hot, of.embedding, of.matrix) == (*weight.shape, weight.numel())
    with pytest.raises(ValueError, match="no token"):
        look_up(storyteller.transformer, storyteller.config.vocab_size)


@pytest.mark.parametrize("text", CASES)
def test_bytes_belong_to_characters_and_tokens(storyteller: LanguageModel, text: str) -> None:
    for tokenizer in (storyteller.tokenizer, kinds.bundled("unigram"), kinds.bundled("wordpiece")):
        ids = tokenizer.encode(text, add_special=False)[:200]
        pieces = tokenizer.pieces(ids)
        runs = byte_runs(tokenizer, pieces)
        assert b"".join(run.data for run in runs).decode("utf-8", "replace") == "".join(
            piece.text for piece in pieces if not piece.special
        )
        for run in runs:
            size = len(run.data)
            assert sum(n for _, n in run.characters) == size == sum(n for _, n in run.tokens)
            assert all(n > 0 for _, n in (*run.characters, *run.tokens))
        assert measure(tokenizer, pieces, tokenizer.decode(ids)).joined
        assert not measure(tokenizer, pieces, tokenizer.decode(ids) + "x").joined


@given(st.text(max_size=24))
def test_replayed_merges_are_the_tokenizers_own(storyteller: LanguageModel, word: str) -> None:
    own = learned("unhappy happiness unhappiness 猫咪 猫", 320).tokenizer()
    for tokenizer in (storyteller.tokenizer, own):
        steps = tokenizer.merges(word)
        assert list(steps[-1].parts) == [tokenizer.token_bytes(i) for i in tokenizer.encode(word)]
