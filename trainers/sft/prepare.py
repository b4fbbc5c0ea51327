"""Checks before the first step: every sample is encoded, and unusable ones are named."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness.errors import DataError
from harness.models.compose import PromptedModel
from harness.trainer import TrainingRun
from harness.trainers.sft.examples import Dropped, Example, Reasoning, examples_of
from harness.trainers.sft.telling import Complete, as_written

NAMED = 3  # samples that a note names


def prepared(
    model: PromptedModel,
    processor: Any,
    run: TrainingRun,
    *,
    reasoning: Reasoning,
    max_length: int | None,
    complete: Complete = as_written,
) -> tuple[list[Example], list[Dropped]]:
    """Return the examples to learn, and the dropped samples. Every example was encoded once.

    Several processes share the work, and come to the same result.

    Raises:
        DataError: nothing is left.
    """
    found = examples_of(model, run.tasks, reasoning=reasoning, seed=run.seed, complete=complete)
    made = list(found)
    examples = [one for one in made if isinstance(one, Example)]
    bad = _checked(processor, examples, run, max_length)
    unfit = {(one.task, one.sample) for one in bad}
    kept = [one for one in examples if (one.task, one.sample) not in unfit]
    dropped = _once([*(one for one in made if isinstance(one, Dropped)), *bad])
    _tell(run, dropped, kept)
    return kept, dropped


def _checked(
    processor: Any, examples: Sequence[Example], run: TrainingRun, max_length: int | None
) -> list[Dropped]:
    """The examples that cannot be encoded, or are too long, in their order."""
    from harness.trainers.sft.batches import checked
    from harness.trainers.trl_compat import gathered, place

    rank, ranks = place()
    own = list(range(rank, len(examples), ranks))
    verdicts: list[tuple[int, Dropped]] = []
    run.progress.start("checking samples", len(examples), 0)
    found = checked(processor, [examples[index] for index in own], max_length=max_length)
    for done, (index, verdict) in enumerate(zip(own, found, strict=True), start=1):
        if verdict is not None:
            verdicts.append((index, verdict))
        run.progress.step(min(done * ranks, len(examples)), {})
    run.progress.end()
    return [verdict for _, verdict in sorted(gathered(verdicts), key=lambda pair: pair[0])]


def _once(dropped: Sequence[Dropped]) -> list[Dropped]:
    """One entry a sample, which may have several examples."""
    return list({(one.task, one.sample): one for one in reversed(dropped)}.values())[::-1]


def _tell(run: TrainingRun, dropped: Sequence[Dropped], kept: Sequence[Example]) -> None:
    if not kept:
        first = f", such as {dropped[0].sample!r}: {dropped[0].why}" if dropped else ""
        raise DataError(
            "training samples",
            expected="at least one to learn from",
            found=f"none; {len(dropped)} dropped{first}",
        )
    for why, count in Counter(one.why for one in dropped).items():
        named = [one for one in dropped if one.why == why]
        listed = ", ".join(f"{one.task} {one.sample}" for one in named[:NAMED])
        detail = f" ({named[0].detail})" if named[0].detail else ""
        run.progress.note(f"{count} sample(s) dropped, {why}: {listed}{detail}")
