"""The format of the weights: a choice of the reader that holds on every page, with its cost shown."""

import math
import re
import shutil
from dataclasses import replace

import pytest
import torch

from model import load
from model.analysis.formats import FORMATS, format_nbytes
from model.devices import devices
from model.language import LanguageModel
from model.losses import token_losses
from model.zoo.catalog import CATALOG
from pages.kit import cost_formats, loading, numbers
from pages.kit import page as page_module
from pages.kit import selection as selection_module
from pages.kit.choices import DEFAULT_TEXT, Selection
from pages.kit.loading import ModelCache
from pages.kit.sitemap import PAGES
from tests.pages.reading import read, said
from tests.pages.visit import remarks, selection, turn_to, visit, well

WORDS = {"float32": "fp32", "bfloat16": "bf16", "int8": "INT8"}


def formats_table(app) -> dict[str, list[str]]:
    (body,) = [e.proto.body for e in app.main.get("html") if "about 7 digits" in e.proto.body]
    rows = re.findall(r"<th scope='row'>(.*?)</th>(.*?)</tr>", body)
    return {
        "".join(read(name.partition("<small>")[0]).texts): re.findall("<td>(.*?)</td>", cells) for name, cells in rows
    }


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("weights", FORMATS[1:])
def test_every_page_works_in_every_format(page: str, weights: str) -> None:
    app = well(visit(page, weights=weights))
    assert selection(app).weights == weights
    assert app.query_params["weights"] == weights
    assert f" {WORDS[weights]}" in remarks(app)
    assert "about 3 digits" in remarks(app)


@pytest.mark.parametrize("weights", ["int4", "INT8", "", "float64", "<b>"])
def test_a_format_that_there_is_not_is_left_out_and_said(weights: str) -> None:
    app = well(visit("overview", weights=weights, device="tpu"))
    assert (selection(app).weights, selection(app).device) == ("float32", None)
    for name in ("Weights", "Device"):
        assert f"“{name}”" in remarks(app)
    assert app.query_params == {}


def test_the_reader_chooses_and_the_choice_goes_along() -> None:
    app = well(visit("overview"))
    assert "digits" not in remarks(app)
    app = well(app.sidebar.button_group(key="choose_weights").set_value("int8").run())
    assert app.query_params == {"weights": "int8"}
    app = well(turn_to(app, "heads"))
    assert selection(app).weights == "int8"
    assert "INT8" in remarks(app)
    app = well(app.sidebar.button_group(key="choose_weights").set_value("float32").run())
    assert app.query_params == {}
    assert remarks(app) == ""


def test_a_device_is_a_choice_only_where_there_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(app) -> bool:
        return bool([group for group in app.sidebar.get("button_group") if group.key == "choose_device"])

    assert drawn(well(visit("overview"))) == (len(devices()) > 1)
    monkeypatch.setattr("pages.kit.sidebar.devices", lambda: ("cuda", "cpu"))
    assert drawn(well(visit("overview", device="cpu")))


@pytest.mark.parametrize("weights", FORMATS)
@pytest.mark.parametrize("text", [DEFAULT_TEXT["en"], DEFAULT_TEXT["zh"]])
def test_bytes_and_loss_of_each_format_are_shown(storyteller: LanguageModel, weights: str, text: str) -> None:
    app = well(visit("cost", weights=weights, text=text))
    table = formats_table(app)
    assert list(table) == [("▸\u00a0" if name == weights else "") + WORDS[name] for name in FORMATS]
    ids = storyteller.ids(text)
    base = float(token_losses(storyteller.trace(ids).logits, ids).mean()) / math.log(2)
    for name, cells in zip(FORMATS, table.values(), strict=True):
        assert cells[0] == numbers.memory(format_nbytes(storyteller.config, name))
        loss = base
        if name != "float32":
            lm = loading.model("storyteller", name)
            loss = float(token_losses(lm.trace(ids).logits.float(), ids).mean()) / math.log(2)
            assert cells[2] == numbers.signed(loss - base, 3)
            assert abs(loss - base) < 0.05
        assert float(cells[1]) == pytest.approx(loss, abs=0.0006)
    said = " ".join(e.value for e in app.main.markdown)
    assert ("your text rises by" in said) != ("your text even falls by" in said)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_without_a_loss_the_bytes_are_shown(lang: str) -> None:
    app = well(visit("cost", text="", lang=lang))
    said = "".join(e.proto.body for e in app.main.get("html"))
    assert {"en": "a loss needs", "zh": "才谈得上损失"}[lang] in said


def test_a_large_model_is_measured_in_fp32_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_formats, "SMALL", 0)
    app = well(visit("cost", weights="int8"))
    assert [cells[1] == "–" for cells in formats_table(app).values()] == [True, True, False]
    app = well(app.button(key="measure_formats").click().run())
    assert [cells[1] == "–" for cells in formats_table(app).values()] == [False, True, False]
    assert not [b for b in app.button if b.key == "measure_formats"]
    app = well(visit("cost", text="One day"))
    assert [cells[1] == "–" for cells in formats_table(app).values()] == [False, True, True]
    assert "one format at a time" in said(app), "the reader is told how to fill the rest"


def test_a_known_cost_loads_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    app, asked, model = well(visit("cost", text="Once, a fox.")), [], loading.model

    def counted(name: str, weights: str = "float32", device: str | None = None) -> LanguageModel:
        asked.append(weights)
        return model(name, weights, device)

    monkeypatch.setattr(loading, "model", counted)
    table = formats_table(app)
    app = well(app.run())
    assert formats_table(app) == table
    assert set(asked) == {"float32"}, "the page's own"
    app = well(visit("cost", text="Once, a wolf."))
    assert set(asked) == set(FORMATS)
    assert formats_table(app) != table


def test_formats_are_kept_apart_and_counted_by_their_bytes(storyteller: LanguageModel) -> None:
    loaded = [load("storyteller", "cpu", name) for name in FORMATS]
    assert [lm.nbytes for lm in loaded] == [format_nbytes(storyteller.config, name) for name in FORMATS]
    sizes = [lm.nbytes_at_most for lm in loaded]  # with what is copied when they write
    assert loaded[0].nbytes < sizes[0] and loaded[1].nbytes < sizes[1] and loaded[2].nbytes == sizes[2]
    cache = ModelCache(limit=sum(sizes))
    models = [cache.get("storyteller", name) for name in FORMATS]
    assert [cache.get("storyteller", name) is lm for name, lm in zip(FORMATS, models, strict=True)] == [True] * 3
    assert list(cache.sizes().values()) == sizes
    small = ModelCache(limit=sizes[1] + sizes[2])
    for name in FORMATS:
        small.get("storyteller", name)
    assert list(small.sizes().values()) == sizes[1:]
    of = Selection(weights="bfloat16")
    assert loading.trace(of)["hook_embed"].dtype == torch.bfloat16
    assert loading.trace(Selection())["hook_embed"].dtype == torch.float32


def test_a_part_of_a_page_that_is_drawn_again_has_the_same_model() -> None:
    drawn = page_module._page("next_token", Selection(weights="int8"))
    assert drawn.lm is loading.chosen(drawn.sel)
    assert drawn.lm.dtype == torch.int8


class _BrokenOff(BaseException):
    """What `st.rerun` raises is no `Exception` either."""


@pytest.mark.parametrize("change", [{"weights": "int8"}, {"device": "cpu"}, {"chat": True}, {"text": "A fox."}])
def test_a_change_of_what_is_around_a_part_draws_the_whole_page(
    change: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rerun() -> None:
        raise _BrokenOff

    parts, drawn, sel = [], [], Selection()
    monkeypatch.setattr(page_module.st, "fragment", lambda again: parts.append(again) or again)
    monkeypatch.setattr(page_module.st, "rerun", rerun)
    state = selection_module._State(sel)
    monkeypatch.setattr(selection_module, "_state", lambda: state)
    monkeypatch.setattr(page_module.notices, "pending", list)
    page_module.part(page_module._page("next_token", sel), drawn.append)
    (again,) = parts
    state.selection = replace(sel, layer=2)
    again()
    assert [page.sel.layer for page in drawn] == [None, 2], "in the part alone"
    state.selection = replace(sel, **change)
    with pytest.raises(_BrokenOff):
        again()
    assert len(drawn) == 2


def test_every_kind_of_model_can_be_kept_as_integers(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder from the operator's folder, on the pages that compute with weights themselves."""
    shutil.copytree(CATALOG["reader"].folder, tmp_path / "gaps")
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path))
    for page in ("embeddings", "feed_forward", "cost", "kv_cache"):
        well(visit(page, model="gaps", weights="int8"))
