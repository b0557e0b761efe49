"""The texts as one tree: what they share is one branch. With what beam search kept and dropped, step by step."""

import math
import time
from functools import partial, reduce
from typing import Any

import streamlit as st

from model.analysis.continuation_tree import Node, Path, paths_of, tree
from pages.kit import limits, numbers, selection, show, writing_sums
from pages.kit.components import tree as component
from pages.kit.page import Page
from pages.kit.show import Kind, Scale
from pages.kit.tickets import later
from pages.kit.writing import Writing
from pages.kit.writing_texts import name

TREE_SECONDS = 0.25  # at least, between two trees while texts are being written
TREE_SHARE = 5  # times what a tree took, at least: writing goes first
_BEFORE = 4  # tokens that tell how those behind them are labelled: a character has no more


def draw(page: Page, work: Writing) -> None:
    """The tree, the ways to go to a text in it, and the tables."""
    say = page.say
    with st.container(key="section_tree", gap="xsmall"):
        st.header(say("tree_title"), anchor=False)
        st.markdown(say("tree_text"))
        if not work.running:
            _draw_step(page, work)
        _draw_tree(page, work)
        scale = Scale(say.plain("probability"), "0", "1", page.palette.sequential)
        text = say.plain("tree_caption_beam" if work.searched else "tree_caption")
        show.caption(Kind.MEASURED, say.plain("measured"), text, scale)
        if work.too_long:
            st.caption(say("rewind_too_long", limit=limits.max_tokens(page.lm), n=work.too_long))
        if work.running:
            return
        _draw_go_to(page, work)
        writing_sums.draw(page, work, _step(page, work))


def _step(page: Page, work: Writing) -> int | None:
    """After how many steps beam search is shown; None while it runs, and where nobody chose: after all."""
    beam = work.searched
    if work.running or beam is None or page.sel.beam_step is None:
        return None
    return min(page.sel.beam_step, len(beam.steps))


def _draw_step(page: Page, work: Writing) -> None:
    beam = work.searched
    if beam is None or len(beam.steps) < 2:
        return
    say, n = page.say, len(beam.steps)
    step = _step(page, work) or n
    with st.container(key="controls_beam_step", gap=None):
        st.markdown(
            say.label("control_value", name=say.plain("beam_step"), value=f"{step}"), help=say("help_beam_step")
        )
        st.slider(
            say.label("beam_step"),
            1,
            n,
            key=selection.widget("beam_step", step, lambda new: {"beam_step": new if new < n else None}),
            label_visibility="collapsed",
        )


def _draw_tree(page: Page, work: Writing) -> None:
    now = time.perf_counter()
    if work.shown_tree and work.running and not work.whole_run and now < work.shown_tree[0]:
        drawn = work.shown_tree[1]
    else:
        drawn = _parts(page, work)
        spent = time.perf_counter() - now
        work.shown_tree = now + max(TREE_SECONDS, TREE_SHARE * spent), drawn
    say = page.say
    words = {word: say.plain(f"tree_{word}") for word in component.WORDS}
    component.tree(*drawn, key="tree", words=words, writing=work.running, on_change=later(work, _go))


def _parts(page: Page, work: Writing) -> tuple[Any, ...]:
    """Root, twigs, leaves and the marked place, as the component takes them."""
    paths = paths_of([row.text for row in work.rows], _step(page, work))
    nodes = tree(paths)
    labels = _labels(page, work, paths)
    twigs = []
    for node in nodes:
        serial = work.serials.setdefault(node.ids, len(work.serials))
        label = labels[node.ids]
        text = page.lm.tokenizer.decode([node.ids[-1]])
        twigs.append(
            component.Twig(
                serial=serial,
                parent=node.parent,
                label=label,
                spaces=len(text) - len(text.lstrip(" ")) if text.strip(" ") and label[0] != text[0] else 0,
                probability=math.exp(node.logprob),
                kind=node.kind,
                total=numbers.signed(node.total),
                mean=numbers.signed(node.mean),
                special=node.ids[-1] in page.lm.config.eos_ids,
            )
        )
    # Where others go on, a hypothesis that was dropped has no end of its own.
    forks = {node.parent for node in nodes}
    ends = [(number, [paths[one] for one in node.ends]) for number, node in enumerate(nodes)]
    shown = [
        (number, some)
        for number, some in ends
        if some and (number not in forks or any(path.kind != "dropped" for path in some))
    ]
    leaves = [component.Leaf(number, *_ending(page, work, nodes[number], some)) for number, some in shown]
    ids, prompt = tuple(page.run.tokens), work.prompt
    here = work.serials.get(ids[len(prompt) :]) if ids[: len(prompt)] == prompt else None
    root = "".join(page.lm.tokenizer.labels(prompt)[-3:])
    return root if len(prompt) <= 3 else f"…{root}", twigs, leaves, here


def _labels(page: Page, work: Writing, paths: tuple[Path, ...]) -> dict[tuple[int, ...], str]:
    """How each token is written, by the new ids up to it. Part of a character is named by the first path with it."""
    found: dict[tuple[int, ...], str] = {}
    for path in paths:
        ids = path.ids
        first = next((n for n in range(len(ids)) if ids[: n + 1] not in found), len(ids))
        before = (*work.prompt, *ids[:first])[-_BEFORE:]
        for n, label in enumerate(page.lm.tokenizer.labels([*before, *ids[first:]])[len(before) :], start=first + 1):
            found[ids[:n]] = label
    return found


def _ending(page: Page, work: Writing, node: Node, ends: list[Path]) -> tuple[str, str, str]:
    """What is written at a leaf, its kind and its short form: whose it is, and what all its tokens are worth."""
    say = page.say
    if node.kind == "dropped":
        return numbers.signed(node.total), "dropped", ""
    texts = [name(page, work, path.text) for path in ends if path.kind == "text"]
    places = [path.order for path in ends if path.kind == "kept" and path.order is not None]
    names = [*texts, *(say.plain("leaf_kept", place=place + 1) for place in places)]
    values = {"total": numbers.signed(node.total), "mean": numbers.signed(node.mean)}
    kind, short = ("text", _listed(page, texts)) if texts else ("kept", "")
    return say.plain("leaf", names=_listed(page, names), **values), kind, short


def _listed(page: Page, names: list[str]) -> str:
    return reduce(lambda one, other: page.say.plain("both", one=one, other=other), names)


def _go(work: Writing, serial: int) -> None:
    """Make the text up to a place of the tree every page's run."""
    _go_to(work, next(ids for ids, number in work.serials.items() if number == serial))


def _go_to(work: Writing, new: tuple[int, ...]) -> None:
    ids = (*work.prompt, *new)
    work.too_long = len(ids) if len(ids) > limits.max_tokens(work.lm) else None
    if not new:
        selection.turn_to(work.sel.ids)
        return
    at = work.rewound(ids)
    if at is not None and work.is_text(at[0], ids):
        work.picked = at
    if work.too_long is None:
        selection.turn_to(ids)


def _draw_go_to(page: Page, work: Writing) -> None:
    """The same without the figure: a text, a token, a button."""
    say = page.say
    names: dict[tuple[int, ...], str] = {}
    for index, row in enumerate(work.rows):
        ids = row.text.ids[len(work.prompt) :]
        names[ids] = _listed(page, [*([names[ids]] if ids in names else []), name(page, work, index)])
    for path in paths_of([row.text for row in work.rows], _step(page, work)):
        if path.kind == "kept" and path.order is not None:
            names.setdefault(path.ids, say.plain("leaf_kept", place=path.order + 1))
    texts = [ids for ids in names if ids]
    if not texts:
        return
    with st.container(key="go_to", horizontal=True, vertical_alignment="bottom", gap="small"):
        chosen = st.selectbox(
            say.label("go_to_text"),
            range(len(texts)),
            format_func=lambda index: names[texts[index]] if index < len(texts) else "",
            key="go_to_text",
            width=230,
        )
        ids = texts[min(chosen or 0, len(texts) - 1)]
        place = st.number_input(say.label("go_to_token"), 1, len(ids), key=f"go_to_token_{len(ids)}", width=130)
        new = ids[: int(place)]
        anew = partial(selection.turn_to, (*work.prompt, *new))
        st.button(
            say.label("go_to"),
            key="go_to_button",
            icon=":material/history:",
            on_click=later(work, _go_to, new, gone=anew),
        )
