"""Entry point: parse the command line, run the command, turn errors into exit codes.

A command's module is imported only when the command was chosen.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import islice
from textwrap import fill

from harness.address_space import check_address_space
from harness.cli.arguments import board, data, look, publish, scores, train
from harness.cli.arguments.shared import Commands
from harness.cli.streams import tolerant_streams
from harness.errors import HarnessError, MissingDependency, UsageError
from harness.unknown_options import unknown_option
from harness.version import __version__

INTERRUPTED = 130
EXIT_CODES = f"""exit codes:
  0  done
  1  the gate, a verification or a data check did not pass; `eval` read no response of a run
  2  the command, an option or a combination of them is invalid
  3  a benchmark's file is missing or damaged
  4  a model cannot be loaded, or keeps failing
  5  a run folder or the output cannot be written; a run folder belongs to another process or run
  6  a dependency or server is missing, or memory is too small
  7  the gate's baseline is missing
  8  --budget is reached; finished work is kept; the same command continues
  {HarnessError.exit_code}  a bug in harness or in a plugin
  {INTERRUPTED}  interrupted (Ctrl-C, SIGTERM); finished work is kept; the same command continues
"""
"""Codes from 2 to 70 are those of the classes in `harness.errors`."""

GROUPS: Mapping[str, Sequence[Callable[[Commands], None]]] = {
    "start here": (
        data.add_doctor,
        look.add_list,
        data.add_data,
        scores.add_eval,
        scores.add_score,
        look.add_view,
        look.add_explain,
        board.add_board,
        train.add_train,
    ),
    "examine a score": (
        scores.add_verify,
        scores.add_diff,
        scores.add_conform,
        scores.add_audit,
        scores.add_ladder,
        scores.add_certify,
    ),
    "papers and publishing": (
        board.add_reproduce,
        publish.add_runs,
        publish.add_publish,
        publish.add_server,
        publish.add_hub,
    ),
    "other tools": (publish.add_lmms, train.add_env, train.add_twin, data.add_completion),
}
"""The commands, `NAME` from `add_NAME`, in the groups of `harness --help`."""
OLD_NAMES = {"sweep": "eval --vary", "samples": "runs samples", "curves": "board curves"}
"""Commands by their old names, which are not listed; 0.2 drops them."""

LIGHT_COMMANDS = ("list", "completion")
"""Commands that load neither NumPy nor SciPy, so need no check of the address space."""
OUT_OF_MEMORY_MESSAGE = re.compile(  # messages of the system's loader, of OpenBLAS and of Python
    "cannot allocate memory|failed to map segment|cannot map|memory exhausted"
    "|can't start new thread",
    re.IGNORECASE,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    command_line = sys.argv[1:] if arguments is None else list(arguments)
    with tolerant_streams() as streams:
        try:
            code = _run(command_line)
        except SystemExit as end:  # argparse has printed its message or the help
            if not streams.lost():
                raise
            code = int(end.code or 0)
        if output_error := streams.lost():
            print(f"harness: {output_error}", file=sys.stderr)
        return code or (output_error.exit_code if output_error else 0)


def _run(command_line: Sequence[str]) -> int:
    """Run a command line, print its errors on standard error, and return the exit code."""
    old = command_line[0] if command_line and command_line[0] in OLD_NAMES else ""
    if old:
        note = f"note: `harness {old}` is `harness {OLD_NAMES[old]}` now"
        print(f"{note}; release 0.2 drops the old name", file=sys.stderr)
        command_line = [*OLD_NAMES[old].removesuffix(" --vary").split(), *command_line[1:]]
    parser = build_parser(command_line[0] if command_line else None)
    try:
        parsed, left_over = parser.parse_known_args(command_line)
        if left_over:
            command = getattr(parsed, "parser", parser)
            raise unknown_option(command.prog, left_over, command._option_string_actions)
        if not hasattr(parsed, "function"):
            parser.print_help()
            return UsageError.exit_code
        if command_line[0] not in LIGHT_COMMANDS:
            check_address_space()
        if getattr(parsed, "config", None):
            parsed = _with_config(parser, parsed, command_line)
        if old == "sweep" and not parsed.vary:
            raise UsageError("harness sweep", expected="--vary SETTING=VALUES", found="none")
        parsed.typed = command_line
        module, _, name = parsed.function.partition(":")  # as `arguments.shared.command` sets it
        room = "rehearsal.command" if getattr(parsed, "rehearse", False) else module
        return int(getattr(import_module(f"harness.{room}"), name)(parsed))
    except KeyboardInterrupt:
        print(
            "harness: interrupted. Finished work is kept. To continue, run the same command again.",
            file=sys.stderr,
        )
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("HARNESS_TRACEBACK"):
            raise
        explained = _explain(error)
        print(f"harness: {explained}", file=sys.stderr)
        return explained.exit_code


def _explain(error: Exception) -> HarnessError:
    """Return a HarnessError unchanged; turn other errors into lack of memory or a bug to report."""
    if isinstance(error, HarnessError):
        return error
    if isinstance(error, (MemoryError, ImportError, RuntimeError)) and _is_out_of_memory(error):
        return MissingDependency(
            "memory",
            expected="room for harness and the packages that it loads",
            found=" ".join(str(error).split())[:200] or "none left",
            fix="Give it more (`ulimit -v` limits the address space; 2 GB are enough for "
            "commands without a network).",
        )
    from harness.plugins import describe_error

    return HarnessError(
        f"{describe_error(error)}. This is a bug: please report it, with the traceback "
        "that HARNESS_TRACEBACK=1 in the environment prints"
    )


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Return True if an error, or one that caused it, says that memory ran out.

    It may be an ImportError: of a shared library that could not be mapped into memory.
    """
    while error is not None:
        if isinstance(error, MemoryError) or OUT_OF_MEMORY_MESSAGE.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands, or of one, which takes an eighth of the time."""
    parser = argparse.ArgumentParser(
        prog="harness",
        usage="%(prog)s [-h] [--version] COMMAND …",
        description="Score models on visual-reasoning tasks, train them, publish leaderboards.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"harness {__version__}")
    commands = parser.add_subparsers(prog="harness", metavar="COMMAND", help=argparse.SUPPRESS)
    adders = [add for group in GROUPS.values() for add in group]
    if chosen := [add for add in adders if add.__name__ == f"add_{command}"]:
        chosen[0](commands)
        return parser
    for add in adders:
        add(commands)
    parser.description = f"{parser.description}\n\n{_listed(commands)}"
    return parser


def _listed(commands: Commands) -> str:
    """Return the text of the help that lists the commands in groups."""
    about = {action.dest: action.help or "" for action in commands._choices_actions}
    names = iter(about)
    lines = []
    for title, group in GROUPS.items():
        lines.append(f"{title}:")
        for name in islice(names, len(group)):
            text = fill(about[name], 78, initial_indent=f"  {name:<12}", subsequent_indent=" " * 14)
            lines.append(text)
    return "\n".join(lines)


def _with_config(
    parser: argparse.ArgumentParser, parsed: argparse.Namespace, arguments: Sequence[str]
) -> argparse.Namespace:
    """Parse again with a TOML file's values as defaults: typed arguments take precedence."""
    from harness.cli.config import read_config

    values = read_config(parsed.config, parsed.parser)
    # Lists that were typed replace the file's; argparse would append to a default.
    typed = {name for name, value in vars(parsed).items() if value and isinstance(value, list)}
    parsed.parser.set_defaults(**{name: values[name] for name in values.keys() - typed})
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
