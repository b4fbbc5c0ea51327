"""Check samples before the first step of a training, and leave out those that are of no use.

`keep_usable` does so for fine-tuning and GRPO: prompts that cannot be read, or are too long.
`with_extra` adds what a training knows about a sample, such as true graphs, to its target before.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
SAMPLES_PER_NOTE = 3  # dropped samples that a note names


@dataclass(frozen=True, slots=True)
class SkippedSample:
    """A sample that is left out of a training."""

    task: str
    sample: str
    why: str
    """Kind of reason in a few words, by which samples are counted."""
    detail: str = ""
    """The reason for this sample."""


def with_extra(sample: Sample, more: Mapping[str, object]) -> Sample:
    """Return the sample with entries added to its target's `extra`; existing entries stay."""
    target = sample.target
    if target is None:
        return sample
    return replace(sample, target=replace(target, extra={**more, **target.extra}))


def keep_usable(
    candidates: "Iterable[ExampleT | SkippedSample]",
    length: Callable[[ExampleT], tuple[int, int, int]],
    max_length: int | None,
    positions: int | None,
    key: Callable[[ExampleT], tuple[str, str]],
    run: TrainingRun,
) -> tuple[list[ExampleT], list[SkippedSample]]:
    """Return the examples that can be learned from, and the samples that are left out.

    All processes share the checks and return the same. A note for each kind of reason names the
    first samples, with the detail of the first.

    Args:
        candidates: Examples, and samples of which no example could be made.
        length: Encodes an example as training will; returns the number of tokens of its prompt, of
            its response at most, and of what `max_length` bounds.
        max_length: Most tokens; None: no bound.
        positions: Positions of the network; see `harness.models.backends.positions`.
        key: Returns task and id of an example's sample. All examples of a sample are kept, or none.
        run: Receives the notes and the progress.

    Raises:
        DataError: no example is left.
    """
    candidates = list(candidates)
    examples = [example for example in candidates if not isinstance(example, SkippedSample)]

    def check(example: ExampleT) -> SkippedSample | None:
        """Return the sample if it must be left out; None: the example is usable."""
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

    skipped_before = [sample for sample in candidates if isinstance(sample, SkippedSample)]
    skipped: dict[tuple[str, str], SkippedSample] = {}
    for sample in (*skipped_before, *_check_together(examples, check, run)):
        skipped.setdefault((sample.task, sample.sample), sample)
    usable = [example for example in examples if key(example) not in skipped]
    left_out = list(skipped.values())
    if not usable:
        first = f", such as {left_out[0].sample!r}: {left_out[0].why}" if left_out else ""
        detail = f" ({left_out[0].detail})" if left_out and left_out[0].detail else ""
        raise DataError(
            "training samples",
            expected="at least one to learn from",
            found=f"none; {len(left_out)} dropped{first}{detail}",
        )
    _note_left_out(left_out, run)
    return usable, left_out


def _check_together(
    examples: Sequence[ExampleT],
    check: Callable[[ExampleT], SkippedSample | None],
    run: TrainingRun,
) -> list[SkippedSample]:
    """Check examples, shared by all processes; return the samples to leave out, in order."""
    connected = processes()
    rank, ranks = connected.process_index, connected.num_processes
    own_indices = range(rank, len(examples), ranks)
    faults: list[tuple[int, SkippedSample]] = []
    run.progress.start("checking samples", len(examples), 0)
    with ThreadPoolExecutor(min(8, cpu_count() or 1)) as pool:
        results = pool.map(check, [examples[index] for index in own_indices])
        for done, (index, fault) in enumerate(zip(own_indices, results, strict=True), start=1):
            if fault is not None:
                faults.append((index, fault))
            run.progress.step(min(done * ranks, len(examples)), {})
    run.progress.end()
    return [fault for _, fault in sorted(gather(faults), key=lambda pair: pair[0])]


def _note_left_out(left_out: Sequence[SkippedSample], run: TrainingRun) -> None:
    """Note the number of samples left out for each reason, with the first ones."""
    for why, n_samples in Counter(sample.why for sample in left_out).items():
        alike = [sample for sample in left_out if sample.why == why]
        listed = ", ".join(f"{sample.task} {sample.sample}" for sample in alike[:SAMPLES_PER_NOTE])
        detail = f" ({alike[0].detail})" if alike[0].detail else ""
        run.progress.note(f"{n_samples} sample(s) dropped, {why}: {listed}{detail}")
