"""Checks before the first step: every sample is encoded, and unusable ones are named."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import cpu_count
from typing import TYPE_CHECKING, TypeVar

from harness.errors import DataError
from harness.models.pipeline import PromptedModel
from harness.trainer import TrainingRun
from harness.trainers.sft.batches import verdict
from harness.trainers.sft.descriptions import Complete, as_written
from harness.trainers.sft.examples import Example, Reasoning, SkippedSample, examples_of

if TYPE_CHECKING:
    from transformers import ProcessorMixin

T = TypeVar("T")
NAMED = 3  # samples that a note names


def prepare_examples(
    model: PromptedModel,
    processor: "ProcessorMixin",
    run: TrainingRun,
    *,
    reasoning: Reasoning,
    max_length: int | None,
    complete: Complete = as_written,
) -> tuple[list[Example], list[SkippedSample]]:
    """Return the examples to learn, and the dropped samples. Every example was encoded once.

    Several processes share the work, and come to the same result.

    Raises:
        DataError: nothing is left.
    """
    found = examples_of(model, run.tasks, reasoning=reasoning, seed=run.seed, complete=complete)
    made = list(found)
    examples = [one for one in made if isinstance(one, Example)]
    verdicts = check_examples(examples, partial(verdict, processor, max_length=max_length), run)
    bad = [one for one in verdicts if one is not None]
    unfit = {(one.task, one.sample) for one in bad}
    kept = [one for one in examples if (one.task, one.sample) not in unfit]
    dropped = _one_per_sample([*(one for one in made if isinstance(one, SkippedSample)), *bad])
    report_skipped(run, dropped, kept)
    return kept, dropped


def check_examples(
    examples: Sequence[T], check: Callable[[T], SkippedSample | None], run: TrainingRun
) -> list[SkippedSample | None]:
    """Return what `check` says of every example: None, or why it is left out.

    Several processes share the work, in threads, and come to the same result.
    """
    from harness.trainers.session import gather, place

    rank, ranks = place()
    own = range(rank, len(examples), ranks)
    found: list[tuple[int, SkippedSample | None]] = []
    run.progress.start("checking samples", len(examples), 0)
    with ThreadPoolExecutor(min(8, cpu_count() or 1)) as pool:
        verdicts = pool.map(check, [examples[index] for index in own])
        for done, pair in enumerate(zip(own, verdicts, strict=True), start=1):
            found.append(pair)
            run.progress.step(min(done * ranks, len(examples)), {})
    run.progress.end()
    return [verdict for _, verdict in sorted(gather(found), key=lambda pair: pair[0])]


def _one_per_sample(dropped: Sequence[SkippedSample]) -> list[SkippedSample]:
    """One entry a sample, which may have several examples."""
    return list({(one.task, one.sample): one for one in reversed(dropped)}.values())[::-1]


def report_skipped(
    run: TrainingRun, dropped: Sequence[SkippedSample], kept: Sequence[object]
) -> None:
    """Note what is left out, by reason.

    Raises:
        DataError: nothing is left to learn from.
    """
    if not kept:
        first = f", such as {dropped[0].sample!r}: {dropped[0].why}" if dropped else ""
        detail = f" ({dropped[0].detail})" if dropped and dropped[0].detail else ""
        raise DataError(
            "training samples",
            expected="at least one to learn from",
            found=f"none; {len(dropped)} dropped{first}{detail}",
        )
    for why, count in Counter(one.why for one in dropped).items():
        named = [one for one in dropped if one.why == why]
        listed = ", ".join(f"{one.task} {one.sample}" for one in named[:NAMED])
        detail = f" ({named[0].detail})" if named[0].detail else ""
        run.progress.note(f"{count} sample(s) dropped, {why}: {listed}{detail}")
