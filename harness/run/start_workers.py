"""Start the workers that a run's options request: this process, others, or Ray's actors."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.errors import ModelError, UsageError
from harness.model import Model
from harness.run.distributed import Leader, ProcessRank
from harness.run.options import Options
from harness.run.processes import Processes
from harness.run.ray_workers import Actors
from harness.run.workers import LocalWorker, Workers, build_model
from harness.spec import Spec
from harness.uv_environment import without_environment


def is_built_here(model: Spec | Model, options: Options) -> bool:
    """Return True if this process builds the model and predicts.

    A model with its own environment runs in another process.
    """
    has_environment = isinstance(model, Spec) and without_environment(model)[1] is not None
    return options.in_process and not has_environment


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
    rank: ProcessRank | None,
) -> Workers:
    """Start the workers of a run.

    Args:
        model: The model; processes and actors need a SPEC, which they build themselves.
        folder: The run's folder.
        options: Settings of the run.
        attempt: Number of the attempt, for the journal.
        samples: Number of the run's samples, which limits the number of workers.
        note: Receives notes for the user about the workers.
        rank: This process's rank among those of a launcher; None: there is no launcher.

    Raises:
        ModelError: a ready model was given although several processes need one each.
        UsageError: a model has its own environment, and workers are on other machines.
    """
    if is_built_here(model, options):
        # A worker's number names its journal. The numbers of shards differ also between runs of
        # different numbers of shards (0 without shards; 1 and 2; 3, 4 and 5; …), so that folders
        # can be copied together.
        shard, n_shards = options.shard or (1, 1)
        number = n_shards * (n_shards - 1) // 2 + shard - 1
        local = LocalWorker(ready_model(model, options.seed), folder, attempt, worker=number)
        return local if rank is None else Leader(rank, local, folder, attempt)
    if not isinstance(model, Spec):
        raise ModelError(
            "several or isolated workers",
            expected="a model's SPEC, which they build themselves",
            found="a ready model",
        )
    if (options.ray or rank) and without_environment(model)[1] is not None:
        raise UsageError(
            f"model {model}",
            expected="workers of this machine, which its own environment is on",
            found="Ray, or a launch of several processes",
        )
    n_samples = max(samples, 1)
    options = replace(options, workers=min(options.workers, n_samples))
    if options.ray is None:
        return Processes(model, folder, attempt, options, samples=n_samples)
    return Actors(model, folder, attempt, options, note=note, samples=n_samples)
