"""The token strip: the text as the model sees it, one chip a token; a click makes it the query."""

from pages.kit import selection
from pages.kit.components import CHIP_WORDS, Picked, Shade, chips
from pages.kit.page import Page


def strip(
    page: Page,
    *,
    query: int | None = None,
    key_index: int | None = None,
    shade: Shade | None = None,
    ask_next: bool = False,
) -> None:
    """Draw the strip of the page's run.

    `query` and `key_index` are the token positions to mark. Picking a chip changes the selection: the query (the
    key is then the page's to choose again), or with Shift or a long press the key. `shade` shows a number per piece
    of the text; `ask_next` ends the strip with a dashed chip for the token to come.
    """

    def choose(picked: Picked) -> None:
        same_query = picked.query == query
        selection.update(query=picked.query, key=picked.key if same_query else None)

    texts = {"label": page.say.plain("strip_label"), "help": page.say.plain("strip_help")}
    words = texts | {word: page.say.plain(word) for word in CHIP_WORDS if word not in texts}
    chips(
        page.run.pieces,
        query,
        key_index,
        key="strip",
        words=words,
        shade=shade,
        ask_next=ask_next,
        meanings=_meanings(page),
        on_change=choose,
    )


def _meanings(page: Page) -> dict[int, str]:
    """What each special token of the text is for."""
    special = {piece.ids[0] for piece in page.run.pieces if piece.special}
    return {token: page.say.plain(f"special_{page.lm.special_role(token)}") for token in special}


def choose(query: int) -> None:
    """Make a token the query of the whole app; the key is the page's to choose."""
    selection.update(query=query, key=None)
