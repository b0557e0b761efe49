"""The command line and the Python API: what other programs may rely on."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import model
from model import load
from model.__main__ import main
from model.sampling import SamplingSettings
from tests.cases import TEXTS

ROOT = Path(__file__).resolve().parents[2]
TEXT = "Once upon a time, 一只猫"


def run(capsys, *argv):
    status = main(list(argv))
    out = capsys.readouterr()
    assert status == 0, out.err
    assert out.err == ""
    return out.out


def refused(capsys, *argv):
    """Exit status 2, nothing on stdout; returns what is on stderr."""
    try:
        status = main(list(argv))
    except SystemExit as stop:  # argparse's own errors
        status = stop.code
    written = capsys.readouterr()
    assert (status, written.out) == (2, "")
    return written.err


def test_list(capsys):
    entries = json.loads(run(capsys, "list", "--json"))
    entry = next(entry for entry in entries if entry["id"] == "storyteller")
    assert set(entry) == {"id", "family", "parameters", "bytes", "languages", "licence", "kind", "ready"}
    assert entry["ready"]
    assert entry["parameters"] > 6_000_000
    assert entry["languages"] == ["en", "zh"]
    assert "storyteller" in run(capsys, "list")


def test_trace(capsys, tmp_path, storyteller):
    out = tmp_path / "run.npz"
    names = ["blocks.0.attn.hook_pattern", "hook_logits", "blocks.5.attn.hook_result", "blocks.3.ln1.hook_scale"]
    assert (
        run(capsys, "trace", "--model", "storyteller", "--text", TEXT, "--hooks", ",".join(names), "--out", str(out))
        == ""
    )
    expected = storyteller.trace(TEXT)
    with np.load(out, allow_pickle=False) as arrays:
        assert set(arrays) == {"tokens", "token_strings", *names}
        assert arrays["tokens"].tolist() == expected.tokens
        assert arrays["token_strings"].tolist() == expected.token_strings
        assert arrays["hook_logits"].dtype == np.float32
        n = len(expected.tokens)
        assert arrays["blocks.0.attn.hook_pattern"].shape == (8, n, n)  # heads, queries, keys: no batch axis
        assert arrays["hook_logits"].shape == (n, 8192)
        for name in names:
            np.testing.assert_allclose(arrays[name], expected[name].numpy(), rtol=1.3e-6, atol=1e-5)


def test_trace_in_bfloat16_with_spaces_between_names(capsys, tmp_path):
    out = tmp_path / "any name"
    run(
        capsys,
        "trace",
        "--text",
        "a",
        "--dtype",
        "bfloat16",
        "--hooks",
        " hook_embed , hook_logits,",
        "--out",
        str(out),
    )
    with np.load(out) as arrays:
        assert set(arrays) == {"tokens", "token_strings", "hook_embed", "hook_logits"}
        assert arrays["hook_embed"].dtype == np.float32


@pytest.mark.parametrize("extra", [[], ["--no-cache"]])
def test_generate_json(capsys, storyteller, extra):
    options = ["--max-new-tokens", "12", "--temperature", "0.8", "--top-p", "0.95", "--seed", "1", "--json"]
    out = run(capsys, "generate", "--model", "storyteller", "--text", TEXT, *options, *extra)
    assert out.count("\n") == 1
    result = json.loads(out)
    assert set(result) == {"text", "ids", "steps"}
    steps = list(storyteller.generate(TEXT, 12, SamplingSettings(temperature=0.8, top_p=0.95, seed=1)))
    assert result["ids"] == [step.id for step in steps] == [step["id"] for step in result["steps"]]
    assert result["text"] == TEXT + "".join(step.text for step in steps)
    for told, step in zip(result["steps"], steps, strict=True):
        assert set(told) >= {"id", "probability", "milliseconds"}
        assert told["probability"] == pytest.approx(step.probability, abs=1e-5)
        assert told["milliseconds"] > 0


def test_generate_text(capsys, storyteller):
    out = run(capsys, "generate", "--text", "One day", "--max-new-tokens", "9", "--temperature", "0")
    steps = storyteller.generate("One day", 9, SamplingSettings(temperature=0.0))
    assert out == "One day" + "".join(step.text for step in steps) + "\n"


def test_bytes_that_are_not_utf8_become_replacement_characters(capsys):
    out = run(capsys, "generate", "--text", "a\udcff", "--max-new-tokens", "1", "--json")
    assert json.loads(out)["text"].startswith("a\ufffd")


def test_every_sampling_option_reaches_the_draw(capsys):
    def ids(*options):
        return json.loads(
            run(capsys, "generate", "--text", "cat cat cat", "--json", "--max-new-tokens", "9", *options)
        )["ids"]

    plain = ids("--seed", "4")
    changes = [("--seed", "5"), ("--temperature", "3"), ("--top-k", "1"), ("--top-p", "0.1"), ("--min-p", "0.9")]
    for option in [*changes, ("--repetition-penalty", "9")]:
        assert ids("--seed", "4", *option) != plain, option


BAD = {
    "no such model": (["trace", "--model", "nonsense", "--text", "a", "--hooks", "hook_logits"], "There is no model"),
    "no such hook": (
        ["trace", "--text", "a", "--hooks", "blocks.0.attn.hook_patern"],
        "Perhaps blocks.0.attn.hook_pattern",
    ),
    "too long": (["trace", "--text", dict(TEXTS)["long_text"], "--hooks", "hook_logits"], "reads at most 512"),
    "device": (["trace", "--text", "a", "--hooks", "hook_logits", "--device", "gpu"], "choose auto, cpu, cuda or mps"),
    "dtype": (["trace", "--text", "a", "--hooks", "hook_logits", "--dtype", "int4"], "choose one of float32"),
    "temperature": (["generate", "--text", "a", "--temperature", "-1"], "emperature is -1.0"),
    "not a number": (["generate", "--text", "a", "--temperature", "nan"], "emperature is nan"),
    "top-p": (["generate", "--text", "a", "--top-p", "1.5"], "op-p is 1.5"),
    "seed": (["generate", "--text", "a", "--seed", "-1"], "seed"),
    "too many": (["generate", "--text", "a", "--max-new-tokens", "600"], "reads at most 512"),
    "fewer than none": (["generate", "--text", "a", "--max-new-tokens", "-3"], "must not be negative"),
}


@pytest.mark.parametrize(("argv", "says"), BAD.values(), ids=BAD.keys())
def test_what_does_not_fit_is_one_sentence_and_status_2(capsys, tmp_path, argv, says):
    out = tmp_path / "out.npz"
    err = refused(capsys, *argv, *(["--out", str(out)] if argv[0] == "trace" else []))
    assert err.startswith("error: ")
    assert says in err
    assert err.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("ends", "status", "says"),
    [(ValueError("no network"), 2, "error: no network"), (KeyboardInterrupt(), 130, "stopped")],
)
def test_fetching_that_fails_or_is_stopped(capsys, monkeypatch, ends, status, says):
    """The sentence stands on a line of its own, below the progress."""

    def fetch(name, progress):
        progress(1, 93_000_000)
        raise ends

    monkeypatch.setattr("model.__main__.fetch", fetch)
    assert main(["fetch", "gpt2"]) == status
    assert capsys.readouterr().err.split("\n")[1:] == [says, ""]


def test_a_place_that_cannot_be_written(capsys, tmp_path):
    for out in (tmp_path, tmp_path / "none" / "run.npz"):
        err = refused(capsys, "trace", "--text", "a", "--hooks", "hook_logits", "--out", str(out))
        assert "cannot be written" in err


@pytest.mark.parametrize(
    "argv", [[], ["nonsense"], ["trace", "--text", "a"], ["generate"], ["generate", "--text", "a", "--seed", "x"]]
)
def test_what_argparse_refuses(capsys, argv):
    assert "usage: python -m model" in refused(capsys, *argv)


def test_as_a_program():
    command = [sys.executable, "-m", "model"]
    options = {"cwd": ROOT, "capture_output": True, "text": True, "encoding": "utf-8"}
    done = subprocess.run(
        [*command, "generate", "--text", "很久", "--max-new-tokens", "3", "--json"], **options, check=True
    )
    assert json.loads(done.stdout)["text"].startswith("很久")
    done = subprocess.run([*command, "generate", "--text", "a", "--top-p", "7"], **options, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: [Tt]op-p is 7\.0; .*\.\n", done.stderr)


def test_the_api_of_the_readme():
    assert set(model.__all__) >= {"load", "LanguageModel"}
    lm = load("storyteller", device="cpu")
    trace = lm.trace(TEXT)
    n = len(trace.tokens)
    assert all(isinstance(i, int) for i in trace.tokens)
    assert "".join(trace.token_strings) == TEXT == lm.tokenizer.decode(trace.tokens)
    assert trace["blocks.0.attn.hook_pattern"].shape == (8, n, n)
    assert trace["hook_logits"].shape == (n, 8192)
    assert [step.index for step in lm.generate(TEXT, 2, sampling=SamplingSettings(temperature=0.5))] == [0, 1]
    with lm.edit({"blocks.2.attn.hook_z": lambda z, name: torch.zeros_like(z)}):
        assert not torch.equal(lm.trace(TEXT).logits, trace.logits)
    assert load(ROOT / "model" / "weights" / "storyteller", device="cpu").trace(TEXT).tokens == trace.tokens


def test_translate(capsys):
    from model import load

    out = run(capsys, "translate", "--text", "I love you.", "--beam", "2")
    assert out == load("translator", device="cpu").translate("I love you.", beam=2) + "\n"
    assert "爱" in out


def test_trace_of_a_translator_needs_its_source(capsys, tmp_path):
    hook = "blocks.2.cross_attn.hook_pattern"
    line = ["trace", "--model", "translator", "--text", "我", "--hooks", hook, "--out", str(tmp_path / "run.npz")]
    run(capsys, *line, "--source", "I love you.")
    with np.load(tmp_path / "run.npz", allow_pickle=False) as arrays:
        assert arrays[hook].shape == (6, 2, 5)
        assert arrays[hook].sum(-1) == pytest.approx(np.ones((6, 2)), abs=1e-5)
    assert main(line) == 2
    assert "needs one" in capsys.readouterr().err
