"""What the page on flash attention shows: one head of this run, gone through tile by tile as the reader chose."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import streamlit as st

from model.analysis.flash_walk import Checks, Walk, check_layer, liveliest_head, walk
from model.trace import Trace
from pages.kit import loading
from pages.kit.page import Page

SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256)
MAX_TILES = 600  # to step through
MAX_NUMBERS = 400_000  # that are remembered along the way and sent to the browser


@dataclass(frozen=True)
class View:
    """The walk and everything that is computed for it. All of it comes from the page's run.

    `page` has a layer and a head in its selection, also where the reader chose none: see `of`.
    """

    page: Page

    @classmethod
    def of(cls, page: Page) -> "View":
        """The view of a page; where no layer or head is chosen, the one in which most happens."""
        own = default_block(len(page.run.tokens))
        layer, head = _liveliest(page.run, own, page.sel.layer, page.sel.head)
        return cls(replace(page, sel=replace(page.sel, layer=layer, head=head)))

    @property
    def n(self) -> int:
        """Tokens of the text."""
        return len(self.page.run.tokens)

    @property
    def causal(self) -> bool:
        """Whether the future is masked: as the reader chose, else as the model does."""
        own = self.page.lm.config.causal
        return own if self.page.sel.causal is None else self.page.sel.causal

    @cached_property
    def blocks(self) -> tuple[int, int]:
        """Rows and columns of a tile: as the reader chose, else about six blocks each; as few tiles as are allowed."""
        own = default_block(self.n)
        asked = self.page.sel.block_q or own, self.page.sel.block_k or own
        block_q, block_k = (min(size, self.n) for size in asked)
        while not self.fits(block_q, block_k):
            if block_q <= block_k:
                block_q = min(block_q + 1, self.n)
            else:
                block_k = min(block_k + 1, self.n)
        return block_q, block_k

    @property
    def enlarged(self) -> bool:
        """Whether the reader asked for smaller tiles than the page can show."""
        sel = self.page.sel
        return any(min(asked or self.n, self.n) < used for asked, used in zip((sel.block_q, sel.block_k), self.blocks))

    def fits(self, block_q: int, block_k: int) -> bool:
        """Whether a walk with tiles of this size can be shown."""
        down, across = ceil(self.n / block_q), ceil(self.n / block_k)
        numbers = self.n * across * (self.page.lm.config.d_head + 4)
        return down * across <= MAX_TILES and (numbers <= MAX_NUMBERS or across == 1)

    def sizes(self, used: int) -> list[int]:
        """What the control for a block's size offers, the one in use among them."""
        return sorted({size for size in SIZES if size < self.n} | {self.n, used})

    @cached_property
    def walk(self) -> Walk:
        """All steps of the shown head."""
        place, sel = self.page.place, self.page.sel
        return _walk(self.page.run, place.layer, place.head, self.blocks, sel.order, self.causal, sel.dtype)

    @cached_property
    def checks(self) -> Checks:
        """How far tiled and plain attention are apart, over all heads of the layer."""
        sel = self.page.sel
        return _checks(self.page.run, self.page.place.layer, self.blocks, sel.order, self.causal, sel.dtype)

    @property
    def id(self) -> str:
        """Names the shown walk: another one for other numbers."""
        place, sel = self.page.place, self.page.sel
        parts = (self.page.run.id, place.layer, place.head, *self.blocks, sel.order, self.causal, sel.dtype)
        return " ".join(map(str, parts))


def default_block(n: int) -> int:
    """Side of a tile that makes at most six blocks of a text of `n` tokens."""
    return next(size for size in (1, 2, 4, 8, 16, 32, 48) if 6 * size >= n or size == 48)


@st.cache_data(show_spinner=False, max_entries=256, hash_funcs={Trace: lambda run: run.id})
def _liveliest(run: Trace, block: int, layer: int | None, head: int | None) -> tuple[int, int]:
    return liveliest_head(run, (block, block), layer, head)


@loading.leaves_with_a_model
@st.cache_resource(show_spinner=False, max_entries=24, hash_funcs={Trace: lambda run: run.id})
def _walk(run: Trace, layer: int, head: int, blocks: tuple[int, int], order: str, causal: bool, dtype: str) -> Walk:
    return walk(run, layer, head, blocks, order=order, causal=causal, dtype=dtype)


@st.cache_data(show_spinner=False, max_entries=128, hash_funcs={Trace: lambda run: run.id})
def _checks(run: Trace, layer: int, blocks: tuple[int, int], order: str, causal: bool, dtype: str) -> Checks:
    return check_layer(run, layer, blocks, order=order, causal=causal, dtype=dtype)
