"""The page on size and cost: every number on it against the formulas' own tests' references, for any plan."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from model.analysis import costs
from model.analysis.machines import MACHINES
from model.analysis.parameters import count_of_config
from model.analysis.presets import PRESETS
from model.language import LanguageModel
from pages.kit import loading, machines, notices, numbers, plans, repairs
from pages.kit.choices import Selection
from pages.kit.prose import Prose
from tests.cases import TEXTS
from tests.pages.reading import array, boxes, captions, figure, fragments, read, said, shares, tables
from tests.pages.visit import remarks, selection, visit, well

GPT3 = {"plan": "gpt3", "machine": "h100"}


def opened(**parameters: object) -> AppTest:
    return well(visit("cost", **parameters))


def test_the_loaded_model_is_counted(storyteller: LanguageModel) -> None:
    app = opened()
    n = sum(p.numel() for p in storyteller.transformer.parameters())
    assert shares(app)["all"] == n
    (caption,) = [(kind, text) for kind, text in captions(app) if "counted on the loaded model" in text]
    assert caption[0] == "measured"
    assert f"{n:,}, difference from the formulas: 0" in caption[1]


def test_gpt_3_as_published() -> None:
    """Brown et al. 2020, tables 2.1 and D.1."""
    app = opened(**GPT3)
    d = 12_288
    assert shares(app) == {
        "embedding": 50_257 * d,
        "positions": 2_048 * d,
        "attention": 96 * (4 * d * d + 4 * d),
        "feed-forward": 96 * (8 * d * d + 5 * d),
        "norms": 386 * d,
        "all": 174_604_259_328,
    }
    (text,) = [text for _, text in captions(app) if "module of ours" in text]
    assert "174,604,259,328, difference from the formulas: 0" in text
    assert "sizes: Brown et al. 2020, table 2.1" in boxes(app)[0]
    assert "norms: 2·(2·L + 1)·d\n2·193·12,288 = 4,743,168" in boxes(app)[0]
    assert "12·96·12,288·12,288" in said(app)
    assert "gives 1.000 times as many" in said(app)
    assert "attention of this model has 4.00" in said(app) and "feed-forward 8.00" in said(app)


def test_words_in_a_formula_are_the_readers() -> None:
    assert "positions: positions·d\n" in boxes(opened(**GPT3))[0]
    (box, *_) = boxes(opened(lang="zh", **GPT3))
    assert "位置: 位置数·d\n" in box and "positions" not in box


def test_every_shown_calculation_is_right() -> None:
    """Each "2·96·… = result" of the page is worked out again from its own text."""
    units = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
    units |= {f"{unit}i": 1024 ** (i + 1) for i, unit in enumerate("KMGTP")}
    for parameters in ({}, GPT3, {"plan": "llama31_70b", "plan_bits": "4", "machine": "a100"}):
        found = 0
        for body in fragments(opened(**parameters)):
            for code in re.findall("<code>(.*?)</code>", body) if "atlas-arithmetic'" in body else ():
                text = "".join(read(code).texts).replace("\u00a0", " ")
                match = re.fullmatch(r"([\d,.·+() ]+) = ([\d,.]+) ?([KMGTPE]?i?)(?:B|FLOP)?", text)
                if match and "·" in match[1]:
                    value = eval(match[1].replace(",", "").replace("·", "*"))
                    assert float(match[2].replace(",", "")) * units[match[3]] == pytest.approx(value, rel=6e-3), text
                    found += 1
        assert found >= 14


def test_the_table_of_squares() -> None:
    table = tables(opened(**GPT3))[0]
    assert {name: cells[0] for name, cells in table.items()} == {
        "1,024": "1×",
        "4,096": "16×",
        "32,768": "1,024×",
        "131,072": "16,384×",
    }
    for length, cells in table.items():
        n = int(length.replace(",", ""))
        work = 4 * 96 * n * n * 96 * 128
        rest = 2 * n * 96 * 12 * 12_288**2 + 2 * 12_288 * 50_257
        assert cells[1] == numbers.with_prefix(work, "FLOP")
        assert cells[2] == numbers.percent(work / (work + rest))
        assert cells[3] == numbers.memory(2 * n * n)


def test_the_curve_and_where_it_crosses() -> None:
    app = opened(**GPT3)
    matrices, attention = (trace for trace in figure(app, "work_by_length")["data"])
    lengths = array(matrices["x"]).round()
    expected = [2 * n * 96 * 12 * 12_288**2 for n in lengths]
    assert array(matrices["y"]).tolist() == pytest.approx(expected)
    assert array(attention["y"]).tolist() == pytest.approx([4 * 96 * n * n * 12_288 for n in lengths])
    assert "from 73,728 tokens on" in " ".join(text for _, text in captions(app)), "6·d"


def test_memory_bars() -> None:
    app, n = opened(**GPT3), 174_604_259_328
    using = array(figure(app, "memory_using")["data"][0]["x"])
    assert using.tolist() == [2 * n, 9 * 2**30]
    training = array(figure(app, "memory_training")["data"][0]["x"])
    vectors, patterns = 96 * 2_048 * 12_288 * 32, 2 * 96 * 96 * 2_048**2
    logits = 4 * 2_048 * 50_257
    assert training.tolist() == [2 * n, 2 * n, 12 * n, vectors, logits, patterns]
    assert f"**Training it**: {numbers.memory(16 * n + vectors + logits)}" in said(app)


def test_ceilings() -> None:
    app = opened(plan="llama2_7b", machine="a100")
    weights = 2 * (6_738_415_616 - 32_000 * 4_096)
    rate = 2_039e9 / (weights + 2 * 2**30)
    assert f"at best **{numbers.three_digits(rate)} tokens/s**" in said(app)
    assert "Memory sets the limit" in said(app)
    box = boxes(app)[-1]
    assert "2.04\u00a0TB/s ÷ 14.3\u00a0GiB" in box
    assert any("NVIDIA A100 datasheet" in text for kind, text in captions(app) if kind == "computed")
    app.main.number_input(key="choose_bandwidth").set_value(1e6)
    app.main.number_input(key="choose_tflops").set_value(0.001)
    well(app.run())
    assert "Arithmetic sets the limit" in said(app)
    assert any("your numbers" in text for _, text in captions(app))
    assert (app.query_params["bandwidth"], app.query_params["tflops"]) == ("1000000", "0.001")
    app.main.selectbox(key="choose_machine").set_value("h100")
    well(app.run())
    assert selection(app).bandwidth is selection(app).tflops is None
    box = app.main.number_input(key=app.main.number_input[-1].key)
    assert (box.value, box.step) == (989.4, 10)
    assert "÷ 989\u00a0TFLOP/s" in boxes(app)[-1]


def test_this_machine_is_measured_and_the_model_on_it() -> None:
    app = opened()
    assert selection(app).machine == machines.HERE
    assert [kind for kind, text in captions(app) if "measured here" in text] == ["measured"]
    before = loading.model("storyteller")
    measured = machines.of(selection(app), before)
    assert f"{numbers.with_prefix(measured.bandwidth, 'B/s')} ÷" in boxes(app)[-1]
    assert "really wrote" in said(app)
    well(app.button(key="measure_again").click().run())
    again = machines.of(selection(app), before)
    assert again != measured
    assert f"{numbers.with_prefix(again.bandwidth, 'B/s')} ÷" in boxes(app)[-1]


def test_only_the_loaded_model_on_this_machine_has_a_measured_speed() -> None:
    assert "really wrote" not in said(opened(plan_layers=3))
    assert "really wrote" not in said(opened(machine="h100"))


def test_turning_every_size(storyteller: LanguageModel) -> None:
    app = opened()
    sizes = {"plan_d": 512, "plan_layers": 3, "plan_heads": 4, "plan_kv": 2, "plan_ff": 100, "plan_vocab": 1000}
    for name, value in (sizes | {"plan_context": 64}).items():
        app.main.number_input(key=f"choose_{name}").set_value(value)
    app.main.toggle(key="choose_plan_learned").set_value(True)
    app.main.toggle(key="choose_plan_tied").set_value(False)
    app.main.toggle(key="choose_plan_gated").set_value(False)
    app.main.button_group(key="choose_plan_bits").set_value(8)
    well(app.run())
    expected = {
        "embedding": 1000 * 512,
        "positions": 64 * 512,
        "attention": 3 * (2 * 512 * 512 + 2 * 512 * 256),
        "feed-forward": 3 * 2 * 512 * 100,
        "norms": 7 * 512,
        "output matrix": 1000 * 512,
    }
    assert shares(app) == expected | {"all": sum(expected.values())}
    assert {name: int(app.query_params[name]) for name in sizes} == sizes
    assert app.query_params["plan_learned"] == "1"
    assert app.query_params["plan_tied"] == app.query_params["plan_gated"] == "0"
    assert shares(opened(**dict(app.query_params.items()))) == shares(app), "the link shows the same"
    assert "storyteller, changed by you" in boxes(app)[0]
    well(app.button(key="plan_back").click().run())
    assert shares(app)["all"] == sum(p.numel() for p in storyteller.transformer.parameters())
    assert not [name for name in app.query_params if name.startswith("plan")]


def test_the_length_of_the_readers_text() -> None:
    app = opened(text="one two", plan="gpt3")
    assert app.button(key="plan_own_length").label == "Calculate with your 2 tokens"
    well(app.button(key="plan_own_length").click().run())
    assert app.query_params["plan_context"] == "2"
    assert "Reading 2 tokens" in boxes(app)[1]
    assert app.button(key="plan_own_length").disabled


def test_another_preset_forgets_what_was_changed() -> None:
    app = opened(plan="gpt2", plan_d=1536, plan_bits=4)
    app.main.selectbox(key="choose_plan").set_value("gpt3")
    well(app.run())
    assert shares(app)["all"] == 174_604_259_328
    assert app.query_params["plan"] == "gpt3"


def test_neurons_and_kv_heads_follow_what_was_changed() -> None:
    config = plans.of(repairs.repaired(Selection(plan="llama3_8b", plan_d=2048, plan_heads=16))).config
    assert (config.d_model, config.d_head, config.d_ff, config.n_kv_heads) == (2048, 128, 14336 // 2, 4)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"plan_d": "0"}, "“Width d” cannot be 0"),
        ({"plan_d": "1000", "plan_heads": "7"}, "A width of 1,000 cannot be split into 7 equal heads"),
        ({"plan_d": "65536", "plan_heads": "1"}, "A width of 65,536 cannot be split into 1 equal heads"),
        ({"plan_kv": "5"}, "8 query heads cannot share 5 key/value heads evenly"),
        ({"plan_layers": "-3"}, "“Blocks L” cannot be −3"),
        ({"plan_vocab": "many"}, "“Vocabulary V”"),
        ({"plan_tied": "2"}, "“Output = embedding”"),
        ({"plan_bits": "7"}, "“Bits a weight”"),
        ({"machine": "abacus"}, "“Machine”"),
        ({"bandwidth": "0"}, "“Bandwidth, GB/s” cannot be 0"),
        ({"tflops": "nan"}, "“Arithmetic, TFLOP/s”"),
    ],
)
def test_a_link_that_asks_for_what_there_is_not(parameters: dict[str, str], sentence: str) -> None:
    assert sentence in remarks(opened(**parameters))


WILD = st.none() | st.integers(-10, 2_000_000)


@settings(max_examples=60)
@given(
    st.fixed_dictionaries(dict.fromkeys((*plans.RANGES, "plan_bits", "plan_cache"), WILD)),
    st.fixed_dictionaries(dict.fromkeys(plans.FLAGS, st.none() | st.booleans())),
    st.sampled_from(plans.NAMES),
)
def test_any_sizes_become_a_plan(sizes: dict, flags: dict, name: str) -> None:
    """Whatever a link says: a config that can be built, and formulas that count it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notices, "add", lambda section, **_: None)
        plan = plans.of(repairs.repaired(Selection(plan=name, **sizes, **flags)))
    assert plan.config.d_head * plan.config.n_heads == plan.config.d_model
    small = plan.config.replace(n_layers=min(plan.config.n_layers, 2))
    assert costs.parameter_count(small) == count_of_config(small)


def test_a_loaded_model_with_options_of_its_own_can_be_resized(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = loading.model("storyteller")
    odd = lm.config.replace(d_rotary=16, rope_divisors=(2.0,) * 8, qk_norm=True)
    monkeypatch.setattr(lm.transformer, "config", odd)
    monkeypatch.setattr(notices, "add", lambda section, **_: None)
    for changes in ({"plan_d": 512}, {"plan_learned": True}, {"plan_heads": 4}):
        config = plans.of(repairs.repaired(Selection(**changes))).config
        assert costs.parameter_count(config) == count_of_config(config)


def test_an_encoder_is_reckoned_with_too(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = loading.model("storyteller")
    monkeypatch.setattr(lm.transformer, "config", lm.config.replace(kind="encoder", head="mlm"))
    app = opened()
    assert said(app).count("does not write token by token") == 2
    assert len(array(figure(app, "memory_using")["data"][0]["x"])) == 1


def test_models_side_by_side() -> None:
    table = tables(opened())[-1]
    plain = {name: [cell.replace("\u00a0", " ") for cell in cells] for name, cells in table.items()}
    assert plain["GPT-3"][:4] == ["175 B", "1.00", "325 GiB", "9.00 GiB"]
    assert plain["Llama 2 7B"][:4] == ["6.74 B", "0.99", "12.6 GiB", "2.00 GiB"]
    assert plain["storyteller"][:4] == ["6.52 M", "1.07", "24.9 MiB", "3.00 MiB"]
    assert list(plain) == ["storyteller", *(preset.name for preset in PRESETS.values())]


def test_every_figure_says_where_it_is_from() -> None:
    kinds = captions(opened())
    assert [text.split()[0] for _, text in kinds] == [kind for kind, _ in kinds]
    assert {kind for kind, _ in kinds} == {"measured", "computed"}
    elsewhere = captions(opened(machine="a100", plan="gpt2"))
    assert [text.split(" ", 1)[1].split(" · ")[0] for kind, text in elsewhere if kind == "measured"] == [
        "the loaded model"
    ]


def test_machines_are_as_published() -> None:
    """Data sheets of NVIDIA: memory bandwidth, and dense 16-bit matrix products with fp32 sums."""
    published = {"rtx4090": (1_008e9, 165.2e12), "a100": (2_039e9, 312e12), "h100": (3_350e9, 989.4e12)}
    assert {name: (MACHINES[name].bandwidth, MACHINES[name].flops) for name in published} == published


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(text: str, lang: str) -> None:
    app = opened(text=text, lang=lang)
    assert app.title[0].value == Prose("cost", lang).plain("title")
    assert len(boxes(app)) == 6


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("plan", plans.NAMES)
@pytest.mark.parametrize("machine", machines.NAMES)
def test_every_plan_on_every_machine(plan: str, machine: str, lang: str) -> None:
    opened(plan=plan, machine=machine, lang=lang)
