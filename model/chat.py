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


class ChatTemplateError(ValueError):
    """A template that gives no text for a message; the message says why, in one sentence."""


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
            raise _unusable(answer["error"])
        return answer["text"]

    def writes(self, token: str) -> bool:
        """Whether a special token stands in the template, by its spelling or by its name ("eos_token")."""
        return any(part in self.source for part in (token, *(name for name, text in self.tokens if text == token)))


def _unusable(reason: str) -> ChatTemplateError:
    return ChatTemplateError(f"The chat template cannot be used: {' '.join(reason.split())[:300]}.")


@lru_cache(maxsize=64)
def _rendered(source: str, values: str) -> dict[str, str]:
    """The answer of the process, which is kept; what may go better the next time is raised, and so not kept."""
    if len(source) > _LONGEST:
        return {"error": f"it is longer than {_LONGEST:,} characters"}
    job: dict[str, Any] = {"path": sys.path, "source": source, "values": json.loads(values)}
    command = [sys.executable, "-I", "-S", str(_SCRIPT)]
    try:
        done = subprocess.run(command, input=json.dumps(job).encode(), capture_output=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise _unusable(f"it does not come to an end within {_PATIENCE:.0f} seconds by the clock") from None
    except OSError as error:
        raise _unusable(f"nothing can be started to render it ({error.strerror})") from None
    if done.returncode == -getattr(signal, "SIGXCPU", 0) < 0:
        return {"error": f"it does not come to an end within {chat_render.SECONDS} seconds"}
    if done.returncode < 0:
        raise _unusable(f"what renders it was ended from outside (signal {-done.returncode})")
    try:
        answer: dict[str, str] = json.loads(done.stdout)
    except ValueError:  # it ended without a word: the memory was too short even for that
        return {"error": f"it needs more than {chat_render.MEMORY // 2**20} MB of memory"}
    return answer
