"""Checks of samples before the first step of a training: those that cannot be learned from.

`sft` and `grpo` share them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import Any, TypeVar

from harness.errors import DataError
from harness.trainer import TrainingRun
from harness.trainers.session import gather, place

ExampleT = TypeVar("ExampleT")
SAMPLES_PER_NOTE = 3


@dataclass(frozen=True, slots=True)
class SkippedSample:
    """A sample that cannot be learned from."""

    task: str
    sample: str
    why: str
    """Reason in a few words, equal for all such samples."""
    detail: str = ""


def check_examples(
    examples: Sequence[ExampleT],
    check: Callable[[ExampleT], SkippedSample | None],
    run: TrainingRun,
) -> list[SkippedSample | None]:
    """Return the result of `check` for every example: None, or why its sample is skipped.

    Several processes share the work, in threads, and come to the same result.
    """
    rank, ranks = place()
    own = range(rank, len(examples), ranks)
    found: list[tuple[int, SkippedSample | None]] = []
    run.progress.start("checking samples", len(examples), 0)
    with ThreadPoolExecutor(min(8, cpu_count() or 1)) as pool:
        results = pool.map(check, [examples[index] for index in own])
        for done, pair in enumerate(zip(own, results, strict=True), start=1):
            found.append(pair)
            run.progress.step(min(done * ranks, len(examples)), {})
    run.progress.end()
    return [result for _, result in sorted(gather(found), key=lambda pair: pair[0])]


def refuse_empty(kept: Sequence[Any], skipped: Sequence[SkippedSample]) -> None:
    """Raise DataError, which names the first of `skipped`, if there is nothing to learn from."""
    if kept:
        return
    first = f", such as {skipped[0].sample!r}: {skipped[0].why}" if skipped else ""
    detail = f" ({skipped[0].detail})" if skipped and skipped[0].detail else ""
    raise DataError(
        "training samples",
        expected="at least one to learn from",
        found=f"none; {len(skipped)} dropped{first}{detail}",
    )


def report_skipped(run: TrainingRun, skipped: Sequence[SkippedSample]) -> None:
    """Note the skipped samples, by reason; the detail is that of the first of each reason."""
    for why, count in Counter(one.why for one in skipped).items():
        alike = [one for one in skipped if one.why == why]
        listed = ", ".join(f"{one.task} {one.sample}" for one in alike[:SAMPLES_PER_NOTE])
        detail = f" ({alike[0].detail})" if alike[0].detail else ""
        run.progress.note(f"{count} sample(s) dropped, {why}: {listed}{detail}")
