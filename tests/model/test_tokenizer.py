"""The bundled byte-level tokenizer: nothing is lost, nothing is markup, whatever the text or the ids."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import regex
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from model.tokenizer import Tokenizer
from model.zoo.catalog import CATALOG
from tests.cases import TEXTS

FILE = CATALOG["storyteller"].folder / "tokenizer.json"
TOKENIZER = Tokenizer.from_file(FILE)
REFERENCE = tokenizers.Tokenizer.from_file(str(FILE))
END = "<|endoftext|>"

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
AWKWARD = [
    *"ab 猫垫\0\a\x1b\n\r\t\x7f", "\u00a0", "\u3000", "\u200b", "\u200c", "\u200d", "\ufeff", "\u202e", "\u2066",
    "\ufe0f", "\u0301", "é", "🇫", "🇷", "👩", "🏽", "क", "\u094d", "ษ", "ำ", "각", "\u1100", "\u1161", "\u11a8",
    "م", "\ufffd", "\U0010ffff", END, "</s>", "<b>", FAMILY,
]  # fmt: skip
texts = st.text() | st.lists(st.sampled_from(AWKWARD)).map("".join)
id_lists = st.lists(st.integers(0, 8191) | st.integers(0, 260), max_size=40)  # the first 257: end of text, and bytes
TEXT_CASES = pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])


def ids_of(*parts: bytes) -> list[int]:
    """Single-byte tokens for each byte of the parts."""
    single = {TOKENIZER.token_bytes(i): i for i in range(1, 257)}
    return [single[bytes([byte])] for part in parts for byte in part]


def reference_decode(ids: list[int]) -> str:
    return REFERENCE.decode(ids, skip_special_tokens=False)


def clusters(text: str) -> list[str]:
    return regex.findall(r"\X", text)


def check_everything(ids: list[int]) -> None:
    """All views of a list of ids agree with what the library decodes."""
    text = reference_decode(ids)
    assert TOKENIZER.decode(ids) == text
    assert b"".join(map(TOKENIZER.token_bytes, ids)).decode("utf-8", "replace") == text

    strings = TOKENIZER.token_strings(ids)
    assert len(strings) == len(ids)
    assert "".join(strings) == text

    stream = TOKENIZER.stream()
    streamed = [stream.push(i) for i in ids]
    assert "".join(streamed) + stream.flush() == text
    assert stream.push(ids_of(b"a")[0]) + stream.flush() == "a"  # nothing is left of the text before

    labels = TOKENIZER.labels(ids)
    assert len(labels) == len(ids)
    assert all(label.strip() for label in labels)

    pieces = TOKENIZER.pieces(ids)
    assert "".join(piece.text for piece in pieces) == text
    assert [i for piece in pieces for i in piece.ids] == ids
    assert [(p.start, p.end) for p in pieces] == list(
        zip([0, *(p.end for p in pieces[:-1])], [p.end for p in pieces], strict=True) if pieces else []
    )
    for piece in pieces:
        assert piece.data == b"".join(map(TOKENIZER.token_bytes, piece.ids))
        assert piece.label.strip()
        assert piece.special == (piece.ids == (0,))
        assert len(piece.ids) == piece.end - piece.start


# --- text and back


@TEXT_CASES
def test_cases(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert 0 not in ids
    check_everything(ids)


@given(texts)
def test_any_text_comes_back(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert 0 not in ids
    check_everything(ids)


def test_lone_surrogates_become_replacement_characters() -> None:
    assert TOKENIZER.decode(TOKENIZER.encode("a\ud800b\udfff")) == "a\ufffdb\ufffd"
    assert TOKENIZER.decode(TOKENIZER.encode("\ufeff\ud83d\ude00")) == "\ufeff😀"


@given(id_lists)
@example(ids=ids_of("猫".encode()[:2]))
@example(ids=ids_of("👩".encode()[:3], b"a"))
@example(ids=[*ids_of(b"\xe7"), 0, *ids_of(b"\x8c\xab")])
@example(ids=ids_of(b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xff"))
def test_any_ids_decode_alike_everywhere(ids: list[int]) -> None:
    check_everything(ids)


@given(st.binary(max_size=24))
@example(b"\xf0\x90\x28\xbc\xe7\x8c")
def test_any_bytes(data: bytes) -> None:
    ids = ids_of(data)
    assert TOKENIZER.decode(ids) == data.decode("utf-8", "replace")
    check_everything(ids)


def test_a_streamed_character_waits_for_its_last_byte() -> None:
    stream = TOKENIZER.stream()
    assert [stream.push(i) for i in ids_of("猫a".encode())] == ["", "", "猫", "a"]
    assert [stream.push(i) for i in ids_of("猫".encode()[:2])] == ["", ""]
    assert stream.flush() == "\ufffd"
    assert stream.flush() == ""


# --- special tokens


def test_special_text_is_text_unless_parsed() -> None:
    text = dict(TEXTS)["special"]
    plain, parsed = TOKENIZER.encode(text), TOKENIZER.encode(text, parse_special=True)
    assert 0 not in plain
    assert parsed.count(0) == 2
    assert TOKENIZER.decode(plain) == TOKENIZER.decode(parsed) == text
    assert TOKENIZER.special_ids == {0}
    assert [p.special for p in TOKENIZER.pieces(parsed)].count(True) == 2
    assert not any(p.special for p in TOKENIZER.pieces(plain))
    assert TOKENIZER.labels([0]) == [END]


def test_a_mark_after_a_special_token_stays_apart() -> None:
    pieces = TOKENIZER.pieces([0, *TOKENIZER.encode("\u0301")])
    assert [p.text for p in pieces] == [END, "\u0301"]
    assert pieces[0].special


def test_threads_with_and_without_special_tokens() -> None:
    text = f"a{END}b"
    expected = {flag: TOKENIZER.encode(text, parse_special=flag) for flag in (False, True)}
    with ThreadPoolExecutor(8) as pool:
        jobs = [(flag, pool.submit(TOKENIZER.encode, text, flag)) for _ in range(200) for flag in (False, True)]
        assert all(job.result() == expected[flag] for flag, job in jobs)


# --- pieces


@given(texts | id_lists)
def test_pieces_are_the_shortest_runs(text_or_ids: str | list[int]) -> None:
    ids = TOKENIZER.encode(text_or_ids) if isinstance(text_or_ids, str) else text_or_ids
    cuts = {piece.end for piece in TOKENIZER.pieces(ids)}
    whole = TOKENIZER.decode(ids)
    for cut in range(1, len(ids)):
        left, right = TOKENIZER.decode(ids[:cut]), TOKENIZER.decode(ids[cut:])
        between_characters = left + right == whole and clusters(left) + clusters(right) == clusters(whole)
        beside_special = 0 in ids[cut - 1 : cut + 1]
        assert (cut in cuts) == (between_characters or beside_special), (cut, ids)


@pytest.mark.parametrize("text", [FAMILY, "🇫🇷", "👍🏽", "❤\ufe0f", "e\u0301", "क्षि", "\u1100\u1161\u11a8", "垫"])
def test_one_character_is_one_piece(text: str) -> None:
    before, *middle, after = TOKENIZER.pieces(TOKENIZER.encode(f"1{text}1"))
    assert (before.text, after.text) == ("1", "1")
    assert [(p.text, p.label, p.data) for p in middle] == [(text, text, text.encode())]
    assert len(middle[0].ids) > 1


def test_tokens_that_are_whole_characters_stay_apart() -> None:
    ids = TOKENIZER.encode("the cat sat on 垫子")
    pieces = TOKENIZER.pieces(ids)
    assert [p.text for p in pieces][:4] == ["the", " cat", " sat", " on"]
    assert [p.text for p in TOKENIZER.pieces(ids_of("ไทย".encode()))] == ["ไ", "ท", "ย"]


def test_pieces_of_invalid_bytes_are_named_by_them() -> None:
    pieces = TOKENIZER.pieces(ids_of(b"\xe7a\xe7\x8c"))
    assert [(p.text, p.label) for p in pieces] == [("\ufffd", "⟨0xE7⟩"), ("a", "a"), ("\ufffd", "⟨0xE7⟩⟨0x8C⟩")]


# --- labels


@pytest.mark.parametrize(
    ("data", "labels"),
    [
        ("猫".encode(), ["猫 1/3", "猫 2/3", "猫 3/3"]),
        ("\u200d".encode(), ["⟨ZWJ⟩ 1/3", "⟨ZWJ⟩ 2/3", "⟨ZWJ⟩ 3/3"]),
        ("é".encode(), ["é 1/2", "é 2/2"]),
        ("\u0301".encode(), ["◌\u0301 1/2", "◌\u0301 2/2"]),
        (b"\xe7", ["⟨0xE7⟩"]),
        (b"\xe7\x8cb", ["⟨0xE7⟩", "⟨0x8C⟩", "b"]),
        (b" \n\t\r\0", ["·", "↵", "⇥", "⟨CR⟩", "⟨NUL⟩"]),
        ("\ufffd".encode(), ["\ufffd 1/3", "\ufffd 2/3", "\ufffd 3/3"]),
    ],
)
def test_labels(data: bytes, labels: list[str]) -> None:
    assert TOKENIZER.labels(ids_of(data)) == labels


def test_a_label_counts_the_bytes_of_a_cut_character() -> None:
    labels = TOKENIZER.labels(TOKENIZER.encode("垫"))
    assert labels == ["垫 1–2/3", "垫 3/3"]
    with_space = TOKENIZER.labels(TOKENIZER.encode("a 👩"))
    assert "".join(with_space).startswith("a·")
    assert with_space[-1] == "👩 4/4"


def test_a_candidate_is_named_by_itself() -> None:
    start, middle, end = ids_of("猫".encode())
    assert [TOKENIZER.label(i) for i in (start, middle, end)] == ["⟨0xE7⟩", "⟨0x8C⟩", "⟨0xAB⟩"]
    assert all(TOKENIZER.label(i).strip() for i in range(TOKENIZER.vocab_size))


def test_an_id_without_a_token_is_no_text_and_has_a_name() -> None:
    ids = [*TOKENIZER.encode("a"), 9000, *TOKENIZER.encode("b")]
    assert TOKENIZER.decode(ids) == "".join(TOKENIZER.token_strings(ids)) == "ab"
    assert TOKENIZER.labels(ids) == ["a", "⟨#9000⟩", "b"]
    assert [(p.text, p.label) for p in TOKENIZER.pieces(ids)] == [("a", "a"), ("", "⟨#9000⟩"), ("b", "b")]
    assert TOKENIZER.pieces([9000])[0].label == "⟨#9000⟩"
    assert TOKENIZER.token(9000) is None
    with pytest.raises(ValueError, match="-1"):
        TOKENIZER.decode([-1])


# --- merges


def test_merges_of_a_word() -> None:
    steps = TOKENIZER.merges("unhappiness")
    assert steps[0].parts == tuple(bytes([b]) for b in b"unhappiness")
    assert steps[0].pair is None
    for before, after in zip(steps, steps[1:], strict=False):
        assert after.pair is not None
        assert after.at is not None
        assert before.parts[after.at : after.at + 2] == after.pair
        assert after.parts == (*before.parts[: after.at], b"".join(after.pair), *before.parts[after.at + 2 :])
    assert steps[-1].parts == tuple(map(TOKENIZER.token_bytes, TOKENIZER.encode("unhappiness")))
    assert "".join(steps[-1].labels) == "unhappiness"


@given(texts)
@example("")
@example("\r\n\u0301 " + FAMILY)
def test_merges_end_in_the_tokens(text: str) -> None:
    ids = TOKENIZER.encode(text)
    steps = TOKENIZER.merges(text)
    assert steps[-1].parts == tuple(map(TOKENIZER.token_bytes, ids))
    data = text.encode()
    assert all(b"".join(step.parts) == data for step in steps)
    assert [len(step.parts) for step in steps] == list(range(len(data), len(ids) - 1, -1))


@pytest.mark.parametrize("name", ["long_word", "zh_mixed", "control", "emoji", "special"])
def test_merges_of_cases(name: str) -> None:
    text = dict(TEXTS)[name]
    assert TOKENIZER.merges(text)[-1].parts == tuple(map(TOKENIZER.token_bytes, TOKENIZER.encode(text)))


# --- the file


def test_about_the_file() -> None:
    assert TOKENIZER.kind == "byte-level BPE"
    assert TOKENIZER.vocab_size == 8192 == REFERENCE.get_vocab_size()
    assert TOKENIZER.token(TOKENIZER.encode(" the")[0]) == "Ġthe"


@pytest.mark.parametrize("content", ["", "{}", "[1]", "no json", '{"model": {"type": "BPE"}}'])
def test_not_a_tokenizer(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ValueError, match=r"not a tokenizer\.json"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")
    with pytest.raises(ValueError, match="cannot be read"):
        Tokenizer.from_file(tmp_path / "missing.json")
