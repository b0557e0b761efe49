"""What `pages.kit.show` puts on a page: the figure, its frame, and the line that says where its numbers come from."""

import json
import re

import pytest
from streamlit.testing.v1 import AppTest

from pages.kit import show
from pages.kit.figures import MARK, number_table
from pages.kit.palette import DARK, LIGHT
from pages.kit.prose import LANGUAGES
from tests.pages.reading import AWKWARD, fragments, read
from tests.pages.visit import visit, well


def _page() -> None:
    from pages.kit import figures, show
    from pages.kit.palette import LIGHT

    caption = show.caption_html(show.Kind.MEASURED, "measured", "layer 1", palette=LIGHT)
    framed = figures.bars(["c", "d"], [0.5, 0.2], LIGHT).update_layout(meta={"aspect": 1.5})
    show.figure(framed, "framed bars", alt="bars in a frame", caption=caption)
    show.figure(figures.bars(["a", "b"], [0.5, 0.2], LIGHT), "bars", alt="two bars")
    show.caption(show.Kind.COMPUTED, "computed", "from the values shown")


def test_figures_and_captions_reach_the_page() -> None:
    page = AppTest.from_function(_page, default_timeout=30).run()
    assert not page.exception
    charts = [element.proto for element in page.get("plotly_chart")]
    assert [chart.alt for chart in charts] == ["bars in a frame", "two bars"]
    assert [chart.theme for chart in charts] == ["", ""], "the kit's own look, not streamlit's"
    for chart in charts:
        config = json.loads(chart.config)
        assert config["modeBarButtons"] == [["toImage"]]
        assert config["toImageButtonOptions"]["format"] == "png"
    fragments = [element.proto.body for element in page.get("html")]
    styles = [fragment for fragment in fragments if fragment.startswith("<style>")]
    assert any(".st-key-framed-bars [data-testid=stFullScreenFrame]{height:auto;aspect-ratio:" in s for s in styles)
    captions = [fragment for fragment in fragments if "atlas-caption" in fragment]
    assert [("measured" in text, "computed" in text) for text in captions] == [(True, False), (False, True)]


@pytest.mark.parametrize("kind", list(show.Kind))
def test_caption_names_its_source(kind: show.Kind) -> None:
    reader = read(show.caption_html(kind, "gemessen", palette=LIGHT))
    assert [attrs["data-source"] for _, attrs in reader.tags if "data-source" in attrs] == [kind.value]
    assert reader.texts == ["gemessen"]
    assert [attrs["data-save"] for tag, attrs in reader.tags if tag == "button"] == ["png", "csv"]
    assert "<button" not in show.caption_html(kind, "gemessen", palette=LIGHT, saves=False), "words have none"


def test_caption_draws_the_scale_with_its_ends() -> None:
    scale = show.Scale("scores", "−54", "54", DARK.diverging)
    fragment = show.caption_html(show.Kind.MEASURED, "measured", "layer 3", scale, masked="hidden", palette=DARK)
    assert f"linear-gradient(90deg,{','.join(DARK.diverging)})" in fragment
    assert "repeating-linear-gradient" in fragment
    assert read(fragment).texts == ["measured", "layer 3", "scores", "−54", "54", "hidden"]
    assert "repeating" not in show.caption_html(show.Kind.MEASURED, "measured", palette=DARK)


@pytest.mark.parametrize("text", AWKWARD)
def test_caption_escapes(text: str) -> None:
    plain = read(
        show.caption_html(show.Kind.MEASURED, "w", "t", show.Scale("n", "0", "1", LIGHT.sequential), palette=LIGHT)
    )
    awkward = read(
        show.caption_html(
            show.Kind.MEASURED, text, text, show.Scale(text, text, text, LIGHT.sequential), masked="", palette=LIGHT
        )
    )
    assert awkward.tags == plain.tags


def test_a_figure_states_its_own_frame() -> None:
    css = show._frame("a b", {"min_width": 900.4, "max_width": 1200, "aspect": 1.5})
    assert ".st-key-a-b{max-width:1200px}" in css
    assert "min-width:900px" in css
    assert "aspect-ratio:1.5000" in css
    assert "visibility" not in css
    assert show._frame("plain", {}) == ".st-key-plain .js-plotly-plot{visibility:visible!important}"


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("page", ["residual", "feed_forward", "cost", "kv_cache", "embeddings", "recurrence", "flash"])
def test_it_is_said_what_a_mark_before_a_row_means(page: str, lang: str) -> None:
    app = well(visit(page, lang=lang))
    bodies = [body for body in fragments(app) if MARK[0] in body]
    meant = [re.findall(r"<span role='img' aria-label='(.+?)' title='\1'>▸</span>", body) for body in bodies]
    told = [re.findall(rf"{MARK}(.+?)(?: ·|<)", body) for body in bodies]
    tables, captions = [words for words in meant if words], [words for words in told if words]
    assert tables
    assert [words[:1] for words in tables] == captions


def test_a_mark_without_a_meaning_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing says why"):
        number_table(["name", "one"], [(f"{MARK}row", ["1"])], LIGHT)
