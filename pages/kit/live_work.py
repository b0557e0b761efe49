"""Work that a reader watches: a little of it in each run of a part of the page, until it is done or stopped."""

import time
from dataclasses import dataclass
from typing import Protocol

import streamlit as st


class Advancing(Protocol):
    """What is done step by step."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""

    def advance(self) -> object:
        """Take one step."""


@dataclass(kw_only=True)
class LiveWork:
    """How far work of this visitor is. `seconds` spent since it was last started; `stopped`: why it ended early."""

    running: bool = True
    seconds: float = 0.0
    stopped: str = ""

    def spend(self, work: Advancing, seconds: float, limit: float) -> None:
        """Work for about `seconds`, one step at least; after `limit` seconds in all the reader is asked to go on."""
        begun = time.perf_counter()
        while self.running and not work.done:
            work.advance()
            # Here Streamlit breaks this run off, if the reader has clicked meanwhile: once per step.
            _ = "atlas_live_work" in st.session_state
            if time.perf_counter() - begun > seconds:
                break
        self.seconds += time.perf_counter() - begun
        if work.done:
            self.running = False
        elif self.running and self.seconds > limit:
            self.running, self.stopped = False, "time"

    def stop(self) -> None:
        """End it now; `go_on` continues."""
        self.interrupt("reader")

    def interrupt(self, why: str) -> None:
        """The same for another reason."""
        self.running, self.stopped = False, why

    def go_on(self) -> None:
        """Continue, with a fresh limit of time."""
        self.running, self.stopped, self.seconds = True, "", 0.0
