"""`harness ladder`: where masks are lost."""

from argparse import Namespace

from harness.cli import waterfall
from harness.cli.output import say
from harness.cli.tables import number, show_columns
from harness.leaderboards.differences.ladder import RUNGS, Ladder
from harness.leaderboards.differences.ladder import ladder as climb
from harness.record import Run


def ladder(arguments: Namespace) -> int:
    """Print what each fault costs, and what one true stage alone would give."""
    waterfall.check_out(arguments.out)
    run = Run.open(arguments.run)
    run.check_files()
    climbed = climb(run, data_root=arguments.data, level=arguments.level)
    more = {"alone": climbed.alone, "by_part": climbed.by_part}
    return waterfall.show(climbed.way, arguments, more, lambda: _print_below(climbed))


def _print_below(climbed: Ladder) -> None:
    print()
    show_columns([(step.name, RUNGS.get(step.name, "")) for step in climbed.way.steps])
    losses = ", ".join(f"{part} {loss:.4f}" for part, loss in climbed.by_part.items())
    say("", f"loss by part: {losses}", "")
    rows = [("one stage alone replaced by the truth", climbed.way.headline)]
    show_columns([*rows, *((name, number(value)) for name, value in climbed.alone.items())])
