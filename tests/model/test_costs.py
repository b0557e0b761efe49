"""The cost formulas against real modules, torch's own counters, allocated tensors, and published figures."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from model.analysis.costs import (
    CONTEXTS,
    activation_formulas,
    block_parameters,
    bytes_per_value,
    bytes_read,
    cache_formula,
    ceilings,
    decode_flops,
    pair_growth,
    parameter_count,
    parameter_formulas,
    pass_flops,
    rule_of_twelve,
    training_flops,
    training_memory,
    weights_formula,
)
from model.analysis.formula import Factor, Formula, number
from model.analysis.machines import MACHINES, measure
from model.analysis.parameters import parameters_by_part
from model.analysis.presets import PRESETS
from model.attention import Pass
from model.cache import KVCache
from model.config import TransformerConfig
from model.hooks import edit
from model.kernels import Visible
from model.loading import load
from model.transformer import Transformer
from model.zoo.catalog import available
from tests.model.tiny import some_ids, tiny, tiny_config

GIB = 2**30


def planned(config: TransformerConfig) -> Transformer:
    """The real module without memory for its numbers."""
    with torch.device("meta"):
        return Transformer(config)


def total(formulas) -> float:
    return sum(formula.value for formula in formulas.values())


@st.composite
def configs(draw):
    choose = lambda *options: draw(st.sampled_from(options))  # noqa: E731
    kind, kv, repeats = choose("decoder", "encoder", "encoder_decoder"), choose(1, 2, 3), choose(1, 2, 4)
    positions = choose("rope", "learned", "sinusoidal", "alibi", "none")
    flags = ["qkv_bias", "out_bias", "mlp_bias", "tied_embeddings", "embedding_norm", "unembed_bias"]
    flags += ["qk_norm"] if positions == "rope" else []
    return TransformerConfig(
        vocab_size=draw(st.integers(1, 90)),
        d_model=2 * draw(st.integers(1, 20)),
        n_layers=draw(st.integers(1, 4)),
        n_heads=kv * repeats,
        n_kv_heads=kv,
        d_head=2 * draw(st.integers(1, 8)),
        d_ff=draw(st.integers(1, 70)),
        max_positions=draw(st.integers(1, 40)),
        kind=kind,
        n_encoder_layers=draw(st.integers(1, 3)) if kind == "encoder_decoder" else 0,
        positions=positions,
        n_token_types=0 if kind == "encoder_decoder" else choose(0, 2),
        head=choose("linear", "mlm", "none"),
        norm=choose("layernorm", "rmsnorm"),
        norm_place=choose("pre", "post"),
        activation=choose("relu", "gelu_tanh", "gelu_erf", "swiglu", "geglu"),
        **{flag: draw(st.booleans()) for flag in flags},
    )


@given(configs())
def test_formula_equals_counted_parameters_of_any_config(config):
    module = planned(config)
    formulas = {part: formula.count for part, formula in parameter_formulas(config).items()}
    assert formulas == parameters_by_part(module)
    assert parameter_count(config) == sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("name", available())
def test_formula_equals_counted_parameters_of_every_model_at_hand(name):
    lm = load(name, device="cpu")
    counted = parameters_by_part(lm.transformer)
    assert {part: formula.count for part, formula in parameter_formulas(lm.config).items()} == counted
    assert parameter_count(lm.config) == sum(p.numel() for p in lm.transformer.parameters())


@pytest.mark.parametrize("name", PRESETS)
def test_formula_equals_the_module_of_every_preset(name):
    config = PRESETS[name].config
    counted = parameters_by_part(planned(config))
    assert {part: formula.count for part, formula in parameter_formulas(config).items()} == counted


def test_published_counts():
    """Exact counts of the released checkpoints."""
    published = {
        "gpt2": 124_439_808,
        "llama2_7b": 6_738_415_616,
        "llama3_8b": 8_030_261_248,
        "llama31_70b": 70_553_706_496,
    }
    assert {name: parameter_count(PRESETS[name].config) for name in published} == published


@pytest.mark.parametrize(
    ("d_model", "n_layers", "n_heads", "millions"),
    [(768, 12, 12, 125), (1024, 24, 16, 356), (1536, 24, 16, 760), (2560, 32, 32, 2_650), (4096, 32, 32, 6_660)],
)
def test_the_smaller_models_of_the_gpt_3_paper(d_model, n_layers, n_heads, millions):
    """Sizes of table 2.1, parameters of table D.1, which rounds to three digits."""
    head = d_model // n_heads
    config = PRESETS["gpt3"].config.replace(
        d_model=d_model, n_layers=n_layers, n_heads=n_heads, n_kv_heads=n_heads, d_head=head, d_ff=4 * d_model
    )
    assert parameter_count(config) / 1e6 == pytest.approx(millions, rel=4e-3)


def test_gpt_3_by_parts():
    """Brown et al. 2020, tables 2.1 and D.1: 96 layers, width 12,288, 174,600 million parameters, 3.14e23 FLOPs."""
    config = PRESETS["gpt3"].config
    assert (config.n_layers, config.d_model, config.n_heads, config.d_head) == (96, 12_288, 96, 128)
    assert round(parameter_count(config) / 1e8) == 1_746
    d, parts = 12_288, {part: formula.count for part, formula in parameter_formulas(config).items()}
    assert parts == {
        "embedding": 50_257 * d,
        "positions": 2_048 * d,
        "attention": 96 * (4 * d * d + 4 * d),
        "feed_forward": 96 * (8 * d * d + 5 * d),
        "norms": 2 * (2 * 96 + 1) * d,
    }
    assert training_flops(parameter_count(config), 300 * 10**9).value == pytest.approx(3.14e23, rel=2e-3)
    assert rule_of_twelve(config).count == 12 * 96 * d * d
    assert rule_of_twelve(config).count / block_parameters(config) == pytest.approx(1, abs=1e-4)


def test_published_cache_sizes():
    """Llama 2 7B at 4k in fp16: 2 GiB with 32 key/value heads, a quarter with 8; Llama 3.1 70B at 128k: 40 GiB."""
    seven = PRESETS["llama2_7b"].config
    assert cache_formula(seven, 4_096, 16).count == 2 * GIB
    assert cache_formula(seven, 1, 16).count == 512 * 1024
    assert cache_formula(seven.replace(n_kv_heads=8), 4_096, 16).count == GIB // 2
    assert cache_formula(PRESETS["llama31_70b"].config, 131_072, 16).count == 40 * GIB
    assert cache_formula(PRESETS["gpt3"].config, 2_048, 16).count == 9 * GIB


DTYPES = {32: torch.float32, 16: torch.bfloat16, 8: torch.float32, 4: torch.float32}


@given(
    st.sampled_from([32, 16, 8, 4]),
    st.sampled_from([(8, 8), (8, 2), (8, 1)]),
    st.sampled_from([32, 64, 128]),
    st.integers(1, 3),
    st.integers(1, 50),
)
def test_cache_formula_equals_the_bytes_allocated(bits, heads, d_head, n_layers, room):
    config = tiny_config(n_heads=heads[0], n_kv_heads=heads[1], d_head=d_head, n_layers=n_layers)
    cache = KVCache(config, room=room, bits=bits if bits <= 8 else None, dtype=DTYPES[bits])
    formula = cache_formula(config, room, bits)
    assert formula.count == formula.value == cache.nbytes


def counted_flops(transformer: Transformer, ids: torch.Tensor, cache: KVCache | None = None) -> int:
    """By torch's counter; the kernel is made explicit, whose two products it sees on every machine."""
    names = [f"blocks.{i}.attn.hook_pattern" for i in range(transformer.config.n_layers)]
    with torch.no_grad(), edit(dict.fromkeys(names, lambda x, name: None)), FlopCounterMode(display=False) as counter:
        transformer(ids, cache=cache, last_only=True)
    return counter.get_total_flops()


@pytest.mark.parametrize("activation", ["gelu_tanh", "swiglu"])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_flops_equal_torchs_counter(activation, heads, kind):
    transformer = tiny(activation=activation, n_heads=heads[0], n_kv_heads=heads[1], n_layers=3, kind=kind)
    config, n = transformer.config, 13
    assert counted_flops(transformer, some_ids(1, n)) == total(pass_flops(config, n))
    if kind == "encoder":
        return
    cache = KVCache(config, room=20)
    with torch.no_grad():
        transformer(some_ids(1, n - 1), cache=cache)
    assert counted_flops(transformer, some_ids(1, 1), cache) == total(decode_flops(config, n))


@pytest.mark.parametrize("head", ["mlm", "none"])
def test_flops_of_other_heads(head):
    transformer = tiny(kind="encoder", head=head)
    assert counted_flops(transformer, some_ids(1, 9)) == total(pass_flops(transformer.config, 9))


def test_flops_of_an_encoder_decoder():
    transformer = tiny(kind="encoder_decoder", n_encoder_layers=3, positions="sinusoidal")
    config, n = transformer.config, 9
    names = [f"blocks.{i}.{kind}.hook_pattern" for i in range(2) for kind in ("attn", "cross_attn")]
    names += [f"encoder.blocks.{i}.attn.hook_pattern" for i in range(3)]
    ids = some_ids(1, n)
    with torch.no_grad(), edit(dict.fromkeys(names, lambda x, name: None)), FlopCounterMode(display=False) as counter:
        transformer(ids, last_only=True, encoder_ids=ids)
    assert counter.get_total_flops() == total(pass_flops(config, n))


def test_decoding_n_tokens_costs_what_reading_them_costs_but_for_pairs_and_heads():
    config, n = tiny_config(), 20
    one_by_one = sum(decode_flops(config, i)["matrices"].value for i in range(1, n + 1))
    assert one_by_one == pass_flops(config, n)["matrices"].value


def test_pairs_grow_with_the_square():
    assert CONTEXTS == (1024, 4096, 32768, 131072)
    assert pair_growth() == (1, 16, 1_024, 16_384)
    flops = [pass_flops(PRESETS["gpt2"].config, n)["attention"].value for n in CONTEXTS]
    assert [one / flops[0] for one in flops] == [1, 16, 1_024, 16_384]


def test_training_memory_equals_what_torch_allocates():
    transformer = tiny().requires_grad_()
    optimiser = torch.optim.AdamW(transformer.parameters())
    transformer(some_ids(1, 6)).sum().backward()
    optimiser.step()
    memory = {part: formula.count for part, formula in training_memory(transformer.config, 32).items()}
    states = [value for state in optimiser.state.values() for key, value in state.items() if key != "step"]
    assert memory == {
        "weights": sum(p.nbytes for p in transformer.parameters()),
        "gradients": sum(p.grad.nbytes for p in transformer.parameters()),
        "optimiser": sum(state.nbytes for state in states),
    }
    assert weights_formula(transformer.config, 32).count == memory["weights"]


def test_sixteen_bytes_a_parameter_in_mixed_precision():
    """Rajbhandari et al. 2020, section 3.1: 2 + 2 + 12 bytes."""
    config = PRESETS["gpt3"].config
    memory = training_memory(config, 16)
    assert sum(formula.count for formula in memory.values()) == 16 * parameter_count(config)
    assert memory["optimiser"].count == 12 * parameter_count(config)


def test_activations_are_those_that_autograd_keeps():
    """Of a GPT-2-like model with the matrix written out: everything saved once, beside a few numbers a token."""
    transformer = tiny(
        positions="learned", norm="layernorm", activation="gelu_erf", n_kv_heads=4, mlp_bias=True, qkv_bias=True
    ).requires_grad_()
    config, n = transformer.config, 12
    saved: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    ids, weights = some_ids(1, n), {p.untyped_storage().data_ptr() for p in transformer.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        x = transformer.embed(ids)
        for block in transformer.blocks:
            x = block(x, Pass(Visible(causal=True)))
    kept = sum(size for pointer, size in saved.items() if pointer not in weights)
    vectors = activation_formulas(config, n, 32)["vectors"].count
    # Mean and scale of two norms and the fused kernel's log of sums by head: single numbers a token, not vectors.
    statistics = config.n_layers * n * 4 * (2 * 2 + config.n_heads)
    assert kept == vectors + statistics + ids.nbytes


def test_logits_are_what_the_loss_keeps():
    """Korthikanti et al. 2022, section 4.3; and their gradient is as large."""
    config, n = tiny_config(), 12
    logits = torch.randn(n, config.vocab_size, requires_grad=True)
    saved: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    targets = torch.zeros(n, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        loss = torch.nn.functional.cross_entropy(logits, targets)
    loss.backward()
    counted = activation_formulas(config, n, 16)["logits"].count
    assert max(saved.values()) == counted == logits.grad.nbytes
    assert sum(saved.values()) - counted <= targets.nbytes + 4, "and the sum of the weights"
    assert "logits" not in activation_formulas(config.replace(head="none"), n, 16)


def test_activations_of_a_layer_as_published():
    """Korthikanti et al. 2022, equation 1: s·b·h·(34 + 5·a·s/h) bytes; dropout's masks and copies taken off."""
    config, n = PRESETS["gpt3"].config, 2_048
    formulas = activation_formulas(config, n, 16)
    h, a = config.d_model, config.n_heads
    assert formulas["vectors"].count == 96 * n * h * (34 - 2)
    assert formulas["patterns"].count == 96 * 2 * a * n * n


def test_ceilings_of_a_known_case():
    """Llama 2 7B in 16 bits on 2,039 GB/s without a text: 13.2 GB a token, 154 tokens/s."""
    config, machine = PRESETS["llama2_7b"].config, MACHINES["a100"]
    read = bytes_read(config, 4_096, 16, 16)
    assert read["weights"].count == 2 * (6_738_415_616 - 131_072_000)
    assert read["cache"].count == 2 * GIB
    found = ceilings(config, 4_096, 16, 16, machine.bandwidth, machine.flops)
    assert found.tokens_per_second == found.by_bandwidth == pytest.approx(2_039e9 / (13_214_687_232 + 2 * GIB))
    assert found.by_compute == pytest.approx(312e12 / total(decode_flops(config, 4_096)))
    assert found.prefill_seconds == pytest.approx(total(pass_flops(config, 4_096)) / 312e12)
    with pytest.raises(ValueError, match="greater than 0"):
        ceilings(config, 1, 16, 16, 0, 1)


def test_a_tied_matrix_is_read_as_the_output_one():
    tied, untied = (tiny_config(tied_embeddings=flag) for flag in (True, False))
    assert bytes_read(tied, 4, 32, 32)["weights"].count == bytes_read(untied, 4, 32, 32)["weights"].count
    learned = tiny_config(positions="learned")
    assert bytes_read(learned, 4, 32, 32)["weights"].count == bytes_read(tied, 4, 32, 32)["weights"].count


def test_an_encoder_writes_nothing():
    config = tiny_config(kind="encoder")
    with pytest.raises(ValueError, match="decoder"):
        decode_flops(config, 3)
    with pytest.raises(ValueError, match="decoder"):
        cache_formula(config, 3, 16)
    with pytest.raises(ValueError, match="decoder"):
        bytes_read(config, 3, 16, 16)


def test_a_formula_is_computed_from_what_it_shows():
    formula = Formula(((number(2), Factor("d", 3), Factor("d", 3)), (Factor("b", 0.5),)), (Factor("L", 1_000),))
    assert formula.symbols == "L·(2·d·d + b)"
    assert formula.numbers == "1,000·(2·3·3 + 0.5)"
    assert formula.value == eval(formula.numbers.replace(",", "").replace("·", "*"))
    assert formula.factors() == {"L": 1_000, "d": 3, "b": 0.5}
    assert Formula(((Factor("x", 7),),)).symbols == "x"


@pytest.mark.parametrize("name", PRESETS)
def test_every_shown_formula_evaluates_to_its_value(name):
    config = PRESETS[name].config
    for formulas in (
        parameter_formulas(config),
        pass_flops(config, 4_096),
        decode_flops(config, 4_096),
        training_memory(config, 16),
        activation_formulas(config, 4_096, 16),
        {"cache": cache_formula(config, 4_096, 8), "rule": rule_of_twelve(config)},
    ):
        for formula in formulas.values():
            assert math.isclose(eval(formula.numbers.replace(",", "").replace("·", "*")), formula.value)


def test_bytes_per_value():
    assert [bytes_per_value(bits) for bits in (32, 16, 8, 4)] == [4, 2, 1.25, 0.75]


def test_this_machine_is_measured():
    machine = measure(torch.device("cpu"), torch.float32, repeats=1)
    assert 1e8 < machine.bandwidth < 1e13
    assert 1e8 < machine.flops < 1e15
