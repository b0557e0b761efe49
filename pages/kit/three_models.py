"""One sentence through an encoder, a decoder and an encoder-decoder: what each of them reads, hides, and writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import streamlit as st

from model.analysis.alignment import Written, cleanly_ended, read_back, write
from model.analysis.gaps import Gap, gap, mask_id, telling_gap, with_gap
from model.analysis.guesses import Guesses, guesses
from model.analysis.passages import Passage, english_share, passage, passage_of_run, token_for
from model.analysis.sight import replaced
from model.language import LanguageModel
from model.trace import Trace
from pages.kit import limits, loading, sidebar
from pages.kit.choices import DEFAULT_MODEL, TRANSLATOR
from pages.kit.page import Page

ENCODER, DECODER = "reader", DEFAULT_MODEL  # where the reader's model is of another kind
MAX_CHARACTERS = limits.MAX_SENTENCE
MAX_TOKENS = 64  # of each model's: more would make figures that nobody can read
MAX_SHOWN = 40  # tokens of a translation that are drawn in a row, and characters of it that are written
N_GUESSES = 6
N_CONTINUED = 12
_ENOUGH_ENGLISH = 0.5  # of the words


@dataclass(frozen=True)
class ThreeModels:
    """The three models and their runs. All of it comes from the text of the page and the reader's choices."""

    page: Page

    @cached_property
    def whole(self) -> str:
        """The reader's text, or a generated one that was rewound to."""
        sel = self.page.sel
        return sel.text if sel.ids is None else self.page.lm.tokenizer.decode(sel.ids)

    @cached_property
    def text(self) -> str:
        """The part of it that is looked at here."""
        return self.whole[:MAX_CHARACTERS]

    @cached_property
    def encoder(self) -> LanguageModel:
        """The reader's model if it fills gaps, else the bundled one that does."""
        return self.page.lm if mask_id(self.page.lm) is not None else self._bundled(ENCODER)

    @cached_property
    def decoder(self) -> LanguageModel:
        """The reader's model if it continues texts, else the bundled one that does."""
        return self.page.lm if self.page.lm.config.kind == "decoder" else self._bundled(DECODER)

    @cached_property
    def translator(self) -> LanguageModel:
        """The encoder-decoder."""
        return self._bundled(TRANSLATOR)

    def _bundled(self, name: str) -> LanguageModel:
        """One of ours, in the format and on the device that the reader chose for all models."""
        return loading.model(name, self.page.sel.weights, self.page.sel.device)

    @cached_property
    def for_encoder(self) -> Passage:
        """What the encoder reads of the text."""
        return _passage(self.encoder, self.encoder.name, self.text)

    @cached_property
    def for_decoder(self) -> Passage:
        """What the decoder reads of it."""
        return _passage(self.decoder, self.decoder.name, self.text)

    @cached_property
    def for_translator(self) -> Passage:
        """What the encoder-decoder reads: the text, or a sentence of ours (see `translates_own`)."""
        text = self.text if self.translates_own else self.page.say.plain("example_spare_text")
        return _passage(self.translator, self.translator.name, text)

    @property
    def source_cut(self) -> bool:
        """Whether the translator reads only the beginning of the text."""
        return self.translates_own and (self.for_translator.cut or len(self.whole) > MAX_CHARACTERS)

    @property
    def nothing(self) -> bool:
        """Whether there is no token to hide."""
        return not self.text.strip() or not self.for_encoder.n_read

    @cached_property
    def english_share(self) -> float | None:
        """How many of the text's words are in English letters; None without a word."""
        return english_share(self.text)

    @property
    def english(self) -> bool:
        """Whether the text is one that the translator was trained to read."""
        return (self.english_share or 0) > _ENOUGH_ENGLISH

    @property
    def example(self) -> bool:
        """Whether the text is an example of the sidebar; none of those is a whole English sentence."""
        return self.page.sel.ids is None and self.whole in sidebar.texts(self.page.say).values()

    @property
    def translates_own(self) -> bool:
        """Whether the translator reads the reader's text, and not a sentence of ours."""
        return self.english and not self.example

    # The hidden token

    @cached_property
    def asked(self) -> int | None:
        """The character of the token that the reader chose; None without a choice."""
        query = self.page.sel.query
        return None if query is None else self._strip.character(query)

    @cached_property
    def _strip(self) -> Passage:
        """The run of the page's own model, whose tokens are in the strip."""
        return passage_of_run(self.page.lm, self.page.run, self.whole[: limits.MAX_CHARACTERS])

    @cached_property
    def hidden(self) -> int:
        """The encoder's token that is hidden: the one that holds the chosen character, else a telling one."""
        read = self.for_encoder
        place = None if self.asked is None else read.position(self.asked)
        return _telling(self.encoder, self.encoder.name, read) if place is None else place

    @property
    def out_of_reach(self) -> bool:
        """Whether the reader chose a token that this page does not look at."""
        return self.page.sel.query is not None and (self.asked is None or self.for_encoder.position(self.asked) is None)

    @cached_property
    def character(self) -> int:
        """The first character of the hidden token."""
        found = self.for_encoder.character(self.hidden)
        assert found is not None  # only tokens of the text are hidden
        return found

    @cached_property
    def in_strip(self) -> int | None:
        """The hidden token in the strip of the page's own model."""
        query = self.page.sel.query
        return self._strip.position(self.character) if query is None else query

    @cached_property
    def gap(self) -> Gap:
        """What the encoder puts into the gap."""
        ids = self.for_encoder.ids
        run = loading.run(self.encoder, with_gap(self.encoder, ids, self.hidden))
        return gap(run, self.hidden, ids[self.hidden], N_GUESSES)

    @cached_property
    def before(self) -> int | None:
        """The decoder's token at the same place; None where what it reads ends before."""
        return self.for_decoder.position(self.character)

    @property
    def cut_differently(self) -> tuple[str, str, str] | None:
        """Where the two tokenizers put other characters into the token there: what is hidden from the encoder, what the
        decoder has to guess, and what of that the encoder still sees. None where both are the same."""
        hole, own = (
            self.for_encoder.spans[self.hidden],
            None if self.before is None else self.for_decoder.spans[self.before],
        )
        if hole is None or own is None:
            return None
        gap, token = self.text[slice(*hole)].strip(), self.text[slice(*own)].strip()
        rest = self.text[own[0] : hole[0]] + self.text[hole[1] : own[1]]
        return None if gap == token else (gap, token, rest.strip())

    @property
    def seen_before(self) -> str:
        """The text that the decoder has read when it guesses there."""
        span = None if self.before is None else self.for_decoder.spans[self.before]
        return self.text[: span[0]] if span else ""

    @cached_property
    def from_the_left(self) -> Guesses | None:
        """What the decoder expects there, of what stands before alone. At the start of the text that is nothing but
        its start token."""
        place = self.before
        if place is None:
            return None
        if place > 0:
            return guesses(self.decoder_run, place - 1, N_GUESSES)
        first = (limits.start_id(self.decoder), self.for_decoder.ids[0])
        return guesses(loading.run(self.decoder, first), 0, N_GUESSES)

    # Runs

    @cached_property
    def encoder_run(self) -> Trace:
        """The encoder over the text, nothing hidden."""
        return loading.run(self.encoder, self.for_encoder.ids)

    @cached_property
    def decoder_run(self) -> Trace:
        """The decoder over the text."""
        return loading.run(self.decoder, self.for_decoder.ids)

    @property
    def room(self) -> int:
        """How many tokens the decoder writes on, as far as its context goes."""
        return min(N_CONTINUED, max(0, self.decoder.config.max_positions - len(self.for_decoder.ids)))

    @cached_property
    def translated(self) -> Written:
        """What the encoder-decoder writes, up to where it loses itself in bytes that make no character."""
        lm = self.translator
        return cleanly_ended(lm, _write(lm, lm.name, self.for_translator.ids, self.page.sel.translation_beam, None))

    @cached_property
    def translation_run(self) -> Trace:
        """The encoder-decoder over source and translation; row i wrote token i."""
        return self._translation_run(self.for_translator.ids)

    def _translation_run(self, source: Sequence[int]) -> Trace:
        return loading.run(self.translator, read_back(self.translator, source, self.translated), source)

    # One token replaced

    @cached_property
    def instead(self) -> str:
        """The word that takes the hidden token's place: the reader's, else the encoder's best other guess."""
        chosen = (self.page.sel.instead or "").strip()
        if chosen:
            return chosen
        decode = self.encoder.tokenizer.decode
        others = (decode([token]).strip() for token in self.gap.ids if token != self.gap.hidden)
        return next(
            (word for word in others if word and "\ufffd" not in word), self.page.say.plain("example_instead_text")
        )

    @cached_property
    def in_source(self) -> tuple[int, str]:
        """The source token that is replaced, and by what word: in a sentence of ours it is a word of ours."""
        say, read = self.page.say, self.for_translator
        place = read.position(self.character) if self.translates_own else None
        if place is not None:
            return place, self.instead
        if self.translates_own:  # the source was cut before: its last token
            return max(0, read.n_read - 1), self.instead
        spare = read.position(read.text.index(say.plain("example_replaced_text")))
        assert spare is not None
        return spare, say.plain("example_instead_text")

    @cached_property
    def encoder_edited(self) -> Trace:
        """The encoder over the text with the token replaced."""
        ids = self.for_encoder.ids
        return loading.run(self.encoder, _edited(self.encoder, ids, self.hidden, self.instead))

    @cached_property
    def decoder_edited(self) -> Trace | None:
        """The decoder over that text; None where what it reads ends before the token."""
        if self.before is None:
            return None
        return loading.run(self.decoder, _edited(self.decoder, self.for_decoder.ids, self.before, self.instead))

    @cached_property
    def translation_edited(self) -> Trace:
        """The encoder-decoder over the source with the token replaced, and the translation as it was."""
        return self._translation_run(_edited(self.translator, self.for_translator.ids, *self.in_source))


def _edited(lm: LanguageModel, ids: Sequence[int], position: int, word: str) -> tuple[int, ...]:
    return replaced(ids, position, token_for(lm, ids, position, word))


@st.cache_data(show_spinner=False, max_entries=256)
def _passage(_lm: LanguageModel, name: str, text: str) -> Passage:
    return passage(_lm, text, MAX_TOKENS)


@st.cache_data(show_spinner=False, max_entries=256)
def _telling(_lm: LanguageModel, name: str, read: Passage) -> int:
    """Of tokens that are whole characters with a letter or digit; of any in the text, where there are none."""
    pieces = [piece for piece in _lm.tokenizer.pieces(read.ids) if read.spans[piece.start] is not None]
    whole = [piece.start for piece in pieces if piece.end - piece.start == 1 and any(map(str.isalnum, piece.text))]
    return telling_gap(_lm, read.ids, whole or [place for piece in pieces for place in range(piece.start, piece.end)])


@st.cache_data(show_spinner=False, max_entries=256)
def _write(_lm: LanguageModel, name: str, ids: tuple[int, ...], beam: int, length: int | None) -> Written:
    return write(_lm, ids, beam, length)
