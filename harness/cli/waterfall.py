"""The waterfall of `harness diff` and `harness ladder`, printed and written."""

from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.cli.output import say, show_json, write_text
from harness.cli.tables import width, wrap_lines
from harness.errors import UsageError
from harness.leaderboards.differences.diff import Difference
from harness.leaderboards.differences.waterfall import PICTURES, lines
from harness.statistics.text import ALONE, p_value


def check_out(path: Path | None) -> None:
    """Raise UsageError for a `--out` that is not a drawing, before anything is computed."""
    if path is not None and path.suffix not in PICTURES:
        raise UsageError(f"--out {path}", expected=" or ".join(PICTURES), found=path.suffix)


def show(
    diff: Difference,
    arguments: Namespace,
    more: Mapping[str, object],
    below: Callable[[], None] = lambda: None,
) -> int:
    """Draw it in `--out`, and print it as JSON with `more`, or as text with what `below` prints."""
    if arguments.out is not None:
        write_text(arguments.out, PICTURES[arguments.out.suffix](diff))
    if arguments.json:
        show_json({**diff.to_json(), **more})
        return 0
    say(*lines(diff, width=width()))
    if diff.verdict:
        say("", *wrap_lines(diff.verdict))
        if diff.comparison and (p := p_value(diff.comparison.p_value)):
            stated = "" if p in diff.verdict else f"{p}; "
            say(*wrap_lines(f"({stated}{ALONE})"))
    below()
    if arguments.out is not None:
        say(arguments.out)
    return 0
