"""`harness sweep`: one model under several settings."""

from argparse import Namespace

from harness.cli.ask import needed, specs
from harness.cli.evaluate import evaluate
from harness.cli.recorded import as_trained
from harness.errors import UsageError
from harness.run.sweep import Sweep, merged


def sweep(arguments: Namespace) -> int:
    """Evaluate a model once for each setting; boards then say how much the score hangs on it."""
    out = needed(arguments.out, "--out", "a folder for the runs")
    bases = specs(arguments.model, "--model")
    if len(bases) != 1:
        raise UsageError("--model", expected="one SPEC to vary", found=f"{len(bases)}")
    varied = merged(needed(arguments.vary, "--vary", "SETTING=VALUE,VALUE,…"))
    plan = Sweep(bases[0], varied, grid=arguments.grid, whole=as_trained)
    plan.write(out)
    arguments.model = [str(spec) for spec, _ in plan.models()]
    return evaluate(arguments)
