"""Training: optimizers, scores, the loop and its checkpoints, the command line."""

import argparse
import csv
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from model.config import TransformerConfig
from model.training import checkpoints
from model.training.data import Mixture, Stream
from model.training.dropout import add_dropout
from model.training.evaluate import score
from model.training.loop import Run, Settings
from model.training.objectives import NextToken
from model.training.optimizers import make_optimizers, set_rates
from model.training.options import add_run_options, run_settings
from model.training.schedule import Schedule
from model.transformer import Transformer
from tests.model.training_text import Letters, token_file, write_corpus

REPOSITORY = Path(__file__).resolve().parents[2]
TINY = TransformerConfig(
    vocab_size=61, d_model=16, n_layers=2, n_heads=4, n_kv_heads=2, d_head=4, d_ff=24, max_positions=32, eos_id=0
)


# --- the model's side


def test_matrices_of_the_blocks_get_muon_all_else_adamw() -> None:
    model = Transformer(TINY)
    muon, adamw = make_optimizers(model, 0.02, 0.003, 0.1)
    names = {id(p): name for name, p in model.named_parameters()}
    by_muon = {names[id(p)] for group in muon.param_groups for p in group["params"]}
    by_adamw = {names[id(p)] for group in adamw.param_groups for p in group["params"]}
    assert isinstance(muon, torch.optim.Muon)
    assert by_muon == {name for name in names.values() if ".W_" in name}
    assert by_adamw == set(names.values()) - by_muon
    set_rates([muon, adamw], 0.5)
    assert muon.param_groups[0]["lr"] == pytest.approx(0.01)
    assert adamw.param_groups[0]["lr"] == pytest.approx(0.0015)
    (alone,) = make_optimizers(model, 0.02, 0.003, 0.1, use_muon=False)
    assert sum(len(group["params"]) for group in alone.param_groups) == len(names)
    assert [group["weight_decay"] for group in alone.param_groups] == [0.1, 0.0]


def test_dropout_acts_in_training_only_and_comes_off() -> None:
    torch.manual_seed(0)
    model = Transformer(TINY)
    ids = torch.arange(1, 9)[None]
    plain = model(ids)
    handles = add_dropout(model, 0.5)
    assert len(handles) == 1 + 2 * TINY.n_layers
    assert not torch.allclose(model.train()(ids), plain)
    assert torch.equal(model.eval()(ids), plain)
    for handle in handles:
        handle.remove()
    assert torch.equal(model.train()(ids), plain)
    with pytest.raises(ValueError, match="dropout"):
        add_dropout(model, 1.0)


def test_score_counts_nats_and_characters() -> None:
    model = Transformer(TINY)
    with torch.no_grad():
        model.embed.weight.zero_()  # the tied head too: every token equally likely
    result = score(model, Letters(), ["abcdef", "", "gh"], separator=0, max_tokens=5)
    assert (result.tokens, result.characters) == (6, 6)  # "abcd" behind the separator, then "gh"
    assert result.nats_per_token == pytest.approx(math.log(61))
    assert result.perplexity == pytest.approx(61)
    assert result.bits_per_character == pytest.approx(math.log2(61))
    with pytest.raises(ValueError, match="no held-out text"):
        score(model, Letters(), [""], separator=0)


def test_score_equals_reading_the_text_token_by_token() -> None:
    torch.manual_seed(1)
    model = Transformer(TINY)
    with torch.no_grad():
        model.embed.weight.normal_()
    nats = 0.0
    for i, token in enumerate([3, 1, 4, 1, 5]):
        logits = model(torch.tensor([[0, 3, 1, 4, 1, 5][: i + 1]]))[0, -1]
        nats -= float(logits.detach().log_softmax(-1)[token])
    assert score(model, Letters(), ["cadae"], separator=0).nats == pytest.approx(nats, rel=1e-5)


# --- the loop

STEPS = Settings(
    steps=10,
    batch_tokens=64,
    micro_tokens=32,
    length=8,
    long_length=16,
    dropout=0.1,
    precision="fp32",
    schedule=Schedule("linear", warmup=2),
)


def make_run(out: Path, settings: Settings = STEPS, **options: object) -> Run:
    torch.manual_seed(5)
    streams = [
        Stream(token_file([[0, *range(1, 2 + i)] for i in range(9)]), seed=(0, 0)),
        Stream(token_file([[0, *range(30 + i, 58)] for i in range(20)]), seed=(0, 1)),
    ]
    return Run(Transformer(TINY), NextToken(Mixture(streams, [1, 2])), settings, out, **options)  # type: ignore[arg-type]


def mixture_of(run: Run) -> Mixture:
    assert isinstance(run.objective, NextToken)
    return run.objective.mixture


def weights(run: Run) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in run.model.named_parameters()}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def stop_at(steps: int) -> tuple[Callable[[], dict[str, float]], Callable[[Run], None]]:
    """An evaluation that sends this process SIGTERM once the run bound to it has done so many steps."""
    bound: list[Run] = []

    def evaluate() -> dict[str, float]:
        if bound[0].progress.step == steps:
            os.kill(os.getpid(), signal.SIGTERM)
        return {"x": 1.0}

    return evaluate, bound.append


@pytest.mark.parametrize("muon", [True, False])
@pytest.mark.parametrize("stop", [1, 5, 8, 9])  # before, at and after the change of length
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path: Path, stop: int, muon: bool) -> None:
    settings = replace(STEPS, muon=muon)
    whole = make_run(tmp_path / "whole", settings)
    assert whole.train()
    evaluate, bind = stop_at(stop)
    first = make_run(tmp_path / "parts", settings, evaluate=evaluate, evaluate_minutes=0)
    bind(first)
    assert not first.train()
    assert first.progress.step == stop
    second = make_run(tmp_path / "parts", settings)
    torch.manual_seed(999)  # what the process drew before must not matter
    with torch.no_grad():
        for parameter in second.model.parameters():
            parameter.add_(1.0)  # nor what the weights were
    second.resume()
    assert second.train()
    assert second.objective.state() == whole.objective.state()
    assert second.progress.tokens == whole.progress.tokens
    for name, parameter in weights(whole).items():
        assert torch.equal(parameter, weights(second)[name]), name
    ends = [load_file(tmp_path / part / checkpoints.FILE) for part in ("whole", "parts")]
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_sequences_grow_in_the_last_fifth(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    shapes = []
    mixture = mixture_of(run)
    batch = mixture.batch
    mixture.batch = lambda rows, length: shapes.append((rows, length)) or batch(rows, length)  # type: ignore
    run.train()
    assert shapes == [(8, 8)] * 8 + [(4, 16)] * 2
    assert run.progress.tokens == 640


def test_accumulated_gradients_equal_the_whole_batch(tmp_path: Path) -> None:
    settings = replace(STEPS, dropout=0.0, steps=1)
    ends = []
    for micro in (8, 24, 64):
        run = make_run(tmp_path / str(micro), replace(settings, micro_tokens=micro))
        loss, norm = run.step(0.0)
        ends.append((float(loss), float(norm)))
    assert ends[0] == pytest.approx(ends[2], rel=1e-5)
    assert ends[1] == pytest.approx(ends[2], rel=1e-5)


def test_training_lowers_the_loss_and_writes_its_metrics(tmp_path: Path) -> None:
    settings = replace(STEPS, steps=60, dropout=0.0, precision="bf16")
    run = make_run(tmp_path, settings, log_seconds=0.0, evaluate=lambda: {"a": 2.5, "b": 3.0})
    assert run.train()
    found = rows(tmp_path / "metrics.csv")
    assert [int(row["step"]) for row in found] == list(range(1, 61))
    assert float(found[0]["loss"]) == pytest.approx(math.log(61), rel=0.05)
    assert float(found[-1]["loss"]) < 0.8 * math.log(61)
    assert float(found[-1]["rate_factor"]) == pytest.approx(1 / 60, rel=1e-4)
    assert all(float(row["tokens_per_second"]) > 0 for row in found)
    assert rows(tmp_path / "evaluations.csv") == [{"step": "60", "tokens": "3840", "a": "2.50000", "b": "3.00000"}]


def test_metrics_of_a_resumed_run_have_every_step_once(tmp_path: Path) -> None:
    evaluate, bind = stop_at(4)
    first = make_run(tmp_path, log_seconds=0.0, evaluate=evaluate, evaluate_minutes=0)
    bind(first)
    first.train()
    with (tmp_path / "metrics.csv").open("a") as file:
        file.write("5,0,0,0,0,0,0,0\n")  # a step after the checkpoint, lost with a crash
    second = make_run(tmp_path, log_seconds=0.0)
    second.resume()
    second.train()
    found = rows(tmp_path / "metrics.csv")
    assert [int(row["step"]) for row in found] == list(range(1, 11))
    assert all(float(row["loss"]) > 0 for row in found)


def test_a_time_planned_run_ends_with_its_time(tmp_path: Path) -> None:
    run = make_run(tmp_path, replace(STEPS, steps=None, minutes=0.01), log_seconds=0.0)
    assert run.train()
    assert run.progress.seconds >= 0.6
    factors = [float(row["rate_factor"]) for row in rows(tmp_path / "metrics.csv")][2:]
    assert factors == sorted(factors, reverse=True)
    assert factors[-1] < factors[0]


def test_gradients_are_clipped(tmp_path: Path) -> None:
    run = make_run(tmp_path, replace(STEPS, clip=1e-3, muon=False))
    optimizer = run.optimizers[0]
    seen = []
    optimizer.register_step_pre_hook(
        lambda *_: seen.append(math.sqrt(sum(float(p.grad.square().sum()) for p in run.model.parameters())))
    )
    _, norm = run.step(1.0)
    assert float(norm) > 1e-2
    assert seen == pytest.approx([1e-3], rel=1e-2)


def test_a_gradient_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.save()
    with torch.no_grad():
        run.model.get_parameter("ln_final.weight").fill_(math.nan)
    with pytest.raises(FloatingPointError, match="step 1"):
        run.train()
    assert checkpoints.read_scalars(tmp_path)["progress"]["step"] == 0


def test_resuming_under_other_settings_is_refused(tmp_path: Path) -> None:
    make_run(tmp_path).train()
    with pytest.raises(ValueError, match="other settings: muon_lr"):
        make_run(tmp_path, replace(STEPS, muon_lr=0.5)).resume()
    other = make_run(tmp_path)
    mixture_of(other).shares = np.array([0.5, 0.5])
    with pytest.raises(ValueError, match="the corpora"):
        other.resume()
    with pytest.raises(ValueError, match="no checkpoint"):
        make_run(tmp_path / "empty").resume()


def test_a_recipe_runs_as_long_as_its_own_settings_say() -> None:
    own = Settings(minutes=45.5, schedule=Schedule("linear", warmup=7, hold=0.3))
    parser = argparse.ArgumentParser()
    add_run_options(parser, own)
    here = ["--corpora", "c", "--out", "o"]
    assert "default: 45.5" in parser.format_help()
    assert run_settings(parser.parse_args(here)) == own
    assert run_settings(parser.parse_args([*here, "--minutes", "3"])).minutes == 3
    planned = run_settings(parser.parse_args([*here, "--steps", "8"]))
    assert (planned.steps, planned.minutes) == (8, None)


def test_settings_are_checked() -> None:
    for wrong in (
        {"steps": None},
        {"minutes": 1.0},
        {"steps": 0},
        {"length": 0},
        {"long_length": 128},
        {"precision": "int8"},
    ):
        with pytest.raises(ValueError, match=r"\w"):
            replace(STEPS, **wrong)  # type: ignore[arg-type]


def test_a_checkpoint_is_one_safetensors_file_replaced_in_one_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path)
    run.train()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.safetensors", "metrics.csv"]
    before = (tmp_path / checkpoints.FILE).read_bytes()
    with safe_open(tmp_path / checkpoints.FILE, "pt") as file:
        names = set(file.keys())
    assert {f"model.{name}" for name, _ in run.model.named_parameters()} < names
    assert "optimizer.0.momentum_buffer.blocks.0.attn.W_Q.weight" in names
    assert "optimizer.1.exp_avg.embed.weight" in names

    def fails(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(checkpoints, "save_file", fails)
    with pytest.raises(OSError, match="disk full"):
        run.save()
    assert (tmp_path / checkpoints.FILE).read_bytes() == before


def test_a_checkpoint_of_another_model_or_optimizer_is_refused(tmp_path: Path) -> None:
    make_run(tmp_path).train()
    run = make_run(tmp_path)
    with pytest.raises(ValueError, match="other parameters"):
        checkpoints.load_state(tmp_path, Transformer(TINY.replace(n_layers=1)), run.optimizers)
    with pytest.raises(ValueError, match="another choice of optimizers"):
        checkpoints.load_state(tmp_path, run.model, list(reversed(run.optimizers)))
    (tmp_path / checkpoints.FILE).write_bytes(b"damaged")
    with pytest.raises(ValueError, match="no checkpoint to resume from"):
        run.resume()


# --- the command line, with the bundled tokenizer


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    """Small files under the names of the real ones."""
    folder = tmp_path / "corpora"
    folder.mkdir()
    end = "\n<|endoftext|>\n"
    tales = [f"Once upon a time there were {i} cats. They saw {i + 1} dogs and a big red ball." for i in range(40)]
    chinese = [f"我有{i}只猫。\n你有{i + 1}本书。" for i in range(470)]
    poems = [f"《春》\n春眠不觉晓，处处闻啼鸟。{i}" for i in range(50)]
    for name, documents in {
        "tinystories": tales,
        "heldout_stories": [f"{tale} The end." for tale in tales + tales[:20]],
        "children": tales[:30],
        "zh_prose": chinese,
        "zh_poems": poems,
    }.items():
        write_corpus(folder, f"{name}.txt.xz", "".join(text + end for text in documents))
    write_corpus(folder, "en_sentences.txt.xz", "".join(f"I have {i} apples.\n" for i in range(100)))
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A model with the bundled vocabulary and tokenizer, and random weights."""
    from model.zoo.catalog import CATALOG
    from model.zoo.readers import save_checkpoint

    torch.manual_seed(0)
    config = TINY.replace(vocab_size=8192, max_positions=512)
    save_checkpoint(tmp_path / "small", Transformer(config), torch.float32)
    shutil.copy(CATALOG["storyteller"].folder / "tokenizer.json", tmp_path / "small")
    return tmp_path / "small"


def command(corpora: Path, small: Path, out: Path) -> list[str]:
    line = (
        f"storyteller --corpora {corpora} --out {out} --init {small} --steps 5 --batch-tokens 2048 --micro-tokens 512"
    )
    return [*line.split(), "--precision", "fp32", "--device", "cpu", "--dropout", "0", "--warmup", "2"]


def test_train_and_evaluate_from_the_command_line(
    corpora: Path, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from model import load
    from model.training.recipes import main

    out = tmp_path / "out"
    assert main(command(corpora, small, out)) == 0
    printed = capsys.readouterr().out
    assert "Once upon a time, there was a little girl named Lily." in printed
    assert load(out / "storyteller", device="cpu").config.d_model == 16
    result = json.loads((out / "result.json").read_text())
    assert result["progress"]["tokens"] == sum(result["tokens"].values()) == 5 * 2048
    assert main(["evaluate", "--model", str(out / "storyteller"), "--corpora", str(corpora), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result["held_out"]
    assert result["held_out"]["held_out_stories"]["tokens"] > result["held_out"]["chinese_sentences"]["tokens"] > 0
    assert main(command(corpora, small, out)) == 2
    assert "add --resume" in capsys.readouterr().err
    assert main([*command(corpora, small, tmp_path / "new"), "--mix", "novels=1"]) == 2
    assert "write name=share" in capsys.readouterr().err


def test_two_processes_train_as_one_does_on_the_same_batches(corpora: Path, small: Path, tmp_path: Path) -> None:
    """torchrun, DistributedDataParallel on gloo: each process takes half of every batch."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    ends = []
    for processes in (1, 2):
        out = tmp_path / str(processes)
        launch = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            str(processes),
            "-m",
            "model",
            "train",
        ]
        done = subprocess.run(
            [sys.executable, *launch, *command(corpora, small, out)],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        ends.append(load_file(out / checkpoints.FILE))
        assert checkpoints.read_scalars(out)["progress"]["tokens"] == 5 * 2048
    one, two = ends
    start = load_file(small / "model.safetensors")
    moved = float((one["model.embed.weight"] - start["model.embed_tokens.weight"]).norm())
    assert moved > 0.1
    assert one.keys() == two.keys()
    for name in one:
        # Sums in another order differ in the last digits; Muon rounds to bf16 on the way.
        torch.testing.assert_close(two[name], one[name], rtol=2e-2, atol=1e-3 * float(one[name].abs().max()), msg=name)


def test_the_first_version_measures_as_published(shared_dir: Path) -> None:
    """Another program's figures for the same weights: bits per character, over the same tokens."""
    from model import load
    from model.training.storyteller import evaluate, held_out

    lm = load(shared_dir / "weights" / "storyteller", device="cpu")
    scores = evaluate(lm.transformer, lm.tokenizer, held_out(shared_dir / "corpora"), 0)
    found = {name: (s.tokens, round(s.bits_per_character, 2)) for name, s in scores.items()}
    assert found["held_out_stories"] == (12_990, 0.84)
    assert found["chinese_sentences"] == (4_658, 5.67)
    assert found["chinese_poems"] == (3_620, 7.26)
