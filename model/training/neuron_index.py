"""Makes the index of a model's neurons: python -m model index storyteller.

The sample of text is what the model itself writes from prompts of our own, cut into sentences, and sentences that we
wrote (neuron_text/). The same command on the same machine writes the same file.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.neuron_index import ENDS, End, NeuronIndex, fingerprint
from model.cache import KVCache
from model.hooks import observe
from model.language import LanguageModel
from model.loading import load
from model.sampling import SamplingSettings, draw, ledger
from model.training.storyteller import CORPORA, YARDSTICK, separator_of
from model.zoo.catalog import available

TEXT = Path(__file__).resolve().parent / "neuron_text"
LANGUAGES = {"en": 96, "zh": 56}  # new tokens a continuation
SAMPLING = SamplingSettings(temperature=0.9, top_p=0.95, seed=0)
SHORTEST, LONGEST = 6, 48  # tokens of a sentence
KEPT = 5  # contexts for each end of a neuron
CANDIDATES = 8 * KEPT  # looked at for them
# After a full stop, with the quotation mark that closes it; Chinese has no space there.
_SENTENCE_END = re.compile(r'(?<=[.!?]["\'”’])\s+|(?<=[.!?])\s+|(?<=[。！？])(?![”’」])|(?<=[。！？][”’」])|\n+')


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status (2 when the input does not fit)."""
    parser = argparse.ArgumentParser(
        prog="python -m model index", description="Find the texts that light each neuron of a model up."
    )
    parser.add_argument("model", help="an id that `list` shows, or a checkpoint folder")
    parser.add_argument("--out", type=Path, help="folder to write to; default: the model's own")
    parser.add_argument(
        "--corpora", type=Path, help="folder of the training text: written sentences that stand in it are left out"
    )
    parser.add_argument("--samples", type=int, default=5, help="continuations of each prompt; default: 5")
    parser.add_argument("--prompts", type=int, help="use only the first so many prompts of each language")
    args = parser.parse_args(argv)
    try:
        lm = load(args.model, device="cpu")
        entry = available().get(args.model)
        folder = entry.folder if entry else Path(args.model)
        if lm.config.kind != "decoder":
            raise ValueError(f"{lm.id} writes no text, and the index is made from what a model writes.")
        if args.samples < 1:
            raise ValueError("--samples must be at least 1.")
        torch.set_num_threads(1)  # sums then have one order, whatever the machine's cores
        written = continuations(lm, args.samples, args.prompts, _progress)
        if args.corpora is not None:
            written = apart_from(written, args.corpora)
        about = {
            "weights": fingerprint(folder),
            "sampling": asdict(SAMPLING),
            "samples": args.samples,
            "apart_from_training_text": args.corpora is not None,
        }
        ours = [line for language in LANGUAGES for line in own_lines("sentences", language)]
        index = build(lm, written, ours, about)
        out = args.out or folder
        out.mkdir(parents=True, exist_ok=True)
        index.save(out)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    n_ours = index.n_sentences - index.n_written
    print(f"{index.n_sentences:,} sentences, {n_ours} of them ours, {len(index.tokens):,} tokens")
    return 0


def _progress(done: int, of: int) -> None:
    if done % 10 == 0 or done == of:
        print(f"written from {done} of {of} prompts", file=sys.stderr, flush=True)


def own_lines(kind: str, language: str) -> list[str]:
    """Our own "prompts" or "sentences" in a language."""
    lines = (TEXT / f"{kind}.{language}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line]


def continuations(
    lm: LanguageModel, samples: int, count: int | None = None, progress: Callable[[int, int], None] | None = None
) -> list[str]:
    """What the model writes from our prompts, cut into sentences, each once, in the order of writing."""
    prompts = [
        (line, length) for language, length in LANGUAGES.items() for line in own_lines("prompts", language)[:count]
    ]
    sentences: dict[str, None] = {}
    for number, (prompt, length) in enumerate(prompts):
        generator = torch.Generator().manual_seed(SAMPLING.seed + number)
        for text in write(lm, prompt, samples, length, generator):
            sentences |= dict.fromkeys(sentences_of(text))
        if progress:
            progress(number + 1, len(prompts))
    return list(sentences)


def sentences_of(text: str) -> list[str]:
    """The sentences of a text that have an end."""
    parts = (part.strip() for part in _SENTENCE_END.split(text))
    return [part for part in parts if part and part[-1] in ".!?。！？\"'”’」"]


def write(lm: LanguageModel, prompt: str, samples: int, length: int, generator: torch.Generator) -> list[str]:
    """`samples` continuations of a prompt, `length` new tokens or to the end of the text, the prompt included."""
    separator = separator_of(lm.config)
    start = [separator, *lm.tokenizer.encode(prompt)]
    cache = KVCache(lm.config, room=len(start) + length, batch=samples)
    rows = [list(start) for _ in range(samples)]
    ended = [False] * samples
    new = torch.tensor(rows)
    for _ in range(length):
        with torch.no_grad():
            logits = lm.transformer(new, cache=cache, last_only=True)[:, -1]
        for row, ids in enumerate(rows):
            if not ended[row]:
                ids.append(draw(ledger(logits[row], SAMPLING), generator).id)
                ended[row] = ids[-1] == separator
        if all(ended):
            break
        new = torch.tensor([ids[-1:] for ids in rows])
    return [lm.tokenizer.decode([i for i in ids if i != separator]) for ids in rows]


def apart_from(sentences: Sequence[str], folder: Path) -> list[str]:
    """Those of `sentences` that do not stand, word for word, in the training text.

    Raises:
        ValueError: if a corpus cannot be read.
    """
    left = list(sentences)
    for corpus in (*CORPORA, YARDSTICK):
        whole = "\n".join(" ".join(text.split()) for part in corpus.documents(folder) for text in part)
        left = [sentence for sentence in left if " ".join(sentence.split()) not in whole]
    return left


def build(
    lm: LanguageModel, written: Sequence[str], ours: Sequence[str], about: dict[str, Any], kept: int = KEPT
) -> NeuronIndex:
    """Read every sentence and keep, for each neuron, where its activation is highest and lowest.

    Sentences that are too short, too long or incomplete as text are left out. Each is read by itself. As an activation
    depends on nothing behind its token, sentences that are alike up to there count once, if there are enough others.

    Raises:
        ValueError: if fewer than `kept` sentences are left.
    """
    sample: dict[tuple[int, ...], bool] = {}
    for text, by_model in [(text, True) for text in written] + [(text, False) for text in ours]:
        ids = tuple(lm.tokenizer.encode(text))
        if SHORTEST <= len(ids) <= LONGEST and "\ufffd" not in text:
            sample.setdefault(ids, by_model)
    sentences = list(sample)
    if len(sentences) < kept:
        raise ValueError(f"Only {len(sentences)} sentences are of a length that fits: take more prompts.")
    found = {end: _distinct(parts, sentences, kept) for end, parts in _extremes(lm, sentences).items()}
    return NeuronIndex(
        np.array([i for ids in sentences for i in ids]),
        np.array([len(ids) for ids in sentences]).cumsum(),
        np.array(list(sample.values())),
        {end: found[end][0] for end in ENDS},
        {end: found[end][1] for end in ENDS},
        {end: found[end][2] for end in ENDS},
        about,
    )


def _distinct(parts: Sequence[Tensor], sentences: Sequence[tuple[int, ...]], kept: int) -> list[NDArray[Any]]:
    """Of the candidates `(L, F, n)` the first `kept` with different texts up to the position; then the others."""
    numbers, positions, activations = (part.numpy() for part in parts)
    order = np.empty((*numbers.shape[:2], kept), dtype=np.int64)
    for layer, neuron in np.ndindex(order.shape[:2]):
        new: dict[tuple[int, ...], int] = {}
        again = []
        for place, (s, p) in enumerate(zip(numbers[layer, neuron], positions[layer, neuron], strict=True)):
            prefix = sentences[s][: p + 1]
            if prefix in new:
                again.append(place)
            else:
                new[prefix] = place
            if len(new) == kept:
                break
        order[layer, neuron] = sorted([*new.values(), *again[: kept - len(new)]])
    return [np.take_along_axis(array, order, 2) for array in (numbers, positions, activations)]


def _extremes(lm: LanguageModel, sentences: Sequence[tuple[int, ...]]) -> dict[End, list[Tensor]]:
    """Sentences, positions and activations, each `(L, F, CANDIDATES)`, most extreme first; a sentence counts once."""
    shape = (lm.config.n_layers, 0, lm.config.d_ff)
    best: dict[End, list[Tensor]] = {
        end: [torch.zeros(shape), torch.zeros(shape).long(), torch.zeros(shape).long()] for end in ENDS
    }
    by_length = defaultdict(list)
    for number, ids in enumerate(sentences):
        by_length[len(ids)].append(number)
    for _, numbers in sorted(by_length.items()):  # of one length: no padding
        for batch in (numbers[i : i + 32] for i in range(0, len(numbers), 32)):
            post = _activations(lm, torch.tensor([sentences[i] for i in batch]))  # (L, B, T, F)
            which = torch.tensor(batch)[None, :, None].expand(shape[0], -1, shape[2])
            for end in ENDS:
                values, positions = post.max(2) if end == "highest" else post.min(2)  # (L, B, F)
                new = (values, which, positions)
                joined = [torch.cat(pair, 1) for pair in zip(best[end], new, strict=True)]
                order = joined[0].sort(dim=1, descending=end == "highest", stable=True).indices[:, :CANDIDATES]
                best[end] = [part.gather(1, order) for part in joined]
    return {end: [best[end][i].transpose(1, 2) for i in (1, 2, 0)] for end in ENDS}


def _activations(lm: LanguageModel, ids: Tensor) -> Tensor:
    kept: list[Tensor] = []

    def keep(name: str, value: Tensor) -> None:
        if name.endswith("mlp.hook_post"):
            kept.append(value)

    with torch.no_grad(), observe(keep):
        lm.transformer(ids)
    return torch.stack(kept)
