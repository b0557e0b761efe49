"""The door to the model room: trace a model, edit it, let it write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from model import hooks
from model.beam import BeamStep, beam_search
from model.chat import ChatTemplate, ChatTemplateError
from model.config import TransformerConfig
from model.devices import best_device
from model.generation import Step, generate
from model.masks import MaskRule
from model.names import hook_table
from model.products import copies_nbytes
from model.sampling import SamplingSettings
from model.tokenizer import Tokenizer
from model.trace import Trace
from model.transformer import Transformer
from model.zoo.files import DamagedError


class LanguageModel:
    """A Transformer with its tokenizer. Many threads may share one: nothing a caller does is stored in it."""

    def __init__(
        self,
        name: str,
        transformer: Transformer,
        tokenizer: Tokenizer,
        source: str = "",
        chat: ChatTemplate | None = None,
    ) -> None:
        self.id = name
        self.source = source or name  # where its weights are from: two folders may have one name
        self.transformer = transformer
        self.tokenizer = tokenizer
        self.chat = chat  # how it wants dialogues written; None: it was not trained on any

    @property
    def config(self) -> TransformerConfig:
        """Shape and options."""
        return self.transformer.config

    @property
    def name(self) -> str:
        """The id, with the weights' dtype and device where they are not the usual: what is known of one model by its
        name must not be taken for another's."""
        usual = self.dtype == torch.float32, self.device.type == best_device().type
        kept = str(self.dtype).removeprefix("torch."), self.device.type
        unusual = [word for word, is_usual in zip(kept, usual, strict=True) if not is_usual]
        return " · ".join((self.id, *unusual))

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.transformer.device

    @property
    def dtype(self) -> torch.dtype:
        """How the weights are kept: `torch.int8` for matrices of integers."""
        return self.transformer.weights_dtype

    @property
    def compute_dtype(self) -> torch.dtype:
        """Of what flows through the model and is cached; that of the weights unless they are integers."""
        return self.transformer.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the weights in memory (a tied matrix counts once)."""
        return self.transformer.nbytes

    @property
    def nbytes_at_most(self) -> int:
        """Bytes of the weights and of the copies that are made of some when the model writes."""
        return self.nbytes + copies_nbytes(self.transformer)

    def ids(self, text: str | Sequence[int]) -> list[int]:
        """The ids that a text stands for: its own, or the start token alone for an empty one.

        For an encoder-decoder the text is a source, what the encoder reads; see `target_ids` for the other side.

        Raises:
            ValueError: if the text is empty and the model has no start token, if it is longer than the
                model's context, or if an id is not in the vocabulary.
        """
        ids = self.tokenizer.encode(text) if isinstance(text, str) else [int(i) for i in text]
        if not ids:
            if self.config.bos_id is None:
                raise ValueError("The text is empty, and this model has no start token: type at least one letter.")
            ids = [self.config.bos_id]
        if len(ids) > self.config.max_positions:
            raise ValueError(
                f"The text has {len(ids)} tokens; {self.name} reads at most {self.config.max_positions}. Shorten it."
            )
        if not all(0 <= i < self.config.vocab_size for i in ids):
            raise ValueError(f"A token id must be between 0 and {self.config.vocab_size - 1}.")
        return ids

    def chat_ids(self, message: str, system: str | None = None) -> list[int]:
        """The ids of a dialogue that begins with `message`, up to where the model's answer begins.

        As with Transformers' `apply_chat_template`, special tokens are recognised wherever they stand, also in the
        message: what a reader writes may look like the frame around it.

        Raises:
            ValueError: if the model has no chat template.
            ChatTemplateError: if its template gives no text for this message, or one that the model cannot read.
        """
        if self.chat is None:
            raise ValueError(f"{self.name} has no chat template.")
        turns = [] if system is None else [{"role": "system", "content": system}]
        text = self.chat.render([*turns, {"role": "user", "content": message}])
        ids = self.tokenizer.encode(text, parse_special=True, add_special=False)
        if (last := max(ids, default=0)) >= self.config.vocab_size:
            raise ChatTemplateError("not_embedded", said=self.tokenizer.label(last))
        return ids

    def fitting_message(self, message: str, room: int) -> tuple[list[int], int]:
        """The ids of `chat_ids` with as much from the front of `message` as fits in `room`, and how many all would be.

        Raises:
            ValueError, ChatTemplateError: as `chat_ids` does, or if there is no room for the template alone.
        """
        ids = self.chat_ids(message)
        n_tokens, kept = len(ids), self.tokenizer.encode(message, add_special=False)
        while len(ids) > room:
            if not kept:
                raise ChatTemplateError("no_room", n=len(ids), room=room)
            kept = kept[: max(0, len(kept) - (len(ids) - room))]
            ids = self.chat_ids(self.tokenizer.decode(kept).rstrip("\ufffd"))
        return ids, n_tokens

    def special_in(self, message: str) -> tuple[str, ...]:
        """The special tokens that `chat_ids` finds in what somebody has typed, each once, as they are spelled."""
        ids = self.tokenizer.encode(message, parse_special=True, add_special=False)
        found = [self.tokenizer.token(i) for i in ids if i in self.tokenizer.special_ids]
        return tuple(dict.fromkeys(spelling for spelling in found if spelling))

    def special_role(self, token: int) -> str:
        """What a special token is for.

        "turn" and "turn_end": the chat template frames turns with it; "start", "end" or "between": of texts; "other".
        """
        ends = token in self.config.eos_ids
        spelling = self.tokenizer.token(token)
        if self.chat is not None and spelling and self.chat.writes(spelling):
            return "turn_end" if ends else "turn"
        if token == self.config.bos_id:
            return "between" if ends else "start"
        return "end" if ends else "other"

    def target_ids(self, text: str | Sequence[int] = "") -> list[int]:
        """What the decoder of an encoder-decoder has read when it has written `text`: the start token before it.

        Raises:
            ValueError: as `ids` does, or for a model of another kind.
        """
        if self.config.kind != "encoder_decoder" or self.config.bos_id is None:
            raise ValueError(f"{self.name} translates nothing: only an encoder-decoder with a start token does.")
        if not isinstance(text, str):
            return self.ids(text)
        return self.ids([self.config.bos_id, *self.tokenizer.encode(text, add_special=False)])

    def trace(
        self,
        text: str | Sequence[int],
        *,
        source: str | Sequence[int] | None = None,
        rule: MaskRule | None = None,
        padding: int = 0,
    ) -> Trace:
        """Run the model once over a text (or ids) and record everything.

        An encoder-decoder needs the `source` (or its ids) that it translates; `text` is then the translation so far.
        `rule` replaces the model's own mask; the first `padding` tokens are hidden as padding. Edits of the
        calling context are in force.

        Raises:
            ValueError: as `ids` does, if padding would hide every token, or for a source that is missing or that
                the model has no use for.
        """
        if (source is None) == (self.config.kind == "encoder_decoder"):
            raise ValueError("A source is for an encoder-decoder, and it needs one.")
        ids = self.ids(text) if source is None else self.target_ids(text)
        read = [] if source is None else self.ids(source)
        if not 0 <= padding < len(ids):
            raise ValueError(f"Padding can hide 0 to {len(ids) - 1} of these {len(ids)} tokens, not {padding}.")
        return Trace(self.transformer, self.tokenizer, ids, name=self.source, source=read, rule=rule, padding=padding)

    def try_out(self) -> None:
        """Run over one token, which also sets up what torch makes at a first pass.

        Raises:
            CheckpointError: if what comes out are no finite numbers: then neither are the weights.
        """
        run = self.trace([0], source=[0] if self.config.kind == "encoder_decoder" else None)
        if not run[f"blocks.{self.config.n_layers - 1}.hook_resid_post"].isfinite().all():
            raise DamagedError(f"The weights of {self.id} hold values that are no finite numbers.")

    def generate(
        self,
        text: str | Sequence[int],
        max_new_tokens: int = 40,
        sampling: SamplingSettings | None = None,
        *,
        use_cache: bool = True,
        window: int | None = None,
        bits: int | None = None,
    ) -> Iterator[Step]:
        """Continue a text (or ids), or translate it, one `Step` a token; see `model.generation.generate`."""
        prompt, source = self._prompt(text)
        return generate(
            self.transformer,
            self.tokenizer,
            prompt,
            max_new_tokens=max_new_tokens,
            sampling=sampling or SamplingSettings(),
            use_cache=use_cache,
            window=window,
            bits=bits,
            source=source,
        )

    def search(
        self,
        text: str | Sequence[int],
        max_new_tokens: int = 40,
        *,
        beam: int = 4,
        alpha: float = 0.6,
        dropped: int | None = None,
        use_cache: bool = True,
    ) -> Iterator[BeamStep]:
        """Continue a text (or ids), or translate it, by beam search, one `BeamStep` a token; see `model.beam`."""
        prompt, source = self._prompt(text)
        return beam_search(
            self.transformer,
            prompt,
            beam=beam,
            max_new_tokens=max_new_tokens,
            alpha=alpha,
            source=source,
            dropped=dropped,
            use_cache=use_cache,
        )

    def translate(self, text: str, *, beam: int = 4, alpha: float = 0.6) -> str:
        """The translation that beam search finds, at most twice as long as the source and ten tokens.

        Raises:
            ValueError: for a model that is no encoder-decoder, and as `ids` does.
        """
        self.target_ids()
        limit = min(2 * len(self.ids(text)) + 10, self.config.max_positions - 1)
        *_, last = self.search(text, limit, beam=beam, alpha=alpha)
        ids = last.best.ids[:-1] if last.best.ended else last.best.ids
        return self.tokenizer.decode(ids).strip()

    def _prompt(self, text: str | Sequence[int]) -> tuple[list[int], list[int] | None]:
        """What is continued, and the source for an encoder-decoder: there the text is read, and nothing written yet."""
        if self.config.kind == "encoder_decoder":
            return self.target_ids(), self.ids(text)
        return self.ids(text), None

    @contextmanager
    def edit(self, edits: Mapping[str, hooks.Edit]) -> Iterator[None]:
        """Change activations by hook name while the `with` lasts, in the calling context alone.

        `edits` maps a hook name to `fn(tensor, name)`; the tensor has its batch axis, and the function returns
        one of the same shape, or None if it changed it in place or wants nothing changed.

        Raises:
            ValueError: for a name that this model does not have, or one that cannot be edited.
        """
        table = hook_table(self.config)
        for name in edits:
            if name not in table:
                raise ValueError(f"{self.name} has no hook called {name!r}.")
            if name.endswith("hook_result"):
                raise ValueError(f"{name} is computed from hook_z afterwards; edit hook_z instead.")
        with hooks.edit(edits):
            yield
