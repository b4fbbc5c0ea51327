"""Arguments that several commands share, and how one is declared."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import UsageError

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The commands of a parser, or the actions of a command, as `add_subparsers` returns them."""
KINDS: Mapping[str, type] = {
    **dict.fromkeys(("DIR", "FILE", "PLAN", "ROOT", "RUN"), Path),
    **{"N": int, "P": float, "X": float, "SECONDS": float},
}
"""Types of values, by the word that stands for them in the help (`FILE.svg` is a `FILE`)."""
SUBSET = "first<N>, seed<S>-<N>, or a file with one id per line"
WHERE_READ = "the data root (default: that of the runs)"


class Options:
    """Adds options to a command, or to a group of its options."""

    def __init__(self, parser: argparse._ActionsContainer) -> None:
        self.parser = parser

    def group(self, title: str) -> "Options":
        """Add a group of options, which stand under a title in the help."""
        return Options(self.parser.add_argument_group(title))

    def option(
        self,
        name: str,
        about: str,
        kind: Callable[[str], object] | None = None,
        *,
        default: object = None,
        required: bool = False,
        repeated: bool = False,
        nargs: str | None = None,
        choices: Iterable[str] | None = None,
    ) -> None:
        """Add an option with a value, or an argument.

        Args:
            name: As it is typed, and the word for its value: `--out DIR`, `runs RUN`.
            about: Its help.
            kind: Its type; None: that of the word for its value in `KINDS` (another word is another
                type), else the default's.
            default: Its value where it is not typed.
            required: Refuse the command without it.
            repeated: It may be typed several times, and is a list.
            nargs: Of an argument, as `add_argument` has it.
            choices: The values that there are.
        """
        typed, _, word = name.partition(" ")
        usual = str if default is None else type(default)
        kind = kind or KINDS.get(word.partition(".")[0], usual)
        if choices is not None:
            kind = one_of(typed, choices)
        added = self.parser.add_argument(
            typed,
            action="append" if repeated else "store",
            metavar=word or None,
            type=whole if kind is int else kind,
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
        """Add `--rehearse`: the command with stand-ins of its networks, servers and data."""
        about = "run the command with tiny stand-ins of its networks, servers and data"
        self.flag("--rehearse", f"{about} (docs/rehearsal.md)")

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
    """Add a command that has actions, and return these, to which `command` adds."""
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
    instead: str = "",
) -> Options:
    """Add a command or an action, and return what adds its options.

    Args:
        commands: All commands, or the actions of one.
        name: As it is typed.
        about: What it does, in a phrase.
        epilog: Text below the options, such as an example.
        function: `module:name` below `harness`; "": of the command's own name in `cli`, of an
            action in the module of its command.
        usage: The first line of its help; None: as argparse has it.
        instead: The command whose old name this is: it is not listed, and a note names the new one.
    """
    listed: dict[str, Any] = {} if instead else {"help": about}
    parser = commands.add_parser(
        name,
        **listed,
        description=about[0].upper() + about[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=epilog,
        usage=usage,
    )
    parser.set_defaults(function=function or f"cli.{parser.prog.split()[1]}:{name}", parser=parser)
    parser.set_defaults(instead=instead)
    return Options(parser)


def whole(text: str) -> int:
    """A whole number that 64 bits hold, as a type of `add_argument`."""
    if (number := int(text)).bit_length() > 63:
        raise ValueError(text)
    return number


def one_of(option: str, choices: Iterable[str]) -> Callable[[str], str]:
    """Return a type of `add_argument` that raises UsageError, with the values that there are."""

    def kind(text: str) -> str:
        if text not in choices:
            raise UsageError(option, expected=f"one of {', '.join(choices)}", found=text)
        return text

    return kind


def count(text: str) -> int:
    """A number of things, from 1 on, as a type of `add_argument`."""
    if (number := whole(text)) < 1:
        raise ValueError(text)
    return number


def share(text: str) -> tuple[int, int]:
    """A share `i/n`, with 1 ≤ i ≤ n, as a type of `add_argument`."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts
