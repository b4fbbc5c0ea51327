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
    made = climb(run, data_root=arguments.data, level=arguments.level)
    more = {"alone": made.alone, "by_part": made.by_part}
    return waterfall.show(made.way, arguments, more, lambda: _print_below(made))


def _print_below(made: Ladder) -> None:
    print()
    show_columns([(step.name, RUNGS.get(step.name, "")) for step in made.way.steps])
    losses = ", ".join(f"{part} {loss:.4f}" for part, loss in made.by_part.items())
    say("", f"loss by part: {losses}", "")
    rows = [("one stage alone replaced by the truth", made.way.headline)]
    show_columns([*rows, *((name, number(value)) for name, value in made.alone.items())])
