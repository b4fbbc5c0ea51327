"""`harness board curves`: logged numbers of several trainings by step, drawn as one SVG figure."""

from argparse import Namespace
from pathlib import Path

from harness.cli.output import note, tell
from harness.cli.spec_arguments import require_minimum
from harness.errors import UsageError
from harness.leaderboards.curves import draw_together, logged_names
from harness.run.training_record import Training
from harness.store.atomic import write_bytes


def curves(arguments: Namespace) -> int:
    """Draw the figure, seeds of a recipe as one line with its range; or list the numbers."""
    trainings = [Training.open(folder) for folder in dict.fromkeys(arguments.runs)]
    if arguments.out is None and not arguments.y:
        names = logged_names(trainings)
        tell(arguments, {"logged": names}, *names)
        return 0
    out = arguments.out or Path("none")
    if out.suffix != ".svg":
        raise UsageError(f"--out {out}", expected="a name that ends with .svg", found=out.name)
    require_minimum(arguments, 1, "smooth")
    svg, recipes = draw_together(trainings, arguments.y, smooth=arguments.smooth, tell=note)
    write_bytes(out, svg.encode())
    paths = {label: [str(folder) for folder in folders] for label, folders in recipes.items()}
    tell(arguments, {"file": str(out), "recipes": paths}, out)
    return 0
