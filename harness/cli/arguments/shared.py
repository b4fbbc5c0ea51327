"""Arguments that several commands share."""

import argparse
from pathlib import Path
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The commands of a parser, or the actions of a command, as `add_subparsers` returns them."""
Options: TypeAlias = "argparse._ActionsContainer"
"""A parser, or a group of its options."""


def actions_of(commands: Commands, name: str, about: str) -> Commands:
    """Add a command that has actions, and return these, to which `command` adds."""
    parser = commands.add_parser(name, help=about)
    return parser.add_subparsers(title="actions", metavar="ACTION", required=True)


def command(
    commands: Commands,
    name: str,
    about: str,
    *,
    function: str | None = None,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    """Add a command or an action, and return its parser.

    Args:
        commands: All commands, or the actions of one.
        name: As it is typed.
        about: What it does, in a phrase.
        function: `module:name` below `harness.cli`; None: of the command's own name, of an action
            in the module of its command.
        epilog: Text below the options, such as an example.
    """
    parser = commands.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=epilog,
    )
    function = function or f"{parser.prog.split()[1]}:{name}"
    parser.set_defaults(function=function, parser=parser)
    return parser


def flag(parser: Options, name: str, about: str) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=about)


def count(text: str) -> int:
    """A number of things, from 1 on, as a type of `add_argument`."""
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


def share(text: str) -> tuple[int, int]:
    """A share `i/n`, with 1 ≤ i ≤ n, as a type of `add_argument`."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts


def add_json(parser: Options) -> None:
    """Add `--json`, for commands that can print their result for a program."""
    flag(parser, "--json", "print one JSON value and nothing else")


def add_tasks_and_data(parser: Options) -> None:
    """Add `--tasks` and `--data`: the benchmarks, and the folder of their data."""
    parser.add_argument(
        "--tasks",
        action="append",
        metavar="SPECS",
        help="NAME or NAME(split=…,protocol=…), several with commas or repeated",
    )
    add_data_root(parser)


def add_data_root(
    parser: Options, about: str = "the folder that holds one folder a benchmark"
) -> None:
    """Add `--data`: the folder of the benchmarks' data."""
    parser.add_argument("--data", type=Path, metavar="ROOT", help=about)


def add_run_folders(
    parser: Options, about: str = "a folder with runs below it; may be repeated"
) -> None:
    """Add `--runs`, which may be repeated."""
    parser.add_argument(
        "--runs", type=Path, action="append", required=True, metavar="DIR", help=about
    )


def add_metrics(parser: Options) -> None:
    """Add `--metrics`: metrics beside those of a task."""
    parser.add_argument(
        "--metrics", action="append", metavar="SPECS", help="further metrics, from plugins"
    )


def add_judge(parser: Options) -> None:
    """Add `--judge`: the model that grades answers in free text."""
    parser.add_argument(
        "--judge",
        metavar="SPEC",
        help="who grades free answers: chat(backend=…), "
        "remembered(judge=…,file=…) or stored(file=…)",
    )


def add_config(parser: Options) -> None:
    """Add `--config`: a TOML file with values of options."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a TOML file with the same keys; what is typed wins",
    )
