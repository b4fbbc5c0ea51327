"""Estimate an evaluation from the pilots of earlier runs of the same model on the same tasks.

A pilot is the timed run of a few samples before an evaluation. `harness reproduce` prefers these
estimates (hours, GB) to the formula in `estimate`.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from harness.errors import HarnessError, counted
from harness.leaderboards.estimate import UNKNOWN_SAMPLES, Device, Estimate, device_of
from harness.record import Run
from harness.run.forecast import PILOT, Rates, stored_rates
from harness.spec import slug


def measured(
    runs: Path, model: str, tasks: Mapping[str, int], device: Device | None
) -> dict[str, Rates]:
    """Return the rates of a model on each task as pilots measured them; empty if a task has none.

    Args:
        runs: The folder of run folders.
        model: The model's SPEC.
        tasks: Number of samples by the task's SPEC.
        device: The device that must have been measured; None: any, because a server runs the VLM.
    """
    rates: dict[str, Rates] = {}
    for path in sorted((runs / slug(model)).glob(f"*/{PILOT}")):
        with suppress(HarnessError):
            task = Run.open(path.parent).manifest["task"]["spec"]
            pilot = stored_rates(path.parent)
            if pilot is None or pilot.seconds is None or task not in tasks:
                continue
            if device is None or device_of(pilot.device) == device:
                rates[task] = pilot
    return rates if rates.keys() == tasks.keys() else {}


def estimate_by(rates: Mapping[str, Rates], tasks: Mapping[str, int]) -> Estimate | None:
    """Return the estimate of an evaluation by measured rates; None if nothing was measured.

    A split of unknown size counts as `UNKNOWN_SAMPLES` samples. The memory is that of a GPU or,
    without one, of the process.
    """
    if not rates:
        return None
    seconds = sum(
        (tasks[task] or UNKNOWN_SAMPLES) * (pilot.seconds or 0) for task, pilot in rates.items()
    )
    memory = max(pilot.gpu_memory or pilot.memory for pilot in rates.values())
    return Estimate(seconds / 3600, memory / 1e9)


def sentences(rates: Mapping[str, Rates], tasks: Mapping[str, int]) -> tuple[str, ...]:
    """Return a sentence for each task with the forecast of its pilot."""
    return tuple(
        f"{task}, by a pilot of {counted(pilot.samples, 'sample')} of an earlier run: "
        f"{pilot.text(tasks[task] or UNKNOWN_SAMPLES)}"
        for task, pilot in rates.items()
    )
