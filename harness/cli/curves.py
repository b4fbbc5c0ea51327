"""`harness board curves`: the logs of trainings, by step, as one figure."""

from argparse import Namespace
from pathlib import Path

from harness.cli.output import note, tell
from harness.cli.spec_arguments import require_minimum
from harness.errors import UsageError
from harness.leaderboards.curves import draw_together
from harness.run.contamination import Training
from harness.store.atomic import write_bytes


def curves(arguments: Namespace) -> int:
    """Draw numbers of several trainings by step; those of one recipe are a line and its range."""
    out: Path = arguments.out
    if out.suffix != ".svg":
        raise UsageError(f"--out {out}", expected="a name that ends with .svg", found=out.name)
    require_minimum(arguments, 1, "smooth")
    trainings = [Training.open(folder) for folder in dict.fromkeys(arguments.runs)]
    drawn, recipes = draw_together(trainings, arguments.y, smooth=arguments.smooth, tell=note)
    write_bytes(out, drawn.encode())
    named = {label: [str(folder) for folder in several] for label, several in recipes.items()}
    tell(arguments, {"file": str(out), "recipes": named}, out)
    return 0
