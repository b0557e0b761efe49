"""Renders a chat template in a process of its own: `python -I -S chat_render.py`, JSON in, JSON out.

What goes wrong is answered as a code with values; `model.chat.REASONS` has the words.

A template is a program of whoever made the model. Jinja's sandbox keeps it from the machine's files, but neither from
running on for ever nor from filling the memory; a process has limits for both, and can be ended.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

MEMORY = 512 * 2**20  # bytes of address space; Python with Jinja takes about a tenth
SECONDS = 2  # of computing
CHARACTERS = 100_000  # of what it writes


def _limit() -> None:
    try:
        import resource
    except ImportError:  # on Windows the parent's clock alone ends it
        return
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ValueError, OSError):  # macOS has no such limit
        return


def _environment() -> Any:
    """The environment that Transformers renders chat templates in."""
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks what an assistant wrote, for training; here its content is written as it is."""

        tags = {"generation"}  # noqa: RUF012  (Jinja reads a set)

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    def to_json(
        x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def render(source: str, values: dict[str, Any]) -> dict[str, Any]:
    """{"text": …}, or {"error": the code of what the template does wrong, "values": what belongs to it}."""
    import jinja2

    try:
        parts, size = [], 0
        for part in _environment().from_string(source).generate(**values):
            parts.append(part)
            size += len(part)
            if size > CHARACTERS:
                return _wrong("writes_much", limit=CHARACTERS)
        return {"text": "".join(parts)}
    except jinja2.TemplateSyntaxError as error:
        return _wrong("syntax", line=error.lineno, said=_said(error))
    except jinja2.UndefinedError as error:
        return _wrong("undefined", said=_said(error))
    except jinja2.exceptions.SecurityError as error:
        return _wrong("forbidden", said=_said(error))
    except jinja2.TemplateError as error:  # raise_exception
        return _wrong("refuses", said=_said(error))
    except MemoryError:
        return _wrong("memory", mebibytes=MEMORY // 2**20)
    except RecursionError:
        return _wrong("endless")
    except Exception as error:  # whatever a program can do wrong
        return _wrong("fails", said=f"{type(error).__name__}: {_said(error)}")


def _wrong(code: str, **values: str | int) -> dict[str, Any]:
    return {"error": code, "values": values}


def _said(error: Exception) -> str:
    return " ".join(str(getattr(error, "message", None) or error).split())[:200].rstrip(".")


def main() -> None:
    """Read the job from standard input, answer on standard output."""
    job = json.load(sys.stdin)
    sys.path[:] = job["path"]
    import jinja2.ext  # before memory is short

    assert jinja2.ext
    _limit()
    try:
        answer = json.dumps(render(job["source"], job["values"]))
    except MemoryError:
        answer = json.dumps(_wrong("memory", mebibytes=MEMORY // 2**20))
    sys.stdout.write(answer)


if __name__ == "__main__":
    main()
