"""One recorded run: its parts add up, what is derived equals what was used, and its id says what it is of."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from model.hooks import edit, listening
from model.kernels import explicit
from model.loading import load
from model.masks import MaskRule
from model.names import hook_table
from model.sampling import SamplingSettings
from model.trace import Trace
from model.zoo.catalog import CATALOG
from tests.cases import TEXTS
from tests.model.tiny import close, some_ids, tiny

OPTIONS = {
    "llama": {},
    "multi-query": {"n_kv_heads": 1, "qkv_bias": True},
    "alibi": {"positions": "alibi", "n_heads": 6, "n_kv_heads": 3},
    "gpt2": {
        "positions": "learned",
        "norm": "layernorm",
        "activation": "gelu_tanh",
        "out_bias": True,
        "mlp_bias": True,
    },
    "encoder": {"kind": "encoder", "norm_place": "post", "positions": "sinusoidal", "out_bias": True},
}
RULES = [None, MaskRule(window=3), MaskRule(prefix=4), MaskRule(causal=False), MaskRule(causal=False, window=2)]
IDS = some_ids(9).tolist()


@pytest.fixture(params=OPTIONS.values(), ids=OPTIONS.keys())
def model(request):
    return tiny(**request.param)


def trace(model, ids=IDS, **arguments):
    return Trace(model, None, ids, **arguments)


def test_holds_every_name(model):
    run = trace(model)
    assert run.names() == list(hook_table(model.config))
    for name in run.names():
        assert name in run
        assert run[name].shape[-1] > 0
    assert torch.equal(run["hook_logits"], run.logits)
    assert run.logits.shape == (9, 50)


def test_logits_are_those_of_a_plain_pass_bit_for_bit(model):
    with torch.no_grad():
        assert torch.equal(trace(model).logits, model(torch.tensor([IDS]))[0])
    assert not listening()


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("padding", [0, 3])
def test_derived_matrices_are_those_that_were_used(model, rule, padding):
    """By the explicit kernel, which runs when an edit asks for it, and by what the fused one has put out."""
    run = trace(model, rule=rule, padding=padding)
    everywhere = {name: lambda x, _: x for name in run.names() if name.endswith(("scores", "pattern"))}
    with edit(everywhere):
        edited = trace(model, rule=rule, padding=padding)
    assert set(edited.kernels.values()) == {"explicit"}
    heads, keep = model.config.n_heads, slice(padding, None)
    for i in range(model.config.n_layers):
        at = f"blocks.{i}.attn"
        scores, pattern = run[f"{at}.hook_attn_scores"], run[f"{at}.hook_pattern"]
        assert pattern.shape == scores.shape == (heads, 9, 9)
        close(scores[:, keep], edited[f"{at}.hook_attn_scores"][:, keep])
        close(pattern[:, keep], edited[f"{at}.hook_pattern"][:, keep])
        close(pattern.sum(-1), torch.ones(heads, 9))
        v = run[f"{at}.hook_v"].repeat_interleave(heads // model.config.n_kv_heads, dim=1)
        close(torch.einsum("hqk,khd->qhd", pattern, v), run[f"{at}.hook_z"])
        assert not pattern[:, :, :padding].any()
        assert (scores[:, :, :padding] == -torch.inf).all()


def test_rules_show_in_the_pattern():
    model = tiny()
    query, key = torch.arange(9)[:, None], torch.arange(9)
    for rule, allowed in (
        (None, key <= query),
        (MaskRule(window=3), (key <= query) & (key > query - 3)),
        (MaskRule(prefix=4), (key <= query) | (key < 4)),
        (MaskRule(causal=False), torch.ones(9, 9, dtype=torch.bool)),
    ):
        seen = trace(model, rule=rule)["blocks.1.attn.hook_pattern"] > 0
        assert torch.equal(seen, allowed.expand(4, 9, 9))


def test_padding_equals_the_text_without_it(model):
    run, alone = trace(model, padding=3), trace(model, IDS[3:])
    for name in ("hook_logits", "blocks.1.hook_resid_mid", "blocks.1.attn.hook_z"):
        close(run[name][3:], alone[name])
    close(run["blocks.1.attn.hook_pattern"][:, 3:, 3:], alone["blocks.1.attn.hook_pattern"])


def test_results_of_the_heads_add_up(model):
    run = trace(model)
    for i, block in enumerate(model.blocks):
        bias = 0 if block.attn.W_O.bias is None else block.attn.W_O.bias
        result = run[f"blocks.{i}.attn.hook_result"]
        assert result.shape == (9, model.config.n_heads, model.config.d_model)
        close(result.sum(1) + bias, run[f"blocks.{i}.hook_attn_out"])


def test_the_stream_adds_up(model):
    run, post = trace(model), model.config.norm_place == "post"
    start = sum(run[name] for name in ("hook_embed", "hook_pos_embed") if name in run)
    close(run["blocks.0.hook_resid_pre"], start)
    for i, block in enumerate(model.blocks):
        at = f"blocks.{i}"
        close(run[f"{at}.hook_resid_mid"], run[f"{at}.hook_resid_pre"] + run[f"{at}.hook_attn_out"])
        middle = block.ln1(run[f"{at}.hook_resid_mid"]) if post else run[f"{at}.hook_resid_mid"]
        close(run[f"{at}.hook_resid_post"], middle + run[f"{at}.hook_mlp_out"])
        if not post and i + 1 < len(model.blocks):
            assert torch.equal(run[f"blocks.{i + 1}.hook_resid_pre"], run[f"{at}.hook_resid_post"])


def test_norms_are_recorded_before_the_gain(model):
    run, layernorm = trace(model), model.config.norm == "layernorm"
    x, at = run["blocks.0.hook_resid_mid"], "blocks.0.ln1" if model.config.norm_place == "post" else "blocks.0.ln2"
    x = x - x.mean(-1, keepdim=True) if layernorm else x
    scale = (x.square().mean(-1, keepdim=True) + model.config.norm_eps).sqrt()
    close(run[f"{at}.hook_scale"], scale)
    close(run[f"{at}.hook_normalized"], x / scale)


def test_what_the_kernel_got_gives_what_it_put_out(model):
    for rule in RULES:
        run = trace(model, rule=rule, padding=2)
        out = explicit(*run.attention_inputs("blocks.1.attn")).out
        close(out[0].transpose(0, 1), run["blocks.1.attn.hook_z"])


def test_edited_layers_keep_what_the_edit_made():
    model, at = tiny(), "blocks.0.attn"
    flat = torch.full((1, 4, 9, 9), 1 / 9)
    with edit({f"{at}.hook_pattern": lambda p, _: flat}):
        run = trace(model)
    assert torch.equal(run[f"{at}.hook_pattern"], flat[0])
    assert run.kernels == {"blocks.0.attn": "explicit", "blocks.1.attn": trace(model).kernels["blocks.1.attn"]}
    with edit({f"{at}.hook_attn_scores": lambda s, _: s * 2}):
        sharper = trace(model)
    close(sharper[f"{at}.hook_attn_scores"], trace(model)[f"{at}.hook_attn_scores"] * 2)
    close(sharper[f"{at}.hook_pattern"], sharper[f"{at}.hook_attn_scores"].softmax(-1))
    # An edited query shows in what is derived from it.
    with edit({f"{at}.hook_q": lambda q, _: q * 0}):
        level = trace(model)
    close(level[f"{at}.hook_pattern"][:, 4, :5], torch.full((4, 5), 0.2))


def test_ids_tell_runs_apart():
    model = tiny()
    runs = [
        trace(model),
        trace(model, IDS[:-1]),
        trace(model, IDS[::-1]),
        trace(model, rule=MaskRule(window=3)),
        trace(model, rule=MaskRule(prefix=3)),
        trace(model, padding=1),
        trace(model, name="other model"),
        trace(tiny().bfloat16()),
    ]
    with edit({"hook_embed": lambda x, _: x}):
        runs += [trace(model), trace(model)]  # what the edits did cannot be compared, so neither is like the other
    assert len({run.id for run in runs}) == len(runs)
    assert trace(model).id == trace(model).id == trace(model, rule=MaskRule()).id


def test_timings_cover_the_pass(model):
    run = trace(model)
    parts = ["embed", *(f"blocks.{i}.{part}" for i in range(2) for part in ("attn", "mlp")), "unembed"]
    assert list(run.timings) == [*parts, "total"]
    assert all(seconds > 0 for seconds in run.timings.values())
    assert sum(run.timings[part] for part in parts) <= run.timings["total"] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("norm_place", "norm", "fed"),
    [
        ("pre", "blocks.1.ln1", "blocks.1.attn"),
        ("pre", "blocks.0.ln2", "blocks.0.mlp"),
        ("pre", "ln_final", "unembed"),
        ("post", "blocks.0.ln1", "blocks.0.mlp"),
        ("post", "blocks.0.ln2", "blocks.1.attn"),
        ("post", "blocks.1.ln2", "unembed"),
    ],
)
def test_a_norm_is_timed_with_the_part_that_it_feeds(norm_place, norm, fed):
    with edit({f"{norm}.hook_scale": lambda x, _: time.sleep(0.2)}):
        timings = trace(tiny(norm_place=norm_place)).timings
    assert timings[fed] >= 0.2


@pytest.mark.parametrize("rule", [None, MaskRule(window=4)])
def test_what_is_kept_grows_with_the_length_and_not_its_square(model, rule):
    ids = some_ids(60).tolist()
    short, long = trace(model, ids[:30], rule=rule), trace(model, ids, rule=rule)
    assert long.nbytes == 2 * short.nbytes
    for name in long.names():
        long[name]  # asking leaves nothing behind
    assert long.nbytes == 2 * short.nbytes
    square = [x for x in vars(long).values() if isinstance(x, torch.Tensor) and x.numel() >= 60 * 60]
    assert square == []


def test_what_a_name_could_have_meant():
    run = trace(tiny())
    assert "blocks.0.attn.hook_nothing" not in run
    with pytest.raises(KeyError, match=r"'blocks.0.attn.hook_patern' here. Perhaps blocks.0.attn.hook_pattern"):
        run["blocks.0.attn.hook_patern"]
    with pytest.raises(KeyError, match="No activation is called 'x'"):
        run["x"]
    for wrong in ("blocks.2.attn.hook_pattern", "hook_pattern", "", "blocks.0.attn.", "blocks.0.mlp.hook_result"):
        with pytest.raises(KeyError):
            run[wrong]


# The bundled model.


@pytest.mark.parametrize("name", [name for name, _ in TEXTS if name not in ("empty", "long_text")])
def test_every_awkward_text(storyteller, name):
    text = dict(TEXTS)[name]
    run = storyteller.trace(text)
    assert run.text == text == "".join(run.token_strings)
    assert len(run.tokens) == len(run.token_strings) == len(run.labels) == len(run.logits)
    assert "".join(piece.text for piece in run.pieces) == text
    assert [i for piece in run.pieces for i in piece.ids] == run.tokens
    assert all(run.labels)
    assert run.logits.isfinite().all()
    pattern = run["blocks.5.attn.hook_pattern"]
    close(pattern.sum(-1), torch.ones(pattern.shape[:2]))


def test_empty_and_too_long_texts(storyteller):
    run = storyteller.trace("")
    assert run.tokens == [storyteller.config.bos_id]
    assert len(run.labels) == 1
    with pytest.raises(ValueError, match=r"has \d+ tokens; storyteller reads at most 512"):
        storyteller.trace(dict(TEXTS)["long_text"])
    full = storyteller.tokenizer.encode(dict(TEXTS)["long_text"])[:512]
    assert len(storyteller.trace(full).tokens) == 512


def test_ids_instead_of_a_text(storyteller):
    ids = storyteller.tokenizer.encode("Once upon a time")
    run = storyteller.trace("Once upon a time")
    for same in (ids, tuple(ids), np.array(ids), torch.tensor(ids)):
        assert storyteller.trace(same).id == run.id
    for wrong in ([8192], [-1], [0, 10**9]):
        with pytest.raises(ValueError, match="between 0 and 8191"):
            storyteller.trace(wrong)
    for padding in (-1, len(ids)):
        with pytest.raises(ValueError, match="Padding can hide"):
            storyteller.trace(ids, padding=padding)


def test_edits_by_name(storyteller):
    plain = storyteller.trace("Once upon a time")
    with storyteller.edit({"blocks.2.attn.hook_z": lambda z, name: z * 0}):
        edited = storyteller.trace("Once upon a time")
    assert not edited["blocks.2.hook_attn_out"].any()
    assert torch.equal(storyteller.trace("Once upon a time").logits, plain.logits)
    for name, says in (
        ("blocks.9.attn.hook_z", "no hook called 'blocks.9.attn.hook_z'"),
        ("hook_pos_embed", "no hook called"),
        ("blocks.0.attn.hook_result", "edit hook_z instead"),
    ):
        with pytest.raises(ValueError, match=says), storyteller.edit({name: lambda x, _: x}):
            pass
    assert not listening()


def test_readers_at_once_get_their_own_traces(storyteller):
    """Eight threads trace, edit and generate with one model; each gets what it gets alone."""
    texts = [dict(TEXTS)[name] for name in ("plain", "zh", "emoji", "repeat", "latex", "rtl", "numbers", "markup")]

    def work(number):
        results = []
        for repeat in range(4):
            name, factor = f"blocks.{number % 6}.hook_mlp_out", number + repeat
            with storyteller.edit({name: lambda x, _, factor=factor: x * factor}):
                run = storyteller.trace(texts[number])
                results += [run.logits, run["blocks.5.attn.hook_pattern"]]
                steps = storyteller.generate(texts[number], 3, SamplingSettings(seed=number))
                results.append(torch.tensor([step.id for step in steps]))
            results.append(storyteller.trace(texts[number]).logits)
        return results

    alone = [work(number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(work, range(8)))
    for mine, theirs in zip(alone, together, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


def test_runs_of_two_folders_with_one_name_are_not_taken_for_each_other(tmp_path, storyteller):
    models = []
    for parent in ("one", "other"):
        folder = tmp_path / parent / "checkpoint"
        shutil.copytree(CATALOG["storyteller"].folder, folder)
        models.append(load(folder, device="cpu"))
    assert {lm.name for lm in models} == {"checkpoint"}
    runs = [lm.trace([5, 6]) for lm in (*models, storyteller)]
    assert len({run.id for run in runs}) == 3
    assert models[0].trace([5, 6]).id == runs[0].id
