"""Chat templates: how a model wants the turns of a dialogue written.

Such a template is Jinja, as Transformers' `apply_chat_template` reads it, and comes with the model.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from model import chat_render

_SCRIPT = Path(chat_render.__file__)
_PATIENCE = 10.0  # seconds by the clock; the limit on computing comes first, unless the machine is busy
_LONGEST = 200_000  # characters of a template; published ones have some thousands


# Why a template cannot be used, by code; each ends the sentence of `ChatTemplateError`.
REASONS = {
    "too_long": "it is longer than {limit:,} characters",
    "syntax": "its line {line} is not valid Jinja ({said})",
    "undefined": "it uses what does not exist ({said})",
    "forbidden": "it does what a template must not do ({said})",
    "refuses": "it refuses this message ({said})",
    "endless": "it calls itself without end",
    "fails": "it fails ({said})",
    "writes_much": "it writes more than {limit:,} characters",
    "memory": "it needs more than {mebibytes} MiB of memory",
    "time": "it does not come to an end within {seconds} seconds",
    "clock": "it does not come to an end within {seconds} seconds by the clock",
    "not_started": "nothing can be started to render it ({said})",
    "ended": "what renders it was ended from outside (signal {signal})",
    "not_embedded": "it makes the token {said}, which the model has no embedding for",
    "no_room": "it alone makes {n} tokens, and there is room for {room}",
}


class ChatTemplateError(ValueError):
    """A template that gives no text for a message; the message says why, in one sentence.

    `code` is the reason's in `REASONS` and `values` what it is about, for whoever says it in another language.
    """

    def __init__(self, code: str, **values: str | int) -> None:
        self.code, self.values = code, values
        super().__init__(f"The chat template cannot be used: {REASONS[code].format(**values)}.")


@dataclass(frozen=True)
class ChatTemplate:
    """The Jinja `source` of a template, and the special tokens that it may name ("bos_token", "<s>")."""

    source: str
    tokens: tuple[tuple[str, str], ...] = ()

    def render(self, messages: Sequence[Mapping[str, str]], reply: bool = True) -> str:
        """The text that a dialogue makes.

        Args:
            messages: each with a "role" ("system", "user", "assistant") and its "content".
            reply: whether it ends where the assistant's next turn begins.

        Raises:
            ChatTemplateError: if the template is no valid Jinja, uses what does not exist, refuses the messages, does
                not come to an end, or writes too much.
        """
        values: dict[str, Any] = dict(self.tokens) | {"messages": [dict(message) for message in messages]}
        values |= {"tools": None, "documents": None, "add_generation_prompt": reply}
        answer = _rendered(self.source, json.dumps(values))
        if "error" in answer:
            raise ChatTemplateError(answer["error"], **answer["values"])
        text: str = answer["text"]
        return text

    def writes(self, token: str) -> bool:
        """Whether a special token stands in the template, by its spelling or by its name ("eos_token")."""
        return any(part in self.source for part in (token, *(name for name, text in self.tokens if text == token)))


@lru_cache(maxsize=64)
def _rendered(source: str, values: str) -> dict[str, Any]:
    """The answer of the process, which is kept; what may go better the next time is raised, and so not kept."""
    if len(source) > _LONGEST:
        return {"error": "too_long", "values": {"limit": _LONGEST}}
    job: dict[str, Any] = {"path": sys.path, "source": source, "values": json.loads(values)}
    command = [sys.executable, "-I", "-S", str(_SCRIPT)]
    try:
        done = subprocess.run(command, input=json.dumps(job).encode(), capture_output=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise ChatTemplateError("clock", seconds=round(_PATIENCE)) from None
    except OSError as error:
        raise ChatTemplateError("not_started", said=str(error.strerror)) from None
    if done.returncode == -getattr(signal, "SIGXCPU", 0) < 0:
        return {"error": "time", "values": {"seconds": chat_render.SECONDS}}
    if done.returncode < 0:
        raise ChatTemplateError("ended", signal=-done.returncode)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:  # it ended without a word: the memory was too short even for that
        return {"error": "memory", "values": {"mebibytes": chat_render.MEMORY // 2**20}}
    return answer
