"""The workers that a run's options ask for: this process, others beside it, or Ray's actors."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.errors import ModelError
from harness.model import Model
from harness.run.distributed import Leader, ProcessRank
from harness.run.options import Options
from harness.run.processes import Processes
from harness.run.ray_workers import Actors
from harness.run.workers import LocalWorker, Workers, build_model
from harness.spec import Spec


def ready_model(model: Spec | Model, seed: int) -> Model:
    """Build the model that a SPEC names; a ready model is returned as it is."""
    return build_model(model, seed) if isinstance(model, Spec) else model


def start_workers(
    model: Spec | Model,
    folder: Path,
    options: Options,
    *,
    attempt: int,
    samples: int,
    note: Callable[[str], None],
    launch: ProcessRank | None,
) -> Workers:
    """Start the workers of a run.

    Args:
        model: The model; processes and actors need a SPEC, which they build themselves.
        folder: The run's folder.
        options: Settings of the run.
        attempt: Number of the attempt, for the journal.
        samples: Number of the run's samples: there are no more workers than that.
        note: Receives what the user should know about the workers.
        launch: This process's place among those of a launcher; None: it was begun alone.

    Raises:
        ModelError: a ready model was given where several processes need one each.
    """
    if options.in_process:
        # Each share (of 2, of 3, …) has a name of its own for its journal, so that folders can
        # be copied together; 0 is the whole run's.
        part, parts = options.shard or (1, 1)
        number = parts * (parts - 1) // 2 + part - 1
        local = LocalWorker(ready_model(model, options.seed), folder, attempt, worker=number)
        return local if launch is None else Leader(launch, local, folder, attempt)
    if not isinstance(model, Spec):
        raise ModelError(
            "several or isolated workers",
            expected="a model's SPEC, which they build themselves",
            found="a ready model",
        )
    total = max(samples, 1)
    options = replace(options, workers=min(options.workers, total))
    if options.ray is None:
        return Processes(model, folder, attempt, options, samples=total)
    return Actors(model, folder, attempt, options, note=note, samples=total)
