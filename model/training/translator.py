"""The bundled translator, English to Chinese: its shape, its tokenizer, its text and how it is measured."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from model.config import TransformerConfig
from model.language import LanguageModel
from model.tokenizer import Tokenizer
from model.training.data import SEPARATOR
from model.training.launch import carry_out, is_chief, once, write_result
from model.training.loop import Settings
from model.training.options import run_settings
from model.training.pairs import Pair, read_pairs, split
from model.training.schedule import Schedule
from model.training.small_tokenizer import save_tokenizer
from model.training.translation import Translation, nats_per_token
from model.transformer import Transformer
from model.zoo.readers import load_checkpoint, save_checkpoint

# As in Vaswani et al. 2017, made small: sinusoidal positions, LayerNorm after every sum, ReLU, one embedding table
# for source, target and output.
TRANSLATOR = TransformerConfig(
    vocab_size=4608,
    d_model=192,
    n_layers=3,
    n_encoder_layers=3,
    n_heads=6,
    n_kv_heads=6,
    d_head=32,
    d_ff=768,
    max_positions=128,
    kind="encoder_decoder",
    positions="sinusoidal",
    norm="layernorm",
    norm_place="post",
    activation="relu",
    qkv_bias=True,
    out_bias=True,
    mlp_bias=True,
    scale_embeddings=True,
    bos_id=0,
    eos_id=0,
    pad_id=0,
)
SETTINGS = Settings(
    minutes=90,
    batch_tokens=4608,
    micro_tokens=1536,
    muon_lr=0.015,
    adamw_lr=0.003,
    dropout=0.15,
    precision="fp32",
    schedule=Schedule("wsd", warmup=60, hold=0.3),
)
SMOOTHING = 0.1
PAIRS = "en_zh_pairs.tsv.xz"
HELD_OUT = 1_200


def pairs(corpora: Path) -> tuple[list[Pair], list[Pair]]:
    """The pairs to train on and the held-out ones.

    Raises:
        ValueError: if the file cannot be read, or has too few pairs.
    """
    return split(read_pairs(corpora / PAIRS), HELD_OUT)


def encoded(examples: list[Pair], tokenizer: Tokenizer, seed: int = 0) -> Translation:
    """The pairs as ids, each side with its end; translations begin with the same token."""
    ids = [(tokenizer.encode(pair.source), tokenizer.encode(pair.target)) for pair in examples]
    assert TRANSLATOR.bos_id is not None
    return Translation(ids, TRANSLATOR.bos_id, seed, SMOOTHING)


def translation_scores(lm: LanguageModel, examples: list[Pair], beam: int, alpha: float) -> dict[str, float]:
    """BLEU (Papineni et al. 2002; over Chinese characters) and chrF (Popović 2015) of a model's translations, 0 to 100.

    Each pair counts with its own reference alone, though many a sentence has several right translations.

    Raises:
        ValueError: if sacrebleu, which measures, is not installed.
    """
    try:
        from sacrebleu import corpus_bleu, corpus_chrf
    except ImportError:
        raise ValueError("BLEU is measured by sacrebleu: pip install sacrebleu, and try again.") from None
    found = {source: lm.translate(source, beam=beam, alpha=alpha) for source in {p.source: None for p in examples}}
    hypotheses = [found[pair.source] for pair in examples]
    references = [[pair.target.lower() for pair in examples]]  # the model knows no case
    bleu = corpus_bleu(hypotheses, references, tokenize="zh")
    chrf = corpus_chrf(hypotheses, references)
    return {"pairs": len(examples), "bleu": round(bleu.score, 2), "chrf": round(chrf.score, 2)}


def evaluate(lm: LanguageModel, corpora: Path, beam: int = 4, alpha: float = 0.6) -> dict[str, dict[str, float]]:
    """The scores on the held-out pairs, with beam search and, for comparison, greedily.

    Raises:
        ValueError: as `pairs` and `translation_scores` do.
    """
    _, held_out = pairs(corpora)
    nats = nats_per_token(lm.transformer, encoded(held_out, lm.tokenizer))
    return {
        f"beam of {beam}": translation_scores(lm, held_out, beam, alpha) | {"nats_per_token": round(nats, 4)},
        "greedy": translation_scores(lm, held_out, 1, alpha),
    }


def train(args: argparse.Namespace, device: torch.device) -> int:
    """The recipe: split, tokenizer, training, and the finished folder `translator` in `--out`."""
    settings = run_settings(args)
    training, held_out = pairs(args.corpora)
    path = args.out / "translator" / "tokenizer.json"

    if not args.resume:
        texts = [text for pair in training for text in (pair.source, pair.target)]
        once(lambda: save_tokenizer(path, texts, TRANSLATOR.vocab_size, [SEPARATOR], None, SEPARATOR))
    tokenizer = Tokenizer.from_file(path)
    torch.manual_seed(settings.seed)
    transformer = Transformer(TRANSLATOR).to(device)
    unseen = encoded(held_out, tokenizer)

    def figures() -> dict[str, float]:
        return {"nats_per_token": nats_per_token(transformer, unseen)}

    run = carry_out(transformer, encoded(training, tokenizer, settings.seed), settings, args, figures)
    if run is None:
        return 130
    if is_chief():
        save_checkpoint(path.parent, transformer)
        written = load_checkpoint(path.parent)  # bf16 rounding included
        scores = {"nats_per_token": round(nats_per_token(written, unseen), 4)}
        write_result(args.out, written, run, scores, pairs={"training": len(training), "held_out": len(held_out)})
        print(json.dumps(scores))
    return 0
