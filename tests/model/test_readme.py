"""The README's Python example runs as it stands, and its promises about shapes hold."""

import re
from pathlib import Path

from model.zoo.families import FAMILIES
from model.zoo.gguf_file import KINDS

README = Path(__file__).resolve().parents[2] / "README.md"


def test_it_names_every_family_and_type_that_is_read():
    text = README.read_text(encoding="utf-8").lower().replace("-", "").replace(" ", "")
    for family in FAMILIES:
        for kind in set(family.model_types) - {"transformer-atlas", "xlm-roberta", "qwen3"}:
            assert kind.replace("_", "").replace("-", "") in text, kind
    assert ", ".join(KINDS) in " ".join(README.read_text(encoding="utf-8").split())


def test_the_python_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    names: dict = {}
    exec(code, names)
    run, changed, lm = names["run"], names["changed"], names["lm"]
    assert capsys.readouterr().out
    n = len(run.tokens)
    assert "".join(run.token_strings) == "The little cat sat on the mat"
    assert run["blocks.0.attn.hook_pattern"].shape == (8, n, n)
    assert run["hook_logits"].shape == (n, lm.tokenizer.vocab_size)
    assert not (changed["blocks.2.attn.hook_z"][:, 3]).any()
    assert not run["hook_logits"].equal(changed["hook_logits"])
    assert run["hook_logits"].equal(lm.trace("The little cat sat on the mat")["hook_logits"])
