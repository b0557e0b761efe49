"""Watching and editing: they take effect, they stay with their caller, and they leave nothing behind."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest
import torch

from model import LanguageModel, hooks, load
from model.hooks import edit, listening, observe
from model.names import hook_table
from tests.model.tiny import close, some_ids, tiny, tiny_config

MODEL = tiny(tied_embeddings=False)
IDS = some_ids(1, 7)


def add(amount):
    return lambda value, name: value + amount


def captured(ids=IDS, model=MODEL, **arguments):
    seen = {}
    with observe(seen.__setitem__), torch.no_grad():
        model(ids, **arguments)
    return seen


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder_decoder"])
@pytest.mark.parametrize("positions", ["rope", "learned", "sinusoidal", "alibi", "none"])
@pytest.mark.parametrize("norm_place", ["pre", "post"])
@pytest.mark.parametrize(
    "rest", [{"activation": "swiglu"}, {"activation": "relu", "embedding_norm": True, "norm": "layernorm"}]
)
def test_the_table_of_names_is_what_runs(kind, positions, norm_place, rest):
    two = kind == "encoder_decoder"
    options = {"kind": kind, "positions": positions, "norm_place": norm_place, "n_encoder_layers": 3 if two else 0}
    model = tiny(**options, **rest)
    table = hook_table(model.config)
    seen = captured(model=model, encoder_ids=some_ids(1, 5) if two else None)
    kept = [name for name, entry in table.items() if not entry.derived]
    assert list(seen) == kept  # also in this order
    derived = {name for name, entry in table.items() if entry.derived}
    assert {name.rsplit(".", 1)[-1] for name in derived} == {"hook_attn_scores", "hook_pattern", "hook_result"}

    # Scores and patterns run as hooks once somebody edits them; results never do.
    matrices = [name for name in derived if "hook_result" not in name]
    with edit({name: add(0) for name in matrices}):
        assert set(captured(model=model, encoder_ids=some_ids(1, 5) if two else None)) == set(kept) | set(matrices)


NEWER = [
    {"qk_norm": True, "parallel": True, "d_rotary": 4, "rope_divisors": (2.0, 3.0)},
    {"kind": "encoder", "positions": "learned", "n_token_types": 2, "head": "mlm", "unembed_bias": True},
    {"kind": "encoder", "n_token_types": 1, "head": "none", "embedding_norm": True, "norm": "layernorm"},
]


@pytest.mark.parametrize("options", NEWER, ids=str)
def test_the_table_of_names_with_the_options_of_real_models(options):
    model = tiny(**options)
    table, seen = hook_table(model.config), captured(model=model)
    assert list(seen) == [name for name, entry in table.items() if not entry.derived]
    sizes = {"positions": 7, "1": 1, "vocabulary": 50, "heads": 4, "kv_heads": 2}
    sizes |= {"d_model": 32, "d_ff": 40, "d_head": 8}
    for name, value in seen.items():
        assert tuple(value.shape[1:]) == tuple(sizes[axis] for axis in table[name].shape), name
    with torch.no_grad():
        for name in seen:
            factor = torch.linspace(0.5, 1.5, 50)
            with edit({name: lambda value, _, factor=factor: value * factor[: value.shape[-1]]}):
                assert (model(IDS) - list(seen.values())[-1]).abs().max() > 1e-4, name


@pytest.mark.parametrize("options", NEWER, ids=str)
@torch.no_grad()
def test_watched_scores_are_those_that_were_computed(options):
    """A trace computes scores from the kept queries and keys; an edit makes the layer itself compute them."""
    run = LanguageModel("tiny", tiny(**options), load("storyteller").tokenizer).trace(IDS[0].tolist())
    model, seen = tiny(**options), {}
    with edit({"blocks.1.attn.hook_attn_scores": lambda x, n: seen.update({n: x.clone()})}):
        model(IDS)
    close(run["blocks.1.attn.hook_attn_scores"], seen["blocks.1.attn.hook_attn_scores"][0])


def test_shapes_are_those_of_the_table():
    config = MODEL.config
    sizes = {"positions": 7, "queries": 7, "keys": 7, "1": 1, "vocabulary": 50, "heads": 4, "kv_heads": 2}
    sizes |= {"d_model": config.d_model, "d_ff": config.d_ff, "d_head": config.d_head}
    matrices = {name: add(0) for name in hook_table(config) if name.endswith(("scores", "pattern"))}
    with edit(matrices):
        seen = captured()
    for name, value in seen.items():
        assert tuple(value.shape[1:]) == tuple(sizes[axis] for axis in hook_table(config)[name].shape), name


@pytest.mark.parametrize("name", [n for n, e in hook_table(MODEL.config).items() if "hook_result" not in n])
@torch.no_grad()
def test_every_hook_can_be_edited_and_it_matters(name):
    plain = MODEL(IDS)
    factor = torch.linspace(0.5, 1.5, 50)
    with edit({name: lambda value, _: value * factor[: value.shape[-1]]}):
        edited = MODEL(IDS)
    assert (edited - plain).abs().max() > 1e-4
    assert torch.equal(MODEL(IDS), plain)


@torch.no_grad()
def test_edits_do_what_they_say():
    seen = captured()
    with edit({"blocks.1.attn.hook_z": lambda z, _: torch.zeros_like(z)}):
        without = captured()
    assert not without["blocks.1.hook_attn_out"].any()
    close(without["blocks.1.hook_resid_mid"], seen["blocks.1.hook_resid_pre"])
    with edit({"hook_logits": lambda x, name: torch.full_like(x, 3.0)}):
        assert (MODEL(IDS) == 3.0).all()
    only_self = torch.eye(7).expand(1, 4, 7, 7)
    with edit({"blocks.0.attn.hook_pattern": lambda p, _: only_self}):
        looking = captured()
    close(looking["blocks.0.attn.hook_z"], looking["blocks.0.attn.hook_v"].repeat_interleave(2, dim=2))
    # Masking a key in the scores takes its share of the pattern away.
    with edit({"blocks.0.attn.hook_attn_scores": lambda s, _: s.masked_fill(torch.arange(7) == 0, -torch.inf)}):
        looking = captured()
    pattern = looking["blocks.0.attn.hook_pattern"]
    assert not pattern[..., 0].any()
    assert not pattern[:, :, 0].any()  # the first query had nothing else to look at
    assert torch.equal(looking["blocks.0.attn.hook_z"][:, 0], torch.zeros(1, 4, 8))


@torch.no_grad()
def test_edits_in_place_work_and_stay_where_they_are():
    def wipe(value, name):
        value.zero_()

    plain = captured()
    with edit({"blocks.1.hook_resid_pre": wipe}):
        edited = captured()
    assert not edited["blocks.1.hook_resid_pre"].any()
    # The stream that left the block before was the same tensor; it has not been wiped.
    assert torch.equal(edited["blocks.0.hook_resid_post"], plain["blocks.0.hook_resid_post"])
    with edit({"blocks.1.hook_resid_pre": lambda value, _: torch.zeros_like(value)}):
        assert torch.equal(captured()["hook_logits"], edited["hook_logits"])


@torch.no_grad()
def test_nested_edits_run_from_the_outside_in():
    with edit({"hook_embed": lambda x, _: x * 2}):
        with edit({"hook_embed": add(1), "hook_logits": lambda x, _: None}):
            nested = captured()["hook_embed"]
        close(captured()["hook_embed"], MODEL.embed(IDS) * 2)
    close(nested, MODEL.embed(IDS) * 2 + 1)


def test_observers_see_what_edits_made():
    seen = {}
    with observe(seen.__setitem__), edit({"hook_embed": lambda x, _: torch.ones_like(x)}), torch.no_grad():
        MODEL(IDS)
    assert (seen["hook_embed"] == 1).all()
    assert (seen["blocks.0.hook_resid_pre"] == 1).all()


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (lambda x: x[..., :-1], r"hook_z returned shape \(1, 7, 4, 7\); it must keep \(1, 7, 4, 8\)"),
        (lambda x: x[0], r"hook_z returned shape \(7, 4, 8\)"),
        (lambda x: 0.0, "hook_z returned a float"),
        (lambda x: x.tolist(), "hook_z returned a list"),
    ],
)
def test_an_edit_that_does_not_fit_says_so(returned, says):
    with pytest.raises(ValueError, match=says), edit({"blocks.0.attn.hook_z": lambda x, _: returned(x)}):
        MODEL(IDS)
    assert not listening()


@torch.no_grad()
def test_edits_may_compute_in_another_dtype():
    with edit({"blocks.0.attn.hook_z": lambda x, _: x.double()}):
        close(MODEL(IDS), captured()["hook_logits"])
    half = tiny().bfloat16()
    with edit({"blocks.0.hook_resid_pre": lambda x, _: x.float() + 1}):
        assert captured(model=half)["blocks.0.hook_resid_pre"].dtype == torch.bfloat16


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, GeneratorExit])
@torch.no_grad()
def test_nothing_stays_after_an_exception(error):
    plain = MODEL(IDS)

    def fail(value, name):
        raise error

    with pytest.raises(error), observe(lambda name, value: None), edit({"blocks.1.mlp.hook_pre": fail}):
        MODEL(IDS)
    assert not listening()
    assert hooks.edited_names() == frozenset()
    assert torch.equal(MODEL(IDS), plain)


def test_the_model_holds_no_state():
    before = {name: module.__dict__.copy() for name, module in MODEL.named_modules()}
    with edit({"blocks.0.attn.hook_z": add(1)}):
        captured()
    for name, module in MODEL.named_modules():
        assert module.__dict__.keys() == before[name].keys()
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_eight_threads_never_see_each_other():
    """Each thread adds its own number to a stream and watches; 200 captures, none mixed."""
    barrier = threading.Barrier(8)
    with torch.no_grad():
        plain = MODEL.embed(IDS)

    def reader(number):
        barrier.wait()
        wrong = 0
        for repeat in range(25):
            amount = number + repeat / 100
            seen = []
            with observe(lambda name, value, seen=seen: seen.append((name, value))), torch.no_grad():
                if number % 2:  # every second one only watches
                    with edit({"hook_embed": add(amount)}):
                        MODEL(IDS)
                else:
                    amount = 0.0
                    MODEL(IDS)
            names = [name for name, _ in seen]
            expected = [n for n, e in hook_table(MODEL.config).items() if not e.derived]
            wrong += names != expected or not torch.equal(dict(seen)["blocks.0.hook_resid_pre"], plain + amount)
        return wrong

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(reader, range(8))) == 0


def test_an_edit_is_not_seen_in_other_threads():
    plain, seen = captured()["hook_logits"], []
    with edit({"hook_embed": add(1)}):
        thread = threading.Thread(target=lambda: seen.append(captured()["hook_logits"]))
        thread.start()
        thread.join()
        inherited = copy_context().run(lambda: captured()["hook_logits"])
    assert torch.equal(seen[0], plain)
    assert not torch.equal(inherited, plain)  # unless the caller hands its context on


def test_tasks_of_one_thread_take_turns_without_mixing():
    async def reader(amount):
        results = []
        for _ in range(5):
            with edit({"hook_embed": add(amount)}):
                await asyncio.sleep(0)
                results.append(captured()["hook_embed"])
                await asyncio.sleep(0)
        return results

    async def everybody():
        return await asyncio.gather(*(reader(float(n)) for n in range(6)))

    with torch.no_grad():
        plain = MODEL.embed(IDS)
    # In a thread of its own: a browser driven by other tests keeps a loop running in this one.
    with ThreadPoolExecutor(1) as pool:
        gathered = pool.submit(asyncio.run, everybody()).result()
    for amount, results in enumerate(gathered):
        assert all(torch.equal(result, plain + amount) for result in results)


def test_observers_nest():
    inner, outer = [], []
    with observe(lambda name, value: outer.append(name)):
        with observe(lambda name, value: inner.append(name)), torch.no_grad():
            MODEL(IDS)
        assert inner == outer
        with torch.no_grad():
            MODEL(IDS)
    assert len(outer) == 2 * len(inner)


def test_gradients_flow_through_edits():
    model = tiny().requires_grad_(True)
    with edit({"blocks.0.attn.hook_pattern": lambda p, _: p * 0.5, "blocks.1.ln1.hook_normalized": lambda x, _: x * 2}):
        model(IDS).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert model.blocks[0].attn.W_Q.weight.grad.any()


def test_the_table_belongs_to_the_config():
    assert "blocks.0.attn.hook_rot_q" not in hook_table(tiny_config(positions="alibi"))
    assert "blocks.0.mlp.hook_pre_linear" not in hook_table(tiny_config(activation="relu"))
    assert "blocks.2.attn.hook_q" not in hook_table(tiny_config())
    assert all(entry.meaning and name == entry.name for name, entry in hook_table(tiny_config()).items())
