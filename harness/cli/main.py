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

from harness.cli.address_space import check_address_space
from harness.cli.arguments import board, data, look, publish, scores, train
from harness.cli.arguments.shared import Commands
from harness.cli.streams import tolerant_streams
from harness.errors import HarnessError, MissingDependency, UsageError
from harness.version import __version__

INTERRUPTED = 130
EXIT_CODES = f"""exit codes:
  0  done
  1  the gate, a verification or a data check did not pass
  2  the command, an option or a combination of them is invalid
  3  a benchmark's file is missing or damaged
  4  a model cannot be loaded, or keeps failing
  5  a run folder or the output cannot be written; a run folder belongs to another process or run
  6  a dependency or server is missing, or memory is too small
  7  the gate's baseline is missing
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
        scores.add_diff,
        board.add_board,
        train.add_train,
    ),
    "test a score": (
        scores.add_verify,
        scores.add_conform,
        scores.add_audit,
        scores.add_ladder,
    ),
    "papers and publishing": (
        board.add_reproduce,
        publish.add_runs,
        publish.add_publish,
        publish.add_hub,
    ),
    "other tools": (publish.add_lmms, train.add_twin, data.add_completion),
}
"""The commands, `NAME` from `add_NAME`, in the groups of `harness --help`."""
OLD_NAMES = (scores.add_sweep, publish.add_samples, board.add_curves)
"""Old names of commands, which are not listed and say what to use; 0.2 drops them."""

LIGHT = ("list", "completion")
"""Commands that do without NumPy and SciPy."""
OUT_OF_MEMORY = re.compile(
    "cannot allocate memory|failed to map segment|cannot map|memory exhausted"
    "|can't start new thread",
    re.IGNORECASE,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    typed = sys.argv[1:] if arguments is None else list(arguments)
    with tolerant_streams() as streams:
        try:
            code = _run(typed)
        except SystemExit as end:  # of argparse, which has told what it has to
            if not streams.lost():
                raise
            code = int(end.code or 0)
        if lost := streams.lost():
            print(f"harness: {lost}", file=sys.stderr)
        return code or (lost.exit_code if lost else 0)


def _run(typed: Sequence[str]) -> int:
    parser = build_parser(typed[0] if typed else None)
    try:
        parsed = parser.parse_args(typed)
        if not hasattr(parsed, "function"):
            parser.print_help()
            return UsageError.exit_code
        if typed[0] not in LIGHT:
            check_address_space()
        if getattr(parsed, "config", None):
            parsed = _with_config(parser, parsed, typed)
        if parsed.instead:
            old = f"note: `harness {typed[0]}` is `{parsed.instead}` now"
            print(f"{old}; release 0.2 drops the old name", file=sys.stderr)
        parsed.typed = typed
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
    """Return the error to tell: itself, what is missing, or a fault with the way to report it."""
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
        f"{describe_error(error)}. This was not foreseen: please report it, with what "
        "HARNESS_TRACEBACK=1 in the environment shows"
    )


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Return True if an error, or one that caused it, says that memory ran out.

    A shared library that cannot be mapped is told as an ImportError.
    """
    while error is not None:
        if isinstance(error, MemoryError) or OUT_OF_MEMORY.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the whole command line, or that of one command, which takes an eighth of the time."""
    parser = argparse.ArgumentParser(
        prog="harness",
        usage="%(prog)s [-h] [--version] COMMAND …",
        description="Score models on visual-reasoning tasks, train them, publish leaderboards.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"harness {__version__}")
    commands = parser.add_subparsers(prog="harness", metavar="COMMAND", help=argparse.SUPPRESS)
    every = [add for group in (*GROUPS.values(), OLD_NAMES) for add in group]
    if chosen := [add for add in every if add.__name__ == f"add_{command}"]:
        chosen[0](commands)
        return parser
    for add in every:
        add(commands)
    parser.description = f"{parser.description}\n\n{_listed(commands)}"
    return parser


def _listed(commands: Commands) -> str:
    """Return the commands with what they do, in groups."""
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
