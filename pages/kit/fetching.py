"""Models that are not here yet: what they are, and bringing one, with its progress, while everything else goes on."""

import os
import threading
from dataclasses import dataclass, field

import streamlit as st

from model.zoo.catalog import CATALOG, KINDS, Entry, available
from model.zoo.fetch import FetchCancelled, FetchError, fetch
from pages.kit import loading, numbers, selection
from pages.kit.prose import COMMON, Prose, escape

ALLOWED = os.environ.get("ATLAS_FETCH", "on") != "off"  # the operator may forbid readers to start downloads


@dataclass
class Job:
    """A download that somebody has started: bytes so far and in all, and how it ended."""

    name: str
    total: int
    done: int = 0
    error: str = ""
    fault: str = ""  # of a `FetchError`
    stop: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Bring the model; every end is noted, none is raised."""
        try:
            fetch(self.name, self.progress, self.stop.is_set)
        except FetchCancelled:
            pass
        except Exception as error:
            self.error, self.fault = str(error), error.fault if isinstance(error, FetchError) else "other"
        finally:
            self.ended.set()

    def progress(self, done: int, total: int) -> None:
        """Note how far it is."""
        self.done, self.total = done, total


class Jobs:
    """One download a model, whoever has asked for it."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def start(self, entry: Entry) -> None:
        """Begin to bring a model, unless somebody already does."""
        with self._lock:
            known = self._jobs.get(entry.id)
            if known is None or known.ended.is_set():
                job = self._jobs[entry.id] = Job(entry.id, entry.nbytes)
                threading.Thread(target=job.run, name=f"fetch {entry.id}", daemon=True).start()

    def get(self, name: str) -> Job | None:
        """The last download of a model."""
        return self._jobs.get(name)

    def running(self) -> bool:
        """Whether anything is being brought."""
        return any(not job.ended.is_set() for job in self._jobs.values())


@st.cache_resource(show_spinner=False)
def jobs() -> Jobs:
    """The downloads of this server."""
    return Jobs()


def draw() -> None:
    """Under the choice of a model: what is in memory, and what else there is."""
    st.fragment(_more)(selection.current())


def _more(drawn: selection.Selection) -> None:
    """The list is made when it is opened: its many parts would be sent, and drawn unseen, in every run of a page."""
    if selection.current() != drawn:
        st.rerun()  # another model was chosen here: all of the page shows it
    say = Prose(COMMON, drawn.lang)
    with st.popover(say.label("more_models"), width="stretch", key="more_models", on_change="rerun") as more:
        if jobs().running():
            st.fragment(_watched, run_every=1.0)()
        elif more.open:
            _list(say)


def _watched() -> None:
    """While something is being brought: look again every second, and once more for the whole page at its end."""
    if jobs().running():
        _list(Prose(COMMON, selection.current().lang))
    else:
        st.rerun()


def _list(say: Prose) -> None:
    """All models by kind: those that are here, with what they take, and those that can be fetched."""
    here, sizes = available(), loading.models().sizes()
    used, limit = (numbers.memory(n) for n in (sum(sizes.values()), loading.models().limit))
    st.caption(say("models_in_memory", used=used, limit=limit))
    entries = [entry for entry in (CATALOG | here).values() if entry.listed and (entry.id in here or entry.sources)]
    with st.container(height=340, border=False, key="models_to_get"):
        for kind in KINDS:
            group = [entry for entry in entries if entry.kind == kind]
            if group:
                st.caption(f"**{say.label(f'kinds_{kind}')}**")
            for entry in group:
                with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
                    if entry.id in here:
                        # It may be in memory in several formats.
                        memory = sum(size for (name, *_), size in sizes.items() if name == entry.id)
                        _here(entry, memory, say)
                    else:
                        st.markdown(_about(entry, say))
                        _offer(entry, say)


def _about(entry: Entry, say: Prose) -> str:
    """Name, size, languages and licence; of the operator's own only what is known."""
    millions = entry.parameters / 1e6
    parts = [escape(part) for part in (", ".join(entry.languages), entry.licence) if part]
    if entry.parameters:
        parts.insert(0, say("model_millions", millions=f"{millions:,.1f}" if millions < 10 else f"{millions:,.0f}"))
    return "  \n".join(part for part in (say("model_name", name=entry.id), " · ".join(parts)) if part)


def _here(entry: Entry, memory: int, say: Prose) -> None:
    state = say("model_bundled" if entry.bundled else "model_here")
    state += f" · {_megabytes(entry.nbytes)} MB"
    if memory:
        state += " · " + say("model_in_memory", memory=numbers.memory(memory))
    st.markdown(f"{_about(entry, say)}  \n:small[{state}]")
    if entry.id != selection.current().model:
        key = f"show_{entry.id}"
        st.button(say.label("model_show"), key=key, on_click=selection.update, kwargs={"model": entry.id})


def _offer(entry: Entry, say: Prose) -> None:
    job, size = jobs().get(entry.id), _megabytes(entry.nbytes)
    if job is not None and not job.ended.is_set():
        share = min(1.0, job.done / max(1, job.total))
        st.progress(share, say.label("model_arriving", done=_megabytes(job.done), total=size))
        st.button(say.label("model_stop"), key=f"stop_{entry.id}", on_click=job.stop.set)
        return
    if job is not None and job.error:
        st.caption(say(f"fetch_{job.fault}", name=entry.id, size=_megabytes(3 * entry.nbytes), reason=job.error))
    if ALLOWED:
        st.button(
            say.label("model_get", size=size),
            key=f"get_{entry.id}",
            on_click=jobs().start,
            args=(entry,),
        )
    else:
        st.caption(say("model_by_operator", name=entry.id))


def _megabytes(nbytes: int) -> str:
    return numbers.plain(round(nbytes / 1e6))
