"""An external program: its command line, its time limit, and its last output when it fails."""

import hashlib
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

PLACES = ("input", "output", "folder")
PLACE = re.compile(r"\{(\w*)\}")
TAIL = 1_500  # bytes of what a program said last that are shown
HIDDEN = re.compile(r"HARNESS_|PWD\Z|OLDPWD\Z|PYTEST_")
"""Variables that would reveal the folders of harness to a program."""


@dataclass(frozen=True, slots=True)
class ProgramExit:
    """End of a program's run: its exit code and last output."""

    code: int | None
    """None: it took more than `timeout`, and was killed."""
    last_output: str
    """Last part of its standard output and error."""
    timeout: float = 0.0
    """Seconds that it had."""

    @property
    def fault(self) -> str | None:
        """Fault of the run, if there was one."""
        if self.code == 0:
            return None
        how = f"it ended with exit code {self.code}"
        if self.code is None:
            how = f"it took more than {self.timeout:g} s"
        return f"{how}; its last words: {self.last_output or 'none'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A command line with placeholders for its input and output; it is run without a shell."""

    command: str
    directory: Path | None
    """Working directory; None: the folder of its input."""
    timeout: float
    """Seconds for one batch."""

    def __post_init__(self) -> None:
        words = self._command()
        places = [name for word in words for name in PLACE.findall(word)]
        missing = {"input", "output"} - set(places)
        if not words or missing or set(places) - set(PLACES):
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
        """Run it over one batch; it and all that it started are killed if it takes too long.

        Raises:
            MissingDependency: there is no such program.
        """
        folder = input.parent
        given = {"input": input, "output": output, "folder": folder}
        line = [PLACE.sub(lambda match: str(given[match[1]]), word) for word in self._command()]
        log = folder / "log.txt"
        with log.open("wb") as result:
            try:
                process = subprocess.Popen(
                    line,
                    cwd=self.directory or folder,
                    env=environment(os.environ),
                    stdin=subprocess.DEVNULL,
                    stdout=result,
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
            finally:  # Ctrl-C as well; and what it left running holds memory of the device
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return ProgramExit(code, _tail(log), self.timeout)

    def fingerprint(self) -> str:
        """Hash of the command and of the files that it names, such as a script."""
        whole = hashlib.blake2b(self.command.encode(), digest_size=16)
        for word in self._command()[1:]:
            path = (self.directory or Path()) / word
            if "{" not in word and path.is_file():
                with path.open("rb") as file:
                    whole.update(hashlib.file_digest(file, hashlib.blake2b).digest())
        return whole.hexdigest()

    def _command(self) -> list[str]:
        try:
            return shlex.split(self.command)
        except ValueError as error:
            raise UsageError(
                "external(command=…)",
                expected="a command line",
                found=f"{error}: {self.command[:200]!r}",
            ) from error


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a program: all but those that reveal the folders of harness."""
    return {name: value for name, value in given.items() if not HIDDEN.match(name)}


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        return storable(" ".join(file.read().decode("utf-8", "replace").split()))
