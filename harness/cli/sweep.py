"""`harness eval --vary`: evaluate one model once for each of several settings.

The settings become SPECs, which `harness.cli.evaluate` runs as several models.
"""

from argparse import Namespace

from harness import plugins
from harness.chosen.names import spelled_out
from harness.chosen.trained_settings import as_trained
from harness.cli.evaluate import evaluate
from harness.cli.model_choice import model_specs
from harness.cli.spec_arguments import require
from harness.errors import UsageError
from harness.run.sweep import Sweep, merge_values
from harness.spec import Spec


def evaluate_or_sweep(arguments: Namespace) -> int:
    """Evaluate the models as they are given or, with `--vary`, one under several settings."""
    if arguments.vary:
        if arguments.as_vendor:
            raise UsageError("--as-vendor", expected="no --vary beside it", found="--vary")
        return sweep(arguments)
    if arguments.grid:
        raise UsageError("--grid", expected="--vary SETTING=VALUES beside it", found="none")
    return evaluate(arguments)


def sweep(arguments: Namespace) -> int:
    """Evaluate a model once for each setting; boards then show the score's sensitivity to it."""
    require(arguments, "model", "vary", "tasks", "data", "out")
    plan = _plan(arguments, tell=True)
    models = [spec for spec, _ in plan.models()]
    for spec in models:  # a mistyped setting leaves no sweep in the folder
        plugins.check_arguments("models", spec)
    plan.write(arguments.out)
    arguments.model = [str(spec) for spec in models]
    return evaluate(arguments)


def models_of(arguments: Namespace) -> list[Spec]:
    """Return the models that `evaluate_or_sweep` evaluates, and print nothing."""
    if arguments.vary:
        return [spec for spec, _ in _plan(arguments, tell=False).models()]
    return model_specs(arguments.model, tell=False)


def _plan(arguments: Namespace, *, tell: bool) -> Sweep:
    """Return the sweep of `--vary` and `--grid`; raise UsageError unless there is one model."""
    bases = model_specs(arguments.model, tell=tell)
    if len(bases) != 1:
        raise UsageError("--model", expected="one SPEC to vary", found=f"{len(bases)}")
    varied = merge_values(arguments.vary)
    return Sweep(bases[0], varied, grid=arguments.grid, resolve=_evaluated)


def _evaluated(spec: Spec) -> Spec:
    """Return the full SPEC that is evaluated and recorded for a typed SPEC."""
    return as_trained(spelled_out(spec))
