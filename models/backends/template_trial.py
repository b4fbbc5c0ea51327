"""Render a chat template once in a process of bounded memory and time, to see whether it ends.

A single operation of a template, such as `'x' * 9999999999`, cannot be interrupted within a process
nor recognized before it runs. So `inputs.check_template` calls `is_bounded` before a template is
rendered beside a network. The process runs this file as a program, which reads the template and
conversations as JSON from standard input.
"""

import json
import re
import resource
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

MAX_MEMORY_BYTES = 2**30  # bytes of address space; a prompt takes a few thousand
MEMORY_EXIT_CODE = 3  # exit code if rendering needs more memory
GENERATION_TAG = re.compile(r"\{%-?\s*(end)?generation\s*-?%\}")  # "{% generation %}"


def is_bounded(template: str, conversations: Sequence[Sequence[object]], *, seconds: float) -> bool:
    """Return True unless rendering takes more than `MAX_MEMORY_BYTES` or more than `seconds`.

    Other errors of a template do not count. Each template is tried once a process.
    """
    return _stays_in_limits(json.dumps([template, conversations]).encode(), seconds)


@cache
def _stays_in_limits(program_input: bytes, seconds: float) -> bool:
    """Run this file as a program; return True unless it reached a limit of memory or time."""
    command = [sys.executable, "-I", str(Path(__file__)), str(seconds)]
    try:
        process = subprocess.run(  # 20 s more, for the start of Python under load
            command, input=program_input, capture_output=True, timeout=seconds + 20, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return process.returncode >= 0 and process.returncode != MEMORY_EXIT_CODE  # negative: a signal


def _render(template: str, messages: Sequence[object]) -> None:
    """Render a template as transformers does, with empty stand-ins for its own functions."""
    from jinja2 import Environment
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def empty_text(*_: object, **__: object) -> str:
        return ""

    environment: Environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = empty_text
    environment.globals |= {"raise_exception": empty_text, "strftime_now": empty_text, "dict": dict}
    source = GENERATION_TAG.sub("", template)  # transformers' own; it does not affect the text
    environment.from_string(source).render(messages=messages, add_generation_prompt=True)


def main() -> int:
    """Return exit code `MEMORY_EXIT_CODE` if memory runs out, else 0, whatever the template raises.

    A signal ends the process after the seconds of CPU time in its first argument.
    """
    template, conversations = json.load(sys.stdin)
    seconds = max(1, round(float(sys.argv[1])))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    memory = MAX_MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MAX_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    for messages in conversations:
        try:
            _render(template, messages)
        except (MemoryError, OverflowError):
            return MEMORY_EXIT_CODE
        except Exception:  # noqa: BLE001 - a template may raise anything; prompts show it again
            continue
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
