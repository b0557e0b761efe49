"""What changes between BERT, GPT and T5?"""

import streamlit as st

from model.analysis.parameters import parameters_by_part
from pages.kit import architectures_answers, architectures_sight, architectures_words, figures, numbers, selection, show
from pages.kit import tokens as token_strip
from pages.kit.choices import TRANSLATION_BEAMS
from pages.kit.page import Page, opening
from pages.kit.three_models import MAX_CHARACTERS, ThreeModels

EXAMPLES = ("first", "second", "third")
KINDS = ("encoder", "decoder", "encoder_decoder")


def draw(page: Page) -> None:
    three = ThreeModels(page)
    if not three.nothing:
        architectures_words.repair(three)
    with st.container(key="story"):
        story = page.say("story")
        if not three.nothing:
            story += f" {page.say('story_one' if three.translates_own else 'story_two')}"
        st.markdown(story)
        st.markdown(page.say("story_pick"))
    draw_choices(page)
    if three.nothing:
        token_strip.strip(page, query=page.sel.query)
        st.info(page.say("nothing"))
    else:
        token_strip.strip(page, query=three.in_strip)
        draw_remarks(three)
        architectures_answers.draw(three)
        architectures_sight.draw_masks(three)
        architectures_sight.draw_change(three)
        architectures_words.draw(three)
    draw_kinds(page, three)


def draw_choices(page: Page) -> None:
    """How texts are searched for, and sentences that suit the translator."""
    say, sel = page.say, page.sel
    sentences = [say.plain(f"example_{name}_text") for name in EXAMPLES]
    chosen = sentences.index(sel.text) if sel.text in sentences and sel.ids is None else None
    with st.container(key="controls_architectures", horizontal=True, vertical_alignment="bottom"):
        st.segmented_control(
            say.label("translation_beam"),
            TRANSLATION_BEAMS,
            key=selection.widget("translation_beam", sel.translation_beam),
            format_func=lambda n: say.label("greedy") if n == 1 else say.label("beam_of", n=n),
            required=True,
            help=say("help_beam"),
        )
        st.pills(
            say.label("sentences_to_try"),
            range(len(sentences)),
            key=selection.widget("try_sentence", chosen, lambda n: {} if n is None else {"text": sentences[n]}),
            format_func=lambda n: say.label(f"example_{EXAMPLES[n]}_text"),
        )


def draw_remarks(three: ThreeModels) -> None:
    """What of the text is not looked at, and which models stand in."""
    page, say = three.page, three.page.say
    said = []
    if len(three.whole) > MAX_CHARACTERS:
        said.append(say.html("cut_characters", limit=MAX_CHARACTERS))
    models = {
        three.encoder: three.for_encoder,
        three.decoder: three.for_decoder,
        three.translator: three.for_translator,
    }
    for lm, read in models.items():
        if read.cut:
            said.append(say.html("cut_tokens", model=lm.name, n=read.n_tokens, read=read.n_read))
    if three.out_of_reach:
        said.append(say.html("out_of_reach", token=three.encoder_run.labels[three.hidden]))
    if page.lm is not three.encoder and page.lm is not three.decoder:
        section = "no_head" if page.lm.config.head == "none" else "no_mask"
        said.append(say.html(section, model=page.lm.name, encoder=three.encoder.name, decoder=three.decoder.name))
    if said:
        st.html(f'<p class="atlas-remark" role="status">{"<br>".join(said)}</p>')


def draw_kinds(page: Page, three: ThreeModels) -> None:
    """Which kind is which, and what it is good for."""
    say = page.say
    shown = {"encoder": three.encoder, "decoder": three.decoder, "encoder_decoder": three.translator}
    rows = []
    for kind in KINDS:
        lm = shown[kind]
        size = numbers.count(sum(parameters_by_part(lm.transformer).values()))
        here = say.plain("kind_here", model=lm.name, parameters=size)
        cells = [say.plain(f"{kind}_{part}") for part in ("sees", "learns", "models", "uses")]
        rows.append([say.plain(kind), *cells, here])
    columns = [say.plain(f"kinds_{part}") for part in ("kind", "sees", "learns", "models", "uses", "here")]
    with st.container(key="section_kinds", gap="xsmall"):
        st.header(say("kinds_title"), anchor=False)
        st.markdown(say("kinds"))
        st.html(figures.prose_table(columns, rows, page.palette, description=say.plain("kinds_title")))
        show.caption(show.Kind.COMPUTED, say.plain("computed"), say.plain("kinds_caption"))


draw(opening("architectures"))
