"""Output of `harness diff` and `harness ladder`: a waterfall of score differences by stage."""

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
    """Raise UsageError, before anything is computed, for an `--out` that is not a picture."""
    if path is not None and path.suffix not in PICTURES:
        raise UsageError(f"--out {path}", expected=" or ".join(PICTURES), found=path.suffix)


def show(
    diff: Difference,
    arguments: Namespace,
    further_fields: Mapping[str, object],
    below: Callable[[], None] = lambda: None,
) -> int:
    """Draw the difference in `--out`, and print it; return exit code 0.

    Args:
        diff: The difference of two scores, with the share of each stage.
        arguments: `--out` and `--json`.
        further_fields: Further entries of the JSON.
        below: Prints further text below the waterfall; not called with `--json`.
    """
    if arguments.out is not None:
        write_text(arguments.out, PICTURES[arguments.out.suffix](diff))
    if arguments.json:
        show_json({**diff.to_json(), **further_fields})
        return 0
    say(*lines(diff, width=width()))
    if diff.verdict:
        say("", *wrap_lines(diff.verdict))
        if diff.comparison and (p := p_value(diff.comparison.p_value)):
            stated = "" if p in diff.verdict else f"{p}; "
            say(*wrap_lines(f"({stated}{ALONE})"))
        if diff.changes is not None:
            say(diff.changes)
    if diff.unread_text:
        say(*wrap_lines(diff.unread_text))
    below()
    if arguments.out is not None:
        say(arguments.out)
    return 0
