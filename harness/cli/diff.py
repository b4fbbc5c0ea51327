"""`harness diff`: how much each stage explains of the difference between two runs' scores.

The second run may be a log of another program.
"""

from argparse import Namespace

from harness.cli import waterfall
from harness.cli.output import note
from harness.errors import UsageError
from harness.leaderboards.differences.diff import diff_runs
from harness.leaderboards.differences.logged import diff_log, runs_of_a_task, tasks_of_one
from harness.record import Run


def diff(arguments: Namespace) -> int:
    """Print the share of each stage, and draw it as a waterfall."""
    waterfall.check_out(arguments.out)
    if arguments.model is not None and arguments.format is None:
        raise UsageError("--model", expected="--format beside it", found="none")
    if arguments.format is None:
        for line in tasks_of_one(arguments.a, arguments.b):
            note(line)
        runs = [Run.open(folder) for folder in runs_of_a_task(arguments.a, arguments.b)]
        for run in runs:
            run.check_files()
        difference = diff_runs(*runs, data_root=arguments.data, level=arguments.level)
    else:
        run = Run.open(arguments.a)
        run.check_files()
        difference = diff_log(
            run,
            arguments.b,
            arguments.format,
            model=arguments.model,
            data_root=arguments.data,
            level=arguments.level,
        )
    return waterfall.show(difference, arguments, {})
