"""The bundled translator and reader: what they are, what they can do, and that they measure as their READMEs say."""

import re
from pathlib import Path

import pytest
import torch

from model import load
from model.beam import beam_search
from model.sampling import SamplingSettings
from model.zoo.catalog import CATALOG, WEIGHTS
from tests.cases import TEXTS


@pytest.fixture(scope="module")
def translator():
    return load("translator", device="cpu")


@pytest.fixture(scope="module")
def reader():
    return load("reader", device="cpu")


def test_all_weights_together_stay_small():
    size = sum(path.stat().st_size for path in WEIGHTS.rglob("*") if path.is_file())
    assert size <= 60e6
    assert CATALOG["translator"].parameters <= 8e6
    assert CATALOG["translator"].nbytes <= 16e6
    assert CATALOG["reader"].parameters <= 5e6
    assert CATALOG["reader"].nbytes <= 10e6


def test_they_are_what_the_papers_describe(translator, reader):
    one, other = translator.config, reader.config
    assert (one.kind, one.positions, one.norm, one.norm_place, one.activation) == (
        "encoder_decoder",
        "sinusoidal",
        "layernorm",
        "post",
        "relu",
    )
    assert one.tied_embeddings
    assert one.scale_embeddings
    assert (other.kind, other.positions, other.norm, other.norm_place, other.activation) == (
        "encoder",
        "learned",
        "layernorm",
        "post",
        "gelu_erf",
    )


@pytest.mark.parametrize(
    ("source", "expected"), [("I love you.", "爱"), ("Tom is a student.", "学生"), ("Thank you.", "谢")]
)
def test_the_translator_knows_easy_sentences(translator, source, expected):
    assert expected in translator.translate(source)
    assert translator.translate(source.lower()) == translator.translate(source)


def test_greedy_and_a_beam_of_one_agree_on_the_real_model(translator):
    for source in ("Where is the station?", "She reads a book every day."):
        greedy = [s.id for s in translator.generate(source, 30, SamplingSettings(temperature=0))]
        *_, last = translator.search(source, 30, beam=1)
        assert list(last.best.ids) == greedy
        assert last.best.ended


def test_beam_scores_are_recomputed_on_the_real_model(translator):
    source = translator.ids("I don't know where he lives.")
    *_, last = translator.search(source, 30, beam=4)
    best = last.best
    with torch.inference_mode():
        logits = translator.transformer(torch.tensor([[0, *best.ids[:-1]]]), encoder_ids=torch.tensor([source]))[0]
    logprobs = logits.double().log_softmax(-1)[torch.arange(len(best.ids)), torch.tensor(best.ids)]
    assert best.logprobs == pytest.approx(logprobs.tolist(), abs=2e-4)
    assert best.score(0.6) >= max(h.score(0.6) for h in last.kept)


def test_padding_changes_no_translation_of_the_real_model(translator):
    source = translator.ids("He is my brother.")
    plain = list(beam_search(translator.transformer, [0], source=source, max_new_tokens=20))[-1].best
    mask = [False] * 3 + [True] * len(source) + [False] * 5
    padded = list(
        beam_search(translator.transformer, [0], source=[9] * 3 + source + [9] * 5, source_mask=mask, max_new_tokens=20)
    )[-1].best
    assert padded.ids == plain.ids


def test_cross_attention_looks_at_the_word_that_is_translated(translator):
    """Some head of the last layers finds 学 in "student"."""
    run = translator.trace("汤姆是学生", source="Tom is a student.")
    student = next(i for i, label in enumerate(run.source_labels) if "stud" in label)
    row = run.labels.index("是")  # the next token after it is 学
    patterns = [run[f"blocks.{i}.cross_attn.hook_pattern"][:, row] for i in range(translator.config.n_layers)]
    assert max(int(head.argmax() == student) for pattern in patterns for head in pattern) == 1


@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_awkward_text_is_read_or_refused_in_a_sentence(translator, reader, text):
    if len(translator.tokenizer.encode(text)) > translator.config.max_positions:
        with pytest.raises(ValueError, match="Shorten"):
            translator.translate(text, beam=2)
    else:
        assert isinstance(translator.translate(text, beam=2), str)
    if len(reader.tokenizer.encode(text)) > reader.config.max_positions:
        with pytest.raises(ValueError, match="Shorten"):
            reader.trace(text)
    else:
        assert reader.trace(text).logits.isfinite().all()


@pytest.mark.parametrize(
    ("text", "expected"), [("He [MASK] to school.", " went goes walks"), ("今天天[MASK]很好。", "气")]
)
def test_the_reader_fills_a_gap(reader, text, expected):
    ids = reader.tokenizer.encode(text, parse_special=True)
    row = reader.trace(ids).logits[ids.index(3)]
    best = [reader.tokenizer.decode([int(i)]).strip() for i in row.topk(5).indices]
    assert set(best) & set(expected.split()), best


def _published(folder: str, row: str) -> list[float]:
    """The numbers in a row of the README's table."""
    lines = (WEIGHTS / folder / "README.md").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"| {row} ")]
    return [float(number.replace(",", "")) for number in re.findall(r"[\d,]*\d\.?\d*", line.removeprefix(f"| {row} "))]


def test_the_translator_measures_as_published(translator, shared_dir: Path):
    """BLEU needs minutes; the loss on the same pairs tells whether these are the weights that were measured."""
    from model.training.translation import nats_per_token
    from model.training.translator import encoded, pairs

    _, held_out = pairs(shared_dir / "corpora")
    nats = nats_per_token(translator.transformer, encoded(held_out, translator.tokenizer))
    assert nats == pytest.approx(_published("translator", "beam of 4, length penalty 0.6")[-1], abs=1e-3)


def test_the_reader_measures_as_published(reader, shared_dir: Path):
    from model.training.reader import evaluate

    rows = {
        "sentences": "1,000 English sentences",
        "stories": "60 English stories",
        "chinese_sentences": "10 documents of Chinese sentences",
        "chinese_prose": "10 pieces of Chinese prose",
    }
    for name, score in evaluate(reader, shared_dir / "corpora").items():
        hidden, percent, nats = _published("reader", rows[name])
        assert score["hidden"] == hidden
        assert 100 * score["accuracy"] == pytest.approx(percent, abs=0.15)
        assert score["nats_per_token"] == pytest.approx(nats, abs=2e-3)
