"""Smaller caches, measured with the loaded model on the reader's text: part of the page on the cache."""

import time
from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from model.analysis.passages import english_share
from model.analysis.smaller_caches import BITS, CacheChoice, CacheCost, cache_cost, head_counts
from model.language import LanguageModel
from model.trace import Trace
from pages.kit import controls, figures, limits, loading, numbers, selection, show
from pages.kit.page import Page
from pages.kit.prose import Prose
from pages.kit.show import Kind

QUIET_SECONDS = 0.25  # of measuring before a bar shows how far it is
N_WINDOWS = 3
FEW = 30  # tokens, too few to tell caches apart by the loss


def draw(page: Page) -> None:
    """Controls for a cache of one's own, and what each way costs."""
    say = page.say
    with st.container(key="section_smaller", gap="small"):
        st.header(say("smaller_title"), anchor=False)
        st.markdown(say("smaller"))
        page = _with_text(page)
        chosen = _draw_controls(page)
        found = _measure(page, [*offered(page), chosen])
        _draw_bars(page, found, chosen)
        _draw_table(page, found, chosen)
        heads, kv = page.lm.config.n_heads, page.lm.config.n_kv_heads
        kind = "MHA" if kv == heads else "MQA" if kv == 1 else "GQA"
        own = say("smaller_own_heads", model=page.lm.name, kv=kv, heads=heads, kind=kind)
        st.markdown(f"{say('smaller_heads')} {own}")
        st.markdown(say("smaller_integers"))
        st.markdown(say("smaller_window"))


def _with_text(page: Page) -> Page:
    """The page with the run that is measured: of the reader's text, its beginning, or a story where it is too short."""
    say, ids = page.say, page.run.tokens
    if len(ids) < FEW:
        share = english_share(page.run.text)
        passage = Prose("kv_cache", "zh" if share is not None and share < 0.5 else "en").plain("passage")
        ids = page.lm.tokenizer.encode(passage)
    n = limits.measured_tokens(page.lm, min(len(ids), page.lm.config.max_positions))
    if len(page.run.tokens) < FEW:
        st.markdown(say("smaller_short", n=len(page.run.tokens), few=FEW, of=n))
        with st.expander(say.label("show_passage")):
            st.text(page.lm.tokenizer.decode(ids[:n]))
    elif n < len(ids):
        st.caption(say("smaller_cut", n=n, of=len(ids), model=page.lm.name))
    if ids[:n] == page.run.tokens:
        return page
    return replace(page, run=loading.trace(replace(page.sel, ids=tuple(ids[:n]))))


def offered(page: Page) -> list[CacheChoice]:
    """The ways that are always measured: the full cache, integers, merged heads, windows shorter than the text."""
    n, heads = len(page.run.tokens), page.lm.config.n_kv_heads
    windows = [2**power for power in range(1, 12) if 2**power < n][-N_WINDOWS:]
    return [
        CacheChoice(heads),
        *(CacheChoice(heads, bits) for bits in BITS),
        *(CacheChoice(count) for count in head_counts(heads)[1:]),
        *(CacheChoice(heads, None, window) for window in reversed(windows)),
    ]


def _draw_controls(page: Page) -> CacheChoice:
    say, sel, n = page.say, page.sel, len(page.run.tokens)
    counts = head_counts(page.lm.config.n_kv_heads)
    heads, own_bits = sel.kv_heads or counts[0], _own_bits(page)
    with st.container(key="controls_smaller", horizontal=True, vertical_alignment="bottom"):
        key = selection.widget("kv_heads", heads)
        if len(counts) <= controls.MAX_BUTTONS:
            st.segmented_control(say.label("choose_kv_heads"), counts, key=key, required=True)
        st.segmented_control(
            say.label("choose_bits"),
            (0, *BITS),
            key=selection.widget("bits", sel.bits),
            format_func=lambda bits: say.label("as_computed", bits=own_bits) if bits == 0 else f"INT{bits}",
            required=True,
        )
        st.number_input(
            say.label("window_up_to", n=max(n, sel.window)),
            0,
            max(n, sel.window),
            key=selection.widget("window", sel.window),
            width=240,
            help=say("help_window"),
        )
    window = None if not 0 < sel.window < n else sel.window
    return CacheChoice(heads, sel.bits or None, window)


def _own_bits(page: Page) -> int:
    return 8 * page.lm.compute_dtype.itemsize


def _measure(page: Page, choices: list[CacheChoice]) -> dict[CacheChoice, CacheCost]:
    """Each way once, with a bar while it takes long."""
    wanted = list(dict.fromkeys(choices))
    place, begun = st.empty(), time.perf_counter()
    found = {}
    for done, choice in enumerate(wanted):
        if time.perf_counter() - begun > QUIET_SECONDS:
            place.progress(done / len(wanted), page.say.plain("measuring", done=done, count=len(wanted)))
        found[choice] = _cost(page.run, page.lm, choice)
    place.empty()
    return found


def _name(page: Page, choice: CacheChoice) -> str:
    """What sets this cache apart from the full one."""
    say, own = page.say, page.lm.config.n_kv_heads
    parts = []
    if choice.kv_heads != own:
        parts.append(say.plain("name_mqa" if choice.kv_heads == 1 else "name_gqa", heads=choice.kv_heads))
    if choice.bits:
        parts.append(f"INT{choice.bits}")
    if choice.window:
        parts.append(say.plain("name_window", window=choice.window))
    return ", ".join(parts) or say.plain("name_full")


def _draw_bars(page: Page, found: dict[CacheChoice, CacheCost], chosen: CacheChoice) -> None:
    say, palette = page.say, page.palette
    # A name of several parts has no room beside a bar; the table below has it whole.
    whole_names = [_name(page, choice) for choice in found]
    names = [
        name if choice in offered(page) else say.plain("name_yours")
        for name, choice in zip(whole_names, found, strict=True)
    ]
    highlight = list(found).index(chosen)
    whole = next(iter(found.values()))
    bars: dict[str, tuple[Sequence[float], list[str]]] = {
        "sizes": ([cost.nbytes for cost in found.values()], [numbers.memory(cost.nbytes) for cost in found.values()]),
        "losses": (
            [cost.loss or 0.0 for cost in found.values()],
            [_loss(cost, whole) for cost in found.values()],
        ),
    }
    for column, (kind, (values, printed)) in zip(st.columns(2, gap="large"), bars.items(), strict=True):
        fig = figures.bars(names, values, palette, highlight=highlight, printed=printed, details=whole_names)
        text = say.plain(f"{kind}_caption", n=len(page.run.tokens))
        caption = show.caption_html(Kind.MEASURED, say.plain("measured"), text, palette=palette)
        with column, st.container(key=f"section_{kind}", gap="xsmall"):
            st.markdown(say(f"{kind}_text"))
            show.figure(fig, f"cache_{kind}", alt=say.plain(f"{kind}_alt"), caption=caption)


def _loss(cost: CacheCost, whole: CacheCost) -> str:
    """The loss as it is printed; a model that takes a single token has none."""
    if cost.loss is None or whole.loss is None:
        return "–"
    change = f" ({_change(cost.loss - whole.loss)})" if cost.choice != whole.choice else ""
    return f"{cost.loss:.3f}{change}"


def _change(value: float) -> str:
    """A signed number of three decimals."""
    return numbers.signed(value, 3) if numbers.signed(value, 3).startswith(("−", "0.000")) else f"+{value:.3f}"


def _draw_table(page: Page, found: dict[CacheChoice, CacheCost], chosen: CacheChoice) -> None:
    say = page.say
    whole = next(iter(found.values()))
    rows = []
    for choice, cost in found.items():
        cells = [
            f"{cost.per_token:,.0f}",
            f"{cost.nbytes:,}",
            numbers.percent(cost.nbytes / whole.nbytes),
            _percent(cost.key_error),
            _percent(cost.value_error),
            _loss(cost, whole),
        ]
        name = _name(page, choice)
        rows.append((f"{figures.MARK}{name}" if choice == chosen else name, cells))
    columns = ("way", "per_token", "for_text", "share", "key_error", "value_error", "loss")
    titles = [say.plain(f"column_{column}") for column in columns]
    show.marked_table(
        Kind.MEASURED,
        say.plain("measured"),
        say.plain("table_caption", n=len(page.run.tokens)),
        titles,
        rows,
        page.palette,
        description=say.plain("table_alt"),
        mark=say.plain("mark_chosen"),
        key="numbers_table",
    )


def _percent(error: float | None) -> str:
    return "–" if error is None else numbers.percent(error, 2)


@st.cache_data(show_spinner=False, max_entries=512, hash_funcs={Trace: lambda run: run.id})
def _cost(run: Trace, _lm: LanguageModel, choice: CacheChoice) -> CacheCost:
    return cache_cost(run, _lm.transformer, choice)
