"""The page on embeddings in a real browser: maps that answer to hovering and turning, words that are typed."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import WAIT_MS, Server, Visits, settled

expect.set_options(timeout=WAIT_MS)

_PLACE = """label => {
    const plot = document.querySelector('[class*="st-key-map_"] .js-plotly-plot');
    const { xaxis, yaxis } = plot._fullLayout;
    const box = plot.getBoundingClientRect();
    for (const { x, y, customdata } of plot._fullData) {
        const at = customdata.findIndex(text => text.startsWith(label));
        if (at < 0) continue;
        return { x: box.left + xaxis._offset + xaxis.l2p(x[at]), y: box.top + yaxis._offset + yaxis.l2p(y[at]) };
    }
}"""


def hovered(page: Page, label: str) -> str:
    """What hovering over a point of the flat map says."""
    page.locator('[class*="st-key-map_"] .scatterlayer .point').first.scroll_into_view_if_needed()
    place = page.evaluate(_PLACE, label)
    page.mouse.move(place["x"] - 40, place["y"] - 40)
    page.mouse.move(place["x"], place["y"], steps=4)
    text = page.locator('[class*="st-key-map_"] .hoverlayer .hovertext')
    expect(text).to_be_visible()
    return text.text_content() or ""


def test_hovering_a_point_tells_token_and_id(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/embeddings?mapped=king,%3Cb%3E%24x%24,economics")
    assert hovered(page, "·cat") == "·cat · id 1,043"
    assert hovered(page, "king") == "king · id 1,671"
    assert hovered(page, "economics").startswith("economics · average of ids 333, ")
    assert hovered(page, "&#60;b").startswith("<b>$x$ · average of ids"), "drawn as it stands"


def test_a_word_typed_is_on_the_map_and_in_the_address(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/embeddings")
    box = page.locator('[class*="st-key-choose_mapped"] input')
    box.fill("king, queen")
    box.press("Enter")
    expect(page.locator('[class*="st-key-map_"] .textpoint').filter(has_text="queen")).to_have_count(1)
    settled(page)
    assert "mapped=king%2C+queen" in page.url
    page.locator('[class*="st-key-choose_projection"]').get_by_role("radio", name="t-SNE").click()
    expect(page.locator(".st-key-map_tsne_2 .textpoint").filter(has_text="queen")).to_have_count(1)
    settled(page)
    assert "projection=tsne" in page.url
    assert hovered(page, "queen") == "queen · id 3,527"


def test_a_spatial_map_is_drawn_and_turns(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/embeddings?dims=3&mapped=king,%3Cb%3Equeen,apple,one,two")
    figure = page.locator(".st-key-map_pca_3")
    expect(figure.locator(".gl-container canvas").first).to_be_visible()
    figure.scroll_into_view_if_needed()
    settled(page)
    eye = "document.querySelector('.st-key-map_pca_3 .js-plotly-plot')._fullLayout.scene._scene.getCamera().eye.x"
    page.wait_for_function(f"{eye} > 0")
    before = page.evaluate(eye)
    box = figure.locator(".js-plotly-plot").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for _ in range(20):  # a scene that is still being drawn does not take hold of the mouse
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 120, y, steps=8)
        page.mouse.up()
        page.wait_for_timeout(300)
        if abs(page.evaluate(eye) - before) > 0.05:
            return
    raise AssertionError("Dragging does not turn the map.")


def test_two_words_typed_one_after_the_other_both_stay(app: Server, visit: Visits) -> None:
    page = visit(f"{app.url}/embeddings")
    for place, word in (("a", "king"), ("b", "queen")):
        box = page.locator(f'[class*="st-key-choose_compared_{place}"] input')
        box.fill(word)
        box.press("Tab")
    expect(page.locator(".st-key-pairs_table")).to_contain_text(["king – queen"])
    settled(page)
    assert "words=king%2C+queen%2C+money" in page.url
