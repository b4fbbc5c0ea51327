"""Parse the command line. Nothing heavy is imported before a command is known."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from harness.cli.arguments import board, data, inspect, scores, train, twin
from harness.errors import HarnessError, MissingDependency, UsageError, printable
from harness.version import __version__

EXIT_CODES = """exit codes:
  0  done
  1  the gate, a verification or a data check did not pass
  2  what was typed cannot be done
  3  a benchmark's file is missing or damaged
  4  a model cannot be loaded, or keeps failing
  5  a run folder cannot be written, is held by another process, or belongs to another run
  6  something that is needed is not installed
  70  an error that harness did not foresee
  130  interrupted (Ctrl-C, SIGTERM); what was finished is kept, the same command goes on
"""

NO_MEMORY = ("cannot allocate memory", "failed to map segment", "cannot map", "memory exhausted")
UNFORESEEN = 70  # as sysexits.h calls an internal error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = build_parser()
    given = parser.parse_args(arguments)
    if not hasattr(given, "function"):
        parser.print_help()
        return UsageError.exit_code
    try:
        if getattr(given, "config", None):
            given = _with_config(parser, given, arguments)
        module, _, name = given.function.partition(":")
        code = getattr(import_module(f"harness.cli.{module}"), name)(given)
        return int(code)
    except HarnessError as error:
        if os.environ.get("HARNESS_TRACEBACK"):
            raise
        print(f"harness: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(
            "harness: interrupted; what was finished is kept, the same command goes on",
            file=sys.stderr,
        )
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe has gone, as `harness list | head` does
        return 0
    except (MemoryError, ImportError) as error:
        if os.environ.get("HARNESS_TRACEBACK"):
            raise
        if not _is_out_of_memory(error):
            print(f"harness: {_unforeseen(error)}", file=sys.stderr)
            return UNFORESEEN
        lacks = MissingDependency(
            "memory",
            expected="room for harness and the packages that it loads",
            found=" ".join(str(error).split())[:200] or "none left",
            fix="Give it more (`ulimit -v` limits the space of addresses; 2 GB are enough for "
            "commands without a network).",
        )
        print(f"harness: {lacks}", file=sys.stderr)
        return lacks.exit_code
    except Exception as error:
        if os.environ.get("HARNESS_TRACEBACK"):
            raise
        print(f"harness: {_unforeseen(error)}", file=sys.stderr)
        return UNFORESEEN


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Return True if memory ran out, also where the loader of a shared library reports that."""
    while error is not None:
        text = str(error).lower()
        if isinstance(error, MemoryError) or any(words in text for words in NO_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False


def _unforeseen(error: Exception) -> str:
    from harness.plugins import describe_error

    return printable(
        f"{describe_error(error)}. This was not foreseen: please report it, with what "
        "HARNESS_TRACEBACK=1 in the environment shows"
    )


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="harness",
        description="Score models on visual-reasoning tasks, train them, publish leaderboards.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"harness {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    inspect.add_list(commands)
    scores.add_eval(commands)
    scores.add_sweep(commands)
    scores.add_score(commands)
    scores.add_verify(commands)
    data.add_data(commands)
    board.add_board(commands)
    train.add_train(commands)
    twin.add_twin(commands)
    inspect.add_explain(commands)
    inspect.add_curves(commands)
    inspect.add_doctor(commands)
    return parser


def _with_config(
    parser: argparse.ArgumentParser, given: argparse.Namespace, arguments: Sequence[str] | None
) -> argparse.Namespace:
    """Parse again with a TOML file's values as defaults: typed arguments take precedence."""
    from harness.cli.config import LISTS, read_config

    values = read_config(given.config, known=vars(given))
    # argparse appends what is typed to a default that is a list; here it replaces it.
    typed = [name for name in LISTS if isinstance(getattr(given, name, None), list)]
    _set_defaults(parser, {name: value for name, value in values.items() if name not in typed})
    return parser.parse_args(arguments)


def _set_defaults(parser: argparse.ArgumentParser, values: dict[str, object]) -> None:
    for action in parser._actions:  # no public way leads to the parsers of subcommands
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                _set_defaults(child, values)
    parser.set_defaults(**values)


if __name__ == "__main__":
    raise SystemExit(main())
