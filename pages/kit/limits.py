"""How much of the reader's text is looked at. Checked here, on the server: a browser's own limits can be passed."""

from dataclasses import dataclass, replace
from functools import lru_cache

from model.chat import ChatTemplateError
from model.language import LanguageModel

MAX_CHARACTERS = 4_000
MAX_TOKENS = 512
MIN_MEASURED = 32
MEASURED_PRODUCTS = 10**10  # tokens times weights: a second or less for one run
MAX_WORD = 40  # characters of a word that is looked up
MAX_SENTENCE = 200  # characters of a sentence that is compared with another
MAX_LINK_CHARACTERS = 1_500  # a longer text is not written into the address: browsers and mail programs cut links


@dataclass(frozen=True)
class Excerpt:
    """What is looked at of a text. `ids` are run; `n_tokens` counts the text before the cut.

    `characters_cut`: more than `MAX_CHARACTERS`, so `n_tokens` counts only those. `empty`: nothing was typed, and
    `ids` is the model's start token alone. `chat`: the text is a message in the model's chat template, and where
    there is no room for all of it the message is cut, not the template; `special` are the special tokens that the
    reader typed into it. `no_chat`: why the template could not be used, so that the text is run as it is.
    """

    ids: tuple[int, ...]
    n_tokens: int
    characters_cut: bool = False
    empty: bool = False
    chat: bool = False
    special: tuple[str, ...] = ()
    no_chat: ChatTemplateError | None = None

    @property
    def tokens_cut(self) -> bool:
        """Whether tokens at the end are left out."""
        return not self.empty and len(self.ids) < self.n_tokens


def max_tokens(lm: LanguageModel) -> int:
    """How many tokens of a text this model looks at in the app."""
    return min(MAX_TOKENS, lm.config.max_positions)


def measured_tokens(lm: LanguageModel, n_tokens: int) -> int:
    """Of a text, how many tokens are run where a page runs the model many times: as many as do not keep one waiting."""
    parameters = lm.nbytes // lm.dtype.itemsize
    return min(n_tokens, max(MIN_MEASURED, MEASURED_PRODUCTS // parameters))


def excerpt(lm: LanguageModel, text: str, chat: bool = False) -> Excerpt:
    """The part of `text` that is run; with `chat` as a message, where the model has a template for those."""
    text = text[: MAX_CHARACTERS + 1]
    if not chat or lm.chat is None:
        return _plain(lm, text)
    try:
        return _message(lm, text)
    except ChatTemplateError as error:
        return replace(_plain(lm, text), no_chat=error.with_traceback(None))


@lru_cache(maxsize=256)
def _plain(lm: LanguageModel, text: str) -> Excerpt:
    ids = lm.tokenizer.encode(text[:MAX_CHARACTERS])
    if not ids:
        return Excerpt((start_id(lm),), 0, empty=True)
    return Excerpt(tuple(ids[: max_tokens(lm)]), len(ids), len(text) > MAX_CHARACTERS)


@lru_cache(maxsize=256)
def _message(lm: LanguageModel, text: str) -> Excerpt:
    cut = text[:MAX_CHARACTERS]
    ids, n_tokens = lm.fitting_message(cut, max_tokens(lm))
    return Excerpt(tuple(ids), n_tokens, len(text) > MAX_CHARACTERS, chat=True, special=lm.special_in(cut))


def forget_excerpts() -> None:
    """Let go of the models that the texts looked at last belong to."""
    _plain.cache_clear()
    _message.cache_clear()


def start_id(lm: LanguageModel) -> int:
    """The token that an empty text is run with: the model's start token, else its end or padding token, else 0."""
    config = lm.config
    return next((i for i in (config.bos_id, config.eos_id, config.pad_id) if i is not None), 0)
