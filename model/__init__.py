"""The model room: a Transformer of our own, its tokenizer, cache, sampling and hooks. Knows nothing of the screen."""

from model.language import LanguageModel
from model.loading import load

__all__ = ["LanguageModel", "load"]
