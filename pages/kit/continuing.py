"""What a decoder writes on, on the page that compares architectures: with a large one the reader may stop it."""

import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

import streamlit as st

from model.analysis.alignment import Written, writing
from pages.kit.three_models import ThreeModels

PATIENCE = 0.6  # seconds of writing before a way to stop it is offered
KEPT = 256  # finished texts that are kept for whoever asks for the same
_KEY = "atlas_continuing"


@dataclass
class Continuing:
    """A continuation `of` something by a model, as far as it is `written`."""

    of: Hashable
    written: Written | None = None
    stopped: bool = False

    def stop(self) -> None:
        """Leave it as it is."""
        self.stopped = True

    def again(self) -> None:
        """Write it after all."""
        self.stopped = False


@st.cache_resource(show_spinner=False)
def _finished() -> OrderedDict[Hashable, Written]:
    return OrderedDict()


def continued(three: ThreeModels) -> Continuing:
    """What the decoder writes on, greedily: a search for the most probable whole likes to end at once.

    Where its context has no room, nothing is written.
    """
    lm, ids, say = three.decoder, three.for_decoder.ids, three.page.say
    of = (lm.name, ids, three.room)
    if not three.room:
        return Continuing(of)
    known = _finished().get(of)
    if known is not None:
        return Continuing(of, known)
    own: Continuing | None = st.session_state.get(_KEY)
    if own is None or own.of != of:
        own = st.session_state[_KEY] = Continuing(of)
    if own.stopped:
        return own
    way_out, begun, offered = st.empty(), time.perf_counter(), False
    with st.spinner(say("writing", model=lm.name)):
        for own.written in writing(lm, ids, 1, three.room):
            if not offered and time.perf_counter() - begun > PATIENCE:
                offered = True
                label = say.label("model_stop")
                way_out.button(label, key="continue_stop", icon=":material/stop:", on_click=own.stop)
            _ = _KEY in st.session_state  # here Streamlit breaks this run off, if the reader has clicked meanwhile
    way_out.empty()
    assert own.written is not None  # there is room for one token at least
    _finished()[of] = own.written
    while len(_finished()) > KEPT:
        _finished().popitem(last=False)
    return own
