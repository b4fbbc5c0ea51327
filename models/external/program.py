"""Run an external program: its command line, its time limit, and its last output if it fails.

`External` runs it on each batch. The program gets its own environment variables, without those that
would reveal where the benchmark's answers are.
"""

import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import MissingDependency, UsageError
from harness.responses import storable
from harness.uv_environment import REVEALING, UvEnvironment

PLACEHOLDERS = ("input", "output", "folder")
"""Placeholders that a command line may have."""
PLACEHOLDER = re.compile(r"\{(\w*)\}")  # such as "{input}"
QUOTED_BYTES = 1_500  # bytes at the end of a program's output that a failure quotes
REVEALING_NAMES = re.compile(r"HARNESS_|PWD\Z|OLDPWD\Z|PYTEST_")
"""Matches environment variables that would reveal the folders of harness to a program."""


@dataclass(frozen=True, slots=True)
class ProgramExit:
    """The end of a program's run."""

    code: int | None
    """Exit code; None: the program took longer than `timeout` and was killed."""
    last_output: str
    """The end of its standard output and error."""
    timeout: float = 0.0
    """Time limit in seconds."""

    @property
    def fault(self) -> str | None:
        """Description of what went wrong; None: the exit code is 0."""
        if self.code == 0:
            return None
        end = f"it ended with exit code {self.code}"
        if self.code is None:
            end = f"it took more than {self.timeout:g} s"
        return f"{end}; its last words: {self.last_output or 'none'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A command line with placeholders for its input and output; it is run without a shell."""

    command: str
    directory: Path | None
    """Working directory; None: the folder of its input."""
    timeout: float
    """Seconds for one batch."""
    environment: UvEnvironment | None = None
    """Environment whose programs, such as `python`, the command means; None: this one's."""

    def __post_init__(self) -> None:
        arguments = self._command()
        placeholders = [name for word in arguments for name in PLACEHOLDER.findall(word)]
        missing = {"input", "output"} - set(placeholders)
        if not arguments or missing or set(placeholders) - set(PLACEHOLDERS):
            raise UsageError(
                "external(command=…)",
                expected="a command line with {input} and {output} (and {folder}, if it needs one)",
                found=repr(self.command)[:200],
                fix='For example: command="python infer.py --in {input} --out {output}".',
            )
        if self.directory is not None and not self.directory.is_dir():
            raise UsageError(
                "external(directory=…)", expected="a folder", found=str(self.directory)
            )
        if not 0 < self.timeout < float("inf"):
            raise UsageError(
                "external(timeout=…)", expected="seconds, more than 0", found=str(self.timeout)
            )

    def run(self, *, input: Path, output: Path) -> ProgramExit:
        """Run the program on one batch; at the end, kill every process that it started.

        Raises:
            MissingDependency: there is no such program.
        """
        folder = input.parent
        paths = {"input": input, "output": output, "folder": folder}
        command = self._command()
        line = [PLACEHOLDER.sub(lambda match: str(paths[match[1]]), word) for word in command]
        log = folder / "log.txt"
        with log.open("wb") as log_file:
            try:
                process = subprocess.Popen(
                    line,
                    cwd=self.directory or folder,
                    env=environment(os.environ, self.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=log_file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                raise MissingDependency(
                    f"program {line[0]!r}",
                    expected="one that can be run",
                    found=str(error) if isinstance(error, ValueError) else error.strerror or "",
                    fix="Give its whole path; it does not run in the current folder.",
                ) from error
            try:
                code: int | None = process.wait(self.timeout)
            except subprocess.TimeoutExpired:
                code = None
            finally:  # also after Ctrl-C; processes left running would hold GPU memory
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return ProgramExit(code, _tail(log), self.timeout)

    def fingerprint(self) -> str:
        """Return a hash of the command, its environment, and the files that it names."""
        digest = hashlib.blake2b(self.command.encode(), digest_size=16)
        if self.environment is not None:
            digest.update(json.dumps(self.environment.describe()).encode())
        for word in self._command()[1:]:
            path = (self.directory or Path()) / word
            if "{" not in word and path.is_file():
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, hashlib.blake2b).digest())
        return digest.hexdigest()

    def _command(self) -> list[str]:
        """Return the words of the command line; UsageError if its quotes are not closed."""
        try:
            return shlex.split(self.command)
        except ValueError as error:
            raise UsageError(
                "external(command=…)",
                expected="a command line",
                found=f"{error}: {self.command[:200]!r}",
            ) from error


def environment(ours: Mapping[str, str], uv: UvEnvironment | None = None) -> dict[str, str]:
    """Return the environment variables for a program.

    Args:
        ours: The variables of this process; those that reveal the folders of harness are removed.
        uv: The program's own environment, whose programs come first in `PATH`, if it has one.
    """
    variables = {name: value for name, value in ours.items() if not REVEALING_NAMES.match(name)}
    if uv is None:
        return variables
    for name in REVEALING:
        variables.pop(name, None)
    path = os.pathsep.join((str(uv.programs), variables.get("PATH", os.defpath)))
    return {**variables, "PATH": path, "VIRTUAL_ENV": str(uv.folder)}


def _tail(log: Path) -> str:
    """Return the end of a log, at most `QUOTED_BYTES`, on one line."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - QUOTED_BYTES))
        return storable(" ".join(file.read().decode("utf-8", "replace").split()))
