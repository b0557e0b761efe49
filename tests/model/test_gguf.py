"""GGUF files: the same numbers as Transformers' and the `gguf` package's reading, and one sentence for a bad file."""

import os
import struct
import tracemalloc

import gguf
import numpy as np
import pytest
import torch
import transformers as hf

from model import load
from model.zoo.checkpoint import open_checkpoint
from model.zoo.copies import converted_folder, remove_stale
from model.zoo.files import CheckpointError
from model.zoo.gguf_file import KINDS, GGUFWeights
from model.zoo.gguf_model import describe
from model.zoo.readers import assemble
from model.zoo.store import locked
from tests.model.gguf_files import TYPES, write
from tests.model.test_parity_families import DECODERS, GPT2, GROUPED, LLAMA3
from tests.model.tiny import close, randomise, some_ids

GROUPED = GROUPED | {"hidden_size": 64, "intermediate_size": 96}
MODELS = {
    "llama": (hf.LlamaForCausalLM, hf.LlamaConfig, GROUPED | {"tie_word_embeddings": True}),
    "llama, untied": (hf.LlamaForCausalLM, hf.LlamaConfig, GROUPED | {"tie_word_embeddings": False}),
    "qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config, GROUPED),
    "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config, GROUPED | {"head_dim": 16}),
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config, GPT2),
    **{name: DECODERS[name] for name in ("gpt_neox", "gpt_neox, half rotated", "gpt_neox, one after the other")},
}


@pytest.fixture(autouse=True)
def models(tmp_path, monkeypatch):
    """The operator's folder."""
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def random_model(name):
    model, config, options = MODELS[name]
    return randomise(model(config(**options))).eval()


def read(path):
    weights = GGUFWeights(path)
    config, family = describe(weights)
    return assemble(config, family, weights, "cpu", torch.float32)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_equals_the_model_that_was_written(tmp_path, name):
    theirs, ids = random_model(name), some_ids(2, 21)
    write(tmp_path / "m.gguf", theirs)
    close(read(tmp_path / "m.gguf")(ids), theirs(ids).logits)


QUANTISED = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]


@pytest.mark.parametrize("kind", QUANTISED)
@torch.no_grad()
def test_equals_transformers_reading_of_the_same_file(tmp_path, kind):
    write(tmp_path / "m.gguf", random_model("llama, untied"), TYPES[kind])
    theirs = hf.LlamaForCausalLM.from_pretrained(tmp_path, gguf_file="m.gguf", dtype=torch.float32).eval()
    ids = some_ids(2, 21)
    ours = read(tmp_path / "m.gguf")
    close(ours(ids), theirs(ids).logits)
    exact = random_model("llama, untied")(ids).logits
    assert (ours(ids) - exact).abs().max() > 1e-4  # it was quantised


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_is_dequantised_as_the_package_does(tmp_path, kind):
    """Any bytes are valid blocks; those of the scales are kept small."""
    block, size = gguf.GGML_QUANT_SIZES[TYPES[kind]]
    raw = np.random.default_rng(0).integers(0, 60, (3, 512 // block * size), dtype=np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_tensor("before", np.ones(5, np.float32))
    if kind == "F32":
        writer.add_tensor("x", raw.view(np.float32))
    elif kind == "F16":
        writer.add_tensor("x", raw.view(np.float16))
    else:
        writer.add_tensor("x", raw, raw_dtype=TYPES[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    theirs = gguf.GGUFReader(tmp_path / "m.gguf").tensors[1]
    expected = gguf.quants.dequantize(theirs.data, theirs.tensor_type).astype(np.float32).reshape(3, 512)
    ours = GGUFWeights(tmp_path / "m.gguf")
    assert ours.kind("x") == kind
    assert ours.shapes == {"before": (5,), "x": (3, 512)}
    np.testing.assert_array_equal(ours.read("x").numpy(), expected)


@torch.no_grad()
def test_frequencies_of_llama_3_come_from_the_file(tmp_path):
    """Its converter stores what each frequency is divided by."""
    options = GROUPED | {"rope_parameters": LLAMA3}
    theirs = randomise(hf.LlamaForCausalLM(hf.LlamaConfig(**options))).eval()
    plain = 500.0 ** -(torch.arange(0, 16, 2) / 16)
    divisors = (plain / theirs.model.rotary_emb.inv_freq).numpy().astype(np.float32)
    assert divisors.max() == pytest.approx(8, rel=1e-5)
    write(tmp_path / "m.gguf", theirs, more=lambda writer: writer.add_tensor("rope_freqs.weight", divisors))
    close(read(tmp_path / "m.gguf")(some_ids(2, 21)), theirs(some_ids(2, 21)).logits)


@torch.no_grad()
def test_is_converted_once_and_then_mapped(tmp_path, models, monkeypatch):
    path = tmp_path / "m.gguf"
    write(path, random_model("llama"), TYPES.Q4_1)
    first, tokenizer = open_checkpoint(path, "cpu", torch.float32)
    monkeypatch.setattr("model.zoo.checkpoint.GGUFWeights", None)  # the file itself is not read again
    second, again = open_checkpoint(path, "cpu", torch.float32)
    ids = some_ids(2, 21)
    assert torch.equal(first(ids), second(ids))
    assert again.definition == tokenizer.definition
    assert first.config == second.config
    os.utime(path, (1, 1))  # another file of the same name
    with pytest.raises(TypeError, match="not callable"):
        open_checkpoint(path, "cpu", torch.float32)
    assert [p.name for p in (models / ".converted").iterdir()] != [converted_folder(path).name]


def test_copies_of_files_that_changed_or_disappeared_are_removed(tmp_path, models):
    changed, gone, kept = (tmp_path / f"{name}.gguf" for name in ("changed", "gone", "kept"))
    for path in (changed, gone, kept):
        write(path, random_model("llama"))
        open_checkpoint(path, "cpu", torch.float32)
    copies = models / ".converted"
    old = {path: converted_folder(path) for path in (changed, gone, kept)}
    assert {folder.name for folder in copies.iterdir()} == {folder.name for folder in old.values()}
    mapped, _ = open_checkpoint(gone, "cpu", torch.float32)
    expected = mapped(some_ids(1, 9))
    os.utime(changed, (1, 1))
    gone.unlink()
    (copies / "of-an-older-version").mkdir()
    (copies / ".part-killed").mkdir()
    (copies / ".part-killed" / "half").write_text("half")
    load("storyteller", device="cpu")  # any loading looks
    assert [folder.name for folder in copies.iterdir()] == [old[kept].name]
    assert torch.equal(mapped(some_ids(1, 9)), expected)  # whoever has it mapped goes on
    open_checkpoint(changed, "cpu", torch.float32)
    assert {folder.name for folder in copies.iterdir()} == {old[kept].name, converted_folder(changed).name}


def test_what_somebody_is_just_converting_stays(models):
    part = models / ".converted" / ".part-new"
    part.mkdir(parents=True)
    with locked("new"):
        remove_stale()
        assert part.is_dir()
    remove_stale()
    assert not part.exists()


@torch.no_grad()
def test_goes_without_a_folder_for_the_copy(tmp_path, monkeypatch):
    path = tmp_path / "m.gguf"
    write(path, random_model("llama"))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path / "file" / "models"))
    ours, _ = open_checkpoint(path, "cpu", torch.bfloat16)
    assert ours.embed.weight.dtype == torch.bfloat16
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path / "full"))
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 0}))
    close(open_checkpoint(path, "cpu", torch.float32)[0](some_ids(1, 9)), read(path)(some_ids(1, 9)))
    assert not any((tmp_path / "full" / ".converted").iterdir())


def test_a_model_in_the_operators_folder_is_found_by_name(models):
    models.mkdir()
    write(models / "own.gguf", random_model("llama"))
    lm = load("own.gguf", device="cpu")
    assert (lm.name, lm.config.d_model) == ("own.gguf", 64)


# What can be wrong with a file.


@pytest.fixture
def sound(tmp_path):
    """A sound file, to be spoiled."""
    write(tmp_path / "m.gguf", random_model("llama"), TYPES.Q8_0)
    return tmp_path / "m.gguf"


def fails(path, says):
    """One CheckpointError with one short sentence, nothing large allocated, and nothing left behind."""
    tracemalloc.start()
    with torch.profiler.profile(profile_memory=True) as profile, pytest.raises(CheckpointError, match=says) as error:
        load(path, device="cpu")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
    assert peak < 32e6
    assert sum(max(0, event.self_cpu_memory_usage) for event in profile.events()) < 4e6


@pytest.mark.parametrize("cut", [0, 3, 4, 8, 20, 30, 200, 900, -40, -1])
def test_a_cut_file(sound, cut):
    sound.write_bytes(sound.read_bytes()[:cut])
    fails(sound, r"m\.gguf (cannot be read|is damaged or not a GGUF file)")


@pytest.mark.parametrize("place", range(8, 2000, 97))
@pytest.mark.parametrize("value", [b"\xff" * 8, struct.pack("<Q", 2**40), b"\0" * 8], ids=["ff", "2**40", "zeros"])
def test_nonsense_anywhere_in_the_header_ends_in_a_sentence_or_a_model(sound, place, value):
    data = bytearray(sound.read_bytes())
    data[place : place + 8] = value
    sound.write_bytes(data)
    said = ""
    try:
        load(sound, device="cpu")
    except ValueError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 600


@pytest.mark.parametrize("claim", [2**63, 2**40, 10**6])
@pytest.mark.parametrize("at", [8, 16])
def test_counts_that_the_file_has_no_room_for(sound, claim, at):
    data = bytearray(sound.read_bytes())
    data[at : at + 8] = struct.pack("<Q", claim)
    sound.write_bytes(data)
    fails(sound, "its header breaks off|unknown type|longer than")


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (b"GGML", "does not begin with GGUF"),
        (b"GGUF" + struct.pack("<I", 1), "version 1"),
        (b"GGUF" + struct.pack(">I", 3), "version 50331648"),
        (b"\x80\x04\x95", "does not begin with GGUF"),
        (b"PK\x03\x04", "does not begin with GGUF"),
    ],
)
def test_other_files(sound, start, says):
    sound.write_bytes(start + sound.read_bytes()[len(start) :])
    fails(sound, says)


def info_at(data, name):
    """Where the number of axes, the type and the offset of a tensor are written."""
    axes = data.index(struct.pack("<Q", len(name)) + name) + 8 + len(name)
    kind = axes + 4 + 8 * struct.unpack_from("<I", data, axes)[0]
    return axes, kind, kind + 4


@pytest.mark.parametrize(
    ("kind", "says"),
    [(999, "unknown type 999"), (16, "stored as IQ2_XXS; read are F32"), (24, "stored as I8"), (14, "cannot store")],
)
def test_a_type_that_is_not_read(sound, kind, says):
    """A sound file of a kind that is not read is not called damaged."""
    data = bytearray(sound.read_bytes())
    struct.pack_into("<I", data, info_at(data, b"blk.1.ffn_up.weight")[1], kind)
    sound.write_bytes(data)
    fails(sound, says)
    with pytest.raises(CheckpointError) as error:
        load(sound, device="cpu")
    assert error.value.fault == ("kind" if "stored as" in says else "damaged")
    assert ("damaged" in str(error.value)) == (error.value.fault == "damaged")


def test_shapes_and_places_that_cannot_be(sound):
    good = sound.read_bytes()
    axes, _, offset = info_at(good, b"blk.1.ffn_up.weight")
    for at, code, value, says in (
        (axes, "<I", 7, "has 7 axes"),
        (axes, "<I", 0, "has 0 axes"),
        (axes + 4, "<Q", 2**62, "ends before|cannot store"),
        (axes + 4, "<Q", 33, "cannot store"),
        (axes + 12, "<Q", 0, "cannot store"),
        (axes + 12, "<Q", 10**6, "ends before|lies on"),
        (offset, "<Q", 0, "lies on another tensor"),
        (offset, "<Q", 2**60, "ends before"),
    ):
        data = bytearray(good)
        struct.pack_into(code, data, at, value)
        sound.write_bytes(data)
        fails(sound, says)


def changed(**changes):
    """A function that leaves out or replaces tensors while writing."""
    return lambda name, x: (name, changes.get(name.replace(".", "_"), x))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (changed(blk_1_ffn_up_weight=None), r"lacks blk\.1\.ffn_up\.weight"),
        (changed(token_embd_weight=None), "no token embeddings"),
        (changed(blk_0_ffn_up_weight=np.zeros((96, 32), np.float32)), r"has shape \(96, 32\); the config asks for"),
        (lambda name, x: (name.replace("blk.1.ffn_up", "blk.9.ffn_up"), x), r"lacks blk\.1\.ffn_up"),
        (changed(token_embd_weight=np.zeros((7, 64), np.float32)), "has 50 tokens and embeds 7"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path, change, says):
    write(tmp_path / "m.gguf", random_model("llama"), change=change)
    fails(tmp_path / "m.gguf", says)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (lambda w: w.add_tensor("blk.0.unknown.weight", np.ones(3, np.float32)), "no place for"),
        (lambda w: w.add_expert_count(8), "experts"),
        (lambda w: w.add_sliding_window(512), "sliding windows"),
        (lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN), "yarn"),
        (lambda w: w.add_embedding_length(10**6), "more than 65,536|cannot be used"),
        (lambda w: w.add_block_count(4096), "more than 1,024"),
        (lambda w: w.add_string("llama.block_count", "many"), "n_layers"),
        (lambda w: w.add_string("general.architecture", "mamba"), "type 'mamba'; read are llama"),
        (lambda w: w.add_tokenizer_pre("superbpe"), "the way of 'superbpe'"),
        (lambda w: w.add_tokenizer_model("bert"), "of kind 'bert'"),
        (lambda w: w.add_token_list(["a", "a"]), "same token twice|not as many"),
        (lambda w: w.add_token_types([1]), "not as many token types"),
        (lambda w: w.add_token_merges(["a"]), "merges"),
    ],
)
def test_metadata_that_do_not_fit(tmp_path, more, says):
    def replacing(writer):
        before = {key: writer.kv_data[0].pop(key) for key in list(writer.kv_data[0])}
        more(writer)
        writer.kv_data[0] = before | writer.kv_data[0]

    write(tmp_path / "m.gguf", random_model("llama"), more=replacing)
    fails(tmp_path / "m.gguf", says)


def test_a_bad_file_leaves_the_loaded_model_alone(sound):
    lm = load("storyteller", device="cpu")
    before = lm.trace("Once upon a time").logits
    sound.write_bytes(sound.read_bytes()[:-1])
    fails(sound, "damaged")
    assert torch.equal(lm.trace("Once upon a time").logits, before)


def test_two_files_and_links_out_of_the_folder(tmp_path, sound, models):
    folder = tmp_path / "two"
    folder.mkdir()
    (folder / "a.gguf").symlink_to(sound)
    fails(folder, r"a\.gguf of two leads out of its folder")
    (folder / "b.gguf").write_bytes(b"")
    fails(folder, "holds several GGUF files")
    models.mkdir()
    (models / "linked").symlink_to(folder)
    fails("linked", "There is no model 'linked'")
