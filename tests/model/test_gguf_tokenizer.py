"""Tokenizers rebuilt from a GGUF file's metadata, against the libraries whose tokenizers they are."""

import inspect
import io
import json

import pytest
import sentencepiece
import tokenizers
from tokenizers import Regex, pre_tokenizers
from transformers.convert_slow_tokenizer import TikTokenConverter
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from model.byte_level import BYTE_OF
from model.tokenizer import Tokenizer
from model.zoo.files import CheckpointError
from model.zoo.gguf_tokenizer import PRE_TOKENIZERS, tokenizer_json
from tests.cases import TEXTS

LLAMA3 = inspect.signature(TikTokenConverter.__init__).parameters["pattern"].default
DIGITS = "In 2024 we counted 1234567 stars, 3.14159 pies and ½ of Ⅷ; it's I'LL x==y\n\n\t  end  "
SAMPLES = [text for name, text in TEXTS if name != "long_text"] + [DIGITS]


def cuts(definition, text):
    """The words of a text before they are merged, without the alphabet of bytes."""
    data = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {}, "merges": []}}
    built = tokenizers.Tokenizer.from_str(json.dumps(data | {"pre_tokenizer": definition}))
    return [text[a:b] for _, (a, b) in built.pre_tokenizer.pre_tokenize_str(text)]


def split(pattern):
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("gpt-2", pre_tokenizers.ByteLevel(add_prefix_space=False)),
        ("llama-bpe", split(LLAMA3)),
        ("qwen2", split(PRETOKENIZE_REGEX)),
        (
            "smollm",
            pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        ),
    ],
)
def test_words_are_cut_as_the_file_names_it(name, theirs):
    for text in SAMPLES:
        assert cuts(PRE_TOKENIZERS[name], text) == [text[a:b] for _, (a, b) in theirs.pre_tokenize_str(text)], text


def test_the_ways_differ_where_they_should():
    found = {name: cuts(PRE_TOKENIZERS[name], "a1234") for name in ("gpt-2", "llama-bpe", "qwen2", "smollm")}
    assert found["gpt-2"] == ["a", "1234"]
    assert found["llama-bpe"] == ["a", "123", "4"]
    assert found["qwen2"] == found["smollm"] == ["a", "1", "2", "3", "4"]


def byte_level(merges=("t h", "Ġ th", "th e"), **more):
    tokens = [*BYTE_OF, *(m.replace(" ", "") for m in merges), "<|end|>", "<tool>"]
    types = [1] * (len(tokens) - 2) + [3, 4]
    names = {"model": "gpt2", "tokens": tokens, "token_type": types, "merges": list(merges) or None, "pre": "gpt-2"}
    return {f"tokenizer.ggml.{key}": value for key, value in (names | more).items()}


def test_byte_level_tokens_and_special_tokens():
    tokenizer = Tokenizer(tokenizer_json(byte_level()))
    assert tokenizer.kind == "byte-level BPE"
    assert [tokenizer.token(i) for i in tokenizer.encode("the the")] == ["the", "Ġth", "e"]
    for text in SAMPLES:
        assert tokenizer.decode(tokenizer.encode(text)) == text.encode("utf-8", "replace").decode("utf-8")
    end, tool = 259, 260
    assert tokenizer.special_ids == {end}
    assert tokenizer.encode("a<|end|>", parse_special=True)[-1] == end
    assert len(tokenizer.encode("<|end|>")) > 1  # in a reader's text it is only text
    assert tokenizer.encode("<tool>", parse_special=True) == [tool]


def test_frames_of_texts():
    def ids(**more):
        return Tokenizer(tokenizer_json(byte_level(**more))).encode("a")

    (a,) = ids()
    assert ids(add_bos_token=True, bos_token_id=259) == [259, a]
    assert ids(add_bos_token=True, bos_token_id=259, add_eos_token=True, eos_token_id=260) == [259, a, 260]
    assert ids(bos_token_id=259) == [a]
    with pytest.raises(CheckpointError, match="bos token is 999"):
        ids(add_bos_token=True, bos_token_id=999)


def test_a_word_that_is_a_token_is_taken_whole_by_llama_3():
    more = {"merges": ["t h"], "tokens": [*BYTE_OF, "th", "the", "xx", "yy"], "token_type": [1] * 260}
    for pre, expected in (("llama-bpe", ["the"]), ("gpt-2", ["th", "e"])):
        tokenizer = Tokenizer(tokenizer_json(byte_level(**more, pre=pre)))
        assert [tokenizer.token(i) for i in tokenizer.encode("the")] == expected


@pytest.fixture(scope="module")
def spm():
    """A SentencePiece BPE with byte tokens, trained here on a few texts."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text for text in SAMPLES if text.strip()] * 2),
        model_writer=out,
        vocab_size=700,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        character_coverage=0.98,
        minloglevel=2,
        num_threads=1,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())


def metadata_of(spm, **more):
    ids = range(spm.vocab_size())
    kinds = [2 if spm.is_unknown(i) else 3 if spm.is_control(i) else 6 if spm.is_byte(i) else 1 for i in ids]
    names = {"model": "llama", "tokens": [spm.id_to_piece(i) for i in ids], "token_type": kinds}
    names |= {"scores": [spm.get_score(i) for i in ids], "bos_token_id": spm.bos_id(), "eos_token_id": spm.eos_id()}
    return {f"tokenizer.ggml.{key}": value for key, value in (names | more).items()}


def test_sentencepiece_gives_the_same_tokens(spm):
    tokenizer = Tokenizer(tokenizer_json(metadata_of(spm)))
    assert tokenizer.byte_tokens
    compared = 0
    for text in SAMPLES:
        if not text or "\0" in text or "▁" in text or any(0xD800 <= ord(c) < 0xE000 for c in text):
            continue
        assert tokenizer.encode(text) == [spm.bos_id(), *spm.encode(text)], text
        assert tokenizer.decode(tokenizer.encode(text)[1:]) == text
        compared += 1
    assert compared > 15


def test_sentencepiece_without_a_space_in_front(spm):
    with_space = Tokenizer(tokenizer_json(metadata_of(spm, add_bos_token=False)))
    without = Tokenizer(tokenizer_json(metadata_of(spm, add_bos_token=False, add_space_prefix=False)))
    assert without.encode(" the cat") == with_space.encode("the cat")
    assert without.decode(without.encode("the cat")) == "the cat"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tokens": None}, "holds no tokens"),
        ({"tokens": [1, 2]}, "holds no tokens"),
        ({"tokens": ["a"] * 261}, "same token twice"),
        ({"token_type": [1]}, "not as many token types"),
        ({"merges": ["a b c"]}, "merges"),
        ({"merges": ()}, "merges"),
        ({"pre": "unheard-of"}, "the way of 'unheard-of'"),
        ({"model": "bert"}, "kind 'bert'"),
        ({"model": "llama"}, "not as many scores"),
    ],
)
def test_what_does_not_fit_together(change, says):
    with pytest.raises(CheckpointError, match=says):
        tokenizer_json(byte_level(**change))
