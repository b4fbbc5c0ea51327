"""`timing.json`: the cost of a run, apart from its results, because seconds are never equal."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any

from harness.errors import StoreError
from harness.record import TIMING
from harness.run.stage_timing import Stage, process_peaks, to_json
from harness.store.atomic import read_json, write_json


def add_attempt(
    folder: Path, *, seconds: float, samples: int, workers: int, stages: Mapping[str, Stage]
) -> None:
    """Add the cost of one attempt at a run to its `timing.json`, and the time at which it ended in
    seconds since 1970.

    Args:
        folder: The run folder.
        seconds: Seconds from the first batch to the last score.
        samples: Number of samples predicted in this attempt.
        workers: Number of workers that predicted them.
        stages: Cost of each stage of the model, in all workers together; of a launch, the
            seconds of each of its processes stand beside their sum. Peaks of memory are not of a
            stage but of a process: they stand beside the stages, one a process.
    """
    plain = to_json(stages)
    for one in plain.values():
        one.pop("process_peaks", None)
    attempts = [
        *_attempts(folder),
        {
            "ended": round(time(), 3),
            "wall_seconds": seconds,
            "samples": samples,
            "workers": workers,
            "stages": plain,
            "memory": process_peaks(stages),
        },
    ]
    wall = sum(attempt["wall_seconds"] for attempt in attempts if attempt["samples"])
    predicted = sum(attempt["samples"] for attempt in attempts)
    write_json(
        folder / TIMING,
        {
            "wall_seconds": wall,
            "samples_per_second": predicted / wall if wall else None,
            "attempts": attempts,
        },
    )


def _attempts(folder: Path) -> list[dict[str, Any]]:
    """Read the earlier attempts; none if the file is damaged, for no score depends on it.

    Those of earlier versions stay as they were: their stages have `memory_bytes`, the memory of the
    process at the end of a piece of work, and no peaks.
    """
    with suppress(StoreError, TypeError, KeyError, ValueError, AttributeError):
        return [
            {
                "wall_seconds": float(one["wall_seconds"]),
                "samples": int(one["samples"]),
                "workers": int(one["workers"]),
                "stages": dict(one.get("stages", {})),
                "memory": dict(one.get("memory", {})),
            }
            for one in read_json(folder / TIMING)["attempts"]
        ]
    return []
