"""A translation token by token and its alignment: probabilities recomputed, scores as defined, rows that wrote them."""

import math

import pytest
import torch

from model import load
from model.analysis.alignment import agreement, align, clearest_head, cross_patterns, head_names, read_back, write
from model.analysis.model_card import translation_scores
from model.beam import length_penalty
from model.sampling import SamplingSettings
from model.zoo.catalog import WEIGHTS

SENTENCE = "She reads a book every day."


@pytest.fixture(scope="module")
def translator():
    return load("translator", device="cpu")


@pytest.fixture(scope="module")
def written(translator):
    return write(translator, translator.ids(SENTENCE), beam=4)


@pytest.fixture(scope="module")
def run(translator, written):
    source = translator.ids(SENTENCE)
    return translator.trace(read_back(translator, source, written), source=source)


def test_row_i_wrote_token_i(translator, written, run):
    assert written.ended
    assert written.ids[-1] == translator.config.eos_id
    assert translator.tokenizer.decode(written.own) == translator.translate(SENTENCE)
    assert len(run.tokens) == len(written.ids)
    probabilities = run.logits.double().softmax(-1)[range(len(written.ids)), list(written.ids)]
    assert list(written.probabilities) == pytest.approx(probabilities.tolist(), rel=1e-4)
    expected = sum(map(math.log, written.probabilities)) / length_penalty(len(written.ids), 0.6)
    assert written.score == pytest.approx(expected)


def test_a_beam_of_one_is_greedy_for_both_kinds(translator, storyteller):
    greedy = SamplingSettings(temperature=0)
    for lm, text, limit in ((translator, SENTENCE, 30), (storyteller, "The little cat", 8)):
        assert list(write(lm, lm.ids(text), 1, limit).ids) == [step.id for step in lm.generate(text, limit, greedy)]


def test_what_is_written_stays_in_the_models_context(translator):
    longest = translator.ids("the " * 120)[-translator.config.max_positions :]
    assert len(write(translator, longest, 1).ids) <= translator.config.max_positions - 1


def test_an_alignment_is_the_heads_pattern_and_the_mean_of_all(translator, run):
    config = translator.config
    patterns = cross_patterns(run)
    assert patterns.shape == (config.n_layers, config.n_heads, len(run.tokens), len(run.source))
    one = align(run, 2, 1)
    torch.testing.assert_close(one.weights, run["blocks.2.cross_attn.hook_pattern"][1])
    torch.testing.assert_close(align(run).weights, patterns.flatten(0, 1).mean(0))
    for found in (one, align(run)):
        torch.testing.assert_close(found.weights.sum(-1), torch.ones(len(run.tokens)))
        assert list(found.sources) == found.weights[:, :-1].argmax(-1).tolist()
    assert align(translator.trace([0], source=[0])).sources == (0,), "nothing but the end to look at"


def test_the_agreement_is_as_defined(run, written):
    n = len(written.own)
    scores = agreement(run, n)
    together = align(run).sources
    for layer in range(scores.shape[0]):
        for head in range(scores.shape[1]):
            weights = align(run, layer, head).weights
            expected = sum(float(weights[row, together[row]]) for row in range(n)) / n
            assert float(scores[layer, head]) == pytest.approx(expected, rel=1e-5)
    layer, head = clearest_head(run, n)
    assert float(scores[layer, head]) == float(scores.max())
    with pytest.raises(ValueError, match="cannot be averaged"):
        agreement(run, 0)


def test_the_words_meet(translator, written, run):
    """她 is looked for at "she", 书 at "book", by all heads together and by the clearest one."""
    labels = translator.tokenizer.labels(written.ids)
    for found in (align(run), align(run, *clearest_head(run, len(written.own)))):
        pairs = {label: run.source_labels[source] for label, source in zip(labels, found.sources, strict=True)}
        assert pairs["她"] == "·she"
        assert pairs["书"] == "·book"


def test_heads_have_names():
    assert head_names(2, 3) == ("0.0", "0.1", "0.2", "1.0", "1.1", "1.2")


def test_scores_are_those_of_the_readme(tmp_path):
    text = (WEIGHTS / "translator" / "README.md").read_text(encoding="utf-8")
    scores = translation_scores()
    assert f"| **{scores.bleu}** | {scores.chrf} |" in text
    assert f"on {scores.pairs:,} pairs" in text
    assert f"beam of {scores.beam}," in text
    assert 20 < scores.bleu < 60
    (tmp_path / "README.md").write_text(text.replace("34.5", "12.3"), encoding="utf-8")
    assert translation_scores(tmp_path).bleu == 12.3
    (tmp_path / "README.md").write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="no scores"):
        translation_scores(tmp_path)
