"""Why is writing fast?"""

import streamlit as st

from model.analysis.cache_race import Race
from model.analysis.costs import cache_formula
from model.analysis.formats import FORMATS
from pages.kit import cache_choices, cache_sizes, controls, figures, numbers, racing, selection, show, tokens
from pages.kit.figures import Step, Term
from pages.kit.page import Page, opening
from pages.kit.racing import Racing
from pages.kit.selection import RANGES
from pages.kit.show import Kind

ENOUGH = 24  # tokens in both lanes: a third of fewer says more of single delays than of the growth
GROWN = 1.15  # times as long in the last third as in the first: less than that is lost in what else a machine does


def draw(page: Page) -> None:
    say, config = page.say, page.lm.config
    with st.container(key="story"):
        st.markdown(say("story"))
    tokens.strip(page, query=page.sel.query)
    if config.kind != "decoder":
        _remark(page, "no_decoder")
    else:
        most = _most(page)
        if most < 1:
            _remark(page, "no_room")
        else:
            draw_race(page, min(page.sel.race, most), most)
        cache_choices.draw(page)
    cache_sizes.draw(page)


def _most(page: Page) -> int:
    """How many tokens can be written: as many as the slider offers, where the context has room for them."""
    return min(int(RANGES["race"][1]), page.lm.config.max_positions - len(page.run.tokens))


def _remark(page: Page, section: str) -> None:
    values = {"limit": page.lm.config.max_positions, "model": page.lm.name}
    st.html(f'<p class="atlas-remark" role="status">{page.say.html(section, **values)}</p>')


def draw_race(page: Page, n: int, most: int) -> None:
    """Both ways side by side, and the cache that one of them fills."""
    say, config = page.say, page.lm.config
    layer = page.place.layer
    kv_head = page.place.head // config.queries_per_kv
    with st.container(key="section_race", gap="small"):
        st.header(say("race_title", n=n), anchor=False)
        st.markdown(say("race_rules"))
        with st.container(key="controls_race", horizontal=True, vertical_alignment="bottom"):
            if most > RANGES["race"][0]:
                with st.container(width=controls.WIDTH, gap=None):
                    controls.label(page, "choose_race", f"{n}")
                    st.slider(
                        say.label("choose_race"),
                        int(RANGES["race"][0]),
                        most,
                        key=selection.widget("race", n),
                        label_visibility="collapsed",
                    )
            _draw_places(page, layer, kv_head)
        if n < page.sel.race:
            _remark_room(page, n)
        racing.draw(page, racing.current(page, n), layer, kv_head, draw_outcome)


def _remark_room(page: Page, n: int) -> None:
    values = {"limit": page.lm.config.max_positions, "model": page.lm.name, "n": n}
    st.html(f'<p class="atlas-remark" role="status">{page.say.html("little_room", **values)}</p>')


def _draw_places(page: Page, layer: int, kv_head: int) -> None:
    """Which layer's and which head's part of the cache is drawn."""
    say, config = page.say, page.lm.config
    head = page.place.head
    for name, value, count in (("layer", layer, config.n_layers), ("kv_head", kv_head, config.n_kv_heads)):

        def changes(new: int, name: str = name) -> dict[str, int]:
            if name == "layer":
                return {"layer": new, "head": head}
            return {"layer": layer, "head": new * config.queries_per_kv}

        controls.numbered(name, say.label(name), value, count, changes)


def draw_outcome(page: Page, state: Racing) -> None:
    """What the race has shown, in its own numbers, when it is over or stopped."""
    say, race, config = page.say, state.race, page.lm.config
    if race.ratio is None:
        return
    both = min(race.cached.written, race.uncached.written)
    left, right = st.columns([1.2, 1], gap="large")
    with left:
        st.markdown(say("outcome_title"))
        st.markdown(say("outcome_ratio", n=both, ratio=f"{race.ratio:.1f}"))
        _draw_growth(page, race, both)
        read = {"cached": f"{race.cached.tokens_read:,}", "uncached": f"{race.uncached.tokens_read:,}"}
        st.markdown(say("outcome_read", **read))
        if race.compared:
            difference = numbers.power_of_ten(race.largest_difference)
            where = "compared_all" if race.stride == 1 else "compared_some"
            where = say.plain(where, compared=race.compared, stride=race.stride)
            checked = {"agreed": race.agreed, "n": both, "where": where, "difference": difference}
            section = "outcome_same" if page.sel.weights == FORMATS[0] else "outcome_same_rounded"
            st.markdown(say(section, **checked))
    with right, st.container(border=True, key="aside_try"):
        st.markdown(say("try_title"))
        st.markdown(say("try_long"))
        st.markdown(say("try_window"))
        st.markdown(say("try_plan"))
    bits = 8 * page.lm.compute_dtype.itemsize
    cache = race.cached.cache
    assert cache is not None
    one, whole = (cache_formula(config, n, bits) for n in (1, cache.room))
    steps = [Step(say.plain("step_formula"), [Term(one.symbols)])]
    for name, formula in (("step_token", one), ("step_room", whole)):
        sum_ = Term(f"{formula.numbers} = {formula.count:,} B = ")
        steps.append(Step(say.plain(name, n=cache.room), [sum_, Term(numbers.memory(formula.value), "result")]))
    steps.append(Step(say.plain("step_allocated"), [Term(f"{cache.nbytes:,} B")]))
    with st.container(key="section_bytes", gap="xsmall"):
        st.html(figures.arithmetic([Term(say.plain("bytes_of", model=page.lm.name))], steps, page.palette))
        show.caption(Kind.MEASURED, say.plain("measured"), say.plain("bytes_caption"))


def _draw_growth(page: Page, race: Race, both: int) -> None:
    """Whether a token takes longer the later it comes, among the first `both` of both lanes."""
    say = page.say
    more = ""  # where there is no room for more tokens
    if not race.done:
        more = f" {say('outcome_go_on')}"
    elif race.n < _most(page):
        more = f" {say('outcome_more')}"
    if both < ENOUGH:
        st.markdown(f"{say('outcome_times_few', n=both)}{more}")
        return
    thirds = {"cached": race.cached.thirds(both), "uncached": race.uncached.thirds(both)}
    values = {f"{lane}_first": numbers.three_digits(first) for lane, (first, _) in thirds.items()}
    values |= {f"{lane}_last": numbers.three_digits(last) for lane, (_, last) in thirds.items()}
    first, last = thirds["uncached"]
    if last > GROWN * first:
        st.markdown(say("outcome_times", **values))
    else:
        st.markdown(f"{say('outcome_times_flat', **values)}{more}")


draw(opening("kv_cache"))
