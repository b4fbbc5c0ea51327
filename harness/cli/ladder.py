"""`harness ladder`: where masks are lost."""

from argparse import Namespace

from harness.cli import waterfall
from harness.cli.diff import PICTURES
from harness.cli.output import show_json, write_text
from harness.cli.tables import number, show_columns
from harness.errors import UsageError, printable
from harness.leaderboards.differences.ladder import RUNGS
from harness.leaderboards.differences.ladder import ladder as climb
from harness.record import Run


def ladder(arguments: Namespace) -> int:
    """Print what each fault costs, and what one true stage alone would give."""
    if arguments.out is not None and arguments.out.suffix not in PICTURES:
        raise UsageError(
            f"--out {arguments.out}", expected=" or ".join(PICTURES), found=arguments.out.suffix
        )
    run = Run.open(arguments.run)
    run.check_files()
    made = climb(run, data_root=arguments.data, level=arguments.level)
    if arguments.out is not None:
        write_text(arguments.out, PICTURES[arguments.out.suffix](made.way))
    if arguments.json:
        show_json({**made.way.to_json(), "alone": dict(made.alone), "by_part": made.by_part})
        return 0
    print("\n".join(map(printable, waterfall.lines(made.way))) + "\n")
    show_columns([(step.name, RUNGS.get(step.name, "")) for step in made.way.steps])
    losses = ", ".join(f"{part} {loss:.4f}" for part, loss in made.by_part.items())
    print(f"\nloss by part: {losses}\n")
    rows = [("one stage alone replaced by the truth", made.way.headline)]
    show_columns([*rows, *((name, number(value)) for name, value in made.alone.items())])
    if arguments.out is not None:
        print(arguments.out)
    return 0
