"""Every error that harness raises on purpose.

    HarnessError              a fault of harness or of a plugin        exit code 70
    ├── UsageError            the command cannot be carried out        2
    │   ├── UnknownPlugin     no such task, model, …; the nearest names
    │   └── UnsupportedAnswerForm      a model gives no answer of the form that a task asks for
    │       └── PartNotChosen          for want of a segmenter or propagator
    ├── DataError             a file of a benchmark is not as it should be   3
    │   ├── MediaError        an image or video cannot be decoded
    │   └── MaskError         a mask is not a mask of this size
    ├── ParseError            text is not in the grammar expected (a failed sample, never a crash)
    ├── ModelError            a model cannot be loaded or keeps failing      4
    │   ├── OutOfMemory       a batch was too large; smaller ones may fit
    │   └── NotRestored       weights are not what they were before a sample: the run ends
    ├── StoreError            a run folder cannot be written or trusted      5
    │   ├── MissingBaseline   the gate has nothing to compare with  7
    │   ├── Locked            another process holds it
    │   └── ResumeMismatch    it belongs to another configuration
    ├── Unavailable           a server did not answer, whatever was tried    6
    │   └── SandboxFault      code could not be run, and is not to blame for it
    ├── MissingDependency     something outside this package is not installed  6
    │   └── SandboxUnavailable         no sandbox on this machine: no code is run
    └── BudgetReached         the time or money for a command is spent; samples are left  8

An error names the thing, what was expected, what was found, and what to do.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Control characters of terminals and of text direction, without tab and line feed."""


WORKFLOW_COMMANDS = re.compile(r"^([^\S\n]*):(?=:)|#(?=#\[)", re.MULTILINE)
"""Commands to GitHub's runner in a line of a log: `::` at its start, after blanks or none, and the
older `##[` anywhere."""


def printable(text: str) -> str:
    r"""Return a text from elsewhere, safe for a terminal and for the log of a job on GitHub.

    Control characters are spelled out, and so is the first sign of a workflow command.

    >>> print(printable("a\x1b[2J b\x9d\u202e"))
    a\x1b[2J b\x9d\u202e
    >>> print(printable("a::b\n ::stop-commands::c"))
    a::b
     \x3a:stop-commands::c
    """
    text = CONTROL_CHARACTERS.sub(_escaped, text)
    if "::" in text or "##[" in text:
        # The match is one sign, after blanks: it becomes \x3a or \x23.
        text = WORKFLOW_COMMANDS.sub(
            lambda match: f"{match[1] or ''}\\x{ord(match[0][-1]):02x}", text
        )
    return text


def one_line(text: str) -> str:
    r"""Return what `printable` does with line feeds and tabs spelled out too.

    >>> print(one_line("x\n::stop-commands::hidden"))
    x\n::stop-commands::hidden
    """
    return printable(re.sub("[\t\n\u2028\u2029]", _escaped, text))


def counted(number: int, name: str, plural: str = "") -> str:
    """Return a number with the noun that it counts; `plural`: if it is not the name with an s.

    >>> counted(1, "sample"), counted(1_200, "sample"), counted(0, "box", "boxes")
    ('1 sample', '1,200 samples', '0 boxes')
    """
    return f"{number:,} {name if number == 1 else plural or f'{name}s'}"


def _escaped(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]


class HarnessError(Exception):
    """Base class of all errors; `exit_code` is the exit code of the command line."""

    exit_code = 70  # EX_SOFTWARE of sysexits.h; 1 says that a check did not pass

    def __init__(self, thing: str, *, expected: str = "", found: str = "", fix: str = "") -> None:
        facts = [f"expected {expected}"] if expected else []
        facts += [f"found {found}"] if found else []
        message = f"{thing}: {', '.join(facts)}" if facts else thing
        if fix:
            message = f"{message.rstrip('.')}. {fix}"
        super().__init__(printable(message))


@contextmanager
def raised_as(
    error_class: type[HarnessError],
    thing: str,
    expected: str,
    *of: type[BaseException],
    fix: str = "",
    missing: str = "none",
) -> Iterator[None]:
    """Turn exceptions of the classes `of` in the block into an error of `error_class`.

    Args:
        error_class: Class of the error that is raised.
        thing: What the error is about.
        expected: What was expected of it.
        of: Classes of exceptions that are turned; their message is what was found.
        fix: What to do.
        missing: What was found, if a file or its folder does not exist.
    """
    try:
        yield
    except of as error:
        why = getattr(error, "strerror", None) or str(error)
        why = missing if isinstance(error, FileNotFoundError) else why
        if isinstance(error, RecursionError):
            why = "lists or objects that are nested too deeply"
        elif not isinstance(error, (OSError, ValueError, HarnessError)) or not why:
            why = f"{type(error).__name__}: {error}"
        reason = why.partition("\n")[0][:200]
        raise error_class(thing, expected=expected, found=reason, fix=fix) from error


def raise_all(thing: str, errors: Mapping[str, HarnessError]) -> None:
    """Raise the errors of parts as one that lists all; nothing where there are none.

    Args:
        thing: What has the parts.
        errors: The error of each part, by its name.
    """
    if not errors:
        return
    if len(errors) == 1:
        raise next(iter(errors.values()))
    error_lines = "".join(f"\n  {name}: {error}" for name, error in errors.items())
    raise ModelError(f"{thing}: {len(errors)} parts cannot be loaded{error_lines}")


class UsageError(HarnessError):
    """A command or a call cannot be carried out as it was written."""

    exit_code = 2


class UnknownPlugin(UsageError):
    """No plugin of this kind has this name."""


class UnsupportedAnswerForm(UsageError):
    """A model gives no answer of a form that a task asks for."""


class PartNotChosen(UnsupportedAnswerForm):
    """A model has no segmenter or propagator for the answers that a task asks for."""


class DataError(HarnessError):
    """A benchmark's file is missing, damaged or not in its layout."""

    exit_code = 3


class MediaError(DataError):
    """An image or a video cannot be decoded as it should be."""


class MaskError(DataError):
    """A run-length is not a mask of the size that it claims."""


class ParseError(HarnessError):
    """A model's text is not in the grammar that was expected."""


class ModelError(HarnessError):
    """A model cannot be loaded, or failed too often in a row."""

    exit_code = 4


class OutOfMemory(ModelError):
    """A batch did not fit; the engine halves it and tries again."""


class MissingCheckpoint(ModelError):
    """The files of a network with a name on the hub are not on this machine."""


class NotRestored(ModelError):
    """Weights that a sample changed were not put back: no further answer could be trusted."""


class StoreError(HarnessError):
    """A run folder cannot be written, read or trusted."""

    exit_code = 5


class MissingBaseline(StoreError):
    """The gate's baseline is not there, or holds no finished run."""

    exit_code = 7


class Locked(StoreError):
    """Another process is writing to the run folder."""


class ResumeMismatch(StoreError):
    """The run folder belongs to a run with another configuration."""


class Unavailable(HarnessError):
    """A server that is needed did not answer: a failure of the infrastructure, of one sample."""

    exit_code = 6


class SandboxFault(Unavailable):
    """A sandbox lost its workers: a failure of the infrastructure, never of the code."""


class MissingDependency(HarnessError):
    """A package, program or model file outside this package is needed and absent."""

    exit_code = 6

    @classmethod
    def package(cls, name: str | None, *, extra: str) -> "MissingDependency":
        """Return the error of an optional package that an extra brings."""
        fix = f'pip install "visual-reasoning-harness[{extra}]"'
        return cls(f"package {name}", expected="it installed", found="none", fix=fix)


class SandboxUnavailable(MissingDependency):
    """No sandbox can be had on this machine, so that no code of a model is run."""


class BudgetReached(HarnessError):
    """The time or money for a command is spent, and samples are left: what is done is kept."""

    exit_code = 8
