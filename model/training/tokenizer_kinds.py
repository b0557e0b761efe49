"""WordPiece and Unigram tokenizers to set beside the model's own byte-level BPE, trained on the model's text.

Sources: WordPiece as in BERT (Devlin et al. 2018, arXiv:1810.04805); Unigram language model (Kudo 2018,
arXiv:1804.10959) with the byte fallback of SentencePiece (Kudo & Richardson 2018, arXiv:1808.06226).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from model.training.data import Corpus
from model.training.storyteller import CORPORA

N_CHARACTERS = 3_500  # the most frequent ones get a token of their own, as with SentencePiece's character coverage
BYTES_PER_LANGUAGE = 3_000_000  # UTF-8, so that neither language decides alone what is frequent
ENGLISH = ("stories", "sentences", "children")
CHINESE = ("chinese_sentences", "chinese_prose", "chinese_poems")
UNKNOWN_WORD, UNKNOWN_PIECE, END = "[UNK]", "<unk>", "</s>"
_ASCII = [chr(code) for code in range(0x21, 0x7F)]
# Chinese, other letters, digits and signs are not mixed, each with the space before it. The library's own
# splitter by script drops spaces at the beginning of a text.
_WORDS = r" ?\p{Han}+| ?(?:(?!\p{Han})[\p{L}\p{M}])+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s"
_BYTE_SCORE = -1000.0  # never better than the characters that spell "<0xE7>", should a text hold these


def training_lines(folder: Path, limit: int = BYTES_PER_LANGUAGE) -> list[str]:
    """Lines of the corpora's training documents, about `limit` bytes of each language.

    Raises:
        ValueError: if a corpus cannot be read.
    """
    by_name = {corpus.name: corpus for corpus in CORPORA}
    lines: list[str] = []
    for names in (ENGLISH, CHINESE):
        for name in names:
            lines += _some_lines(by_name[name], folder, limit // len(names))
    return lines


def _some_lines(corpus: Corpus, folder: Path, limit: int) -> Iterator[str]:
    documents, _ = corpus.documents(folder)
    size = sum(len(document.encode()) for document in documents)
    step = max(1, -(-size // limit))  # every step-th document: all of the corpus takes part
    for document in documents[::step]:
        yield from filter(None, (line.strip() for line in document.splitlines()))


def known_characters(lines: Sequence[str], count: int = N_CHARACTERS) -> set[str]:
    """Printable ASCII and the `count` most frequent other characters."""
    seen = Counter(char for line in lines for char in line if not char.isspace() and char not in _ASCII)
    return {*_ASCII, *(char for char, _ in seen.most_common(count))}


def train_wordpiece(lines: Sequence[str], vocab_size: int, known: set[str]) -> Tokenizer:
    """BERT's uncased tokenizer: lower case, no accents, every Chinese character a word; else `[UNK]`."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN_WORD))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", UNKNOWN_WORD, "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=special, initial_alphabet=_ASCII, show_progress=False
    )
    tokenizer.train_from_iterator(_of_known(lines, known), trainer)
    frame = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, frame)
    return tokenizer


def train_unigram(lines: Sequence[str], vocab_size: int, known: set[str]) -> Tokenizer:
    """SentencePiece's Unigram: spaces are written ▁, scripts are not mixed, what is unknown is spelled in bytes."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(_WORDS), "isolated"), pre_tokenizers.Metaspace(prepend_scheme="never")]
    )
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size - 256,
        special_tokens=[UNKNOWN_PIECE, END],
        unk_token=UNKNOWN_PIECE,
        initial_alphabet=_ASCII,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_of_known(lines, known), trainer)
    pieces = json.loads(tokenizer.to_str())["model"]["vocab"]
    vocab = [(piece, round(score, 4)) for piece, score in pieces]
    vocab += [(f"<0x{byte:02X}>", _BYTE_SCORE) for byte in range(256)]
    tokenizer.model = models.Unigram(vocab, unk_id=0, byte_fallback=True)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Replace("▁", " ")])
    tokenizer.post_processor = processors.TemplateProcessing(f"$A {END}", None, [(END, tokenizer.token_to_id(END))])
    return tokenizer


def _of_known(lines: Sequence[str], known: set[str]) -> Iterator[str]:
    """The lines, cut where a character is not known: none of the rest becomes part of a token."""
    for line in lines:
        text = "".join(char if char in known or char == " " else "\n" for char in line)
        yield from filter(None, (part.strip() for part in text.split("\n")))


def train_tokenizers(corpora: Path, out: Path, vocab_size: int) -> dict[str, int]:
    """Train both kinds and write `<out>/<kind>/tokenizer.json`; returns the size of each vocabulary.

    Raises:
        ValueError: if a corpus cannot be read, or the vocabulary has no room for the single characters and bytes.
    """
    if vocab_size < N_CHARACTERS + 1_000:
        raise ValueError(f"A vocabulary of {vocab_size} is too small: {N_CHARACTERS + 1_000} are needed at least.")
    lines = training_lines(corpora)
    known = known_characters(lines)
    sizes = {}
    for kind, train in (("wordpiece", train_wordpiece), ("unigram", train_unigram)):
        tokenizer = train(lines, vocab_size, known)
        folder = out / kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(tokenizer.to_str() + "\n", encoding="utf-8")
        sizes[kind] = tokenizer.get_vocab_size()
    return sizes
