"""What is wrong with a checkpoint is said in one sentence, before anything large is allocated."""

import json
import math
import os
import pickle
import struct
import tracemalloc

import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import BertConfig, BertModel

from model import load
from model.__main__ import main
from model.config import TransformerConfig
from model.zoo.catalog import CATALOG, available
from model.zoo.families import FAMILIES
from model.zoo.files import FAULTS, DamagedError
from model.zoo.readers import CheckpointError, load_checkpoint, save_checkpoint
from model.zoo.safetensors_file import SafetensorsWeights
from tests.model.tiny import some_ids, tiny

ENTRY = CATALOG["storyteller"]


@pytest.fixture
def folder(tmp_path):
    """A sound checkpoint, to be spoiled."""
    path = tmp_path / "tiny"
    save_checkpoint(path, tiny(), dtype=torch.float32)
    return path


def save_tokenizer(folder, n_words=50, unknown="[UNK]", added=()):
    """Of whole words; `added`: for every token beyond them, whether it is a special one."""
    words = {"[UNK]": 0} | {f"word{i}": i for i in range(1, n_words)}
    whole = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token=unknown))
    whole.add_tokens([tokenizers.AddedToken(f"<{i}>", special=special) for i, special in enumerate(added)])
    whole.save(str(folder / "tokenizer.json"))


def spoil_config(folder, **changes):
    data = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps({k: v for k, v in data.items() if v != "left out"}))


def spoil_weights(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def fails(folder, says, fault=None):
    """One CheckpointError with one sentence of reasonable length."""
    with pytest.raises(CheckpointError, match=says) as error:
        load_checkpoint(folder)
    assert error.value.fault in set(FAULTS) - {"other"}
    assert fault in (None, error.value.fault)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
    return str(error.value)


def test_a_sound_checkpoint_loads(folder):
    with torch.no_grad():
        assert torch.equal(load_checkpoint(folder)(some_ids(1, 5)), tiny()(some_ids(1, 5)))


def test_a_missing_tensor(folder):
    spoil_weights(folder, lambda t: t.pop("model.layers.1.mlp.up_proj.weight"))
    fails(folder, r"lacks model\.layers\.1\.mlp\.up_proj\.weight\.", "tensors")
    spoil_weights(folder, lambda t: t.pop("model.norm.weight"))
    fails(folder, "and 1 more")


def test_a_tensor_too_many(folder):
    spoil_weights(folder, lambda t: t.update({"model.layers.2.mlp.up_proj.weight": torch.zeros(1)}))
    fails(folder, r"has model\.layers\.2\.mlp\.up_proj\.weight, which this model has no place for\.")
    spoil_weights(folder, lambda t: t.update({"a\nb" * 500: torch.zeros(1)}))
    fails(folder, r"has a\\nba.{,80}, which this model has no place for and 1 more\.")


def test_a_bias_that_the_config_does_not_mention(folder):
    spoil_weights(folder, lambda t: t.update({"model.layers.0.self_attn.q_proj.bias": torch.zeros(32)}))
    fails(folder, "no place for")


@pytest.mark.parametrize("shape", [(32, 40), (40, 33), (40,), (1, 40, 32), (0,)], ids=str)
def test_a_tensor_of_another_shape(folder, shape):
    spoil_weights(folder, lambda t: t.update({"model.layers.0.mlp.up_proj.weight": torch.zeros(shape)}))
    fails(folder, r"up_proj\.weight has shape .*; the config asks for \(40, 32\)")


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.bool])
def test_integers_are_not_weights(folder, dtype):
    spoil_weights(folder, lambda t: t.update({"model.norm.weight": torch.ones(32, dtype=dtype)}))
    fails(folder, r"model\.norm\.weight holds", "kind")


def test_tied_and_untied_heads(folder):
    # Tied: the head may be stored as well, and is not read twice.
    spoil_weights(folder, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()}))
    assert load_checkpoint(folder).unembed is None
    # Untied and missing is an error, not a guess.
    spoil_weights(folder, lambda t: t.pop("lm_head.weight"))
    spoil_config(folder, tie_word_embeddings=False)
    fails(folder, r"lacks lm_head\.weight")


def test_rope_frequencies_of_older_files_are_not_needed(folder):
    spoil_weights(folder, lambda t: t.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(4)}))
    load_checkpoint(folder)


@pytest.fixture
def sharded(folder):
    """The same checkpoint in two files with an index."""
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, inside in parts.items():
        save_file({name: tensors[name] for name in inside}, folder / file)
    (folder / "model.safetensors").unlink()
    where = {name: file for file, inside in parts.items() for name in inside}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return folder


def spoil_index(folder, change):
    path = folder / "model.safetensors.index.json"
    data = json.loads(path.read_text())
    change(data["weight_map"])
    path.write_text(json.dumps(data))


def test_several_files_with_an_index(sharded):
    with torch.no_grad():
        assert torch.equal(load_checkpoint(sharded)(some_ids(1, 5)), tiny()(some_ids(1, 5)))


def test_an_index_that_does_not_fit_the_files(sharded):
    name, first = "model.norm.weight", "model-00001-of-00002.safetensors"
    good = (sharded / "model.safetensors.index.json").read_text()
    for change, says in (
        (lambda m: m.pop(name), f"and the index do not agree about {name}"),
        (lambda m: m.update({"more": first}), "and the index do not agree about more"),
        (lambda m: m.update({name: "model-00003-of-00002.safetensors"}), "do not agree|has no model-00003"),
        (lambda m: m.update({name: "../other/model.safetensors"}), "no safetensors file of this folder"),
        (lambda m: m.update({name: "/etc/passwd"}), "no safetensors file of this folder"),
        (lambda m: m.update({name: "config.json"}), "no safetensors file of this folder"),
        (lambda m: m.update({name: "\0.safetensors"}), "cannot be opened|has no|do not agree"),
        (lambda m: m.update({name: 7}), "no safetensors file of this folder"),
        (lambda m: m.clear(), "has no weight_map"),
    ):
        (sharded / "model.safetensors.index.json").write_text(good)
        spoil_index(sharded, change)
        fails(sharded, says)
    for text in ("", "[]", "{}", '{"weight_map": []}', "[" * 100_000):
        (sharded / "model.safetensors.index.json").write_text(text)
        fails(sharded, "JSON|weight_map")


def test_a_tensor_in_two_files(sharded):
    first, second = sorted(sharded.glob("*.safetensors"))
    second.write_bytes(first.read_bytes())
    spoil_index(sharded, lambda m: m.update(dict.fromkeys(load_file(first), second.name)))
    spoil_index(sharded, lambda m: [m.pop(n) for n in list(m) if m[n] == second.name and n not in load_file(first)])
    spoil_index(sharded, lambda m: m.update({"only here": first.name}))
    fails(sharded, "do not agree|in two files")


def test_a_cut_part(sharded):
    path = sharded / "model-00002-of-00002.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    fails(sharded, "model-00002-of-00002.safetensors is damaged")
    path.unlink()
    fails(sharded, "has no model-00002-of-00002.safetensors")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_link_out_of_the_folder(folder, tmp_path, name):
    """Only what lies in the folder is read, whoever has put a link there."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / name).rename(elsewhere / name)
    (folder / name).symlink_to(elsewhere / name)
    fails(folder, f"{name} of tiny leads out of its folder", "outside")
    (folder / name).unlink()
    (folder / name).symlink_to(name)  # a link to itself
    fails(folder, f"{name}.*(cannot be opened|tiny has no|leads out)")
    (folder / name).unlink()
    (elsewhere / name).rename(folder / f"real-{name}")
    (folder / name).symlink_to(f"real-{name}")  # within the folder
    load_checkpoint(folder)


def test_a_config_that_is_far_too_large(folder):
    with (folder / "config.json").open("wb") as file:
        file.truncate(10**12)  # takes no room on the disk
    fails(folder, "larger than")


def test_the_same_tensor_under_two_spellings(tmp_path):
    theirs = BertModel(
        BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40)
    )
    theirs.save_pretrained(tmp_path)
    spoil_weights(tmp_path, lambda t: t.update({"bert.embeddings.LayerNorm.gamma": torch.ones(32)}))
    fails(tmp_path, "which are the same")


@pytest.mark.parametrize("cut", [0, 4, 8, 20, 2000, -1])
def test_a_cut_file(folder, cut):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    fails(folder, r"model\.safetensors is damaged or not a safetensors file", "damaged")


def test_a_header_that_promises_more_than_there_is(folder):
    path = folder / "model.safetensors"
    for length in (2**63, 2**64 - 1, 10**9):
        path.write_bytes(struct.pack("<Q", length) + b"{}")
        fails(folder, "damaged")


def test_a_file_that_changes_after_loading_changes_nothing(folder):
    """It is the operator's: somebody may cut it, or copy another one over it, while the model is in use."""
    transformer, ids = load_checkpoint(folder), some_ids(1, 5)
    before = transformer(ids)
    path = folder / "model.safetensors"
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    assert torch.equal(transformer(ids), before)


def test_a_file_that_is_cut_while_it_is_read(folder):
    with SafetensorsWeights(folder) as weights:
        os.truncate(folder / "model.safetensors", 3000)
        with pytest.raises(DamagedError, match="cannot be read: the file breaks off"):
            [weights.read(name) for name in weights.shapes]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_weight_that_is_no_finite_number(folder, value):
    """Also where the first token does not meet it: the last row of the embeddings."""
    spoil_weights(folder, lambda t: t["model.embed_tokens.weight"][-1, -1].fill_(value))
    fails(folder, r"model\.embed_tokens\.weight holds values that are no finite numbers\.", "damaged")


def test_a_pickle_under_another_name_is_not_opened(folder, tmp_path):
    class Trap:
        def __reduce__(self):
            return (tmp_path.joinpath("sprung").write_text, ("x",))

    (folder / "model.safetensors").write_bytes(pickle.dumps(Trap()))
    fails(folder, "not a safetensors file")
    torch.save({"model.norm.weight": torch.ones(32)}, folder / "model.safetensors")
    fails(folder, "not a safetensors file")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file(folder, missing):
    save_tokenizer(folder)
    load(folder, device="cpu")
    (folder / missing).unlink()
    with pytest.raises(CheckpointError, match=f"tiny has no {missing}"):
        load(folder, device="cpu")
    (folder / missing).mkdir()
    with pytest.raises(CheckpointError, match=missing):
        load(folder, device="cpu")


def test_a_tokenizer_that_is_none(folder):
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="The tokenizer of tiny cannot be used") as error:
        load(folder, device="cpu")
    assert error.value.fault == "tokenizer"


@pytest.mark.parametrize(
    ("unknown", "n_words", "added", "says"),
    [
        ("[UNK]", 50, [], None),
        ("[UNK]", 51, [], "tiny has 51 tokens and embeds 50"),
        ("not there", 50, [], "The tokenizer of tiny cannot encode every text: .*"),
        ("[UNK]", 50, [False], "tiny has 51 tokens and embeds 50"),
        ("[UNK]", 50, [True], None),  # no text becomes it: models with one that was added to them are in use
    ],
)
def test_a_tokenizer_makes_tokens_of_any_text_that_the_model_embeds(folder, unknown, n_words, added, says):
    save_tokenizer(folder, n_words, unknown, added)
    if says is None:
        assert load(folder, device="cpu").trace("anything").tokens == [0]
        return
    with pytest.raises(CheckpointError, match=says) as error:
        load(folder, device="cpu")
    assert error.value.fault == "tokenizer"
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "null", '"llama"', "{}", "\udcff", "[" * 100_000], ids=lambda text: text[:5]
)
def test_a_config_that_is_none(folder, text):
    (folder / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    fails(folder, "The config of tiny cannot be used")


SIZES = ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"]
SIZES += ["num_key_value_heads", "head_dim", "max_position_embeddings"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("value", [-1, 2**40, 10**30, 2.5, "8", [8], True, {}, float("nan"), float("inf")], ids=str)
def test_a_size_that_cannot_be(folder, size, value):
    spoil_config(folder, **{size: value})
    fails(folder, "The config of tiny cannot be used", "config")


@pytest.mark.parametrize(
    "size", ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"]
)
def test_a_size_that_is_missing_or_zero(folder, size):
    spoil_config(folder, **{size: 0})
    fails(folder, "at least 1|no place for")
    spoil_config(folder, **{size: "left out"})
    fails(folder, f"lacks '{size}'")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_key_value_heads": 3}, "multiple of n_kv_heads"),
        ({"head_dim": 7}, "must be even"),
        ({"rms_norm_eps": 0}, "norm_eps"),
        ({"rms_norm_eps": "small"}, "norm_eps"),
        ({"rope_parameters": {"rope_theta": -1}}, "rope_theta"),
        ({"rope_parameters": "default"}, "cannot be used"),
        ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({"model_type": "mamba"}, "'mamba' cannot be read; the types we know are llama"),
        ({"model_type": ["llama"]}, "cannot be read"),
        ({"model_type": "left out"}, "None cannot be read"),
        ({"tie_word_embeddings": "no"}, "tied_embeddings"),
        ({"eos_token_id": "</s>"}, "eos_id"),
    ],
    ids=str,
)
def test_a_config_that_does_not_fit(folder, changes, says):
    spoil_config(folder, **changes)
    fails(folder, says)


def test_nothing_large_is_allocated_for_a_config_that_asks_for_it(folder):
    """A small file whose config promises the largest model that passes as one: refused by the header alone."""
    big = {"hidden_size": 65_536, "intermediate_size": 1_048_576, "num_hidden_layers": 40, "vocab_size": 2_000_000}
    spoil_config(folder, **big, num_attention_heads=1024, num_key_value_heads=1024, head_dim=64)
    tracemalloc.start()
    with torch.profiler.profile(profile_memory=True) as profile:
        fails(folder, "lacks")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64e6
    assert sum(max(0, event.self_cpu_memory_usage) for event in profile.events()) < 1e6


def test_config_and_folder_survive_a_failed_save(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    broken = tiny()
    broken.embed.weight = nn.Parameter(torch.empty(2, device="meta"))  # nothing that could be written
    with pytest.raises(NotImplementedError):
        save_checkpoint(folder, broken)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert set(before) == {"config.json", "model.safetensors"}


def test_our_own_dialect_has_no_unknown_and_no_missing_keys(tmp_path):
    save_checkpoint(tmp_path, tiny(positions="alibi"), dtype=torch.float32)
    spoil_config(tmp_path, d_head="left out")
    fails(tmp_path, "lacks 'd_head'")
    spoil_config(tmp_path, d_head=8, d_haed=8)
    fails(tmp_path, "has 'd_haed'")
    spoil_config(tmp_path, d_haed="left out", d_ff=41)
    fails(tmp_path, r"mlp\.W_\w+\.weight has shape")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
@pytest.mark.parametrize("where", ["pipe", "link"])
def test_the_list_of_models_opens_only_files_of_the_folder(tmp_path, monkeypatch, where):
    """Another kind of thing called model.safetensors neither holds the list up nor is looked into."""
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path))
    path = tmp_path / "own" / "model.safetensors"
    path.parent.mkdir()
    if where == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(ENTRY.folder / path.name)
    assert available()["own"].parameters == 0
    with pytest.raises(CheckpointError, match=r"own has no config\.json"):
        load("own", device="cpu")


def test_one_odd_thing_in_the_folder_of_models_takes_nothing_from_the_others(folder, monkeypatch, capsys):
    models = folder.parent
    monkeypatch.setenv("ATLAS_MODELS", str(models))
    (models / "loop").symlink_to("loop")
    name = os.fsdecode(b"\xff\xfe")
    (models / name).mkdir()
    (models / name / "model.safetensors").write_bytes(b"")
    (models / "dangling").mkdir()  # as a copy of a hub's snapshot is, which consists of links
    (models / "dangling" / "model.safetensors").symlink_to("../blobs/none")
    assert {entry.id for entry in available().values() if entry.kind == "own"} == {"tiny", "dangling"}
    assert available()["dangling"].nbytes == 0
    assert main(["list"]) == 0
    assert "dangling" in capsys.readouterr().out

    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr("pathlib.Path.iterdir", refuse)
    assert list(available()) == [entry.id for entry in CATALOG.values() if not entry.sources]


def test_pickled_weights_are_listed_and_why_they_are_not_read_is_said(folder, monkeypatch):
    monkeypatch.setenv("ATLAS_MODELS", str(folder.parent))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "tiny" in available()
    fails(folder, r"tiny has only pytorch_model\.bin; weights are read from safetensors or GGUF", "format")


@pytest.mark.parametrize("outside", [-1, 50, 10**6])
def test_special_ids_outside_the_vocabulary_mean_none(folder, outside):
    spoil_config(folder, bos_token_id=outside, pad_token_id=outside, eos_token_id=[outside, 3, outside])
    config = load_checkpoint(folder).config
    assert (config.bos_id, config.pad_id, config.eos_ids) == (None, None, (3,))


@pytest.mark.parametrize("ends", [[[1]], {"a": 1}, "2", [1.5]], ids=str)
def test_ends_that_generation_config_json_does_not_name(folder, ends):
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    fails(folder, r"eos_token_id of generation_config\.json is .*; it must be whole numbers\.", "config")


def test_what_there_is_no_model_of():
    for name in ("nonsense", "", "/nowhere/at/all", "../storyteller"):
        with pytest.raises(CheckpointError, match=r"There is no model .* Known are storyteller"):
            load(name)
    with pytest.raises(ValueError, match="float8"):
        load("storyteller", dtype="float8")
    with pytest.raises(ValueError, match="The device is 'gpu'"):
        load("storyteller", device="gpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device that the test needs absent")
def test_a_device_that_is_not_here():
    with pytest.raises(ValueError, match=r"cuda.*not.*this machine"):
        load("storyteller", device="cuda")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_loads_in_every_dtype(dtype):
    lm = load("storyteller", device="cpu", dtype=dtype)
    assert str(lm.dtype) == f"torch.{dtype}"
    assert {p.dtype for p in lm.transformer.parameters()} == {lm.dtype}
    assert not lm.transformer.training
    assert not any(p.requires_grad for p in lm.transformer.parameters())
    assert lm.trace("Once upon a time").logits.isfinite().all()


def test_catalogue_numbers_are_those_of_the_files(storyteller):
    for entry in CATALOG.values():
        assert entry.family in {kind for family in FAMILIES for kind in family.model_types}
        assert entry.languages
        assert entry.licence
        assert entry.parameters > 1e6
        assert entry.nbytes > 1e6
        if entry.sources:
            continue
        tensors = load_file(entry.folder / "model.safetensors")
        assert entry.parameters == sum(math.prod(t.shape) for t in tensors.values())
        assert entry.nbytes == (entry.folder / "model.safetensors").stat().st_size < 40e6
    assert ENTRY.parameters == sum(p.numel() for p in storyteller.transformer.parameters())
    assert storyteller.id == ENTRY.id == "storyteller"
    assert storyteller.tokenizer.vocab_size <= storyteller.config.vocab_size


CONTRADICTIONS = [{"kind": "both"}, {"positions": "rotary"}, {"n_layers": -1}, {"n_heads": 4, "n_kv_heads": 3}]
CONTRADICTIONS += [{"n_encoder_layers": 1}, {"kind": "encoder_decoder"}, {"positions": "sinusoidal", "d_model": 7}]


@pytest.mark.parametrize("changes", [*CONTRADICTIONS, {"norm_eps": float("nan")}], ids=str)
def test_configs_that_contradict_themselves(changes):
    sizes = {
        "vocab_size": 9,
        "d_model": 8,
        "n_layers": 1,
        "n_heads": 2,
        "n_kv_heads": 2,
        "d_head": 4,
        "d_ff": 8,
        "max_positions": 9,
    }
    TransformerConfig(**sizes)
    with pytest.raises(ValueError, match=r"\w"):
        TransformerConfig(**sizes | changes)
