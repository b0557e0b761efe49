"""What is kept only as long as its model is in memory: sessions and fragments have no more than a ticket for it.

Streamlit keeps a session's values, and what its fragments were called with, for as long as the reader stays, even an
idle one: a model among them would outlive its place in memory.
"""

import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Generic, TypeVar
from weakref import WeakSet, ref

import streamlit as st

from model.language import LanguageModel
from pages.kit import loading

Value = TypeVar("Value")


class Ticket(Generic[Value]):
    """For a `value` that was made with a model; both are None when the model has left the memory."""

    def __init__(self) -> None:
        self.lm: LanguageModel | None = None
        self.value: Value | None = None


_tickets: "WeakSet[Ticket[Any]]" = WeakSet()
_lock = threading.Lock()  # readers' threads are issued tickets while another one's lets a model leave


def issue(lm: LanguageModel, value: Value) -> Ticket[Value]:
    """A ticket for what holds this model. It is empty from the start if the model has left the memory already."""
    ticket: Ticket[Value] = Ticket()
    models = loading.models()
    with _lock:  # a model that leaves has done so before, and is not there, or it finds this ticket
        if models.holds(lm):
            ticket.lm, ticket.value = lm, value
            _tickets.add(ticket)
    return ticket


def leave(models: Sequence[LanguageModel]) -> None:
    """Let go of what was made with these models, for whomever."""
    with _lock:
        for ticket in list(_tickets):
            if any(ticket.lm is lm for lm in models):
                ticket.lm = ticket.value = None
                _tickets.discard(ticket)


loading.when_models_leave(leave)


def value(ticket: Ticket[Value] | None) -> Value | None:
    """What is behind a ticket; None where there is nothing, or no longer."""
    return None if ticket is None else ticket.value


def fragment(lm: LanguageModel, draw: Callable[..., None], *given: Any, run_every: float | None = None) -> None:
    """As `st.fragment(draw, run_every=…)(*given)`, where `given` holds the model `lm`.

    When the model has left the memory, the whole page is run again instead of this part. It stands in a container of
    its own, so that what is drawn again and again can be kept from fading each time (style.css).
    """
    ticket = issue(lm, given)
    first = [given]  # this run goes on, whatever has left meanwhile

    @wraps(draw)  # Streamlit tells fragments apart by their names
    def again() -> None:
        there = first.pop() if first else ticket.value
        if there is None:
            st.rerun()
        with st.container(key=f"part_{draw.__module__.rpartition('.')[2]}_{draw.__name__}"):
            draw(*there)

    st.fragment(again, run_every=run_every)()


def later(
    work: Value, do: Callable[..., object], *given: Any, gone: Callable[[], object] = lambda: None
) -> Callable[..., None]:
    """For a control's callback: `do(work, *given, …)`, or `gone()` where that work has left with its model.

    It is held weakly: Streamlit keeps the callbacks of controls that are no longer drawn.
    """
    held = ref(work)

    def call(*more: Any) -> None:
        there = held()
        if there is None:
            gone()
        else:
            do(there, *given, *more)

    return call
