"""Checks of samples before the first step of a training: those that cannot be learned from.

`sft` and `grpo` share them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import cpu_count
from typing import TypeVar

from harness.errors import DataError, HarnessError
from harness.models.backends.positions import beyond
from harness.trainer import TrainingRun
from harness.trainers.session import gather, processes
from harness.types import Sample

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


def with_extra(sample: Sample, more: Mapping[str, object]) -> Sample:
    """Return the sample with more in its target's `extra`, where what is there already stays."""
    target = sample.target
    if target is None:
        return sample
    return replace(sample, target=replace(target, extra={**more, **target.extra}))


def keep_usable(
    made: "Iterable[ExampleT | SkippedSample]",
    length: Callable[[ExampleT], tuple[int, int, int]],
    max_length: int | None,
    positions: int | None,
    key: Callable[[ExampleT], tuple[str, str]],
    run: TrainingRun,
) -> tuple[list[ExampleT], list[SkippedSample]]:
    """Return the examples of samples that can be learned from, and the other samples.

    Several processes share the checks, in threads, and come to the same result. The samples that
    are left out are noted by reason, with the detail of the first of each reason.

    Args:
        made: Examples, and samples of which none could be made.
        length: Encodes an example as training will; returns the tokens of its prompt, those of its
            response at most, and those that `max_length` bounds.
        max_length: Most tokens; None: no bound.
        positions: Of the network; see `harness.models.backends.positions`.
        key: Task and id of an example's sample. All examples of a sample are kept, or none.
        run: Receives the notes and the progress.

    Raises:
        DataError: nothing is left.
    """
    made = list(made)
    examples = [one for one in made if not isinstance(one, SkippedSample)]
    connected = processes()
    rank, ranks = connected.process_index, connected.num_processes
    own = range(rank, len(examples), ranks)

    def check(example: ExampleT) -> SkippedSample | None:
        try:
            prompt, response, tokens = length(example)
        except (HarnessError, ValueError, OSError) as error:
            return SkippedSample(*key(example), "unreadable", str(error))
        if max_length is not None and tokens > max_length:
            return SkippedSample(
                *key(example), f"longer than {max_length} tokens", f"{tokens} tokens"
            )
        if why := beyond(prompt, response, positions):
            return SkippedSample(*key(example), "beyond the network's positions", why)
        return None

    faults: list[tuple[int, SkippedSample]] = []
    run.progress.start("checking samples", len(examples), 0)
    with ThreadPoolExecutor(min(8, cpu_count() or 1)) as pool:
        results = pool.map(check, [examples[index] for index in own])
        for done, (index, fault) in enumerate(zip(own, results, strict=True), start=1):
            faults += [] if fault is None else [(index, fault)]
            run.progress.step(min(done * ranks, len(examples)), {})
    run.progress.end()
    faults = sorted(gather(faults), key=lambda pair: pair[0])
    skipped: dict[tuple[str, str], SkippedSample] = {}
    for one in (*(one for one in made if isinstance(one, SkippedSample)), *dict(faults).values()):
        skipped.setdefault((one.task, one.sample), one)
    kept = [one for one in examples if key(one) not in skipped]
    left_out = list(skipped.values())
    if not kept:
        first = f", such as {left_out[0].sample!r}: {left_out[0].why}" if left_out else ""
        detail = f" ({left_out[0].detail})" if left_out and left_out[0].detail else ""
        raise DataError(
            "training samples",
            expected="at least one to learn from",
            found=f"none; {len(left_out)} dropped{first}{detail}",
        )
    for why, count in Counter(one.why for one in left_out).items():
        alike = [one for one in left_out if one.why == why]
        listed = ", ".join(f"{one.task} {one.sample}" for one in alike[:SAMPLES_PER_NOTE])
        detail = f" ({alike[0].detail})" if alike[0].detail else ""
        run.progress.note(f"{count} sample(s) dropped, {why}: {listed}{detail}")
    return kept, left_out
