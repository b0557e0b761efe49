"""Three answers to one sentence: an encoder fills a gap, a decoder goes on, an encoder-decoder translates."""

from collections.abc import Sequence

import streamlit as st

from model.analysis.alignment import Written
from model.analysis.guesses import guesses
from model.analysis.model_card import TranslationScores, translation_scores
from model.language import LanguageModel
from pages.kit import figures, numbers, parts, show
from pages.kit.continuing import continued
from pages.kit.figures import RowToken
from pages.kit.three_models import MAX_SHOWN, N_GUESSES, ThreeModels

AROUND = 7  # tokens of the text that are drawn on either side of the gap, and before a continuation


def draw(three: ThreeModels) -> None:
    """The three side by side, and below them the gap as the decoder sees it."""
    for column, card in zip(st.columns(3, gap="large"), (_fill, _continue, _translate), strict=True):
        with column, st.container(key=f"section{card.__name__}", gap="xsmall"):
            card(three)
    _draw_left_side(three)


def _fill(three: ThreeModels) -> None:
    say, palette, lm = three.page.say, three.page.palette, three.encoder
    found, labels = three.gap, three.encoder_run.labels
    st.header(say("fill_title"), anchor=False)
    st.markdown(say("fill", model=lm.name))
    row: list[RowToken] = []
    low, high = max(0, three.hidden - AROUND), three.hidden + AROUND + 1
    if low:
        row.append(RowToken("…", mark="apart"))
    for place, label in enumerate(labels[low:high], low):
        framed = three.for_encoder.spans[place] is None
        gap_here = place == three.hidden
        row.append(RowToken("?" if gap_here else label, mark="chosen" if gap_here else "apart" if framed else ""))
    if high < len(labels):
        row.append(RowToken("…", mark="apart"))
    hidden = labels[three.hidden]
    st.html(figures.token_row(row, palette, description=say.plain("fill_alt", token=hidden)))
    _bars(three, "fill_bars", lm, found.ids, found.probabilities, found.hidden, say.plain("fill_bars_alt"))
    values = {"token": hidden, "p": numbers.probability(found.probability), "rank": found.rank + 1}
    section = "fill_right" if found.rank == 0 else "fill_wrong"
    show.caption(show.Kind.MEASURED, say.plain("measured"), say.plain(section, **values))
    parts.explain(three.page, [*labels[low:high], *map(lm.tokenizer.label, found.ids)])


def _continue(three: ThreeModels) -> None:
    say, palette, lm = three.page.say, three.page.palette, three.decoder
    st.header(say("continue_title"), anchor=False)
    st.markdown(say("continue", model=lm.name))
    labels, work = three.decoder_run.labels, continued(three)
    written = work.written
    row = [RowToken("…", mark="apart")] if len(labels) > AROUND else []
    row += [RowToken(label) for label in labels[-AROUND:]]
    if written is not None:
        row += _written(lm, written)
    st.html(figures.token_row(row, palette, description=say.plain("continue_alt")))
    following = guesses(three.decoder_run, len(labels) - 1, N_GUESSES)
    alt = say.plain("continue_bars_alt")
    _bars(three, "continue_bars", lm, following.ids, following.probabilities, None, alt)
    if written is None:
        text = say.plain("continue_no_room", limit=lm.config.max_positions)
    elif work.stopped:
        text = say.plain("continue_stopped", n=len(written.own))
    elif not written.own:
        text = say.plain("continue_ended")
    else:
        took = numbers.milliseconds(written.seconds)
        text = say.plain("continue_caption", n=len(written.own), milliseconds=took)
    show.caption(show.Kind.MEASURED, say.plain("measured"), text)
    parts.explain(three.page, map(lm.tokenizer.label, following.ids))
    if work.stopped:
        st.button(say.label("continue_again"), key="continue_again", on_click=work.again)


def _translate(three: ThreeModels) -> None:
    say, palette, lm, written = three.page.say, three.page.palette, three.translator, three.translated
    st.header(say("translate_title"), anchor=False)
    st.markdown(say("translate", model=lm.name))
    if not three.translates_own:
        section = "translate_no_letter" if not three.english_share else "translate_not_english"
        if three.english:
            section = "translate_example"
        share = numbers.percent(three.english_share or 0, 0)
        st.info(say(section, share=share, sentence=three.for_translator.text))
    source, target = (lm.tokenizer.decode(ids).strip() for ids in (three.for_translator.ids[:-1], written.own))
    if three.source_cut:
        source = f"{source} …"
    if len(target) > MAX_SHOWN or not written.ended:
        target = f"{target[:MAX_SHOWN]} …"
    st.markdown(say("translated", source=source, target=target or say.plain("translated_nothing")))
    row = _written(lm, written)
    if row:
        st.html(figures.token_row(row, palette, description=say.plain("translate_alt")))
    if three.source_cut or not written.ended:
        st.markdown(say("translate_too_long" if three.source_cut else "translate_lost"))
    took = numbers.milliseconds(written.seconds)
    text = say.plain("translate_caption", n=len(written.own), milliseconds=took, how=_how(three))
    show.caption(show.Kind.MEASURED, say.plain("measured"), text)
    scores = _scores()
    st.caption(say("translate_limits", **{name: getattr(scores, name) for name in ("bleu", "chrf", "beam", "pairs")}))


@st.cache_data(show_spinner=False, max_entries=1)
def _scores() -> TranslationScores:
    return translation_scores()


def _how(three: ThreeModels) -> str:
    beam, say = three.page.sel.translation_beam, three.page.say
    return say.plain("how_greedy") if beam == 1 else say.plain("how_beam", n=beam)


def _written(lm: LanguageModel, written: Written) -> list[RowToken]:
    """The new tokens, each with its probability; of a long text the first."""
    labels = lm.tokenizer.labels(written.own)
    row = [
        RowToken(label, None, numbers.probability(p), "new")
        for label, p in zip(labels[:MAX_SHOWN], written.probabilities, strict=False)
    ]
    return row + [RowToken("…", mark="apart")] * (len(labels) > MAX_SHOWN)


def _bars(
    three: ThreeModels,
    key: str,
    lm: LanguageModel,
    ids: Sequence[int],
    probabilities: Sequence[float],
    own: int | None,
    alt: str,
) -> None:
    """Candidates with their probabilities; `own` is the text's own token, which stands out."""
    fig = figures.bars(
        [lm.tokenizer.label(token) for token in ids],
        probabilities,
        three.page.palette,
        highlight=ids.index(own) if own in ids else None,
        maximum=1.0,
        printed=[numbers.probability(p) for p in probabilities],
    )
    show.figure(fig, key, alt=alt)


def _draw_left_side(three: ThreeModels) -> None:
    """The same place for the decoder, which sees only what stands before."""
    say, found = three.page.say, three.from_the_left
    with st.container(key="section_left", gap="xsmall"):
        st.header(say("left_title"), anchor=False)
        if found is None or found.follower is None or three.before is None:
            st.markdown(say("left_beyond", model=three.decoder.name))
            return
        left, right = st.columns([1, 1.4], gap="large", vertical_alignment="center")
        own = found.follower
        with left:
            _tell_sides(three)
        with right, st.container(gap="xsmall"):
            alt = say.plain("left_bars_alt")
            _bars(three, "left_bars", three.decoder, found.ids, found.probabilities, own.id, alt)
            token = three.decoder.tokenizer.label(own.id)
            values = {"token": token, "p": numbers.probability(own.probability), "rank": own.rank + 1}
            show.caption(show.Kind.MEASURED, say.plain("measured"), say.plain("left_caption", **values))
            parts.explain(three.page, [token, *map(three.decoder.tokenizer.label, found.ids)])


def _tell_sides(three: ThreeModels) -> None:
    say = three.page.say
    text = three.seen_before.rstrip()
    seen = text if len(text) <= 60 else f"…{text[-60:]}"
    if seen:
        st.markdown(say("left", before=seen))
    else:
        st.markdown(say("left_start"))
    if cut := three.cut_differently:
        gap, token, rest = cut
        st.markdown(say("left_cut_rest" if rest else "left_cut", gap=gap, token=token, rest=rest))
    behind = three.text[three.character :].strip()
    if len(behind) > len(three.encoder.tokenizer.decode([three.gap.hidden]).strip()):
        st.markdown(say("left_both"))
