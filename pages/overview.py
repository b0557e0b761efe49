"""What happens between my text and the next word?"""

from functools import partial
from urllib.parse import urlencode

import streamlit as st

from model.analysis.forward_pass import PassSummary, pass_summary
from model.analysis.guesses import Guesses, guesses, surest_and_most_surprised
from model.analysis.parameters import parameters_by_part
from pages.kit import figures, limits, links, numbers, parts, selection, show, sidebar, tokens
from pages.kit.figures import Block, Branch, Part, Share, Stream
from pages.kit.figures.style import short
from pages.kit.page import Page, opening
from pages.kit.prose import escape
from pages.kit.sitemap import PAGES

# The page that tells more about a part of the pass.
MORE = {"tokens": "tokenization", "embedding": "embeddings", "positions": "positions"}
MORE |= {"attention": "attention", "feed_forward": "feed_forward"}
MORE |= {"logits": "next_token", "probabilities": "next_token"}
MORE |= dict.fromkeys(("attention_norm", "feed_forward_norm", "final_norm"), "residual")
NORMS = {"attention": "attention_norm", "feed_forward": "feed_forward_norm"}
N_GUESSES = 8


def draw(page: Page) -> None:
    position = len(page.run.tokens) - 1 if page.sel.query is None else page.sel.query
    after = guesses(page.run, position, N_GUESSES)
    draw_story(page)
    tokens.strip(page, query=position, ask_next=True)
    draw_pass(page, after)
    left, right = st.columns([3, 2], gap="large")
    with left:
        draw_guesses(page, after)
    with right, st.container(border=True, key="aside_try"):
        draw_try(page)
    left, right = st.columns([3, 2], gap="large")
    with left:
        draw_parameters(page)
    with right:
        draw_machine(page)


def draw_story(page: Page) -> None:
    """What a Transformer does, in one paragraph, and texts to begin with."""
    config, say = page.lm.config, page.say
    with st.container(key="story"):
        st.markdown(say("story", n_layers=config.n_layers, d_model=config.d_model, vocab_size=f"{config.vocab_size:,}"))
    texts = sidebar.texts(say)
    shown = next((name for name, text in texts.items() if text == page.sel.text and page.sel.ids is None), None)
    st.pills(
        say.label("examples_here"),
        list(texts),
        key=selection.widget("front_example", shown, lambda name: {"text": texts[name]} if name else {}),
        format_func=lambda name: escape(short(texts[name], 24)),
    )


def draw_pass(page: Page, after: Guesses) -> None:
    """The pass as one picture; a click on a part opens its page."""
    say, summary = page.say, pass_summary(page.run, page.lm.transformer)
    address = selection.to_parameters(page.sel)
    picture = figures.pass_diagram(
        [Stream(tuple(_in_order(page, summary, after, f"?{urlencode(address)}")))],
        page.palette,
        description=say.plain("pass_alt", n_tokens=len(page.run.tokens), n_layers=summary.n_blocks),
        stream_word=numbers.shape(summary.parts["embedding"].shape),
        columns=[say.plain(f"pass_{name}") for name in ("where", "part", "shape", "time", "size")],
    )
    st.header(say("pass_title"), anchor=False)
    clicked = links.linked_html(picture, key="pass")
    text = say.plain(
        "pass_caption",
        ms=numbers.milliseconds(summary.total_seconds),
        kernel=_kernels(page),
        n_layers=summary.n_blocks,
        positions=say.plain(f"positions_{page.lm.config.positions}"),
    )
    show.caption(show.Kind.MEASURED, say.plain("measured"), text)
    st.caption(say("kernel_explained"))
    if clicked in PAGES:
        st.switch_page(f"pages/{clicked}.py", query_params=address)


def _in_order(page: Page, summary: PassSummary, after: Guesses, query: str) -> list[Part | Block]:
    say, parts = page.say, summary.parts

    def card(name: str, **changes: str) -> Part:
        of = parts[name]
        more = next((there for there in (MORE.get(name),) if there in PAGES), "")
        return Part(
            **{
                "name": say.plain("part_norm" if name.endswith("norm") else f"part_{name}"),
                "shape": numbers.shape(of.shape),
                "time": "" if of.seconds is None else say.plain("ms", n=numbers.milliseconds(of.seconds)),
                "size": numbers.short_count(of.parameters) if of.parameters else "",
                "href": more + query if more else "",
                "page": more,
            }
            | changes,
            share=of.share,
            small=name.endswith("norm"),
        )

    def branch(name: str) -> Branch:
        return Branch((card(NORMS[name]), card(name)) if summary.norm_first else (card(name),))

    note = say.plain("blocks_note", ms=numbers.milliseconds(summary.blocks_seconds))
    block = Block(f"{summary.n_blocks} ×", (branch("attention"), branch("feed_forward")), note)
    logits = card("logits", **({"size": say.plain("tied")} if summary.tied else {}))
    best = f"{short(_label(page, after.ids[0]), 9)} {numbers.probability(after.probabilities[0])}"
    before = [card(name) for name in ("tokens", "embedding", "positions") if name in parts]
    behind = [card(name) for name in ("final_norm",) if name in parts]
    return [*before, block, *behind, logits, card("probabilities", size=best)]


def draw_guesses(page: Page, after: Guesses) -> None:
    """The likeliest next tokens after one token of the text, and the way to the tokens beside it."""
    say, labels = page.say, page.run.labels
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.header(say("guesses_title", token=labels[after.position]), anchor=False, width="content")
        with st.container(horizontal=True, gap="small", width="content"):
            draw_steps(page, after)
    follower = after.follower
    if follower is None:
        st.markdown(say("guesses_last"))
    else:
        section = "guesses_first" if follower.rank == 0 else "guesses_rank"
        values = {"token": _label(page, follower.id), "probability": numbers.probability(follower.probability)}
        st.markdown(say(section, **values, rank=f"{follower.rank + 1:,}"))
    figure = figures.bars(
        [_label(page, token) for token in after.ids],
        after.probabilities,
        page.palette,
        highlight=after.ids.index(follower.id) if follower and follower.id in after.ids else None,
        printed=[numbers.probability(p) for p in after.probabilities],
        details=[say.plain("guess_detail", token=_label(page, token), id=token) for token in after.ids],
    )
    caption = say.plain(
        "guesses_caption",
        n=len(after.ids),
        vocab_size=page.lm.config.vocab_size,
        choices=numbers.three_digits(after.choices),
    )
    show.figure(
        figure,
        "guesses",
        alt=say.plain("guesses_alt", token=labels[after.position]),
        caption=show.caption_html(show.Kind.MEASURED, say.plain("measured"), caption),
    )
    followers = [] if follower is None else [_label(page, follower.id)]
    parts.explain(page, [labels[after.position], *followers, *(_label(page, token) for token in after.ids)])


def draw_steps(page: Page, after: Guesses) -> None:
    """Buttons to the tokens beside; at the end of the text, one that writes the first guess."""
    say, tokens_now = page.say, tuple(page.run.tokens)
    here, last = after.position, len(tokens_now) - 1
    back = partial(tokens.choose, max(here - 1, 0))
    st.button(say.label("step_back"), key="step_back", disabled=here == 0, on_click=back)
    if here < last:
        st.button(say.label("step_on"), key="step_on", on_click=partial(tokens.choose, here + 1))
        return
    limit = limits.max_tokens(page.lm)
    full = len(tokens_now) >= limit
    st.button(
        say.label("write", token=_label(page, after.ids[0])),
        key="write",
        disabled=full,
        help=say("no_room", limit=limit) if full else None,
        on_click=lambda: selection.turn_to((*tokens_now, after.ids[0])),
    )


def draw_try(page: Page) -> None:
    """Where to step: the token after which the model was surest, and the one that surprised it most."""
    say, labels = page.say, page.run.labels
    st.markdown(say("try_title"))
    ends = surest_and_most_surprised(page.run)
    if ends is None:
        st.markdown(say("try_one_token"))
        return
    named: list[str] = []
    for key, position in zip(("surest", "surprised"), ends, strict=True):
        there = guesses(page.run, position, 1)
        assert there.follower is not None  # both ends have a token after them
        values = {"token": labels[position], "follower": labels[position + 1], "guess": _label(page, there.ids[0])}
        probabilities = {
            "p": numbers.probability(there.follower.probability),
            "p_guess": numbers.probability(there.probabilities[0]),
        }
        named += [name for part, name in values.items() if part != "guess" or key == "surprised"]
        st.markdown(say(f"try_{key}", **values, **probabilities))
        st.button(
            say.label("go_to", token=labels[position]),
            key=f"go_{key}",
            on_click=partial(tokens.choose, position),
        )
    parts.explain(page, named)
    st.markdown(say("try_text"))


def draw_parameters(page: Page) -> None:
    """Where the model's parameters are."""
    say, tied = page.say, page.lm.config.tied_embeddings
    st.header(say("parameters_title"), anchor=False)
    shares = [
        Share(
            say.plain(f"parameters_{part}"), count, say.plain("parameters_tied") if tied and part == "embedding" else ""
        )
        for part, count in parameters_by_part(page.lm.transformer).items()
    ]
    table = figures.share_table(
        shares,
        page.palette,
        part_title=say.plain("parameters_part"),
        count_title=say.plain("parameters_count"),
        total=say.plain("parameters_total"),
    )
    st.html(table)
    show.caption(show.Kind.MEASURED, say.plain("measured"), say.plain("parameters_caption"))


def draw_machine(page: Page) -> None:
    """What this run ran on, and what it took."""
    say, lm, run = page.say, page.lm, page.run
    rows = {
        "model": lm.name,
        "device": str(lm.device).upper(),
        "dtype": say.plain(f"weights_{str(lm.dtype).removeprefix('torch.')}"),
        "kernel": _kernels(page),
        "time": say.plain("ms", n=numbers.milliseconds(run.timings["total"])),
        "weights": numbers.memory(lm.nbytes),
        "trace": numbers.memory(run.nbytes),
    }
    st.header(say("machine_title"), anchor=False)
    st.html(figures.fact_list({say.plain(f"machine_{name}"): value for name, value in rows.items()}, page.palette))
    show.caption(show.Kind.MEASURED, say.plain("measured"), say.plain("machine_caption"))


def _kernels(page: Page) -> str:
    """The kernels that ran, each once."""
    return ", ".join(dict.fromkeys(page.run.kernels.values()))


def _label(page: Page, token: int) -> str:
    return page.lm.tokenizer.labels([token])[0]


draw(opening("overview"))
