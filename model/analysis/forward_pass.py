"""One run as a list of parts: what each hands on, how long it took, how many parameters it has."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from model.trace import Trace
from model.transformer import Transformer


@dataclass(frozen=True)
class PassPart:
    """One part of the pass; of a part that every block has, one block's.

    shape: of what it hands on. parameters: counted on the module; a tied output matrix has none of its own.
    seconds: None where the run has no time of its own for it (norms are timed with the part that they feed);
    for a part of the blocks the mean over them. share: of the run's whole time, all blocks together.
    """

    shape: tuple[int, ...]
    parameters: int
    seconds: float | None = None
    share: float = 0.0


@dataclass(frozen=True)
class PassSummary:
    """A run's parts by name, in the order of the data's way.

    Names: "tokens", "embedding", "positions" (learned or sinusoidal), "attention_norm", "attention",
    "feed_forward_norm", "feed_forward" (these four in each of `n_blocks`), "final_norm", "logits",
    "probabilities". What a model does not have is left out. `blocks_seconds` are all blocks together.
    """

    parts: dict[str, PassPart]
    n_blocks: int
    blocks_seconds: float
    total_seconds: float
    norm_first: bool
    tied: bool


def pass_summary(run: Trace, transformer: Transformer) -> PassSummary:
    """Shapes from the run's own tensors, seconds from its clock, parameters from the module.

    Raises:
        ValueError: for an encoder–decoder, whose two stacks are no single list.
    """
    config = run.config
    if config.kind == "encoder_decoder":
        raise ValueError("An encoder-decoder has two stacks; this summary is of one.")
    total = run.timings["total"]
    blocks = range(config.n_layers)
    n = len(run.tokens)

    def timed(shape: tuple[int, ...], parameters: int, name: str) -> PassPart:
        seconds = run.timings[name]
        return PassPart(shape, parameters, seconds, seconds / total)

    def repeated(shape: tuple[int, ...], module: str, name: str) -> PassPart:
        seconds = sum(run.timings[f"blocks.{i}.{name}"] for i in blocks)
        return PassPart(shape, count(run.module(f"blocks.0.{module}")), seconds / len(blocks), seconds / total)

    def norm(module: str) -> PassPart:
        return PassPart(shape_of(run, f"{module}.hook_normalized"), count(run.module(module)))

    embedding = count(transformer.embed) + (count(transformer.embed_norm) if transformer.embed_norm else 0)
    parts = {"tokens": PassPart((n,), 0), "embedding": timed(shape_of(run, "hook_embed"), embedding, "embed")}
    if transformer.pos_embed is not None:
        parts["positions"] = PassPart(shape_of(run, "hook_pos_embed"), count(transformer.pos_embed))
    heads = shape_of(run, "blocks.0.attn.hook_q")[1]
    parts["attention_norm"] = norm("blocks.0.ln1")
    parts["attention"] = repeated((heads, n, n), "attn", "attn")
    parts["feed_forward_norm"] = norm("blocks.0.ln2")
    parts["feed_forward"] = repeated(shape_of(run, "blocks.0.mlp.hook_post"), "mlp", "mlp")
    if transformer.ln_final is not None:
        parts["final_norm"] = norm("ln_final")
    unembedding = count(transformer.unembed) if transformer.unembed is not None else 0
    parts["logits"] = timed(shape_of(run, "hook_logits"), unembedding, "unembed")
    parts["probabilities"] = PassPart(shape_of(run, "hook_logits")[-1:], 0)
    spent = sum(run.timings[f"blocks.{i}.{name}"] for i in blocks for name in ("attn", "mlp"))
    return PassSummary(parts, len(blocks), spent, total, config.norm_place == "pre", transformer.unembed is None)


def count(module: nn.Module) -> int:
    """Number of parameters."""
    return sum(p.numel() for p in module.parameters())


def shape_of(run: Trace, name: str) -> tuple[int, ...]:
    """Shape of a kept activation."""
    value: Tensor = run[name]
    return tuple(value.shape)
