"""`harness ladder`: find the stage of a run where masks are lost.

Stages are replaced by the ground truth one after another (see `leaderboards.differences.ladder`).
"""

from argparse import Namespace

from harness.cli import waterfall
from harness.cli.output import say
from harness.cli.tables import number, show_columns
from harness.leaderboards.differences.ladder import RUNGS, Ladder
from harness.leaderboards.differences.ladder import ladder as climb
from harness.record import Run


def ladder(arguments: Namespace) -> int:
    """Print the loss of each stage, and the score with the ground truth in one stage alone."""
    waterfall.check_out(arguments.out)
    run = Run.open(arguments.run)
    run.check_files()
    climbed = climb(run, data_root=arguments.data, level=arguments.level)
    further_fields = {"alone": climbed.alone, "by_part": climbed.by_part}
    return waterfall.show(climbed.way, arguments, further_fields, lambda: _print_below(climbed))


def _print_below(climbed: Ladder) -> None:
    """Print the meaning of each stage, the loss by part, and the scores of one true stage alone."""
    print()
    show_columns([(step.name, RUNGS.get(step.name, "")) for step in climbed.way.steps])
    losses = ", ".join(f"{part} {loss:.4f}" for part, loss in climbed.by_part.items())
    say("", f"loss by part: {losses}", "")
    rows = [("one stage alone replaced by the truth", climbed.way.headline)]
    show_columns([*rows, *((name, number(value)) for name, value in climbed.alone.items())])
