"""A fault on a page: one sentence for the reader, the traceback for the server's log, and the app stays up."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from pages.kit.prose import Prose

LOG = logging.getLogger("transformer_atlas")


class Ended(Exception):  # noqa: N818  (nothing went wrong)
    """The page has said all that it can say of this model."""


@contextmanager
def guarded(say: Prose, section: str = "page_failed") -> Iterator[None]:
    """Draw what is inside; if it fails, say `section` instead of the rest.

    Streamlit's own control of a run (stop, rerun, page change) passes through.
    """
    try:
        yield
    except Ended:
        return
    except Exception:
        LOG.exception("%s failed", say.page)
        st.error(say(section), icon=":material/error:")
