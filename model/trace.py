"""One run of a model, recorded: the single source of everything that is shown."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache, cached_property

import torch
from torch import Tensor, nn

from model.attention import Attention, Pass
from model.hooks import edited_names, observe
from model.kernels import Visible, attention_pattern, attention_scores
from model.masks import MaskRule
from model.names import hook_table
from model.tokenizer import Piece, Tokenizer
from model.transformer import Transformer

_ATTENTION_MATRICES = ("hook_attn_scores", "hook_pattern")


class Trace:
    """The activations of one pass by hook name, and what is needed to read them.

    Kept are those whose size grows with the text's length. Scores and patterns, which grow with its square,
    are computed from the kept queries and keys when they are asked for, by the explicit kernel's own
    function, and so is each head's result; for layers where they were edited the edited ones are kept.

    Attributes:
        id: differs whenever model, device, dtype, tokens, mask or edits differ.
        text: the decoded tokens. tokens: their ids.
        kernels: attention layer name to the kernel that ran.
        timings: seconds by part ("embed", "blocks.0.attn", "blocks.0.mlp", …, "unembed", "total"; an encoder's before
            them, "encoder.embed", …), norms included in the part that they feed, measured while everything was being
            recorded.
        padding: how many of the first tokens were hidden as padding.
        source: the ids that an encoder-decoder read; empty for other models. Of the same kinds of names the encoder's
            begin with "encoder.", and a `cross_attn` pattern has a row for each token and a column for each of these.
    """

    def __init__(
        self,
        transformer: Transformer,
        tokenizer: Tokenizer,
        tokens: Sequence[int],
        *,
        name: str = "",
        source: Sequence[int] = (),
        rule: MaskRule | None = None,
        padding: int = 0,
    ) -> None:
        self.tokens = [int(t) for t in tokens]
        self.source = [int(t) for t in source]
        self.config = transformer.config
        self.rule = rule or MaskRule(causal=self.config.causal)
        self.padding = padding
        self._transformer, self._tokenizer = transformer, tokenizer
        self._edited = edited_names()
        self._kept: dict[str, Tensor] = {}
        self.timings: dict[str, float] = {}
        run = self._record()
        self.kernels = dict(run.kernels)
        self._source_visible = run.source_visible
        kept = str(transformer.device), str(transformer.weights_dtype)
        described = (name, *kept, self.tokens, self.source, str(self.rule), padding)
        # Edits are functions and have no name: an edited run is like no other.
        unique = uuid.uuid4() if self._edited else None
        self.id = hashlib.sha256(repr((described, unique)).encode()).hexdigest()[:16]

    def inputs(self) -> tuple[Tensor, Tensor | None]:
        """Ids and attention mask, `(1, T)`."""
        device = self._transformer.device
        ids = torch.tensor([self.tokens], device=device)
        mask = (torch.arange(len(self.tokens), device=device) >= self.padding)[None] if self.padding else None
        return ids, mask

    def source_ids(self) -> Tensor | None:
        """The source's ids `(1, S)`, where there is one."""
        return torch.tensor([self.source], device=self._transformer.device) if self.source else None

    def _record(self) -> Pass:
        clock = _Clock(self._transformer.device)

        def keep(name: str, value: Tensor) -> None:
            self._kept[name] = value[0]
            clock.at(name)

        ids, mask = self.inputs()
        passes: list[Pass] = []
        with torch.no_grad(), observe(keep):
            clock.start()
            self._transformer(ids, mask, rule=self.rule, passes=passes, encoder_ids=self.source_ids())
        self.timings = clock.seconds
        return passes[0]

    def __getitem__(self, name: str) -> Tensor:
        """The activation of a hook, without batch axis.

        Raises:
            KeyError: for a name that this model does not have, with the names that come near.
        """
        if name in self._kept:
            return self._kept[name]
        layer, _, kind = name.rpartition(".")
        if name in self._table and kind in _ATTENTION_MATRICES:
            scores = self._scores(layer)
            return scores if kind == "hook_attn_scores" else attention_pattern(scores)
        if name in self._table and kind == "hook_result":
            return self._result(layer)
        near = get_close_matches(name, self._table, cutoff=0.8)
        raise KeyError(f"No activation is called {name!r} here." + (f" Perhaps {', '.join(near)}?" if near else ""))

    def __contains__(self, name: object) -> bool:
        return name in self._table

    @cached_property
    def _table(self) -> dict[str, object]:
        return dict(hook_table(self.config))

    def names(self) -> list[str]:
        """All hook names that can be asked for, in the order of the data's way."""
        return list(self._table)

    def attention_inputs(self, layer: str) -> tuple[Tensor, Tensor, Tensor, Visible]:
        """What an attention layer's kernel got: `layer` is "blocks.0.attn" (or "….cross_attn").

        Returns:
            Queries `(1, H, T, D)`, keys and values `(1, H_kv, S, D)`, and what was visible.
        """
        rotated = f"{layer}.hook_rot_q" in self._kept
        q = self._kept[f"{layer}.hook_rot_q" if rotated else f"{layer}.hook_q"]
        k = self._kept[f"{layer}.hook_rot_k" if rotated else f"{layer}.hook_k"]
        v = self._kept[f"{layer}.hook_v"]
        source = self.source_ids()
        if layer.endswith("cross_attn"):
            visible = self._source_visible
        elif layer.startswith("encoder.") and source is not None:
            visible = self._transformer.visible(source, rule=MaskRule(causal=False))
        else:  # not kept, because masks and biases grow with the square of the length
            visible = self._transformer.visible(*self.inputs(), self.rule)
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        return q, k, v, visible

    def _scores(self, layer: str) -> Tensor:
        q, k, _, visible = self.attention_inputs(layer)
        return attention_scores(q, k, visible)[0]

    def _result(self, layer: str) -> Tensor:
        module = self.module(layer)
        assert isinstance(module, Attention)
        z = self._kept[f"{layer}.hook_z"]
        heads = module.W_O.weight.to(z.dtype).unflatten(1, (module.n_heads, module.d_head))  # (d_model, H, D)
        return torch.einsum("thd,mhd->thm", z, heads)

    def module(self, name: str) -> nn.Module:
        """The model's module of that name ("blocks.0.attn"), for its weights.

        Raises:
            AttributeError: if there is none.
        """
        return self._transformer.get_submodule(name.replace("encoder.", "encoder_", 1))

    @property
    def logits(self) -> Tensor:
        """`(positions, vocabulary)`.

        Raises:
            KeyError: for a model without a head: its output is `hook_output`.
        """
        return self["hook_logits"]

    @property
    def nbytes(self) -> int:
        """Bytes held by the kept activations, each storage counted once."""
        return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in self._kept.values()}.values())

    @cached_property
    def text(self) -> str:
        """The tokens, decoded."""
        return self._tokenizer.decode(self.tokens)

    @cached_property
    def token_strings(self) -> list[str]:
        """The text that each token completes; joined, they are `text`."""
        return self._tokenizer.token_strings(self.tokens)

    @cached_property
    def labels(self) -> list[str]:
        """A visible name for each token."""
        return self._tokenizer.labels(self.tokens)

    @cached_property
    def pieces(self) -> list[Piece]:
        """The tokens grouped into the characters that people see."""
        return self._tokenizer.pieces(self.tokens)

    @cached_property
    def source_text(self) -> str:
        """The source's tokens, decoded."""
        return self._tokenizer.decode(self.source)

    @cached_property
    def source_labels(self) -> list[str]:
        """A visible name for each token of the source."""
        return self._tokenizer.labels(self.source)

    @cached_property
    def source_pieces(self) -> list[Piece]:
        """The source's tokens grouped into the characters that people see."""
        return self._tokenizer.pieces(self.source)


class _Clock:
    """Seconds by part, taken at the hook points where parts begin and end."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = {}

    def _now(self) -> float:
        if self.device.type != "cpu":  # work on an accelerator is only queued when a call returns
            torch.accelerator.synchronize(self.device)
        return time.perf_counter()

    def start(self) -> None:
        self.begun = self.last = self._now()

    def at(self, name: str) -> None:
        part = _part_before(name)
        if part is None or (part in ("embed", "encoder.embed") and part in self.seconds):
            return
        begun, self.last = self.last, self._now()
        if part:
            self.seconds[part] = self.last - begun
        if part == "unembed":
            self.seconds["total"] = self.last - self.begun


@cache
def _part_before(name: str) -> str | None:
    """The part of the model that ends at a hook point; "" at one where only a new part begins, None at all others.

    The embedding ends where the first block begins, and whoever asks has to know that later blocks begin, too.
    """
    block, _, hook = name.rpartition(".")
    if hook == "hook_resid_pre":
        return "encoder.embed" if name.startswith("encoder.") else "embed"
    if hook in ("hook_resid_mid", "hook_resid_mid_cross", "hook_resid_post"):
        return ""
    if hook in ("hook_attn_out", "hook_cross_attn_out", "hook_mlp_out"):
        return f"{block}.{hook.removeprefix('hook_').removesuffix('_out')}"
    return "unembed" if hook in ("hook_logits", "hook_output") else None
