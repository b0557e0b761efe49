"""Small texts for the tests of training, and the simplest tokenizer."""

import lzma
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from model.training.data import TokenFile


class Letters:
    """One token a letter: a = 1, b = 2 …"""

    def encode(self, text: str) -> list[int]:
        return [ord(letter) - 96 for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(i + 96) for i in ids)


def token_file(documents: Sequence[Sequence[int]]) -> TokenFile:
    return TokenFile(
        np.array([i for document in documents for i in document], np.uint16),
        np.cumsum([0] + [len(document) for document in documents]),
    )


def write_corpus(folder: Path, name: str, text: str) -> None:
    with lzma.open(folder / name, "wt", encoding="utf-8") as file:
        file.write(text)
