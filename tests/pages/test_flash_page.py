"""The page on flash attention: its tiles are this run's, its result plain attention's, its reckoning the formula's."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from model.analysis.attention_race import Point, Shape
from model.analysis.flash_traffic import CHIPS, traffic
from model.kernels import explicit
from model.language import LanguageModel
from pages.kit import flash_race
from pages.kit.flash_closer import kernel_source
from pages.kit.flash_view import MAX_NUMBERS, MAX_TILES, View
from pages.kit.numbers import mebibytes, power_of_ten, three_digits
from pages.kit.prose import Prose
from tests.cases import TEXTS
from tests.pages.component_io import pick, sent
from tests.pages.reading import array, box, captions, chosen_rows, figure, number, said, tables
from tests.pages.visit import remarks, selection, traced, visit, well

PLACE = {"layer": "2", "head": "5"}
LONG = dict(TEXTS)["long_text"]


def test_two_runs_of_the_page_measure_each_point_once() -> None:
    """One that was broken off may still be at its last point when the next one begins."""
    wanted = [(n, name) for n in (128, 256) for name in ("explicit", "fused")]
    race = flash_race.Race(asked=(Shape(1, 32, "float32", causal=True), 256), wanted=wanted)
    with ThreadPoolExecutor(2) as pool:
        for run in [pool.submit(race.tick) for _ in range(6)]:
            run.result()
    assert [(point.length, point.name) for point in race.points] == wanted
    assert not race.running


def opened(**parameters: object) -> AppTest:
    app = well(visit("flash", **parameters))
    assert app.title[0].value in {Prose("flash", lang).plain("title") for lang in ("en", "zh")}
    return app


def walked(app: AppTest) -> tuple[dict, list[dict[str, np.ndarray]], np.ndarray]:
    """Header, tiles and result, as the browser cuts them."""
    header, (scores, weights, rows, outs, final) = sent(app, "walk")
    tiles, cells, lines = [], 0, 0
    for q0, q1, k0, k1 in header["places"]:
        high, wide = q1 - q0, k1 - k0
        part = slice(cells, cells + high * wide)
        numbers = rows.reshape(-1, 4)[lines : lines + high]
        tiles.append(
            {
                "scores": scores[part].reshape(high, wide),
                "weights": weights[part].reshape(high, wide),
                **dict(zip(("largest", "factor", "added", "total"), numbers.T, strict=True)),
                "out": outs.reshape(-1, header["d"])[lines : lines + high],
            }
        )
        cells, lines = cells + high * wide, lines + high
    assert (cells, lines * 4, lines * header["d"]) == (scores.size, rows.size, outs.size)
    return header, tiles, final


@pytest.mark.parametrize(("block_q", "block_k"), [(2, 2), (3, 4), (10, 1)])
@pytest.mark.parametrize("order", ["rows", "columns", "shuffled"])
def test_the_tiles_are_the_runs_and_end_in_its_output(
    storyteller: LanguageModel, block_q: int, block_k: int, order: str
) -> None:
    run, app = traced(storyteller), opened(**PLACE, block_q=block_q, block_k=block_k, order=order)
    header, tiles, final = walked(app)
    scores = run["blocks.2.attn.hook_attn_scores"][5].numpy()
    z = run["blocks.2.attn.hook_z"][:, 5].numpy()
    np.testing.assert_allclose(final, z, rtol=1e-4, atol=1e-5)
    largest, total = np.full(10, -np.inf), np.zeros(10)
    for (q0, q1, k0, k1), tile in zip(header["places"], tiles, strict=True):
        shown = np.where(np.isnan(tile["scores"]), -np.inf, tile["scores"])
        np.testing.assert_allclose(shown, scores[q0:q1, k0:k1], rtol=1e-4, atol=1e-5)
        new = np.maximum(largest[q0:q1], shown.max(1))
        with np.errstate(invalid="ignore"):
            factor = np.nan_to_num(np.exp(largest[q0:q1] - new))
        total[q0:q1] = total[q0:q1] * factor + np.exp(shown - np.where(np.isfinite(new), new, 0)[:, None]).sum(1)
        largest[q0:q1] = new
        np.testing.assert_allclose(tile["largest"], new, rtol=1e-4)
        np.testing.assert_allclose(tile["total"], total[q0:q1], rtol=1e-4)
    cells = np.zeros((10, 10), dtype=int)
    for q0, q1, k0, k1 in header["places"] + header["skipped"]:
        cells[q0:q1, k0:k1] += 1
    assert (cells == 1).all()
    (caption,) = [text for _, text in captions(app) if "plain attention:" in text]
    assert number(re.findall(r"plain attention: (\S+)", caption)[0]) <= 1e-5


def test_the_checks_are_measured(storyteller: LanguageModel) -> None:
    run = traced(storyteller)
    for dtype in ("float32", "bfloat16", "float16"):
        app = opened(**PLACE, dtype=dtype)
        rows = {name: number(cells[0]) for name, cells in tables(app)[0].items()}
        word = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}[dtype]
        tiled = rows[f"Tiles in {word}"]
        if dtype == "float32":
            assert tiled <= 5e-6
        else:
            assert 1e-5 < tiled <= 2 * rows[f"Plain attention in {word}"]
        assert all(0 < rows[f"Gradient of {name}, tile by tile"] <= 1e-4 for name in "qkv")
    q, k, v, visible = run.attention_inputs("blocks.2.attn")
    largest = three_digits(float(explicit(q, k, v, visible).out.abs().max()))
    assert f"largest number of this layer's output is {largest}" in said(app)
    kept = tables(app)[1]
    assert kept["Plain: the matrix"] == ["10 · 10 = 100"]
    assert kept["Tiled: one tile at a time"] == ["2 · 2 = 4"]
    assert kept["Tiled: the rows of that tile"] == ["2 · (32 + 2) = 68"]


def test_it_opens_where_a_sum_shrinks() -> None:
    app = opened()
    header, tiles, _ = walked(app)
    factors = [tile["factor"][tile["factor"] > 0] for tile in tiles]
    smallest = min(float(f.min()) for f in factors if f.size)
    assert smallest < 0.5
    assert float(factors[header["step"]].min()) == smallest
    assert header["query"] is None, "the row is the browser's to pick"
    assert f"In step {header['step'] + 1} a larger score turns up" in said(app)
    assert f"shrinks to {three_digits(smallest)} of itself" in said(app)
    assert app.query_params == {}


def test_no_mask_is_computed_and_said(storyteller: LanguageModel) -> None:
    app = opened(**PLACE, causal="0")
    header, _, final = walked(app)
    assert header["skipped"] == []
    q, k, v, _ = traced(storyteller).attention_inputs("blocks.2.attn")
    pattern = (q[0, 5] @ k[0, 2].T / 32**0.5).softmax(-1)
    np.testing.assert_allclose(final, (pattern @ v[0, 2]).numpy(), rtol=1e-4, atol=1e-5)
    assert "computed without its mask" in remarks(app)
    (kind,) = [kind for kind, text in captions(app) if "plain attention:" in text]
    assert kind == "computed"


def test_turning_changes_what_is_shown_and_the_address() -> None:
    app = opened()
    assert walked(app)[0]["places"][0] == [0, 2, 0, 2]
    app.select_slider(key="choose_block_q").set_value(5)
    app.button_group(key="choose_order").set_value("columns")
    app.button_group(key="choose_dtype").set_value("bfloat16")
    app.button_group(key="choose_chip").set_value("H100")
    well(app.run())
    assert app.query_params == {"block_q": "5", "order": "columns", "dtype": "bfloat16", "chip": "H100"}
    places = walked(app)[0]["places"]
    assert places[:2] == [[0, 5, 0, 2], [5, 10, 0, 2]]
    app.button_group(key="choose_causal").set_value(False)
    well(app.run())
    assert app.query_params["causal"] == "0"
    app.button_group(key="choose_causal").set_value(True)
    well(app.run())
    assert "causal" not in app.query_params, "what the model does is no choice"


def test_a_step_in_the_browser_reaches_the_address() -> None:
    app = opened()
    n = len(walked(app)[0]["places"])
    well(pick(app, "walk", query=None, key=n))
    assert (selection(app).tile, selection(app).query) == (n, None)
    assert walked(app)[0]["step"] == n
    well(pick(app, "walk", query=4, key=1, number=2))
    header = walked(app)[0]
    assert (header["step"], header["query"]) == (1, 4)
    assert sent(app, "strip")[0]["query"] is not None
    before = selection(app)
    for number_, (query, key) in enumerate([(99, 0), (0, n + 1), (None, None), ("x", 1)], start=3):
        well(pick(app, "walk", query=query, key=key, number=number_))
        assert selection(app) == before, "the browser's word is not proof"
    app.button(key="go_to_step").click()
    well(app.run())
    assert selection(app).query is None


def test_other_numbers_begin_at_a_step_of_their_own() -> None:
    app = opened(tile=14)
    assert walked(app)[0]["step"] == 14
    app.select_slider(key="choose_block_k").set_value(5)
    well(app.run())
    assert "tile" not in app.query_params


@pytest.mark.parametrize(
    "parameters",
    [
        {"block_q": "0"},
        {"block_k": "9999"},
        {"block_k": "x"},
        {"order": "<b>"},
        {"tile": "99"},
        {"tile": "-1"},
        {"dtype": "int8"},
        {"causal": "2"},
        {"longest": "100"},
        {"chip": "$x$"},
    ],
)
def test_a_link_that_asks_for_what_there_is_not_is_brought_into_it(parameters: dict[str, str]) -> None:
    assert remarks(opened(**parameters))


def test_tiles_too_small_for_a_long_text_are_made_larger_and_said() -> None:
    app = opened(text=LONG[:1400], block_q=1, block_k=1)
    header, _, final = walked(app)
    n = len(header["labels"])
    assert n > 200
    assert len(header["places"]) + len(header["skipped"]) <= MAX_TILES
    block_q = header["places"][0][1]
    assert f"so you see tiles of {block_q} × " in remarks(app)
    assert sum(array_.size for array_ in sent(app, "walk")[1]) <= 2 * n * n + MAX_NUMBERS + final.size
    assert selection(app).block_q == 1, "the reader's wish is kept for a shorter text"


@pytest.mark.parametrize("n", [1, 2, 7, 24, 25, 100, 255, 256, 512])
@pytest.mark.parametrize("asked", [None, 1, 7, 256])
def test_every_length_and_block_fits(n: int, asked: int | None) -> None:
    class Fake:
        class run:  # noqa: N801
            tokens = range(n)

        class sel:  # noqa: N801
            block_q, block_k = asked, None

        class lm:  # noqa: N801
            class config:  # noqa: N801
                d_head = 128

    view = View(Fake())  # type: ignore[arg-type]
    assert view.fits(*view.blocks)
    assert all(1 <= block <= n for block in view.blocks)
    assert view.enlarged == (asked is not None and view.blocks[0] > min(asked, n))
    for used in view.blocks:
        assert {used, n} <= set(view.sizes(used)) <= set(range(1, n + 1))


def test_the_traffic_is_the_formulas() -> None:
    app = opened(longest=4096, dtype="bfloat16", chip="H100")
    plain, tiled = (array(trace["y"]).astype(float) for trace in figure(app, "traffic")["data"])
    blocks = [2**i for i in range(10)]
    expected = [traffic(4096, 32, b, b, 2, causal=True) for b in blocks]
    np.testing.assert_allclose(tiled, [one.tiled / 2**20 for one in expected])
    np.testing.assert_allclose(plain, (4 * 4096 * 32 + 4 * 4096**2) * 2 / 2**20)
    rows = tables(app)[-1]
    for name, cells in rows.items():
        block = int(re.findall(r"\d+", name)[0])
        one = traffic(4096, 32, block, block, 2, causal=True)
        assert cells[0] == mebibytes(one.tiled)
        assert cells[3] == ("yes" if one.on_chip <= CHIPS["H100"] * 1024 else "no")
    assert chosen_rows(app)[-1] == ["128 × 128"]
    text = box(app)
    sums = re.findall(r"\((2 · 4,096 · 32 \+ 2 · [\d,]+ · 32)\) · 2 B \+ 4 B · 4,096 = ([\d.,]+) MiB", text)
    (formula, result) = sums[0]
    value = eval(formula.replace(",", "").replace("·", "*")) * 2 + 4 * 4096
    keys = re.findall(r"128 · \(1 \+ 2 \+ … \+ (\d+)\) = ([\d,]+)", text)
    assert keys == [("32", f"{128 * sum(range(33)):,}")]
    assert f"2 · {keys[0][1]} · 32" in formula
    assert result == mebibytes(value) == mebibytes(traffic(4096, 32, 128, 128, 2, causal=True).tiled)


def test_how_much_of_the_traffic_the_mask_saves_is_said() -> None:
    app = opened(longest=512)
    masked, whole = (traffic(512, 32, 128, 128, 4, causal=causal) for causal in (True, False))
    tiles, mask = three_digits(whole.plain / whole.tiled), three_digits(whole.tiled / masked.tiled)
    assert f"moves {three_digits(masked.plain / masked.tiled)} times less" in said(app)
    assert f"make {tiles} of it; the other {mask} times are the mask's" in said(app)
    app = opened(longest=512, causal="0")
    assert "the mask's" not in said(app)
    assert "4 · 512 = 2,048" in box(app)


# ----------------------------------------------------------------------------------------------------------- race


def measured(app: AppTest) -> AppTest:
    """Run until all is measured; in the browser that part of the page runs itself."""
    deadline = time.monotonic() + 100
    while "race_stop" in [button.key for button in well(app).main.button]:
        assert time.monotonic() < deadline
        app.run()
    return app


def test_the_race_is_measured_point_by_point_and_shown() -> None:
    app = opened(longest=512)
    assert not [c for c in app.main.get("plotly_chart") if "race" in c.proto.id]
    measured(app.button(key="race_start").click().run())
    race = app.session_state["atlas_race"]
    assert [(p.length, p.name) for p in race.points] == [
        (n, name) for n in (128, 256, 512) for name in ("explicit", "fused")
    ]
    for what, factor in (("seconds", 1e3), ("peak", 2**-20)):
        curves = [array(trace["y"]).astype(float) for trace in figure(app, f"race_{what}")["data"]]
        for name, curve in zip(("explicit", "fused"), curves, strict=True):
            points = [getattr(p, what) * factor for p in race.points if p.name == name]
            np.testing.assert_allclose(curve, points)
    rows = tables(app)[2]
    by_place = {(p.length, p.name): p for p in race.points}
    for length, cells in rows.items():
        n = int(length.replace(",", ""))
        one, other = by_place[n, "explicit"], by_place[n, "fused"]
        assert cells[1::2] == [three_digits(one.peak / 2**20), three_digits(other.peak / 2**20)]
        assert cells[0::2] == [three_digits(1e3 * one.seconds), three_digits(1e3 * other.seconds)]
    assert "From 256 to 512 tokens the explicit way needs 4.00 times the memory" in said(app)
    kinds = [kind for kind, text in captions(app) if "profiler" in text or "fastest" in text or "the kernel “" in text]
    assert kinds == ["measured"] * 3


def test_the_race_can_be_stopped_and_other_choices_put_it_away() -> None:
    app = opened(longest=4096)
    app.button(key="race_start").click().run()
    well(app.button(key="race_stop").click().run())
    race = app.session_state["atlas_race"]
    done = len(race.points)
    assert not race.running
    assert 0 < done < len(race.wanted)
    app.run()
    assert len(race.points) == done, "nothing is measured behind the reader's back"
    assert any(f"Stopped after {done} of" in caption.value for caption in app.caption)
    app.button_group(key="choose_dtype").set_value("float16")
    well(app.run())
    assert not [c for c in app.main.get("plotly_chart") if "race" in c.proto.id]


def test_the_race_ends_by_itself_when_it_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flash_race, "measure", lambda shape, length, name: Point(length, name, 20.0, 1, 10, "flash"))
    app = measured(opened(longest=512).button(key="race_start").click().run())
    assert 1 <= len(app.session_state["atlas_race"].points) < 6
    assert any("seconds of measuring" in caption.value for caption in app.caption)


def test_a_fault_while_measuring_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(shape: Shape, length: int, name: str) -> Point:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(flash_race, "measure", fails)
    app = opened(longest=512)
    app.button(key="race_start").click().run()
    assert not app.exception
    assert [error.value for error in app.error] == [Prose("flash")("page_failed")]
    assert not app.session_state["atlas_race"].running
    well(app.run())


def test_no_more_is_measured_than_the_machine_is_asked_for() -> None:
    app = opened(longest=16_384)
    assert any("up to 4,096 tokens" in caption.value.replace("\\", "") for caption in app.caption)
    shape = Shape(1, 32, "float32", True, "cpu")
    app.button(key="race_start").click().run()
    race = app.session_state["atlas_race"]
    app.button(key="race_stop").click().run()
    assert race.shape == shape
    assert max(n for n, _ in race.wanted) == 4096


def test_what_is_measured_stays_when_a_gpu_has_less_memory_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free memory changes with each measurement; how far it goes is decided when the reader asks."""
    app = measured(opened(longest=256).button(key="race_start").click().run())
    monkeypatch.setattr(flash_race, "lengths", lambda device, longest, heads: [128])
    well(app.run())
    assert [(p.length, p.name) for p in app.session_state["atlas_race"].points][-1] == (256, "fused")
    assert len(array(figure(app, "race_peak")["data"][0]["x"])) == 2
    assert not [caption for caption in app.caption if "free here" in caption.value]
    measured(app.button(key="race_start").click().run())
    assert any("explicit matrix of 128 tokens, not of 256" in caption.value for caption in app.caption)


# ------------------------------------------------------------------------------------------------- source, words


def test_the_kernel_is_shown_as_it_stands_in_its_file() -> None:
    source = kernel_source()
    assert source.startswith("@triton.jit\ndef attention_kernel(")
    shown = [element.value for element in opened().code]
    assert source in shown
    plain = next(text for text in shown if text != source)
    assert plain.startswith("def take_in(")
    assert "weights = (scores - base[..., None]).exp()" in plain
    assert torch.__version__


def test_every_figure_says_where_it_is_from() -> None:
    app = opened()
    kinds = captions(app)
    assert [text.split()[0] for _, text in kinds] == [kind for kind, _ in kinds]
    assert len(kinds) >= len(app.get("plotly_chart")) + 3


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(storyteller: LanguageModel, text: str, lang: str) -> None:
    app = opened(text=text, lang=lang, **PLACE)
    header, _, final = walked(app)
    ids = [i for piece in sent(app, "strip")[0]["pieces"] for i in piece["ids"]]
    z = storyteller.trace(ids)["blocks.2.attn.hook_z"][:, 5].numpy()
    np.testing.assert_allclose(final, z, rtol=1e-3, atol=2e-5)
    assert header["labels"] == storyteller.tokenizer.labels(ids)
    assert all(number(cells[0]) <= 1e-4 for cells in tables(app)[0].values())
    assert power_of_ten(0) == "0"
