"""Tokenizers of other kinds and with other options: the same promises, as far as the kind can keep them."""

import json
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenizers import Tokenizer as Library

from model.tokenizer import Tokenizer
from tests.cases import TEXTS

CORPUS = [text for name, text in TEXTS if name not in ("special", "long_text")] * 2
UNKNOWN = "[UNK]"


def byte_level(**options: object) -> Library:
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=400, special_tokens=["<|end|>"], show_progress=False, **options)
    )
    return library


def word_piece() -> Library:
    """Like BERT's, with its frame of special tokens, and with a limit and padding left in the file."""
    library = Library(models.WordPiece(unk_token=UNKNOWN))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    special = [UNKNOWN, "[CLS]", "[SEP]", "[PAD]"]
    library.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    )
    library.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 1), ("[SEP]", 2)])
    library.enable_truncation(5)
    library.enable_padding(length=12, pad_id=3, pad_token="[PAD]")
    return library


def unigram() -> Library:
    """Like T5's."""
    library = Library(models.Unigram())
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    library.decoder = decoders.Metaspace()
    library.train_from_iterator(
        CORPUS,
        trainers.UnigramTrainer(vocab_size=300, special_tokens=[UNKNOWN], unk_token=UNKNOWN, show_progress=False),
    )
    return library


def byte_fallback() -> Library:
    """Like the first Llama's: a BPE of characters in which single bytes stand in for what is missing."""
    words = ["<unk>", "<s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "a", "b", "▁a", "ab", "▁ab", "猫"]
    library = Library(
        models.BPE(
            {word: i for i, word in enumerate(words)},
            [("▁", "a"), ("a", "b"), ("▁a", "b")],
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    library.add_special_tokens([AddedToken("<s>", special=True)])
    library.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    library.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return library


def word_end_bpe() -> Library:
    """Like the first GPT's: ends of words are marked."""
    library = Library(models.BPE(unk_token=UNKNOWN, end_of_word_suffix="</w>"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.decoder = decoders.BPEDecoder("</w>")
    library.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(vocab_size=400, special_tokens=[UNKNOWN], end_of_word_suffix="</w>", show_progress=False),
    )
    return library


MAKERS: dict[str, Callable[[], Library]] = {
    "byte-level": byte_level,
    "WordPiece": word_piece,
    "Unigram": unigram,
    "byte fallback": byte_fallback,
    "word end": word_end_bpe,
}
LIBRARIES = {name: make() for name, make in MAKERS.items()}
TOKENIZERS = {name: Tokenizer(library.to_str()) for name, library in LIBRARIES.items()}
EACH = pytest.mark.parametrize("name", list(MAKERS))


def check_everything(name: str, ids: list[int]) -> None:
    tokenizer = TOKENIZERS[name]
    text = LIBRARIES[name].decode(ids, skip_special_tokens=False)
    assert tokenizer.decode(ids) == text
    assert "".join(tokenizer.token_strings(ids)) == text
    stream = tokenizer.stream()
    assert "".join([stream.push(i) for i in ids]) + stream.flush() == text
    assert stream.flush() == ""
    labels = tokenizer.labels(ids)
    assert len(labels) == len(ids)
    assert all(label.strip() for label in labels)
    pieces = tokenizer.pieces(ids)
    assert "".join(piece.text for piece in pieces) == text
    assert [i for piece in pieces for i in piece.ids] == ids
    assert all(piece.data.decode("utf-8", "replace") == piece.text for piece in pieces)
    assert all(piece.label.strip() for piece in pieces)
    assert all(piece.special == bool(tokenizer.special_ids & set(piece.ids)) for piece in pieces)


@EACH
@given(st.text() | st.text("ab 猫垫é👩\u200d\u0301\n"))
def test_any_text(name: str, text: str) -> None:
    check_everything(name, TOKENIZERS[name].encode(text))


@EACH
@given(st.lists(st.integers(0, 299), max_size=20))
@example([2, 3])
def test_any_ids(name: str, numbers: list[int]) -> None:
    check_everything(name, [i % TOKENIZERS[name].vocab_size for i in numbers])


@EACH
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_cases(name: str, text: str) -> None:
    check_everything(name, TOKENIZERS[name].encode(text[:600]))


@given(st.lists(st.sampled_from([2 + b for b in "猫a é".encode()] + [258, 259, 261, 264, 1]), max_size=12))
def test_byte_fallback_runs(ids: list[int]) -> None:
    check_everything("byte fallback", ids)


def test_kinds() -> None:
    assert {name: tokenizer.kind for name, tokenizer in TOKENIZERS.items()} == {
        "byte-level": "byte-level BPE",
        "WordPiece": "WordPiece",
        "Unigram": "Unigram",
        "byte fallback": "BPE",
        "word end": "BPE",
    }


def test_word_piece_frames_and_never_cuts() -> None:
    tokenizer = TOKENIZERS["WordPiece"]
    text = "the cat the cat the cat"
    framed = tokenizer.encode(text)
    assert framed[0] == 1
    assert framed[-1] == 2
    assert 3 not in framed
    assert tokenizer.encode(text, add_special=False) == framed[1:-1]
    assert tokenizer.decode(framed) == "[CLS] the cat the cat the cat [SEP]"
    assert tokenizer.token_strings(framed)[:3] == ["[CLS]", " the", " cat"]
    assert tokenizer.labels(framed)[:3] == ["[CLS]", "the", "cat"]
    assert 2 not in tokenizer.encode("[SEP]")[1:-1]
    assert tokenizer.encode("[SEP]", parse_special=True) == [1, 2, 2]
    continued = next(i for i in range(tokenizer.vocab_size) if (tokenizer.token(i) or "").startswith("##i"))
    assert tokenizer.label(continued).startswith("##i")


def test_spaces_of_other_kinds_are_visible() -> None:
    tokenizer = TOKENIZERS["byte fallback"]
    ids = tokenizer.encode("ab a")
    assert tokenizer.token_strings(ids) == ["ab", " a"]
    assert tokenizer.labels(ids) == ["·ab", "·a"]


def test_bytes_in_a_vocabulary_of_words() -> None:
    tokenizer = TOKENIZERS["byte fallback"]
    whole, cut = tokenizer.encode("垫"), tokenizer.encode("垫")[:-1]
    assert tokenizer.labels(whole) == ["·", "垫 1/3", "垫 2/3", "垫 3/3"]
    assert tokenizer.labels(cut)[1:] == ["⟨0xE5⟩", "⟨0x9E⟩"]
    assert [p.text for p in tokenizer.pieces(whole)] == ["", "垫"]
    assert tokenizer.token_bytes(whole[1]) == b"\xe5"


# --- merges of byte-level tokenizers with options


@pytest.mark.parametrize("name", ["WordPiece", "Unigram", "byte fallback", "word end"])
def test_only_byte_level_merges_are_replayed(name: str) -> None:
    with pytest.raises(ValueError, match=f"byte-level BPE tokenizer; this one is {TOKENIZERS[name].kind}"):
        TOKENIZERS[name].merges("word")


def merged(tokenizer: Tokenizer, text: str) -> None:
    steps = tokenizer.merges(text)
    assert steps[-1].parts == tuple(map(tokenizer.token_bytes, tokenizer.encode(text)))


ALTERED = {
    "as trained": {},
    "whole words first": {"ignore_merges": True},
    "rules in reverse": {"reverse": True},
    "pairs as strings": {"strings": True},
}


@pytest.mark.parametrize("change", list(ALTERED))
@pytest.mark.parametrize("text", [text for _, text in TEXTS[:18]], ids=[name for name, _ in TEXTS[:18]])
def test_merges_follow_the_file(change: str, text: str) -> None:
    definition = json.loads(LIBRARIES["byte-level"].to_str())
    model, options = definition["model"], ALTERED[change]
    model["ignore_merges"] = options.get("ignore_merges", False)
    if "reverse" in options:  # then a rule may apply to what a later rule makes
        model["merges"].reverse()
    if "strings" in options:
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
    merged(Tokenizer(json.dumps(definition)), text)


def test_a_word_that_no_rule_builds() -> None:
    definition = json.loads(LIBRARIES["byte-level"].to_str())
    definition["model"]["ignore_merges"] = True
    definition["model"]["vocab"]["xyzzy"] = 400
    tokenizer = Tokenizer(json.dumps(definition))
    assert tokenizer.encode("xyzzy") == [400]
    last = tokenizer.merges("xyzzy the")[-1]
    assert last.parts == (b"xyzzy", b" the")
    whole = next(step for step in tokenizer.merges("xyzzy the") if step.parts[0] == b"xyzzy")
    assert (whole.pair, whole.rank, whole.at) == (None, None, 0)


def test_bytes_that_a_vocabulary_lacks_are_left_out() -> None:
    tokenizer = TOKENIZERS["byte-level"]
    merged(tokenizer, "the ~ĵ~ cat")
    assert tokenizer.decode(tokenizer.encode("cat \x05")) == "cat "


def test_normalised_text() -> None:
    library = byte_level()
    library.normalizer = normalizers.Lowercase()
    merged(Tokenizer(library.to_str()), "The CAT")


def test_an_added_token_is_no_merge() -> None:
    library = byte_level()
    library.add_tokens([AddedToken("the é", normalized=False)])
    tokenizer = Tokenizer(library.to_str())
    ids = tokenizer.encode("the é cat")
    assert ids[0] == 400
    assert tokenizer.decode(ids) == "the é cat"
    with pytest.raises(ValueError, match="added to the vocabulary whole"):
        tokenizer.merges("the é cat")


def test_the_largest_id_counts_not_the_number_of_tokens() -> None:
    definition = json.loads(LIBRARIES["byte-level"].to_str())
    definition["model"]["vocab"]["xyzzy"] = 500
    tokenizer = Tokenizer(json.dumps(definition))
    assert tokenizer.vocab_size == 501
    assert tokenizer.label(450) == "⟨#450⟩"
