"""A fault on a page: one sentence for the reader, the traceback for the server's log, and the app stays up."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from pages.kit.prose import Prose

LOG = logging.getLogger("transformer_atlas")


@contextmanager
def guarded(say: Prose, section: str = "page_failed") -> Iterator[None]:
    """Draw what is inside; if it fails, say `section` instead of the rest.

    Streamlit's own control of a run (stop, rerun, page change) passes through.
    """
    try:
        yield
    except Exception:
        LOG.exception("%s failed", say.page)
        st.error(say(section), icon=":material/error:")
