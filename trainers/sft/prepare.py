"""Examples of a fine-tuning: those of all samples, without those that cannot be learned from."""

from functools import partial
from typing import TYPE_CHECKING

from harness.models.pipeline import PromptedModel
from harness.trainer import TrainingRun
from harness.trainers.sample_checks import (
    SkippedSample,
    check_examples,
    refuse_empty,
    report_skipped,
)
from harness.trainers.sft.batches import check_example
from harness.trainers.sft.descriptions import Complete, as_written
from harness.trainers.sft.examples import Example, Reasoning, examples_of

if TYPE_CHECKING:
    from transformers import ProcessorMixin


def prepare_examples(
    model: PromptedModel,
    processor: "ProcessorMixin",
    run: TrainingRun,
    *,
    reasoning: Reasoning,
    max_length: int | None,
    complete: Complete = as_written,
) -> tuple[list[Example], list[SkippedSample]]:
    """Return the examples to learn, and the skipped samples, one entry per sample.

    Every example is encoded once as a check, and again in its batch. Several processes share the
    work, and come to the same result.

    Args:
        model: The adapter whose prompts are learned.
        processor: Its processor.
        run: The tasks, the seed, and where progress is told.
        reasoning: The text before the answers.
        max_length: Most tokens of an example; None: no bound.
        complete: Adds text to a response.

    Raises:
        DataError: nothing is left.
    """
    found = examples_of(model, run.tasks, reasoning=reasoning, seed=run.seed, complete=complete)
    made = list(found)
    examples = [one for one in made if isinstance(one, Example)]
    check = partial(check_example, processor, max_length=max_length)
    faults = [one for one in check_examples(examples, check, run) if one is not None]
    # A sample may give several examples; all are kept, or none.
    unfit = {(one.task, one.sample) for one in faults}
    kept = [one for one in examples if (one.task, one.sample) not in unfit]
    skipped: dict[tuple[str, str], SkippedSample] = {}
    for one in (*(one for one in made if isinstance(one, SkippedSample)), *faults):
        skipped.setdefault((one.task, one.sample), one)
    refuse_empty(kept, [*skipped.values()])
    report_skipped(run, [*skipped.values()])
    return kept, [*skipped.values()]
