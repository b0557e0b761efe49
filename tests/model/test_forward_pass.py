"""The list of parts of a run: shapes, times and parameters, against the weights file and the run's own clock."""

import math

import pytest
from safetensors import safe_open

from model.analysis.forward_pass import pass_summary
from model.analysis.parameters import parameters_by_part
from model.language import LanguageModel
from model.zoo.catalog import CATALOG
from tests.model.tiny import tiny

TEXT = "The little cat sat on the mat because it was"


def in_file(fragment):
    with safe_open(CATALOG["storyteller"].folder / "model.safetensors", framework="np") as file:
        return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys() if fragment in name)  # noqa: SIM118


@pytest.fixture(scope="module")
def run(storyteller):
    return storyteller.trace(TEXT)


def test_parameters_are_those_of_the_weights_file(storyteller, run):
    summary = pass_summary(run, storyteller.transformer)
    counts = {name: part.parameters for name, part in summary.parts.items()}
    assert counts["embedding"] == in_file("embed_tokens")
    assert counts["attention"] * summary.n_blocks == in_file("self_attn")
    assert counts["feed_forward"] * summary.n_blocks == in_file("mlp")
    assert counts["attention_norm"] * summary.n_blocks == in_file("input_layernorm")
    assert counts["feed_forward_norm"] * summary.n_blocks == in_file("post_attention_layernorm")
    assert counts["final_norm"] == in_file("model.norm")
    assert counts["logits"] == in_file("lm_head") == 0
    assert summary.tied
    assert storyteller.nbytes == 4 * in_file("")
    assert sum(parameters_by_part(storyteller.transformer).values()) == in_file("")


def test_shapes_are_those_of_the_run(storyteller, run):
    n, config = len(run.tokens), storyteller.config
    shapes = {name: part.shape for name, part in pass_summary(run, storyteller.transformer).parts.items()}
    assert shapes == {
        "tokens": (n,),
        "embedding": tuple(run["hook_embed"].shape),
        "attention_norm": (n, config.d_model),
        "attention": tuple(run["blocks.0.attn.hook_pattern"].shape),
        "feed_forward_norm": (n, config.d_model),
        "feed_forward": (n, config.d_ff),
        "final_norm": (n, config.d_model),
        "logits": tuple(run.logits.shape),
        "probabilities": (config.vocab_size,),
    }


def test_times_are_those_of_the_clock(storyteller, run):
    summary = pass_summary(run, storyteller.transformer)
    blocks = [(run.timings[f"blocks.{i}.attn"], run.timings[f"blocks.{i}.mlp"]) for i in range(6)]
    assert summary.parts["attention"].seconds * 6 == pytest.approx(sum(a for a, _ in blocks))
    assert summary.parts["feed_forward"].seconds * 6 == pytest.approx(sum(m for _, m in blocks))
    assert summary.blocks_seconds == pytest.approx(sum(a + m for a, m in blocks))
    assert summary.total_seconds == run.timings["total"]
    shares = sum(part.share for part in summary.parts.values())
    parts = run.timings["embed"] + run.timings["unembed"] + summary.blocks_seconds
    assert shares == pytest.approx(parts / run.timings["total"])
    assert 0 < shares <= 1
    assert summary.parts["final_norm"].seconds is None


def test_other_kinds_of_model(storyteller):
    learned = tiny(positions="learned", tied_embeddings=False, norm_place="post")
    run = LanguageModel("tiny", learned, storyteller.tokenizer).trace([1, 2, 3])
    summary = pass_summary(run, learned)
    assert list(summary.parts)[:3] == ["tokens", "embedding", "positions"]
    assert summary.parts["positions"].shape == (3, 32)
    assert summary.parts["positions"].parameters == 64 * 32
    assert summary.parts["logits"].parameters == 50 * 32
    assert "final_norm" not in summary.parts
    assert not summary.tied
    assert not summary.norm_first
    whole = sum(
        p.parameters
        for name, p in summary.parts.items()
        if "norm" not in name and "att" not in name and "feed" not in name
    )
    blocks = sum(
        summary.parts[name].parameters for name in ("attention_norm", "attention", "feed_forward_norm", "feed_forward")
    )
    assert whole + 2 * blocks == sum(p.numel() for p in learned.parameters())


def test_an_encoder_decoder_is_refused(storyteller, run):
    two = tiny(kind="encoder_decoder", n_encoder_layers=2, positions="learned")
    other = type("Run", (), {"config": two.config})()
    with pytest.raises(ValueError, match="two stacks"):
        pass_summary(other, two)
