"""The page on positions: what it shows is recomputed here, from the models and from the papers' formulas."""

import math
import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from model.analysis.position_loss import binned_loss
from model.analysis.position_models import SCHEMES, load_position_models, read_loss_curves, read_story
from model.analysis.rope_steps import SHIFTS, rope_score
from model.analysis.word_order import reordered
from model.positions import alibi_slopes, sinusoidal_table
from pages.kit.choices import POSITION_SCHEMES
from pages.kit.figures import Turn, position_table, rotation
from pages.kit.numbers import signed, three_digits
from pages.kit.palette import DARK, LIGHT
from tests.cases import TEXTS
from tests.pages.component_io import pick, sent
from tests.pages.reading import (
    AWKWARD,
    array,
    box,
    captions,
    drawn,
    figure_with_alt,
    fragments,
    number,
    read,
    said,
    tables,
)
from tests.pages.visit import TEXT, remarks, selection, visit, well


@pytest.fixture(scope="module")
def five():
    return load_position_models()


def opened(**parameters: str) -> AppTest:
    page = well(visit("positions", **parameters))
    assert page.title[0].value in ("How does it know the order?", "它怎么知道先后顺序？")
    return page


def data(page: AppTest, alt: str) -> list[dict]:
    """The traces of the figure whose alt text starts like this."""
    return figure_with_alt(page, alt)["data"]


def table_rows(page: AppTest, place: int) -> list[tuple[str, list[str]]]:
    """The rows of one table of numbers: name with its note, and cells."""
    return list(tables(page, notes=True)[place].items())


# --- the order of the tokens


def test_the_same_tokens_in_two_orders(storyteller, five) -> None:
    page, both = opened(), "The vector of one token in both orders, and the difference, in the model"
    assert "`Tom saw Lily`" in said(page)
    assert "`Lily saw Tom`" in said(page)
    rows = table_rows(page, 0)
    for (name, cells), (lm, causal) in zip(
        rows, [(lm, causal) for lm in (five["none"], storyteller) for causal in (False, True)], strict=True
    ):
        of = reordered(lm, lm.tokenizer.encode(" Tom saw Lily"), (2, 1, 0), causal=causal)
        assert cells[1] == three_digits(of.largest)
        if lm is storyteller or causal:
            assert cells[0] == three_digits(of.difference)
            assert of.difference > 1e-2 * of.largest
        else:
            assert number(cells[0]) <= 1e-5 * of.largest
        assert ("earlier" in name) == causal
        assert ("no positions" in name) == (lm is five["none"])
    for alt, lm in (("Small model", five["none"]), ("storyteller", storyteller)):
        first, second, difference = (array(trace["z"])[0] for trace in data(page, f"{both}: {alt}"))
        of = reordered(lm, lm.tokenizer.encode(" Tom saw Lily"), (2, 1, 0), causal=False)
        np.testing.assert_allclose(first, of.first[0], atol=1e-5)
        np.testing.assert_allclose(difference, second - first, atol=1e-5)


def test_the_reader_s_own_text_backwards(storyteller) -> None:
    page = opened(swapped="own", text=TEXT)
    n = len(storyteller.tokenizer.encode(TEXT))
    of = reordered(storyteller, storyteller.tokenizer.encode(TEXT), range(n)[::-1], causal=False)
    assert table_rows(page, 0)[2][1] == [three_digits(of.difference), three_digits(of.largest)]
    assert "One token has no order" in said(opened(swapped="own", text="a"))


# --- side by side


def test_four_schemes_on_one_text(five) -> None:
    page = opened(text=TEXT)
    ids = five["none"].tokenizer.encode(TEXT)
    (header, says), (_, looks) = sent(page, "says"), sent(page, "looks")
    assert header["labels_q"] == five["none"].tokenizer.labels(ids)
    table = sinusoidal_table(len(ids), 96)
    np.testing.assert_allclose(says[0], table @ table.T, rtol=1e-4)
    learned = five["learned"].trace(TEXT)["hook_pos_embed"]
    np.testing.assert_allclose(says[1], learned @ learned.T, rtol=1e-3, atol=1e-4)
    at = np.arange(len(ids))
    distance = np.abs(at[:, None] - at)
    turns = np.cos(distance[..., None] * 10_000.0 ** (-np.arange(0, 24, 2) / 24)).mean(-1)
    np.testing.assert_allclose(says[2], turns, atol=1e-5)
    np.testing.assert_allclose(says[3], -distance / 4, atol=1e-6)
    for scheme, values in zip(POSITION_SCHEMES, looks, strict=True):
        run = five[scheme].trace(TEXT)
        mean = np.mean([run[f"blocks.{i}.attn.hook_pattern"].mean(0).numpy() for i in range(4)], axis=0)
        visible = np.tril(np.ones_like(mean, bool))
        np.testing.assert_allclose(values[visible], mean[visible], atol=1e-5)
        assert np.isnan(values[~visible]).all()


def test_a_click_in_a_matrix_chooses_the_position() -> None:
    page = well(pick(opened(text=TEXT, scheme="learned"), "looks", query=3, key=1))
    assert page.query_params["position"] == "3"
    assert sent(page, "says")[0]["query"] == 3
    assert page.slider[0].value == 3


# --- one scheme from near


@pytest.mark.parametrize(
    ("position", "pair", "width", "theta"), [(10, 3, 96, 10_000), (127, 0, 8, 100), (0, 31, 64, 1_000_000)]
)
def test_sinusoidal(five, position, pair, width, theta) -> None:  # fmt: skip
    page = opened(scheme="sinusoidal", position=f"{position}", pair=f"{pair}", table_width=f"{width}", theta=f"{theta}")
    shown = array(data(page, "The table of positions")[0]["z"])
    assert shown.shape == (128, width)
    angles = np.arange(128)[:, None] / theta ** (np.arange(0, width, 2) / width)
    np.testing.assert_allclose(shown[:, 0::2], np.sin(angles), atol=1e-4)
    np.testing.assert_allclose(shown[:, 1::2], np.cos(angles), atol=1e-4)
    sine, cosine = (array(trace["y"]) for trace in data(page, "Sine and cosine"))
    np.testing.assert_allclose(sine, np.sin(angles[:, pair]), atol=1e-4)
    np.testing.assert_allclose(cosine, np.cos(angles[:, pair]), atol=1e-4)
    waves = array(data(page, "Wavelength of each pair")[0]["y"])
    np.testing.assert_allclose(waves, 2 * math.pi * theta ** (np.arange(0, width, 2) / width), rtol=1e-4)
    dots = array(data(page, f"Dot product of the row of position {position}")[0]["y"])
    np.testing.assert_allclose(dots, np.cos(angles - angles[position]).sum(1), atol=1e-2)
    assert three_digits(float(angles[position, pair])) in box(page)
    assert f"{math.cos(angles[position, pair]):.3f}".replace("-", "−") in box(page)
    ends = [2 * math.pi * base ** ((width - 2) / width) for base in (100, 10_000)]
    assert f"in {three_digits(ends[0])} positions instead of {three_digits(ends[1])}" in said(page)
    own = [caption.value for caption in page.caption if "difference from what" in caption.value]
    assert bool(own) == (width == 96 and theta == 10_000)
    if own:
        assert number(re.findall(r": (.*)\.", own[0].replace("\\", ""))[0]) <= 1e-6


def test_learned(five) -> None:
    page = opened(scheme="learned", position="5")
    table = five["learned"].transformer.pos_embed.weight.numpy()
    np.testing.assert_allclose(array(data(page, "The table of positions")[0]["z"]), table, atol=1e-6)
    lengths = array(data(page, "Length of each row")[0]["y"])
    np.testing.assert_allclose(lengths, np.linalg.norm(table, axis=1), rtol=1e-4)
    (text,) = [text for _, text in captions(page) if "mean of the trained rows" in text]
    assert three_digits(float(lengths[:64].mean())) in text
    assert three_digits(float(lengths[64:].mean())) in text
    dots = array(data(page, "Dot product of the row of position 5")[0]["y"])
    np.testing.assert_allclose(dots, table @ table[5], atol=1e-4)


def test_rope(storyteller) -> None:
    page = opened(scheme="rope", text=TEXT, layer="2", head="3", token="9", key="4", pair="3")
    run = storyteller.trace(TEXT)
    of = rope_score(run, 2, 3, 9, 4)
    curve = array(data(page, "Score of this query")[0]["y"])
    np.testing.assert_allclose(curve, of.by_distance, atol=1e-5)
    score = float(run["blocks.2.attn.hook_attn_scores"][3, 9, 4])
    assert curve[5] == pytest.approx(score, abs=1e-4)
    assert f"{score:.3f}".replace("-", "−") in box(page)
    assert f"{float(of.parts[3]):.3f}".replace("-", "−") in box(page)
    arrows = [trace for trace in data(page, "Pair 3") if trace["mode"] == "lines+markers"]
    recorded = {"q": run["blocks.2.attn.hook_rot_q"][9, 3], "k": run["blocks.2.attn.hook_rot_k"][4, 3 // 2]}
    for arrow, vector in zip(arrows[1::2], (recorded["q"], recorded["k"]), strict=True):
        end = array(arrow["x"])[1], array(arrow["y"])[1]
        np.testing.assert_allclose(end, vector[[3, 19]], atol=1e-5)
    angles = data(page, "Cosine of the angle")[0]
    expected = np.arange(32)[:, None] * 10_000.0 ** (-np.arange(0, 32, 2) / 32)
    np.testing.assert_allclose(array(angles["customdata"]), expected, rtol=1e-5)
    np.testing.assert_allclose(array(angles["z"]), np.cos(expected), atol=1e-4)
    other = rope_score(run, 2, 3, 9, 4, theta=100.0).score
    assert f"from {signed(of.score)} to {signed(other)}" in said(page)
    rows = table_rows(page, 1)
    assert [name for name, _ in rows] == [f"{9 + s:,}, {4 + s:,}" for s in SHIFTS]
    possible = float(of.q.norm() * of.k.norm()) / 32**0.5
    for _, (printed, single, double) in rows:
        assert number(printed) == pytest.approx(score, abs=1e-3)
        assert number(single) <= 1e-5 * possible
        assert number(double) <= 1e-10 * possible


@pytest.mark.parametrize(("heads", "head"), [(4, 1), (8, 7), (12, 11), (1, 0), (32, 20)])
def test_alibi(five, heads, head) -> None:
    page = opened(scheme="alibi", slopes=f"{heads}", slope=f"{head}", text=TEXT)
    slopes = alibi_slopes(heads).numpy()
    bars = array(data(page, "Slope of each head")[0]["x"])
    shown = range(heads) if heads <= 16 else sorted({*range(15), head, heads - 1})
    np.testing.assert_allclose(bars, slopes[list(shown)], rtol=1e-5)
    n = len(five["none"].tokenizer.encode(TEXT))
    at = np.arange(n)
    values = sent(page, "bias")[1][0]
    visible = at[:, None] >= at
    np.testing.assert_allclose(values[visible], (-slopes[head] * (at[:, None] - at))[visible], atol=1e-6)
    assert np.isnan(values[~visible]).all()
    curves = data(page, "Share of attention")
    assert len(curves) == len({0, head, heads - 1})
    np.testing.assert_allclose(sum(array(curves[0]["y"])), 1, rtol=1e-5)
    assert any("no power of two" in text for _, text in captions(page)) == (heads == 12)
    assert any("slopes of the small ALiBi" in text for _, text in captions(page)) == (heads == 4)


# --- past the trained length


def test_the_curves_are_the_measured_ones() -> None:
    page, curves = opened(), read_loss_curves()
    for scheme, trace in zip(SCHEMES, data(page, "Bits per token by position for the five models, up to"), strict=True):
        np.testing.assert_allclose(array(trace["y"]), curves.bits_per_token[scheme])
        np.testing.assert_allclose(array(trace["x"]), curves.middles)
    for scheme, (_, cells) in zip(SCHEMES, table_rows(page, -1), strict=True):
        values = np.array(curves.bits_per_token[scheme])
        means = [values[12:16].mean(), values[16:20].mean(), values[28:32].mean()]
        assert cells[:3] == [f"{mean:.2f}" for mean in means]
        assert number(cells[3]) == pytest.approx(means[2] - means[0], abs=0.006)


@pytest.mark.parametrize("sample", ["story", "own"])
def test_measured_here(five, sample) -> None:
    text = "Once upon a time there was a dog named Spot. He liked to play in the sun with his ball." * 6
    page = opened(sample=sample, text=text)
    ids = five["none"].tokenizer.encode(text if sample == "own" else read_story())
    traces = data(page, "Bits per token by position for the five models, on the chosen")
    for scheme, trace in zip(SCHEMES, traces, strict=True):
        of = binned_loss(five[scheme].transformer, ids)
        np.testing.assert_allclose(array(trace["y"]), of.bits, atol=1e-3)
        np.testing.assert_allclose(array(trace["x"]), of.read)
    assert "That is too few" in said(opened(sample="own", text="a b"))
    assert "lie within the trained length" in said(opened(sample="own", text=TEXT * 2))


# --- the page as a whole


def test_it_opens_on_the_loaded_model_s_own_scheme(storyteller) -> None:
    assert opened().button_group(key="choose_scheme").value == storyteller.config.positions == "rope"


def test_turning_changes_the_address() -> None:
    page = opened()
    page.button_group(key="choose_scheme").set_value("sinusoidal")
    well(page.run())
    page.slider[0].set_value(40)
    page.number_input[0].set_value(2)
    page.select_slider(key="choose_theta").set_value(1_000.0)
    page.select_slider(key="choose_table_width").set_value(32)
    page.button_group(key="choose_swapped").set_value("own")
    page.button_group(key="choose_sample").set_value("own")
    well(page.run())
    expected = {"scheme": "sinusoidal", "position": "40", "pair": "2", "theta": "1000", "table_width": "32"}
    assert {name: page.query_params[name] for name in expected} == expected
    assert page.query_params["swapped"] == page.query_params["sample"] == "own"
    assert "position 40" in box(page)
    page.button_group(key="choose_scheme").set_value("alibi")
    well(page.run())
    page.number_input(key="choose_slopes").set_value(6)
    well(page.run())
    page.number_input(key="choose_slope").set_value(5)
    well(page.run())
    assert (page.query_params["slopes"], page.query_params["slope"]) == ("6", "5")


@pytest.mark.parametrize(
    "parameters",
    [
        {"scheme": "<b>"},
        {"scheme": "none"},
        {"position": "128"},
        {"pair": "-1"},
        {"theta": "7"},
        {"theta": "nan"},
        {"table_width": "95"},
        {"slopes": "0"},
        {"slope": "99"},
        {"swapped": "x"},
        {"sample": "x"},
    ],
)
def test_a_link_that_asks_for_what_there_is_not_is_brought_into_it(parameters: dict[str, str]) -> None:
    for scheme in POSITION_SCHEMES if "scheme" not in parameters else ("",):
        page = opened(**({"scheme": scheme} if scheme else {}), **parameters)
        assert remarks(page)


def test_what_is_out_of_reach_of_this_text_or_table_is_brought_in() -> None:
    page = opened(scheme="sinusoidal", pair="200", table_width="16")
    assert page.number_input(key="choose_pair").value == 7
    page = opened(scheme="alibi", slopes="2", slope="9")
    assert page.number_input(key="choose_slope").value == 1
    assert selection(page).slope == 9
    assert sent(opened(text="a b", position="100"), "says")[0]["query"] == 1


def test_every_figure_says_where_it_is_from() -> None:
    for scheme in POSITION_SCHEMES:
        page = opened(scheme=scheme)
        kinds = captions(page)
        assert [text.split()[0] for _, text in kinds] == [kind for kind, _ in kinds]
        assert len(kinds) >= len(page.get("plotly_chart"))
        assert {kind for kind, _ in kinds} == {"measured", "computed"}


def test_chinese_readers_get_a_chinese_sentence() -> None:
    page = opened(lang="zh")
    assert "`猫吃鱼`" in said(page)
    assert "`鱼吃猫`" in said(page)
    assert number(table_rows(page, 0)[0][1][0]) <= 1e-4


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("place", range(len(TEXTS)), ids=[name for name, _ in TEXTS])
def test_every_text(place: int, lang: str) -> None:
    scheme = POSITION_SCHEMES[(place + (lang == "zh")) % 4]
    page = opened(text=TEXTS[place][1], lang=lang, scheme=scheme, swapped="own", sample="own")
    assert len(table_rows(page, 0)) == 4
    without = table_rows(page, 0)[0][1]
    assert number(without[0]) <= 1e-4 * max(1.0, number(without[1]))
    allowed = {"style", "div", "p", "ol", "li", "span", "code", "sup", "b"}
    for body in fragments(page):
        if "atlas-arithmetic'" in body:
            assert {tag for tag, _ in read(body).tags} <= allowed


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_figures_of_positions(palette) -> None:
    values = np.array([[0.0, 1.0, -2.0], [3.0, 0.5, 0.0]])
    fig = position_table(
        values, palette, x_title="<b>x", y_title="y", row=1, columns=(0, 2), shown=values * 2, border=(1, "$end$")
    )
    np.testing.assert_allclose(fig.data[0].z, values)
    np.testing.assert_allclose(fig.data[0].customdata, values * 2)
    assert (fig.data[0].zmin, fig.data[0].zmax) == (-3, 3)
    assert [shape.type for shape in fig.layout.shapes] == ["rect", "rect", "rect", "line"]
    assert drawn(fig.layout.annotations[0].text) == "$end$"
    assert drawn(fig.layout.xaxis.title.text) == "<b>x"
    for wrong, shown in ((np.zeros((0, 3)), None), (np.zeros(3), None), (values, values[:1])):
        with pytest.raises(ValueError, match=r"shape|numbers to show"):
            position_table(wrong, palette, x_title="", y_title="", shown=shown)
    for name in AWKWARD:
        fig = rotation([Turn(name, (1.0, 0.0), (0.0, 1.0), math.pi / 2 + 2 * math.pi, palette.query)], palette)
        arc = fig.data[1]
        np.testing.assert_allclose(np.arctan2(arc.y[-1], arc.x[-1]), math.pi / 2, atol=1e-6)
        assert "<" not in fig.layout.annotations[0].text
    assert len(rotation([Turn("0", (0.0, 0.0), (0.0, 0.0), 1.0, palette.query)], palette).data) == 4
    with pytest.raises(ValueError, match="two numbers"):
        rotation([], palette)
