"""Declaration of commands and options in this package, and options that commands share.

`command` adds a command to argparse and returns `Options`, whose methods add its options.
"""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

from harness.errors import UsageError

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The commands of a parser, or the actions of a command, as `add_subparsers` returns them."""
TYPES: dict[str, type] = dict.fromkeys(("DIR", "FILE", "PLAN", "ROOT", "RUN"), Path)
TYPES |= {"N": int, "P": float, "X": float, "SECONDS": float}
"""Types of options by the placeholder in their help: `--out DIR` is a Path, so is `FILE.svg`."""
SUBSET = "first<N>, seed<S>-<N>, or a file with one id per line"
WHERE_READ = "the data root (default: that of the runs)"
"""Help of `--subset`, and of `--data` for commands that read runs."""


class Options:
    """Adds options to the parser of a command, or to a group of its options."""

    def __init__(self, parser: argparse._ActionsContainer) -> None:
        self.parser = parser

    def group(self, title: str) -> "Options":
        """Return a group of options, which the help lists under a title."""
        return Options(self.parser.add_argument_group(title))

    def option(
        self,
        name: str,
        about: str,
        convert: Callable[[str], object] | None = None,
        *,
        default: object = None,
        required: bool = False,
        repeated: bool = False,
        nargs: str | None = None,
        choices: Iterable[str] | None = None,
    ) -> None:
        """Add an option with a value, or a positional argument.

        Args:
            name: The option and the placeholder of its value: `--out DIR`, `runs RUN`.
            about: Its help.
            convert: Converts the text; None: by the placeholder (`TYPES`), else the default's type.
            default: The value if it is not typed.
            required: The command is refused without it.
            repeated: It may be typed several times; the value is a list.
            nargs: The number of values of a positional argument, as in `add_argument`.
            choices: The allowed values.
        """
        flag, _, placeholder = name.partition(" ")
        type_of_default = str if default is None else type(default)
        convert = convert or TYPES.get(placeholder.partition(".")[0], type_of_default)
        if choices is not None:
            convert = one_of(flag, choices)
        added = self.parser.add_argument(
            flag,
            action="append" if repeated else "store",
            metavar=placeholder or None,
            type=whole_number if convert is int else convert,
            default=default,
            nargs=nargs,
            choices=choices,
            help=about,
        )
        added.required |= required

    def flag(self, name: str, about: str) -> None:
        """Add an option without a value."""
        self.parser.add_argument(name, action="store_true", help=about)

    def rehearse(self) -> None:
        """Add `--rehearse`: run the command with stand-ins of its networks, servers and data."""
        about = "run the command with tiny stand-ins of its networks, servers and data"
        self.flag("--rehearse", f"{about} (docs/rehearsal.md)")

    def database(self, about: str = "") -> None:
        """Add `--db`: the database that indexes runs."""
        about = about or "(default: $HARNESS_DB, else runs.sqlite in harness's cache)"
        self.option("--db URL", f"sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME {about}")

    def json(self) -> None:
        """Add `--json`, for commands that can print their result for a program."""
        self.flag("--json", "print one JSON value and nothing else")

    def tasks_and_data(self) -> None:
        """Add `--tasks` and `--data`: the benchmarks, and the folder of their data."""
        about = "NAME or NAME(split=…,protocol=…), several with commas or repeated"
        self.option("--tasks SPECS", about, repeated=True)
        self.data()

    def data(self, about: str = "the folder with one folder per benchmark") -> None:
        """Add `--data`: the folder of the benchmarks' data."""
        self.option("--data ROOT", about)

    def metrics(self) -> None:
        """Add `--metrics`: metrics beside those of a task."""
        self.option("--metrics SPECS", "further metrics of plugins", repeated=True)

    def judge(self) -> None:
        """Add `--judge`: the model that grades answers in free text."""
        about = "chat(backend=…), remembered(judge=…,file=…) or stored(file=…)"
        self.option("--judge SPEC", f"the judge of free-text answers: {about}")

    def config(self) -> None:
        """Add `--config`: a TOML file with values of options."""
        self.option(
            "--config FILE",
            "a TOML file with the same keys; options on the command line override it",
        )


def actions_of(commands: Commands, name: str, about: str) -> Commands:
    """Add a command that has actions, and return what `command` adds its actions to."""
    parser = commands.add_parser(name, help=about)
    return parser.add_subparsers(title="actions", metavar="ACTION", required=True)


def command(
    commands: Commands,
    name: str,
    about: str,
    epilog: str | None = None,
    *,
    function: str = "",
    usage: str | None = None,
) -> Options:
    """Add a command or an action, and return its `Options`.

    Args:
        commands: All commands, or the actions of one command.
        name: The command's name.
        about: Its purpose, in a phrase.
        epilog: Text below the options, such as an example.
        function: The function that runs it, as `module:name` below `harness`. Default: the function
            `name` in `harness.cli.COMMAND`, where COMMAND is this command, or the action's command.
        usage: The first line of its help; None: argparse's own.
    """
    parser = commands.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=epilog,
        usage=usage,
    )
    parser.set_defaults(function=function or f"cli.{parser.prog.split()[1]}:{name}", parser=parser)
    return Options(parser)


def whole_number(text: str) -> int:
    """Return a whole number of at most 63 bits; a type of `add_argument`."""
    if (number := int(text)).bit_length() > 63:
        raise ValueError(text)
    return number


def one_of(option: str, choices: Iterable[str]) -> Callable[[str], str]:
    """Return a type of `add_argument` whose UsageError names the allowed values."""

    def parse_choice(text: str) -> str:
        if text not in choices:
            raise UsageError(option, expected=f"one of {', '.join(choices)}", found=text)
        return text

    return parse_choice


def count(text: str) -> int:
    """Return a whole number of at least 1; a type of `add_argument`."""
    if (number := whole_number(text)) < 1:
        raise ValueError(text)
    return number


def share(text: str) -> tuple[int, int]:
    """Return (i, n) of a share `i/n` with 1 ≤ i ≤ n; a type of `add_argument`."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts
