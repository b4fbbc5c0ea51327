"""`timing.json`: the cost of a run, apart from its results, because seconds are never equal.

Each share of a run has a file of its own name until the run is finished, so that folders can be
copied together. `timing.json` then has the attempts of all shares, each with its commit.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from time import time
from types import MappingProxyType
from typing import Required, TypedDict

from harness.errors import StoreError
from harness.plain import from_plain
from harness.record import TIMING
from harness.run.stage_timing import Stage, process_peaks, to_json
from harness.store.atomic import forget, read_json, write_json

SHARE = "timing.{}-{}.json"
"""Name of the file of share i of n."""


class Attempt(TypedDict, total=False):
    """The cost of one attempt at a run, or at a share of it."""

    ended: float
    commit: str | None
    dirty: bool | None
    shard: tuple[int, int]
    wall_seconds: Required[float]
    samples: Required[int]
    workers: Required[int]
    stages: Mapping[str, object]
    memory: Mapping[str, object]


KEPT = tuple(Attempt.__annotations__)


def add_attempt(
    folder: Path,
    *,
    seconds: float,
    samples: int,
    workers: int,
    stages: Mapping[str, Stage],
    code: Mapping[str, object] = MappingProxyType({}),
    shard: tuple[int, int] | None = None,
    finished: bool = True,
) -> str | None:
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
        code: `commit` and `dirty` of the code that predicted them.
        shard: The share of the run that was predicted; None: all that was left.
        finished: Whether the run has all samples. A share of an unfinished run has its own file.

    Returns:
        The shares of a finished run with their samples, seconds and commits, for a note; None: it
        has no shares.
    """
    plain = to_json(stages)
    for one in plain.values():
        one.pop("process_peaks", None)
    path = folder / (SHARE.format(*shard) if shard and not finished else TIMING)
    shares = sorted(folder.glob(SHARE.format("*", "*"))) if finished else []
    attempts = _attempts(path)
    for share in shares:  # one that is copied again counts once
        attempts += [one for one in _attempts(share) if one not in attempts]
    attempts.append(
        from_plain(
            Attempt,
            {
                "ended": round(time(), 3),
                **{name: code[name] for name in ("commit", "dirty") if name in code},
                **({"shard": list(shard)} if shard else {}),
                "wall_seconds": seconds,
                "samples": samples,
                "workers": workers,
                "stages": plain,
                "memory": process_peaks(stages),
            },
        )
    )
    wall = sum(attempt["wall_seconds"] for attempt in attempts if attempt["samples"])
    predicted = sum(attempt["samples"] for attempt in attempts)
    write_json(
        path,
        {
            "wall_seconds": wall,
            "samples_per_second": predicted / wall if wall else None,
            "attempts": attempts,
        },
    )
    for share in shares:
        forget(share)
    return _shares_text(attempts) if finished else None


def _shares_text(attempts: Iterable[Attempt]) -> str | None:
    told = [
        f"share {one['shard'][0]} of {one['shard'][1]}: {one['samples']} samples in "
        f"{one['wall_seconds']:.1f} s, commit {(one.get('commit') or '?')[:12]}"
        for one in attempts
        if "shard" in one
    ]
    return "; ".join(told) or None


def _attempts(path: Path) -> list[Attempt]:
    """Read the attempts of a file; none if it is damaged, for no score depends on it.

    Those of earlier versions stay as they were: their stages have `memory_bytes`, the memory of the
    process at the end of a piece of work, and no peaks.
    """
    with suppress(StoreError, TypeError, KeyError, ValueError, AttributeError):
        return [
            from_plain(Attempt, {name: one[name] for name in KEPT if name in one})
            for one in read_json(path)["attempts"]
        ]
    return []
