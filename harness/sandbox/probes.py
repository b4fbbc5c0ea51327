"""The self-test of a sandbox: probes that try forbidden calls, run before any other code.

`pool` opens a sandbox only if every probe fails. A remote server cannot be probed; `answers` only
checks that it runs code.
"""

import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from harness.files import temporary_prefix
from harness.sandbox.execution import Execution

PROBE_SOURCE = r"""
import os, socket

def read_file():
    open(data["file"]).read()

def read_environment():
    seen = set(os.environ)
    for process in data["harness"], os.getppid(), 1:
        try:
            text = open("/proc/%d/environ" % process).read()
        except OSError:
            continue
        seen |= {variable.split("=")[0] for variable in text.split("\0")}
    if not seen & set(data["foreign"]):
        raise PermissionError

def write_file():
    open(data["file"], "a").close()

def open_socket():
    socket.socket().close()

def fork():
    if os.fork() == 0:
        os._exit(0)

def signal_parent():
    os.kill(os.getppid(), 0)

def execute():
    os.execv("/bin/true", ["true"])

done = {"ran": data["ran"]}
for probe in read_file, read_environment, write_file, open_socket, fork, signal_parent, execute:
    try:
        probe()
        done[probe.__name__] = "SUCCEEDED"
    except OSError as error:
        done[probe.__name__] = type(error).__name__
emit(done)
"""
HARMLESS_VARIABLES = {"LD_LIBRARY_PATH", "PWD", "OLDPWD", "SHLVL", "TERM", "LC_CTYPE", "_"}
"""Variables of the environment that code may see."""
PROBE_SECONDS = 20.0  # time limit of the probes


class Leaks(Exception):
    """A sandbox let code do something forbidden; the message names it."""


Run: TypeAlias = Callable[[str, object, float], Execution]
"""Runs code (first argument) with data (second), within seconds (third)."""


def answers(run: Run) -> dict[str, str]:
    """Return the note for a server whose isolation cannot be tested from here.

    Raises:
        Leaks: it does not run code as it should.
    """
    token = secrets.token_hex(8)
    done = run("emit(data)", token, PROBE_SECONDS)
    if done.value != token:
        raise Leaks(f"the server did not hand back what it was given: {done.error}")
    return {"isolation": "the server's own, not tested"}


def self_test(run: Run, environment: Mapping[str, str]) -> dict[str, str]:
    """Run the probes; return the name of the error that each one ran into, by the probe's name.

    Args:
        run: Runs code in the sandbox.
        environment: The variables that a worker is given.

    Raises:
        Leaks: a probe succeeded, or the probes did not run to their end.
    """
    token = secrets.token_hex(8)
    with tempfile.TemporaryDirectory(prefix=temporary_prefix("sandbox")) as folder:
        canary = Path(folder, "canary")
        canary.write_text("secret")
        # Without the sandbox, any user could open it.
        Path(folder).chmod(0o755)
        canary.chmod(0o666)
        data = {
            "ran": token,
            "file": str(canary),
            "harness": os.getpid(),
            "foreign": sorted(set(os.environ) - set(environment) - HARMLESS_VARIABLES),
        }
        done = run(PROBE_SOURCE, data, PROBE_SECONDS)
    outcomes = done.value if isinstance(done.value, dict) else {}
    if outcomes.pop("ran", None) != token:
        raise Leaks(f"the self-test did not run to its end: {done.error}")
    if succeeded := [name for name, outcome in outcomes.items() if outcome == "SUCCEEDED"]:
        raise Leaks(f"the self-test's {', '.join(succeeded)} succeeded")
    return outcomes
