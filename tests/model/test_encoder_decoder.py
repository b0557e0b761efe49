"""An encoder-decoder from end to end: traces with both stacks, translation token by token, what is refused."""

import pytest
import torch

from model.hooks import edit
from model.language import LanguageModel
from model.sampling import SamplingSettings
from model.tokenizer import Tokenizer
from model.training.small_tokenizer import train_tokenizer
from tests.model.tiny import close, tiny

TEXTS = ["Tom is here.", "I saw the dog.", "汤姆在这里。", "我看见狗。"] * 3
SOURCE, TARGET = "Tom saw the dog.", "汤姆看见"
GREEDY = SamplingSettings(temperature=0)


@pytest.fixture(scope="module")
def lm():
    tokenizer = Tokenizer(train_tokenizer(TEXTS, 320, ["<|endoftext|>"], None, "<|endoftext|>").to_str())
    model = tiny(
        kind="encoder_decoder",
        n_encoder_layers=3,
        positions="sinusoidal",
        norm="layernorm",
        norm_place="post",
        activation="relu",
        scale_embeddings=True,
        tied_embeddings=False,
        vocab_size=320,
        bos_id=0,
        eos_id=0,
    )
    return LanguageModel("tiny", model, tokenizer)


def test_a_trace_has_both_stacks(lm):
    run = lm.trace(TARGET, source=SOURCE)
    assert run.source == lm.tokenizer.encode(SOURCE)
    assert run.tokens == [0, *lm.tokenizer.encode(TARGET)[:-1]]
    assert run.labels[1:] == ["汤", "姆", "看", "见"]
    assert run.source_labels[0] == "·tom"
    assert "".join(piece.text for piece in run.source_pieces) == run.source_text
    t, s = len(run.tokens), len(run.source)
    for name in run.names():
        value = run[name]
        assert value.isfinite().logical_or(value == -torch.inf).all(), name
        if name.endswith("hook_pattern"):
            queries = s if name.startswith("encoder.") else t
            keys = t if name.startswith("blocks") and "cross" not in name else s
            assert value.shape == (4, queries, keys), name
            close(value.sum(-1), torch.ones(4, queries))
    close(run.logits, lm.transformer(torch.tensor([run.tokens]), encoder_ids=torch.tensor([run.source]))[0])


def test_patterns_are_those_of_the_formula(lm):
    """softmax(q k / √d): over all of the source in encoder and cross-attention, causal in the decoder."""
    run = lm.trace(TARGET, source=SOURCE)
    for layer in ("encoder.blocks.2.attn", "blocks.1.attn", "blocks.1.cross_attn"):
        q, k = run[f"{layer}.hook_q"], run[f"{layer}.hook_k"].repeat_interleave(2, dim=1)
        scores = torch.einsum("thd,shd->hts", q, k) / 8**0.5
        if layer == "blocks.1.attn":
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        close(run[f"{layer}.hook_pattern"], scores.softmax(-1))
    assert run["encoder.blocks.0.attn.hook_pattern"][:, 0, -1].min() > 0
    assert run.module("encoder.blocks.2.attn") is lm.transformer.encoder_blocks[2].attn


def test_what_a_head_adds_is_read_from_its_own_stack(lm):
    run = lm.trace(TARGET, source=SOURCE)
    for layer in ("encoder.blocks.1.attn", "blocks.0.cross_attn"):
        close(run[f"{layer}.hook_result"].sum(1), run[f"{layer.rpartition('.')[0]}.{_out(layer)}"])


def _out(layer):
    return "hook_cross_attn_out" if layer.endswith("cross_attn") else "hook_attn_out"


def test_the_trace_of_another_source_is_another(lm):
    ids = {lm.trace(TARGET, source=source).id for source in (SOURCE, "Tom is here.", SOURCE)}
    assert len(ids) == 2


def test_an_edit_in_the_encoder_reaches_the_decoder(lm):
    plain = lm.trace(TARGET, source=SOURCE)
    with edit({"encoder.blocks.1.hook_mlp_out": lambda x, _: x * 0}):
        edited = lm.trace(TARGET, source=SOURCE)
    assert (plain.logits - edited.logits).abs().max() > 1e-3


def test_parts_of_both_stacks_are_timed(lm):
    timings = lm.trace(TARGET, source=SOURCE).timings
    assert list(timings)[:3] == ["encoder.embed", "encoder.blocks.0.attn", "encoder.blocks.0.mlp"]
    assert {"embed", "blocks.1.cross_attn", "unembed"} < timings.keys()
    parts = sum(seconds for part, seconds in timings.items() if part != "total")
    assert 0 < parts <= timings["total"]


def test_translation_token_by_token_with_and_without_a_cache(lm, monkeypatch):
    ids = [[s.id for s in lm.generate(SOURCE, 12, GREEDY, use_cache=use)] for use in (True, False)]
    assert ids[0] == ids[1]
    target = [0]
    for token in ids[0]:  # by hand: the whole text read again for every token
        logits = lm.transformer(torch.tensor([target]), encoder_ids=torch.tensor([lm.ids(SOURCE)]))
        assert token == int(logits[0, -1].argmax())
        target.append(token)
    calls = []
    encode = lm.transformer.encode
    monkeypatch.setattr(lm.transformer, "encode", lambda *args: calls.append(1) or encode(*args))
    assert len(list(lm.generate(SOURCE, 12, GREEDY))) > 2
    assert len(calls) == 1


def test_translate_is_the_best_that_the_search_found(lm):
    for beam in (1, 3):
        text = lm.translate(SOURCE, beam=beam, alpha=0.5)
        *_, last = lm.search(SOURCE, 2 * len(lm.ids(SOURCE)) + 10, beam=beam, alpha=0.5)
        assert text == lm.tokenizer.decode([i for i in last.best.ids if i]).strip()


def test_a_decoder_is_searched_too():
    model = LanguageModel("tiny", tiny(), None)
    *_, last = model.search([4, 8], 5, beam=1)
    assert list(last.best.ids) == [step.id for step in _greedy(model, [4, 8], 5)]


def _greedy(model, ids, count):
    from model.generation import generate
    from tests.model.test_beam import Words

    return generate(model.transformer, Words(), ids, max_new_tokens=count, sampling=GREEDY)


def test_what_does_not_fit_gets_one_sentence(lm):
    decoder = LanguageModel("plain", tiny(), None)
    for call, words in (
        (lambda: lm.trace(TARGET), "it needs one"),
        (lambda: decoder.trace([1, 2], source=[1]), "A source is for an encoder-decoder"),
        (lambda: decoder.translate("x"), "translates nothing"),
        (lambda: lm.translate("dog " * 80), "Shorten it"),
        (lambda: lm.trace([400], source=SOURCE), "between 0 and 319"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
