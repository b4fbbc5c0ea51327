"""Render a chat template once, in a process whose memory and time are bounded.

Run as a program: the template and conversations as JSON on standard input. One operation of C, such
as `'x' * 9999999999`, can neither be stopped within a process nor be told from others before it is
done, so that a template is tried here before it is rendered beside a network.
"""

import json
import re
import resource
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

MEMORY = 2**30  # bytes of addresses; a prompt takes a few thousand
EXHAUSTED = 3  # exit code
GENERATION = re.compile(r"\{%-?\s*(end)?generation\s*-?%\}")


def is_bounded(template: str, conversations: Sequence[Sequence[object]], *, seconds: float) -> bool:
    """Return True unless rendering conversations takes more than `MEMORY` or more than `seconds`.

    Other errors of a template are none of this function's. Each template is tried once.
    """
    return _ends_well(json.dumps([template, conversations]).encode(), seconds)


@cache
def _ends_well(given: bytes, seconds: float) -> bool:
    command = [sys.executable, "-I", str(Path(__file__)), str(seconds)]
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, timeout=seconds + 20, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode >= 0 and done.returncode != EXHAUSTED


def _render(template: str, messages: Sequence[object]) -> None:
    from jinja2 import Environment
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def nothing(*_: object, **__: object) -> str:
        return ""

    environment: Environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = nothing
    environment.globals |= {"raise_exception": nothing, "strftime_now": nothing, "dict": dict}
    plain = GENERATION.sub("", template)  # a tag of transformers' own, without effect on the text
    environment.from_string(plain).render(messages=messages, add_generation_prompt=True)


def main() -> int:
    """Exit code 0, whatever the template raised, or `EXHAUSTED`; a signal ends what takes long."""
    template, conversations = json.load(sys.stdin)
    seconds = max(1, round(float(sys.argv[1])))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    memory = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    for messages in conversations:
        try:
            _render(template, messages)
        except (MemoryError, OverflowError):
            return EXHAUSTED
        except Exception:  # noqa: BLE001 - it shows when a network is asked
            continue
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
