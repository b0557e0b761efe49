"""A byte-level BPE tokenizer for models that see little text: without case, and one Chinese character a token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers


def train_tokenizer(
    texts: Iterable[str], vocab_size: int, special: Sequence[str], begin: str | None, end: str, mask: str | None = None
) -> tokenizers.Tokenizer:
    """Train one; `special` get the first ids, and `begin` and `end`, two of them, frame every text. Where
    `mask` is recognised in a text it takes the space before it along, as the word that it stands for would.

    With few sentences every word should be met as often as can be: "Tom", "tom" and "TOM", at the beginning of a
    sentence or inside it, are one token. Bytes are the last resort, so no character is unknown.

    Raises:
        ValueError: if the vocabulary has no room for the single bytes.
    """
    if vocab_size < 256 + len(special):
        raise ValueError(f"A vocabulary of {vocab_size} is too small: {256 + len(special)} are needed at least.")
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace("’", "'"),
            normalizers.Lowercase(),
            normalizers.Prepend(" "),  # the first word of a text looks like any other …
            normalizers.Replace(Regex(r"\A (?![a-z])"), ""),  # … and nothing else is changed
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\p{Han}"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    added = [tokenizers.AddedToken(s, special=True, normalized=False, lstrip=s == mask) for s in special]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=added,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    frame = [name for name in (begin, "$A", end) if name]
    names = {name: tokenizer.token_to_id(name) for name in (begin, end) if name}
    tokenizer.post_processor = processors.TemplateProcessing(" ".join(frame), None, list(names.items()))
    return tokenizer


def save_tokenizer(
    path: Path,
    texts: Iterable[str],
    vocab_size: int,
    special: Sequence[str],
    begin: str | None,
    end: str,
    mask: str | None = None,
) -> None:
    """Train one as `train_tokenizer` does and write it to `path`, a tokenizer.json; missing folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = train_tokenizer(texts, vocab_size, special, begin, end, mask)
    path.write_text(made.to_str() + "\n", encoding="utf-8")
